//! Records of things that must not be removed, for commands that work beside a server: read only, and without its lock.

use super::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// The bodies of all sandboxes that have not ended, and of all snapshots.
pub fn bodies_of_the_living(state: &Path) -> Result<Vec<String>, StoreError> {
    let path = state.join("paddock.db");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let failed = |source| StoreError::from_sql(&path, source);
    // In WAL mode even a reader writes: its position in the log, to the file beside the records.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&path, flags).map_err(failed)?;
    connection.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
    connection.pragma_update(None, "query_only", true).map_err(failed)?;
    let tables: u32 = connection
        .query_row("SELECT count(*) FROM sqlite_master WHERE name IN ('sandboxes', 'snapshots')", [], |row| {
            row.get(0)
        })
        .map_err(failed)?;
    if tables < 2 {
        return Ok(Vec::new());
    }
    let sql = "SELECT body FROM sandboxes WHERE state != 'ended' UNION ALL SELECT body FROM snapshots";
    let mut statement = connection.prepare(sql).map_err(failed)?;
    let bodies = statement.query_map([], |row| row.get(0)).map_err(failed)?;
    bodies.collect::<Result<_, _>>().map_err(failed)
}
