//! `--json`: one object, in every case.

use crate::exit_codes::GREEDY;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use serde_json::Value;

for_both_callers!(
    success,
    failure,
    time_limit,
    out_of_memory,
    not_found,
    output_that_is_not_text,
    long_output_keeps_its_head_and_its_tail,
    input_is_passed_on,
);

fn success(caller: &Caller) -> Result<()> {
    let finished =
        caller.script(&["--json"], "echo out; echo err >&2; head -c 100000 /dev/zero > /tmp/file")?;
    let result = finished.exited(0)?.json()?;
    assert_eq!((&result["stdout"], &result["stderr"]), (&"out\n".into(), &"err\n".into()));
    has_the_fields(&result, 0, false, "finished")?;
    ensure!(result["usage"]["bytes_written"].as_u64() >= Some(100_000), "{}", result["usage"]);
    assert_eq!(finished.err(), "");
    Ok(())
}

fn failure(caller: &Caller) -> Result<()> {
    let finished = caller.script(&["--json"], "exit 3")?;
    has_the_fields(&finished.exited(3)?.json()?, 3, false, "finished")
}

fn time_limit(caller: &Caller) -> Result<()> {
    let finished = caller.script(&["--json", "--timeout", "300ms"], "echo before; sleep 600")?;
    let result = finished.exited(124)?.json()?;
    assert_eq!(result["stdout"], "before\n");
    has_the_fields(&result, 124, true, "time_limit")
}

fn out_of_memory(caller: &Caller) -> Result<()> {
    let finished = caller.run(["--json", "--memory", "64MiB", "--", "python3", "-c", GREEDY])?;
    let result = finished.exited(137)?.json()?;
    assert_eq!(result["cause"]["limit"], 64 << 20);
    has_the_fields(&result, 137, false, "out_of_memory")
}

/// The command never ran, but the object is there all the same.
fn not_found(caller: &Caller) -> Result<()> {
    let finished = caller.run(["--json", "--", "no-such-command"])?;
    let result = finished.exited(127)?.json()?;
    assert_eq!((&result["exit_code"], &result["timed_out"]), (&127.into(), &false.into()));
    ensure!(result["cause"]["kind"].is_string() && result["guarantees"].is_object(), "{result}");
    Ok(())
}

fn output_that_is_not_text(caller: &Caller) -> Result<()> {
    let finished = caller.script(&["--json"], r"printf 'a\000\377\033[31m\r\nb'")?;
    let result = finished.exited(0)?.json()?;
    let text = result["stdout"].as_str().unwrap_or_default();
    ensure!(text.starts_with("a\0") && text.ends_with("\u{1b}[31m\r\nb"), "{text:?}");
    ensure!(!finished.stdout.contains(&0x1b), "a terminal would obey this: {:?}", finished.out());
    Ok(())
}

fn long_output_keeps_its_head_and_its_tail(caller: &Caller) -> Result<()> {
    let script = "printf HEAD; head -c 1000000 /dev/zero | tr '\\0' x; printf TAIL; echo short >&2";
    let finished = caller.script(&["--json", "--output", "1KiB"], script)?;
    let result = finished.exited(0)?.json()?;
    let text = result["stdout"].as_str().unwrap_or_default();
    ensure!(text.starts_with("HEADxxx") && text.ends_with("xxxTAIL"), "{text:?}");
    let missing = result["stdout_missing_bytes"].as_u64().unwrap_or(0);
    let kept = text.matches(['H', 'E', 'A', 'D', 'x', 'T', 'I', 'L']).count() as u64;
    ensure!((900..=1024).contains(&kept), "{kept} bytes were kept");
    ensure!((1_000_008 - 1024..=1_000_008).contains(&missing), "{missing} bytes are said to be missing");
    ensure!(text.contains(&missing.to_string()), "the text does not say that {missing} bytes are missing");
    assert_eq!((&result["stderr"], &result["stderr_missing_bytes"]), (&"short\n".into(), &0.into()));
    Ok(())
}

fn input_is_passed_on(caller: &Caller) -> Result<()> {
    let finished = caller.start_run(["--json", "--", "wc", "-c"])?.input(vec![b'x'; 123_456]).finish()?;
    assert_eq!(finished.exited(0)?.json()?["stdout"], "123456\n");
    Ok(())
}

fn has_the_fields(result: &Value, code: i64, timed_out: bool, cause: &str) -> Result<()> {
    assert_eq!(result["exit_code"], code);
    assert_eq!(result["timed_out"], timed_out);
    assert_eq!(result["cause"]["kind"], cause);
    ensure!(result["stdout"].is_string() && result["stderr"].is_string(), "{result}");
    for number in ["wall_ms", "cpu_ms", "peak_memory", "bytes_written"] {
        ensure!(result["usage"][number].is_number(), "usage has no {number}: {result}");
    }
    for guarantee in ["backend", "boundary", "network", "memory_limit", "seccomp"] {
        ensure!(!result["guarantees"][guarantee].is_null(), "guarantees have no {guarantee}: {result}");
    }
    ensure!(result["usage"]["wall_ms"].as_f64() > Some(0.0), "{result}");
    Ok(())
}
