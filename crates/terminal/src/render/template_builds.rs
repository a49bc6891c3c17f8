//! Builds of templates, and their logs.

use super::style::Style;
use super::table::{Cell, Table};
use super::{escape, time};
use paddock_model::api::{BuildLogEntry, BuildMaker, BuildState, LogLevel, TemplateBuild};
use paddock_model::format_bytes;

pub fn text(builds: &[TemplateBuild], colour: bool) -> String {
    let mut table = Table::with_header(&["ID", "TEMPLATE", "STATE", "CREATED", "TOOK", "SIZE", "BY"]);
    let now = time::now_ms();
    for build in builds {
        let state = match build.state {
            BuildState::Waiting => "waiting".into(),
            BuildState::Building => "building".into(),
            BuildState::Ready => "ready".into(),
            BuildState::Failed => Cell::new("failed", Style::Bad),
        };
        let took = build.finished_at_ms.map(|end| time::length(end.saturating_sub(build.created_at_ms)));
        let by = match build.made_by {
            BuildMaker::Tenant => "server",
            BuildMaker::Command => "command",
        };
        table.row([
            build.id.as_str().into(),
            build.name.as_str().into(),
            state,
            time::relative(build.created_at_ms, now).as_str().into(),
            took.as_deref().unwrap_or("-").into(),
            build.size_bytes.map_or_else(|| "-".into(), format_bytes).as_str().into(),
            by.into(),
        ]);
    }
    table.render(colour)
}

/// Lines come from inside a sandbox, so what would move a terminal is escaped.
pub fn log(entries: &[BuildLogEntry]) -> String {
    let line = |entry: &BuildLogEntry| {
        let level = match entry.level {
            LogLevel::Debug | LogLevel::Info => "",
            LogLevel::Warn => "warning: ",
            LogLevel::Error => "error: ",
        };
        format!("{level}{}\n", escape::line(&entry.message))
    };
    entries.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_harmless_and_say_their_level() {
        let entry =
            |level, message: &str| BuildLogEntry { at_ms: 1, level, message: message.into(), step: None };
        let shown = log(&[entry(LogLevel::Info, "a \u{1b}[2J"), entry(LogLevel::Error, "b")]);
        assert_eq!(shown, "a \\u{1b}[2J\nerror: b\n");
    }
}
