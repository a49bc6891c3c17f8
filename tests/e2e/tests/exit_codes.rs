//! The meaning of the exit code, and of stderr with it.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(
    the_commands_own,
    a_signal_is_128_and_its_number,
    killed_is_not_out_of_memory,
    the_time_limit_is_124,
    paddocks_own_failure_is_125,
    not_executable_is_126,
    not_found_is_127,
    out_of_memory_is_137_with_the_reason,
);

/// Allocates and touches 200 MiB.
pub const GREEDY: &str = "x = bytearray(200 << 20); print(len(x))";

fn the_commands_own(caller: &Caller) -> Result<()> {
    for code in [0, 1, 3, 77, 124, 125, 255] {
        let finished = caller.script(&[], &format!("exit {code}"))?;
        finished.exited(code)?;
        assert_eq!(finished.err(), "");
    }
    Ok(())
}

fn a_signal_is_128_and_its_number(caller: &Caller) -> Result<()> {
    for (name, code) in [("TERM", 143), ("HUP", 129), ("SEGV", 139), ("USR1", 138)] {
        caller.script(&[], &format!("kill -{name} $$"))?.exited(code)?;
    }
    Ok(())
}

fn killed_is_not_out_of_memory(caller: &Caller) -> Result<()> {
    let finished = caller.script(&[], "kill -KILL $$")?;
    finished.exited(137)?;
    ensure!(!finished.err().contains("memory"), "{:?}", finished.err());
    let finished = caller.script(&["--json"], "kill -KILL $$")?;
    let result = finished.exited(137)?.json()?;
    assert_eq!((&result["cause"]["kind"], &result["exit_code"]), (&"finished".into(), &137.into()));
    Ok(())
}

fn the_time_limit_is_124(caller: &Caller) -> Result<()> {
    let finished = caller.script(&["--timeout", "300ms"], "echo before; sleep 600")?;
    finished.exited(124)?;
    assert_eq!(finished.out(), "before\n");
    ensure!(
        finished.err().contains("time limit") && finished.err().contains("300 ms"),
        "{:?}",
        finished.err()
    );
    // A program that refuses to go is ended all the same, and so are its background processes.
    caller.script(&["--timeout", "300ms"], "trap '' TERM INT; sleep 600 & sleep 600")?.exited(124)?;
    Ok(())
}

fn paddocks_own_failure_is_125(caller: &Caller) -> Result<()> {
    caller.run(["--no-such-option", "--", "true"])?.refused(&["--no-such-option"])?;
    caller.run(["--backend", "no-such-backend", "--", "true"])?.refused(&["no-such-backend"])?;
    caller.run(["--cwd", "/no/such/directory", "--", "true"])?.refused(&["/no/such/directory"])
}

fn not_executable_is_126(caller: &Caller) -> Result<()> {
    for command in ["/etc/passwd", "/usr"] {
        let finished = caller.run(["--", command])?;
        finished.exited(126)?;
        ensure!(finished.err().contains(command), "{:?}", finished.err());
    }
    Ok(())
}

fn not_found_is_127(caller: &Caller) -> Result<()> {
    for command in ["no-such-command", "/no/such/command", "./no-such-command"] {
        let finished = caller.run(["--", command])?;
        finished.exited(127)?;
        ensure!(finished.err().contains(command), "{:?}", finished.err());
    }
    Ok(())
}

fn out_of_memory_is_137_with_the_reason(caller: &Caller) -> Result<()> {
    let finished = caller.run(["--memory", "64MiB", "--", "python3", "-c", GREEDY])?;
    finished.exited(137)?;
    let message = finished.err();
    ensure!(message.contains("out of memory") && message.contains("64 MiB"), "{message:?}");
    Ok(())
}
