use super::CodeReport;
use super::json::{extend, machine};
use super::markdown::{table, target, where_and_when};
use super::plot::{self, Bar};
use super::server::{HEADER, capitalised, part, rest, row};
use crate::measure::Timing;
use crate::server::{Findings, Measured, Part};
use crate::targets::milliseconds;
use serde_json::{Value, json};
use std::time::Duration;

pub fn markdown(report: &CodeReport) -> String {
    let mut text = format!(
        "# Bench of run_code\n\n{}\nCalls over HTTP/1.1 from one thread, wall time in milliseconds; \"x bare\" is the p50 \
         beside that of bare `python3 -c 'print(1)'` in the same run.\n",
        where_and_when(&report.machine)
    );
    if report.quick {
        text.push_str("\nMade with --quick: that it works, not how fast.\n");
    }
    let bare = bare(report);
    for Measured { part, outcome } in &report.measured {
        text.push_str(&format!("\n## {} (`{}`)\n\n", capitalised(part.title()), part.name()));
        match outcome {
            Ok(findings) => text.push_str(&section(findings, bare)),
            Err(error) => text.push_str(&format!("Not measured: {error:#}\n")),
        }
    }
    text.push_str("\n## Targets\n\n");
    text.push_str(&table(&["", "target", "measured", "met"], report.targets.iter().map(target)));
    text
}

fn section(findings: &Findings, bare: Option<Duration>) -> String {
    let mut blocks = Vec::new();
    if !findings.timings.is_empty() {
        let header: [&str; 8] = std::array::from_fn(|index| HEADER.get(index).copied().unwrap_or("x bare"));
        blocks.push(table(&header, findings.timings.iter().map(|timing| with_ratio(timing, bare))));
    }
    blocks.extend(rest(findings));
    blocks.join("\n")
}

fn with_ratio(timing: &Timing, bare: Option<Duration>) -> [String; 8] {
    let mut cells = row(timing).into_iter();
    std::array::from_fn(|_| cells.next().unwrap_or_else(|| ratio(timing, bare)))
}

fn ratio(timing: &Timing, bare: Option<Duration>) -> String {
    let ratio = bare.map(|bare| timing.median().as_secs_f64() / bare.as_secs_f64());
    ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}"))
}

fn bare(report: &CodeReport) -> Option<Duration> {
    let found = findings(report, Part::CodeFirst)?.timing("bare")?.median();
    (!found.is_zero()).then_some(found)
}

fn findings(report: &CodeReport, part: Part) -> Option<&Findings> {
    report.measured.iter().find(|measured| measured.part == part)?.outcome.as_ref().ok()
}

pub fn json(report: &CodeReport) -> Value {
    let mut value = machine(&report.machine);
    let measured = json!({
        "quick": report.quick,
        "parts": report.measured.iter().map(part).collect::<Vec<_>>(),
        "targets": report.targets.iter().map(super::json::target).collect::<Vec<_>>(),
    });
    extend(&mut value, measured);
    value
}

/// A summary for docs/speed.md: the time of each contestant, and the promises that were kept.
pub fn summary(report: &CodeReport) -> String {
    let bare = bare(report);
    let mut text = String::new();
    if let Some(first) = findings(report, Part::CodeFirst) {
        let timings = first.timings.iter().filter(|timing| !timing.name.starts_with("of which"));
        let cells = |timing: &Timing| {
            let at = |percent| format!("{:.2}", milliseconds(timing.percentile(percent)));
            [called(timing.name).to_owned(), at(50), at(99), ratio(timing, bare)]
        };
        text.push_str(&table(
            &["`print(1)` in Python, once, ms", "p50", "p99", "x bare"],
            timings.map(cells),
        ));
        text.push('\n');
    }
    text.push_str(&table(&["", "target", "measured", "met"], report.targets.iter().map(target)));
    text
}

/// A bar for every contestant that ran `print(1)`, and for a warm context. `None` if that was not measured.
pub fn plot(report: &CodeReport) -> Option<String> {
    let ours = |name: &str| name.starts_with("paddock");
    let bar = |timing: &Timing, label: String| Bar {
        label,
        value: milliseconds(timing.median()),
        ours: ours(timing.name),
    };
    let first = findings(report, Part::CodeFirst)?;
    let shown =
        first.timings.iter().filter(|timing| !timing.name.starts_with("of which") && timing.count() > 0);
    let mut bars: Vec<_> = shown.map(|timing| bar(timing, called(timing.name).to_owned())).collect();
    for timing in findings(report, Part::CodeWarm).into_iter().flat_map(|found| &found.timings) {
        bars.push(bar(timing, format!("{}, warm `1+1`", timing.name.replace(", ", " "))));
    }
    bars.sort_by(|one, other| one.value.total_cmp(&other.value));
    Some(plot::bars("One line of Python, from the call to the end (p50, log scale)", &bars))
}

fn called(name: &'static str) -> &'static str {
    match name {
        "paddock, unix socket" => "paddock: create, run_code, kill",
        "paddock, TCP" => "paddock: the same by TCP",
        "bare" => "bare python3, no fence",
        "docker" => "docker run",
        "docker exec" => "docker exec, container shared",
        "jupyter" => "jupyter kernel, no fence",
        "runsc" => "gVisor (runsc, ptrace)",
        other => other,
    }
}
