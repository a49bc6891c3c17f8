//! `paddock ui`: the link is printed, and opened where a person sits at a desktop.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, Terminal, for_both_callers, until};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

for_both_callers!(
    on_a_desktop_the_link_opens_by_itself,
    elsewhere_it_is_printed_alone,
    a_desktop_that_opens_nothing_is_no_failure,
);

/// A stand-in for the desktop's own opener, first on the way, and the file where it notes what it was asked for.
struct Desktop {
    path: String,
    noted: PathBuf,
}

impl Desktop {
    fn of(caller: &Caller) -> Result<Desktop> {
        let bin = caller.directory("desktop")?;
        let noted = bin.join("noted");
        let opener = caller
            .file("desktop/xdg-open", format!("#!/bin/sh\necho \"$#\" \"$@\" >> {}\n", noted.display()))?;
        std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755))?;
        Ok(Desktop { path: format!("{}:{PATH}", bin.display()), noted })
    }

    fn noted(&self) -> String {
        std::fs::read_to_string(&self.noted).unwrap_or_default()
    }
}

/// The output of the command on a terminal.
fn on_a_terminal(server: &Server, words: &[&str], environment: &[(&str, &str)]) -> Result<String> {
    let mut terminal = Terminal::open(24, 200)?;
    let command = server.paddock(words)?;
    let mut command =
        environment.iter().fold(command, |command, (name, value)| command.environment(name, value));
    terminal.start(command.command())?;
    assert_eq!(terminal.exit_code()?, 0, "{}", terminal.screen());
    terminal.wait_for("#code=")?;
    terminal.wait_for("\n")?;
    let screen = terminal.screen();
    let link = screen.split_whitespace().find(|word| word.contains("/ui/#code="));
    Ok(link.with_context(|| format!("no link: {screen:?}"))?.to_string())
}

fn on_a_desktop_the_link_opens_by_itself(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let desktop = Desktop::of(caller)?;
    for display in ["DISPLAY", "WAYLAND_DISPLAY"] {
        let link =
            on_a_terminal(&server, &["ui", "--lasts", "1h"], &[("PATH", &desktop.path), (display, ":7")])?;
        ensure!(link.starts_with(&format!("{}/ui/#code=", server.url()?)), "{link}");
        // The whole link, as one word, and once.
        let wanted = format!("1 {link}\n");
        until(PATIENCE, "the opened link", || desktop.noted().ends_with(&wanted).then_some(()))
            .with_context(|| desktop.noted())?;
        assert_eq!(desktop.noted().matches(&link).count(), 1);
        // It is good for one sign-in.
        let code = link.split_once("#code=").map(|(_, code)| code).unwrap_or_default();
        let exchange = format!(
            "curl -s -o /dev/null -w '%{{http_code}}' -H 'Content-Type: application/json' -d '{{\"code\":\"{code}\"}}' {}/v1/sign-in",
            server.url()?
        );
        assert_eq!(caller.shell(&caller.home(), &exchange)?.success()?, "201");
        assert_eq!(caller.shell(&caller.home(), &exchange)?.success()?, "401");
    }
    Ok(())
}

fn elsewhere_it_is_printed_alone(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let desktop = Desktop::of(caller)?;
    let path = ("PATH", desktop.path.as_str());
    // It was asked not to; nothing is there to show it on; a program reads what it prints.
    on_a_terminal(&server, &["ui", "--print"], &[path, ("DISPLAY", ":7")])?;
    on_a_terminal(&server, &["ui"], &[path])?;
    on_a_terminal(&server, &["ui"], &[path, ("DISPLAY", ""), ("WAYLAND_DISPLAY", "")])?;
    let piped = server.paddock(["ui"])?.environment(path.0, path.1).environment("DISPLAY", ":7");
    ensure!(piped.finish()?.success()?.contains("/ui/#code="));
    // A link that one of them opened would be noted before this.
    let link = on_a_terminal(&server, &["ui"], &[path, ("DISPLAY", ":7")])?;
    until(PATIENCE, "the opened link", || desktop.noted().contains(&link).then_some(()))?;
    assert_eq!(desktop.noted(), format!("1 {link}\n"));
    Ok(())
}

fn a_desktop_that_opens_nothing_is_no_failure(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let empty = caller.directory("empty")?.display().to_string();
    on_a_terminal(&server, &["ui"], &[("PATH", &empty), ("DISPLAY", ":7")])?;
    Ok(())
}
