//! The resources that sandboxes use.

use super::table::Table;
use super::time;
use paddock_model::api::{Sandbox, SandboxMetrics, SandboxUsage};
use paddock_model::format_bytes;

pub struct Row {
    pub sandbox: Sandbox,
    pub usage: SandboxUsage,
    /// Processors in use since the last look; absent at the first.
    pub cpus: Option<f64>,
}

pub fn text(rows: &[Row], colour: bool) -> String {
    let mut table =
        Table::with_header(&["ID", "NAME", "CPU", "CPU TIME", "MEMORY", "PEAK", "DISK", "PROCESSES"]);
    for row in rows {
        let usage = &row.usage;
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_string(), format_bytes);
        let memory = match usage.memory_bytes {
            Some(used) => format!("{} / {}", format_bytes(used), format_bytes(row.sandbox.limits.memory)),
            None => "-".to_string(),
        };
        table.row(
            [
                row.sandbox.id.clone(),
                row.sandbox.name.clone().unwrap_or_else(|| "-".to_string()),
                row.cpus.map_or_else(|| "-".to_string(), |cpus| format!("{:.0} %", cpus * 100.0)),
                usage.cpu_ms.map_or_else(|| "-".to_string(), |ms| format!("{:.2} s", ms / 1000.0)),
                memory,
                bytes(usage.peak_memory_bytes),
                bytes(usage.disk_bytes),
                usage.processes.map_or_else(|| "-".to_string(), |count| count.to_string()),
            ]
            .iter()
            .map(|cell| cell.as_str().into()),
        );
    }
    table.render(colour)
}

/// The samples of one sandbox, the oldest first.
pub fn history(metrics: &SandboxMetrics, now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["WHEN", "CPU", "MEMORY", "DISK"]);
    for sample in &metrics.samples {
        let cells = [
            time::relative(sample.at_ms, now_ms),
            format!("{:.0} %", sample.cpu_percent),
            format_bytes(sample.memory_bytes),
            format_bytes(sample.disk_bytes),
        ];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    table.render(colour)
}
