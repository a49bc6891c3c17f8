use super::Report;
use crate::machine::Machine;
use crate::measure::{Race, Timing};
use crate::targets::{Target, milliseconds, overhead};
use std::fmt::Display;

pub fn render(report: &Report) -> String {
    let mut text = format!(
        "# Bench\n\n{}\nWhole commands, interleaved in random order, wall time in milliseconds.\n",
        where_and_when(&report.machine)
    );
    for race in &report.races {
        text.push_str(&timings(race));
    }
    text.push_str("\n## Targets\n\n");
    text.push_str(&table(&["", "target", "measured", "met"], report.targets.iter().map(target)));
    if !report.leftovers.found.is_empty() {
        text.push_str("\n## Left behind\n\n");
        text.extend(report.leftovers.found.iter().map(|found| format!("- {found}\n")));
    }
    text.push_str("\n## Versions\n\n");
    for timing in report.races.first().into_iter().flat_map(|race| &race.results) {
        text.push_str(&format!("- {}: {}\n", timing.name, timing.version));
    }
    text
}

pub fn where_and_when(machine: &Machine) -> String {
    format!(
        "{}; commit {}; {}, cgroup {}; {} x {}, {} GiB; as {}; load at start {}.",
        machine.date,
        machine.commit,
        machine.kernel,
        machine.cgroups,
        machine.processors,
        machine.processor,
        machine.memory_bytes >> 30,
        machine.user,
        machine.load,
    )
}

fn timings(race: &Race) -> String {
    let header = ["", "fastest", "median", "p95", "overhead", "x Paddock"];
    let mut text = format!("\n## `{}`, {} rounds\n\n", race.workload.command().join(" "), race.rounds);
    text.push_str(&table(&header, race.results.iter().map(|timing| row(race, timing))));
    for missing in &race.missing {
        text.push_str(&format!("\n{}: missing: {}\n", missing.name, missing.reason));
    }
    text
}

fn row(race: &Race, timing: &Timing) -> [String; 6] {
    let paddock = race.timing("paddock").map(Timing::median);
    let ratio = paddock.map(|paddock| timing.median().as_secs_f64() / paddock.as_secs_f64());
    [
        timing.name.to_owned(),
        format!("{:.2}", milliseconds(timing.percentile(0))),
        format!("{:.2}", milliseconds(timing.median())),
        format!("{:.2}", milliseconds(timing.percentile(95))),
        overhead(race, timing.name).map(|time| format!("{:.2}", milliseconds(time))).unwrap_or_default(),
        ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
    ]
}

pub fn target(target: &Target) -> [String; 4] {
    let met = match target.met {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "-",
    };
    [target.name, target.target, &target.measured, met].map(str::to_owned)
}

/// Padded, so that it reads as well on a terminal.
pub fn table<Row: AsRef<[String]>>(header: &[&str], rows: impl Iterator<Item = Row>) -> String {
    let rows: Vec<_> = rows.collect();
    let rows: Vec<_> = rows.iter().map(AsRef::as_ref).collect();
    let widest = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].len(), 3]).max().unwrap_or(3)
    };
    let widths: Vec<usize> = (0..header.len()).map(widest).collect();
    let mut text = line(header, &widths);
    text.push_str(&line(&widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>(), &widths));
    for row in rows {
        text.push_str(&line(row, &widths));
    }
    text
}

fn line(cells: &[impl Display], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, &width)| format!(" {cell:width$} |"));
    format!("|{}\n", cells.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_padded() {
        let rows = [["a".to_owned(), "10.50".to_owned()], ["longer".to_owned(), "1".to_owned()]];
        let expected = "|        | median |\n| ------ | ------ |\n| a      | 10.50  |\n| longer | 1      |\n";
        assert_eq!(table(&["", "median"], rows.into_iter()), expected);
    }
}
