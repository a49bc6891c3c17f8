//! Under a real terminal: as if the command ran there itself.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Terminal, for_both_callers};

for_both_callers!(
    the_command_has_a_terminal,
    a_pipe_gives_it_none,
    the_size_is_the_same_inside,
    a_resize_is_forwarded,
    control_c_reaches_the_command,
    a_second_control_c_ends_a_command_that_ignores_it,
    control_d_is_the_end_of_input,
    settings_are_restored,
    settings_are_restored_after_the_time_limit,
    the_exit_code_is_passed_on,
    keys_reach_the_command_once,
);

const CONTROL_C: &[u8] = b"\x03";

fn start(caller: &Caller, arguments: &[&str]) -> Result<Terminal> {
    let mut terminal = Terminal::open(41, 123)?;
    terminal.start(caller.start_run(arguments)?.environment("TERM", "xterm-256color").command())?;
    Ok(terminal)
}

fn the_command_has_a_terminal(caller: &Caller) -> Result<()> {
    let script = "test -t 0 && test -t 1 && test -t 2 && tty && echo TERM=$TERM > /dev/tty";
    let mut terminal = start(caller, &["--", "sh", "-c", script])?;
    terminal.wait_for("TERM=xterm-256color")?;
    assert_eq!(terminal.exit_code()?, 0);
    ensure!(terminal.screen().contains("/dev/"), "{:?}", terminal.screen());
    Ok(())
}

fn a_pipe_gives_it_none(caller: &Caller) -> Result<()> {
    caller.script(&[], "test -t 0 || test -t 1")?.exited(1)?;
    // As Docker says it.
    caller.script(&["--tty"], "true")?.refused(&["not a TTY"])
}

fn the_size_is_the_same_inside(caller: &Caller) -> Result<()> {
    let mut terminal = start(caller, &["--", "stty", "size"])?;
    terminal.wait_for("41 123")?;
    assert_eq!(terminal.exit_code()?, 0);
    Ok(())
}

fn a_resize_is_forwarded(caller: &Caller) -> Result<()> {
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut terminal = start(caller, &["--", "sh", "-c", script])?;
    terminal.wait_for("ready")?;
    terminal.resize(17, 66)?;
    terminal.wait_for("17 66")?;
    assert_eq!(terminal.exit_code()?, 0);
    Ok(())
}

/// Short sleeps: a signal that comes just before Python begins one is looked at only after it.
fn control_c_reaches_the_command(caller: &Caller) -> Result<()> {
    let program = "\
import time
try:
    print('ready', flush=True)
    while True: time.sleep(0.05)
except KeyboardInterrupt:
    print('caught', flush=True)
print('goes on with', input())
raise SystemExit(9)";
    let mut terminal = start(caller, &["--", "python3", "-c", program])?;
    terminal.wait_for("ready")?;
    terminal.type_keys(CONTROL_C)?;
    terminal.wait_for("caught")?;
    terminal.type_keys(b"a line\r")?;
    terminal.wait_for("goes on with a line")?;
    assert_eq!(terminal.exit_code()?, 9);
    Ok(())
}

fn a_second_control_c_ends_a_command_that_ignores_it(caller: &Caller) -> Result<()> {
    let mut terminal =
        start(caller, &["--", "sh", "-c", "trap '' INT; echo ready; while :; do sleep 1; done"])?;
    terminal.wait_for("ready")?;
    terminal.type_keys(CONTROL_C)?;
    terminal.wait_for("^C")?;
    terminal.type_keys(CONTROL_C)?;
    assert_eq!(terminal.exit_code()?, 130);
    Ok(())
}

fn control_d_is_the_end_of_input(caller: &Caller) -> Result<()> {
    let mut terminal = start(caller, &["--", "sh", "-c", "echo ready; cat; echo end"])?;
    terminal.wait_for("ready")?;
    terminal.type_keys(b"\x04")?;
    terminal.wait_for("end")?;
    assert_eq!(terminal.exit_code()?, 0);
    Ok(())
}

fn settings_are_restored(caller: &Caller) -> Result<()> {
    let mut terminal = Terminal::open(24, 80)?;
    let before = format!("{:?}", terminal.settings()?);
    terminal.start(caller.start_run(["--", "sh", "-c", "echo ready; read line"])?.command())?;
    terminal.wait_for("ready")?;
    assert_ne!(format!("{:?}", terminal.settings()?), before, "keys would be changed on their way");
    terminal.type_keys(b"\r")?;
    assert_eq!(terminal.exit_code()?, 0);
    assert_eq!(format!("{:?}", terminal.settings()?), before);
    Ok(())
}

fn settings_are_restored_after_the_time_limit(caller: &Caller) -> Result<()> {
    let mut terminal = Terminal::open(24, 80)?;
    let before = format!("{:?}", terminal.settings()?);
    terminal.start(caller.start_run(["--timeout", "300ms", "--", "sleep", "600"])?.command())?;
    assert_eq!(terminal.exit_code()?, 124);
    assert_eq!(format!("{:?}", terminal.settings()?), before);
    // The message begins and ends its own line.
    terminal.wait_for("time limit")?;
    ensure!(terminal.screen().ends_with("\r\n"), "{:?}", terminal.screen());
    Ok(())
}

fn the_exit_code_is_passed_on(caller: &Caller) -> Result<()> {
    for (script, code) in [("exit 42", 42), ("kill -TERM $$", 143)] {
        assert_eq!(start(caller, &["--", "sh", "-c", script])?.exit_code()?, code);
    }
    assert_eq!(start(caller, &["--", "no-such-command"])?.exit_code()?, 127);
    Ok(())
}

/// Both terminals would echo if the outer one were left as it is.
fn keys_reach_the_command_once(caller: &Caller) -> Result<()> {
    let mut terminal = start(caller, &["--", "sh", "-c", "echo ready; read line; echo got:$line"])?;
    terminal.wait_for("ready")?;
    terminal.type_keys("h\u{e4}llo\r".as_bytes())?;
    terminal.wait_for("got:h\u{e4}llo")?;
    assert_eq!(terminal.exit_code()?, 0);
    assert_eq!(terminal.screen(), "ready\r\nh\u{e4}llo\r\ngot:h\u{e4}llo\r\n");
    Ok(())
}
