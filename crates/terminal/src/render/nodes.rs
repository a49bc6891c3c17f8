//! The list of nodes behind a gateway.

use super::escape;
use super::table::Table;
use paddock_model::api::{ClusterNode, NodeReport};

pub fn text(nodes: &[ClusterNode], colour: bool) -> String {
    let mut table = Table::with_header(&[
        "NODE",
        "NAME",
        "STATE",
        "RUNNING",
        "ASLEEP",
        "MEMORY FREE",
        "VERSION",
        "LABELS",
        "ADDRESS",
    ]);
    for node in nodes {
        let report = node.report.as_ref();
        let of = |tell: fn(&NodeReport) -> String| report.map_or_else(|| "-".to_string(), tell);
        let labels: Vec<String> = node.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let cells = [
            node.node.map_or_else(|| "-".to_string(), |number| number.to_string()),
            of(|report| report.name.clone()),
            node.state.clone(),
            of(|report| report.live.creating.saturating_add(report.live.running).to_string()),
            of(|report| report.live.paused.saturating_add(report.live.hibernated).to_string()),
            of(free),
            of(|report| report.version.clone()),
            if labels.is_empty() { "-".to_string() } else { labels.join(" ") },
            node.address.clone(),
        ];
        table.row(cells.iter().map(|cell| cell.as_str().into()));
    }
    let mut text = table.render(colour);
    for node in nodes {
        if let Some(problem) = &node.problem {
            text.push_str(&format!("{}: {}\n", escape::line(&node.address), escape::line(problem)));
        }
    }
    text
}

fn free(report: &NodeReport) -> String {
    match (report.memory_available_bytes, report.memory_bytes) {
        (Some(free), Some(all)) if all > 0 => {
            format!("{:.0}%", (free as f64 / all as f64 * 100.0).clamp(0.0, 100.0))
        }
        _ => "-".to_string(),
    }
}
