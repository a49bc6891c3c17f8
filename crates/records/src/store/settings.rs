use super::{Store, StoreError};
use rusqlite::{OptionalExtension, params};

impl Store {
    /// True if the store has no sandbox and no snapshot.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        let sql = "SELECT NOT EXISTS (SELECT 1 FROM sandboxes) AND NOT EXISTS (SELECT 1 FROM snapshots)";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([], |row| row.get(0)))
    }

    /// An id of a living sandbox or of a snapshot that does not begin with these three digits behind its prefix.
    pub fn id_of_another_node(&self, digits: &str) -> Result<Option<String>, StoreError> {
        let sql = "SELECT id FROM sandboxes WHERE state != 'ended' AND substr(id, 4, 3) != ?1
                   UNION ALL SELECT id FROM snapshots WHERE substr(id, 4, 3) != ?1 LIMIT 1";
        self.read(|connection| connection.prepare(sql)?.query_row([digits], |row| row.get(0)).optional())
    }

    pub fn setting(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT value FROM settings WHERE key = ?1";
        self.read(|connection| connection.prepare_cached(sql)?.query_row([key], |row| row.get(0)).optional())
    }

    pub fn set_setting(&self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let sql = "INSERT INTO settings (key, value) VALUES (?1, ?2)
                   ON CONFLICT (key) DO UPDATE SET value = excluded.value";
        self.write(|connection| connection.prepare_cached(sql)?.execute(params![key, value]).map(drop))
    }
}
