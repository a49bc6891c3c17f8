use super::ServerReport;
use super::json::{extend, machine, rounded};
use super::markdown::{table, target, where_and_when};
use super::{lines, plot};
use crate::measure::Timing;
use crate::server::{Curve, Fact, Findings, Measured, format};
use crate::targets::milliseconds;
use serde_json::{Value, json};

pub const HEADER: [&str; 7] = ["", "rounds", "fastest", "p50", "p95", "p99", "slowest"];

pub fn markdown(report: &ServerReport) -> String {
    let mut text = format!(
        "# Bench of {}\n\n{}\nCalls over HTTP/1.1 from one thread, wall time in milliseconds.\n",
        report.title,
        where_and_when(&report.machine)
    );
    for Measured { part, outcome } in &report.measured {
        text.push_str(&format!("\n## {} (`{}`)\n\n", capitalised(part.title()), part.name()));
        match outcome {
            Ok(findings) => {
                text.push_str(&section(findings));
                if findings.curve.is_some() {
                    text.push_str(&format!("\n![{}]({}.svg)\n", part.title(), part.name()));
                }
            }
            Err(error) => text.push_str(&format!("Not measured: {error:#}\n")),
        }
    }
    text.push_str("\n## Targets\n\n");
    text.push_str(&table(&["", "target", "measured", "met"], report.targets.iter().map(target)));
    text
}

fn section(findings: &Findings) -> String {
    let mut blocks = Vec::new();
    if !findings.timings.is_empty() {
        blocks.push(table(&HEADER, findings.timings.iter().map(row)));
    }
    blocks.extend(findings.curve.as_ref().map(curve));
    blocks.extend(rest(findings));
    blocks.join("\n")
}

/// One row for each point.
fn curve(curve: &Curve) -> String {
    let header: Vec<&str> = [curve.along].into_iter().chain(curve.columns.iter().copied()).collect();
    let short = |value: &Option<f64>| value.map(plot::short).unwrap_or_default();
    let rows = curve
        .points
        .iter()
        .map(|(at, values)| [at.to_string()].into_iter().chain(values.iter().map(short)).collect::<Vec<_>>());
    table(&header, rows)
}

/// Pictures by file name: the times of each part with a curve.
pub fn pictures(report: &ServerReport) -> Vec<(String, String)> {
    let parts = report.measured.iter().filter_map(|Measured { part, outcome }| {
        let curve = outcome.as_ref().ok()?.curve.as_ref()?;
        Some((format!("{}.svg", part.name()), lines::times(part.title(), curve)))
    });
    parts.collect()
}

/// All but the timings.
pub fn rest(findings: &Findings) -> Vec<String> {
    let mut blocks = Vec::new();
    if !findings.facts.is_empty() {
        let cells = |fact: &Fact| [fact.name.to_owned(), format(fact.value, fact.unit)];
        blocks.push(table(&["", "measured"], findings.facts.iter().map(cells)));
    }
    blocks.extend(findings.notes.iter().map(|note| format!("{note}\n")));
    if !findings.left.is_empty() {
        let found = findings.left.iter().take(20).map(|found| format!("- {found}\n"));
        blocks.push(format!("Left behind: {}\n\n{}", findings.left.len(), found.collect::<String>()));
    }
    blocks
}

pub fn row(timing: &Timing) -> [String; 7] {
    let at = |percent| format!("{:.2}", milliseconds(timing.percentile(percent)));
    [timing.name.to_owned(), timing.count().to_string(), at(0), at(50), at(95), at(99), at(100)]
}

pub fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

pub fn json(report: &ServerReport) -> Value {
    let mut value = machine(&report.machine);
    let measured = json!({
        "parts": report.measured.iter().map(part).collect::<Vec<_>>(),
        "targets": report.targets.iter().map(super::json::target).collect::<Vec<_>>(),
    });
    extend(&mut value, measured);
    value
}

pub fn part(Measured { part, outcome }: &Measured) -> Value {
    let mut value = json!({ "part": part.name(), "title": part.title() });
    let found = match outcome {
        Ok(findings) => json!({
            "timings": findings.timings.iter().map(timing).collect::<Vec<_>>(),
            "curve": findings.curve.as_ref().map(curve_json),
            "facts": findings.facts.iter().map(fact).collect::<Vec<_>>(),
            "notes": findings.notes,
            "left": findings.left,
        }),
        Err(error) => json!({ "failure": format!("{error:#}") }),
    };
    extend(&mut value, found);
    value
}

fn timing(timing: &Timing) -> Value {
    let at = |percent| rounded(milliseconds(timing.percentile(percent)));
    json!({
        "name": timing.name,
        "rounds": timing.count(),
        "fastest_ms": at(0),
        "p50_ms": at(50),
        "p95_ms": at(95),
        "p99_ms": at(99),
        "slowest_ms": at(100),
    })
}

fn curve_json(curve: &Curve) -> Value {
    let points = curve.points.iter().map(|(at, values)| {
        let values: Vec<Option<f64>> = values.iter().map(|value| value.map(rounded)).collect();
        json!({ "at": at, "values": values })
    });
    json!({ "along": curve.along, "columns": curve.columns, "points": points.collect::<Vec<_>>() })
}

fn fact(fact: &Fact) -> Value {
    json!({ "name": fact.name, "value": rounded(fact.value), "unit": fact.unit })
}
