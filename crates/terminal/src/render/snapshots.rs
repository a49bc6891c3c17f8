//! The list of snapshots.

use super::table::Table;
use super::time;
use paddock_model::api::Snapshot;
use paddock_model::format_bytes;

pub fn text(snapshots: &[Snapshot], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["ID", "NAME", "SANDBOX", "KIND", "CREATED", "SIZE"]);
    for snapshot in snapshots {
        table.row([
            snapshot.id.as_str().into(),
            snapshot.name.as_deref().unwrap_or("-").into(),
            snapshot.sandbox.as_str().into(),
            snapshot.kind.as_str().into(),
            time::relative(snapshot.created_at_ms, now_ms).as_str().into(),
            snapshot.size_bytes.map_or_else(|| "-".to_string(), format_bytes).as_str().into(),
        ]);
    }
    table.render(colour)
}
