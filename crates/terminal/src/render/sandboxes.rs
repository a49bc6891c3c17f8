//! The list of sandboxes.

use super::style::Style;
use super::table::{Cell, Table};
use super::time;
use paddock_model::api::{Sandbox, SandboxState};

pub fn text(sandboxes: &[Sandbox], now_ms: u64, colour: bool) -> String {
    // Only the host's owner sees more than one tenant, and names are each tenant's own.
    let tenants = sandboxes.windows(2).any(|pair| pair[0].tenant != pair[1].tenant);
    let columns = ["ID", "TENANT", "NAME", "STATE", "FROM", "CREATED", "ENDS", "RUNNING"];
    let shown = |column: &&str| tenants || *column != "TENANT";
    let mut table = Table::with_header(&columns.into_iter().filter(shown).collect::<Vec<_>>());
    for sandbox in sandboxes {
        let (state, style) = state(sandbox);
        let mut cells: Vec<Cell> = vec![sandbox.id.as_str().into()];
        if tenants {
            cells.push(sandbox.tenant.as_str().into());
        }
        cells.extend([
            sandbox.name.as_deref().unwrap_or("-").into(),
            Cell::new(&state, style),
            origin(sandbox).into(),
            time::relative(sandbox.created_at_ms, now_ms).as_str().into(),
            end(sandbox, now_ms).as_str().into(),
            sandbox.running_execs.to_string().as_str().into(),
        ]);
        table.row(cells);
    }
    table.render(colour)
}

fn state(sandbox: &Sandbox) -> (String, Style) {
    match (sandbox.state, &sandbox.end) {
        (SandboxState::Creating, _) => ("creating".into(), Style::Plain),
        (SandboxState::Running, _) => ("running".into(), Style::Good),
        (SandboxState::Paused, _) => ("paused".into(), Style::Warning),
        (SandboxState::Hibernated, _) => ("hibernated".into(), Style::Warning),
        (SandboxState::Ended, Some(end)) => (format!("ended: {}", end.reason), Style::Plain),
        (SandboxState::Ended, None) => ("ended".into(), Style::Plain),
    }
}

/// The thing it began with, the closest first.
fn origin(sandbox: &Sandbox) -> &str {
    let named = [&sandbox.parent, &sandbox.snapshot, &sandbox.template, &sandbox.image];
    named.into_iter().flatten().next().map_or("-", String::as_str)
}

fn end(sandbox: &Sandbox, now_ms: u64) -> String {
    match (&sandbox.end, sandbox.expires_at_ms) {
        (Some(end), _) => time::relative(end.at_ms, now_ms),
        (None, Some(at)) => time::relative(at, now_ms),
        (None, None) => "never".to_string(),
    }
}
