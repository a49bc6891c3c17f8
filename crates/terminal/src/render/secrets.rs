//! Secrets that are kept under a name.

use super::table::Table;
use super::time;
use paddock_model::api::Secret;

pub fn list(secrets: &[Secret], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["NAME", "VERSION", "CHANGED", "HOSTS"]);
    for secret in secrets {
        let hosts = if secret.hosts.is_empty() { "-".into() } else { secret.hosts.join(",") };
        let cells = [
            secret.name.clone(),
            secret.version.to_string(),
            time::relative(secret.updated_at_ms, now_ms),
            hosts,
        ];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}
