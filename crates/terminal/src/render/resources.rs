//! Values that are kept for scripts.

use super::table::Table;
use super::time;
use paddock_model::api::Resource;

pub fn list(resources: &[Resource], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["NAME", "TYPE", "CHANGED", "BOUND"]);
    for resource in resources {
        let bound = resource.secrets.iter().map(|(field, hosts)| format!("{field}@{}", hosts.join(",")));
        let bound: Vec<String> = bound.collect();
        let cells = [
            resource.name.clone(),
            resource.kind.clone(),
            time::relative(resource.updated_at_ms, now_ms),
            if bound.is_empty() { "-".into() } else { bound.join(" ") },
        ];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}
