//! Output as it comes, input passed on, and readers that misbehave.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, for_both_callers, sha256, until};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

for_both_callers!(
    stdout_and_stderr_stay_apart,
    lines_arrive_while_the_command_runs,
    input_is_passed_on_byte_for_byte,
    input_is_passed_on_while_the_command_runs,
    a_command_may_leave_its_input_unread,
    closed_input_is_the_end_of_input,
    no_input_descriptor_at_all,
    large_binary_output_is_exact,
    output_written_just_before_the_end_is_not_lost,
    a_reader_that_never_reads_cannot_outlast_the_time_limit,
    a_reader_that_leaves_ends_the_run,
);

const MIB: usize = 1 << 20;

fn stdout_and_stderr_stay_apart(caller: &Caller) -> Result<()> {
    let finished = caller.script(&[], "echo one; echo two >&2; echo three")?;
    assert_eq!(finished.success()?, "one\nthree\n");
    assert_eq!(finished.err(), "two\n");
    Ok(())
}

fn lines_arrive_while_the_command_runs(caller: &Caller) -> Result<()> {
    let script = "echo first; read line; echo second";
    let mut running = caller.start_run(["--", "sh", "-c", script])?.start()?;
    running.wait_for("first\n")?;
    ensure!(!running.has_ended(), "it ended without its input");
    running.write(b"go on\n")?;
    assert_eq!(running.finish()?.success()?, "first\nsecond\n");
    Ok(())
}

fn input_is_passed_on_byte_for_byte(caller: &Caller) -> Result<()> {
    let input = noise(10 * MIB);
    let finished = caller.start_run(["--", "cat"])?.input(input.clone()).finish()?;
    finished.exited(0)?;
    ensure!(
        finished.stdout == input,
        "{} of {} bytes came back, or others",
        finished.stdout.len(),
        input.len()
    );
    Ok(())
}

fn input_is_passed_on_while_the_command_runs(caller: &Caller) -> Result<()> {
    let mut running = caller.start_run(["--", "cat"])?.start()?;
    for line in ["one\n", "two\n", "three\n"] {
        running.write(line.as_bytes())?;
        running.wait_for(line)?;
    }
    running.finish()?.success()?;
    Ok(())
}

fn a_command_may_leave_its_input_unread(caller: &Caller) -> Result<()> {
    let finished = caller.start_run(["--", "echo", "done"])?.input(noise(4 * MIB)).finish()?;
    assert_eq!(finished.success()?, "done\n");
    // Nor need the caller ever close it.
    let mut running = caller.start_run(["--", "echo", "done"])?.start()?;
    until(PATIENCE, "the end, with input still open", || running.has_ended().then_some(()))?;
    running.finish()?.success()?;
    Ok(())
}

fn closed_input_is_the_end_of_input(caller: &Caller) -> Result<()> {
    let finished = caller.run(["--", "sh", "-c", "cat; echo end"])?;
    assert_eq!(finished.success()?, "end\n");
    Ok(())
}

/// As after `<&-` in a shell.
fn no_input_descriptor_at_all(caller: &Caller) -> Result<()> {
    let script = format!("exec {} run -- sh -c 'cat; echo end' <&-", caller.executable()?.display());
    let finished = caller.shell(&caller.home(), &script)?;
    assert_eq!(finished.success()?, "end\n");
    Ok(())
}

fn large_binary_output_is_exact(caller: &Caller) -> Result<()> {
    let script = "head -c 67108864 /dev/urandom | tee /tmp/sent; sha256sum < /tmp/sent >&2";
    let finished = caller.script(&[], script)?;
    finished.exited(0)?;
    assert_eq!(finished.stdout.len(), 64 * MIB);
    let sent = finished.err();
    assert_eq!(Some(sha256(&finished.stdout)?.as_str()), sent.split(' ').next());
    Ok(())
}

fn output_written_just_before_the_end_is_not_lost(caller: &Caller) -> Result<()> {
    for _ in 0..10 {
        let finished =
            caller.script(&[], "head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2; exit 7")?;
        finished.exited(7)?;
        assert_eq!((finished.stdout.len(), finished.stderr.len()), (300_000, 200_000));
    }
    Ok(())
}

fn a_reader_that_never_reads_cannot_outlast_the_time_limit(caller: &Caller) -> Result<()> {
    let mut invocation = caller.start_run(["--timeout", "1s", "--", "cat", "/dev/zero"])?;
    let command = invocation.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let ended =
        until(PATIENCE, "the end of a run whose output nobody reads", || child.try_wait().transpose());
    if ended.is_err() {
        child.kill()?;
    }
    assert_eq!(ended??.code(), Some(124));
    Ok(())
}

fn a_reader_that_leaves_ends_the_run(caller: &Caller) -> Result<()> {
    let mut invocation = caller.start_run(["--", "yes"])?;
    let command = invocation.command().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut line)?;
    assert_eq!(line, "y\n");
    let status = until(PATIENCE, "the end after a broken pipe", || child.try_wait().transpose())??;
    assert_eq!(paddock_e2e::exit_code(status), 128 + libc::SIGPIPE);
    Ok(())
}

/// Bytes of every value, without a pattern that a mistake could keep.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(|_| next()).collect()
}
