//! `paddock exec -it`, under a real terminal.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, Terminal, for_both_callers};

for_both_callers!(
    a_shell_feels_like_one,
    a_resize_is_forwarded,
    control_c_goes_inside,
    detached_and_attached_again,
    a_pipe_is_no_terminal,
);

fn start(server: &Server, arguments: &[&str]) -> Result<Terminal> {
    let mut terminal = Terminal::open(41, 123)?;
    terminal.start(server.paddock(arguments)?.environment("TERM", "xterm-256color").command())?;
    Ok(terminal)
}

fn a_shell_feels_like_one(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let mut terminal = start(&server, &["exec", "-it", &id, "sh"])?;
    terminal.type_keys(b"tty; stty size; echo TERM=$TERM done-$((1+1))\r")?;
    terminal.wait_for("done-2")?;
    let screen = terminal.screen();
    ensure!(screen.contains("41 123") && screen.contains("TERM=xterm-256color"), "{screen:?}");
    terminal.type_keys(b"exit 9\r")?;
    assert_eq!(terminal.exit_code()?, 9);
    Ok(())
}

fn a_resize_is_forwarded(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let script = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut terminal = start(&server, &["exec", "-it", &id, "sh", "-c", script])?;
    terminal.wait_for("ready")?;
    terminal.resize(17, 66)?;
    terminal.wait_for("17 66")?;
    assert_eq!(terminal.exit_code()?, 0);
    Ok(())
}

fn control_c_goes_inside(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    // A shell sees a signal between two commands only, so none waits for a line before the signal was caught.
    let script = "trap 'echo caught; caught=1' INT; echo ready; until [ $caught ]; do sleep 0.05; done; read line; read line; exit 4";
    let mut terminal = start(&server, &["exec", "-it", &id, "sh", "-c", script])?;
    terminal.wait_for("ready")?;
    terminal.type_keys(b"\x03")?;
    terminal.wait_for("caught")?;
    terminal.type_keys(b"x\ry\r")?;
    assert_eq!(terminal.exit_code()?, 4);
    Ok(())
}

fn detached_and_attached_again(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let mut terminal = start(&server, &["exec", "-it", &id, "sh"])?;
    terminal.type_keys(b"echo first-$((1+1))\r")?;
    terminal.wait_for("first-2")?;
    terminal.type_keys(b"\x10\x11")?;
    assert_eq!(terminal.exit_code()?, 0);
    terminal.wait_for("paddock attach")?;
    let mut terminal = start(&server, &["attach", &id])?;
    terminal.type_keys(b"echo second-$((2+2))\r")?;
    terminal.wait_for("second-4")?;
    terminal.type_keys(b"exit 3\r")?;
    assert_eq!(terminal.exit_code()?, 3);
    Ok(())
}

fn a_pipe_is_no_terminal(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.run(["exec", "-it", &id, "sh"])?.refused(&["not a TTY"])
}
