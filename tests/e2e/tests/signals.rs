//! Signals to Paddock itself, without a terminal.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, for_both_callers, until};
use rustix::process::Signal;
use std::time::Duration;

for_both_callers!(
    a_signal_reaches_the_command,
    a_command_may_go_on_after_one,
    a_second_one_ends_the_sandbox,
    a_stopped_command_is_ended_too,
    the_end_of_the_command_is_the_end_of_the_sandbox,
    what_the_caller_ignores_is_not_ignored_inside,
);

const SIGNALS: [(Signal, &str, i32); 4] = [
    (Signal::INT, "INT", 130),
    (Signal::TERM, "TERM", 143),
    (Signal::HUP, "HUP", 129),
    (Signal::QUIT, "QUIT", 131),
];

fn a_signal_reaches_the_command(caller: &Caller) -> Result<()> {
    for (signal, name, code) in SIGNALS {
        let script =
            format!("trap 'echo got {name}; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
        let mut running = caller.start_run(["--", "sh", "-c", &script])?.start()?;
        running.wait_for("ready")?;
        running.signal(signal)?;
        running.wait_for(&format!("got {name}"))?;
        running.finish()?.exited(5)?;

        let mut running = caller.start_run(["--", "sh", "-c", "echo ready; exec sleep 600"])?.start()?;
        running.wait_for("ready")?;
        running.signal(signal)?;
        running.finish()?.exited(code)?;
    }
    Ok(())
}

fn a_command_may_go_on_after_one(caller: &Caller) -> Result<()> {
    // A shell sees a signal between two commands only, so none waits for a line before the signal was caught.
    let script = "trap 'echo caught; caught=1' INT; echo ready; until [ $caught ]; do sleep 0.05; done; read line; read line; echo $line";
    let mut running = caller.start_run(["--", "bash", "-c", script])?.start()?;
    running.wait_for("ready")?;
    running.signal(Signal::INT)?;
    running.wait_for("caught")?;
    running.write(b"one\ntwo\n")?;
    ensure!(running.finish()?.success()?.ends_with("two\n"), "it did not go on");
    Ok(())
}

fn a_second_one_ends_the_sandbox(caller: &Caller) -> Result<()> {
    for (signal, _, code) in SIGNALS {
        let script = "trap '' INT TERM HUP QUIT; echo ready; while :; do sleep 1; done";
        let mut running = caller.start_run(["--", "sh", "-c", script])?.start()?;
        running.wait_for("ready")?;
        running.signal(signal)?;
        // Two that wait at the same time would be one.
        std::thread::sleep(Duration::from_millis(200));
        ensure!(!running.has_ended(), "the first one ended a command that ignores it");
        running.signal(signal)?;
        until(PATIENCE, "the end after a second signal", || running.has_ended().then_some(()))?;
        running.finish()?.exited(code)?;
    }
    Ok(())
}

fn a_stopped_command_is_ended_too(caller: &Caller) -> Result<()> {
    let script = "echo ready; kill -STOP $$; echo never";
    let running = caller.start_run(["--timeout", "1s", "--", "sh", "-c", script])?.start()?;
    let finished = running.finish()?;
    finished.exited(124)?;
    assert_eq!(finished.out(), "ready\n");
    Ok(())
}

/// A background process that outlives the command does not hold the run open, and does not stay.
fn the_end_of_the_command_is_the_end_of_the_sandbox(caller: &Caller) -> Result<()> {
    let finished = caller.script(&[], "setsid sleep 600 & echo done")?;
    assert_eq!(finished.success()?, "done\n");
    Ok(())
}

fn what_the_caller_ignores_is_not_ignored_inside(caller: &Caller) -> Result<()> {
    let run = format!(
        "{} run -- sh -c 'grep -E \"^Sig(Ign|Blk)\" /proc/self/status'",
        caller.executable()?.display()
    );
    let script = format!("trap '' HUP INT QUIT USR1 TERM PIPE; {run}");
    let seen = caller.shell(&caller.home(), &script)?.success()?;
    assert_eq!(seen, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    Ok(())
}
