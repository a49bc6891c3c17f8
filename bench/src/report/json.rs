use super::Report;
use crate::machine::Machine;
use crate::measure::{Race, Timing};
use crate::peers::Missing;
use crate::targets::{Target, milliseconds, overhead};
use serde_json::{Value, json};

pub fn render(report: &Report) -> Value {
    let mut value = machine(&report.machine);
    let measured = json!({
        "workloads": report.races.iter().map(race).collect::<Vec<_>>(),
        "guest": {
            "executable_bytes": report.guest.executable_bytes.as_ref().ok(),
            "resident_bytes": report.guest.memory.as_ref().ok().map(|memory| memory.resident_bytes),
            "proportional_bytes": report.guest.memory.as_ref().ok().and_then(|memory| memory.proportional_bytes),
        },
        "leftovers": { "runs": report.leftovers.runs, "found": report.leftovers.found },
        "targets": report.targets.iter().map(target).collect::<Vec<_>>(),
    });
    extend(&mut value, measured);
    value
}

pub fn machine(machine: &Machine) -> Value {
    json!({
        "date": machine.date,
        "commit": machine.commit,
        "kernel": machine.kernel,
        "cgroups": machine.cgroups,
        "memory_bytes": machine.memory_bytes,
        "processors": machine.processors,
        "processor": machine.processor,
        "load_at_start": machine.load,
        "user": machine.user,
        "paddock_executable_bytes": machine.paddock_bytes,
    })
}

/// Both are objects.
pub fn extend(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend(more);
    }
}

fn race(race: &Race) -> Value {
    json!({
        "workload": race.workload.name(),
        "command": race.workload.command(),
        "rounds": race.rounds,
        "contestants": race.results.iter().map(|timing| contestant(race, timing)).collect::<Vec<_>>(),
        "missing": race.missing.iter().map(missing).collect::<Vec<_>>(),
    })
}

fn contestant(race: &Race, timing: &Timing) -> Value {
    let paddock = race.timing("paddock").map(|paddock| paddock.median().as_secs_f64());
    json!({
        "name": timing.name,
        "version": timing.version,
        "fastest_ms": rounded(milliseconds(timing.percentile(0))),
        "median_ms": rounded(milliseconds(timing.median())),
        "p95_ms": rounded(milliseconds(timing.percentile(95))),
        "overhead_ms": overhead(race, timing.name).map(milliseconds).map(rounded),
        "ratio_to_paddock": paddock.map(|paddock| rounded(timing.median().as_secs_f64() / paddock)),
    })
}

fn missing(missing: &Missing) -> Value {
    json!({ "name": missing.name, "reason": missing.reason })
}

pub fn target(target: &Target) -> Value {
    json!({ "name": target.name, "target": target.target, "measured": target.measured, "met": target.met })
}

/// A microsecond is finer than the measurement.
pub fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
