//! One server for each state directory: how commands find it, how it begins and ends, and its settings while it runs.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Running, Server, for_both_callers, until};
use rustix::process::Signal;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

for_both_callers!(
    commands_of_one_state_directory_never_reach_another,
    its_owner_asks_for_it_and_stops_it,
    it_listens_where_paddock_url_says,
    clients_that_come_while_it_starts_wait,
    variables_for_e2b_wait_for_a_server_with_an_address,
    a_new_server_waits_for_the_old,
    a_hang_up_reads_files_again,
    a_silent_guest_is_waited_for,
);

/// Commands with a state directory of their own. The socket follows it, as root too.
struct Elsewhere<'a> {
    caller: &'a Caller,
    state: String,
    runtime: String,
}

impl<'a> Elsewhere<'a> {
    fn new(caller: &'a Caller, name: &str, runtime: &str) -> Result<Elsewhere<'a>> {
        let state = caller.directory(name)?.display().to_string();
        Ok(Elsewhere { caller, state, runtime: runtime.to_string() })
    }

    fn start(&self, words: &[&str]) -> Result<Running> {
        let paddock = self.caller.paddock(words)?.environment("PADDOCK_STATE_DIR", &self.state);
        paddock.environment("XDG_RUNTIME_DIR", &self.runtime).start()
    }

    fn paddock(&self, words: &[&str]) -> Result<paddock_e2e::Finished> {
        self.start(words)?.finish()
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        let _ = self.paddock(&["kill", "--all"]);
        let _ = self.paddock(&["server", "stop"]);
    }
}

fn commands_of_one_state_directory_never_reach_another(caller: &Caller) -> Result<()> {
    let runtime = caller.directory("runtime")?.display().to_string();
    let (one, two) = (Elsewhere::new(caller, "one", &runtime)?, Elsewhere::new(caller, "two", &runtime)?);
    let id = one.paddock(&["create"])?.success()?;
    assert_eq!(two.paddock(&["ps", "-q"])?.success()?, "");
    two.paddock(&["kill", "--all"])?.success()?;
    assert_eq!(one.paddock(&["ps", "-q"])?.success()?, id);
    for place in [&one, &two] {
        let status = place.paddock(&["server", "status", "--json"])?.json()?;
        assert_eq!(status["state_dir"], place.state.as_str(), "{status}");
        assert_eq!(status["address"], format!("unix:{}/run/api.sock", place.state), "{status}");
    }
    Ok(())
}

fn its_owner_asks_for_it_and_stops_it(caller: &Caller) -> Result<()> {
    let mut server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let id = server.create(&["--name", "stays"])?;
    let status = server.run(["server", "status", "--json"])?.json()?;
    assert_eq!(status["state"], "serving", "{status}");
    assert_eq!(status["process"], server.process()?, "{status}");
    assert_eq!(status["sandboxes"]["running"], 1, "{status}");
    ensure!(server.run(["server", "status"])?.success()?.contains("ready"), "the table");
    // The holder of a token learns less, and stops nothing.
    let url = server.url()?;
    let secret = server.run(["token", "create", "--tenant", "team", "--role", "admin"])?.success()?;
    let with_token = |words: &[&str]| {
        let paddock = caller.paddock(words)?.environment("PADDOCK_URL", &url);
        paddock.environment("PADDOCK_TOKEN", secret.trim()).finish()
    };
    let seen = with_token(&["server", "status", "--json"])?.json()?;
    ensure!(
        seen["ready"] == true && seen.get("process").is_none() && seen.get("state_dir").is_none(),
        "{seen}"
    );
    ensure!(
        with_token(&["server", "stop"])?.exited(1)?.err().contains("only the owner"),
        "a token stopped it"
    );
    let stopped = server.run(["server", "stop", "--json"])?.json()?;
    assert_eq!(stopped["stopped"], true, "{stopped}");
    assert_eq!(server.run(["server", "stop", "--json"])?.json()?["stopped"], false);
    let none = server.run(["server", "status", "--json"])?;
    ensure!(none.code == 1 && none.out().contains("\"none\""), "{none:?}");
    server.has_stopped()?;
    server.start_again()?;
    assert_eq!(server.run(["ps", "-q"])?.success()?.trim(), id);
    Ok(())
}

fn it_listens_where_paddock_url_says(caller: &Caller) -> Result<()> {
    let url = format!("unix:{}", caller.directory("url")?.join("there.sock").display());
    let paddock =
        |words: &[&str]| Ok::<_, anyhow::Error>(caller.paddock(words)?.environment("PADDOCK_URL", &url));
    let mut serving = paddock(&["serve"])?.start()?;
    until(PATIENCE, "a server that listens", || {
        (serving.errors().contains("listening on") || serving.has_ended()).then_some(())
    })?;
    assert_eq!(paddock(&["server", "status", "--json"])?.finish()?.json()?["address"], url.as_str());
    paddock(&["server", "stop"])?.finish()?.success()?;
    serving.finish()?.success()?;
    let elsewhere =
        caller.paddock(["serve"])?.environment("PADDOCK_URL", "https://box.example.org").finish()?;
    ensure!(
        elsewhere.exited(1)?.err().contains("PADDOCK_URL `https://box.example.org:443`"),
        "{}",
        elsewhere.err()
    );
    Ok(())
}

/// A server that this command started itself would have no address, and would be in the way of the one that comes.
fn variables_for_e2b_wait_for_a_server_with_an_address(caller: &Caller) -> Result<()> {
    let runtime = caller.directory("runtime")?.display().to_string();
    let place = Elsewhere::new(caller, "e2b", &runtime)?;
    let words = ["token", "create", "--e2b", "--tenant", "team"];
    let refused = place.paddock(&words)?;
    let told = refused.exited(1)?.err();
    ensure!(told.contains("no server runs") && told.contains("--listen"), "{told}");
    ensure!(!Path::new(&place.state).join("serve.log").exists(), "a server was started");

    let variables = place.start(&words)?;
    let server = place.start(&["serve", "--listen", "127.0.0.1:0"])?;
    let variables = variables.finish()?.success()?;
    ensure!(variables.contains("export E2B_API_URL=http://127.0.0.1:"), "{variables}");
    place.paddock(&["server", "stop"])?.success()?;
    server.finish()?.success()?;
    Ok(())
}

fn clients_that_come_while_it_starts_wait(caller: &Caller) -> Result<()> {
    let runtime = caller.directory("runtime")?.display().to_string();
    let place = Elsewhere::new(caller, "shared", &runtime)?;
    for _ in 0..4 {
        let serving = place.start(&["serve"])?;
        let clients = [place.start(&["ps", "-q"])?, place.start(&["token", "ls"])?];
        for client in clients {
            client.finish()?.success()?;
        }
        place.paddock(&["server", "stop"])?.success()?;
        // One of the started processes is the server; the other one has nothing to do.
        drop(serving);
    }
    Ok(())
}

/// A request that is under way holds up the end of the old one; no clock decides.
fn a_new_server_waits_for_the_old(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let mut under_way = UnixStream::connect(server.socket())?;
    let head = format!(
        "PUT /v1/sandboxes/{id}/files/content?path=/tmp/f HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
    );
    under_way.write_all(head.as_bytes())?;
    under_way.write_all(b"half")?;
    let note = caller.state().join("server.note");
    let phase = || std::fs::read_to_string(&note).ok()?.lines().nth(1).map(str::to_string);
    until(PATIENCE, "a server that serves", || (phase()? == "serving").then_some(()))?;
    signal(server.process()?, Signal::TERM)?;
    until(PATIENCE, "a server that ends", || (phase()? == "ending").then_some(()))?;
    let socket = server.socket().display().to_string();
    let mut next = caller.paddock(["serve", "--socket", &socket])?.start()?;
    until(PATIENCE, "word of the wait", || {
        (next.errors().contains("has this state directory; waiting") || next.has_ended()).then_some(())
    })?;
    under_way.write_all(b"whole")?;
    let mut answer = [0; 12];
    under_way.read_exact(&mut answer)?;
    assert_eq!(&answer, b"HTTP/1.1 200");
    drop(under_way);
    until(PATIENCE, "the next server", || {
        (next.errors().contains("listening on") || next.has_ended()).then_some(())
    })?;
    assert_eq!(server.script(&id, "cat /tmp/f")?.success()?, "halfwhole");
    server.run(["kill", "--all"])?.success()?;
    server.run(["server", "stop"])?.success()?;
    next.finish()?.success()?;
    Ok(())
}

fn a_hang_up_reads_files_again(caller: &Caller) -> Result<()> {
    let filter = caller.file("filter", "paddock_server=info,warn\n")?;
    let server = Server::start_with(caller, &["--log-filter", &filter.display().to_string()])?;
    let hang_up = |text: &str, word: &str| -> Result<()> {
        std::fs::write(&filter, text)?;
        signal(server.process()?, Signal::HUP)?;
        until(PATIENCE, word, || server.errors().contains(word).then_some(()))
    };
    hang_up("paddock_server=loud", "could not reload the log filter")?;
    hang_up("paddock_server=debug,warn", "reloaded the log filter")?;
    server.ask("GET", "/v1/whoami", None)?.ok()?;
    Ok(())
}

/// Stopped as by a debugger or a host out of memory: it neither delays a restart nor is it ended with its files.
fn a_silent_guest_is_waited_for(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let (id, other) = (server.create(&["--idle", "1:kill"])?, server.create(&[])?);
    server.script(&id, "echo kept > /tmp/f")?.success()?;
    // The same test runs beside this one, as another user.
    let seconds = if caller.is_root { "86397" } else { "86396" };
    server.run(["exec", "-d", &id, "--", "sleep", seconds])?.success()?;
    let work = until(PATIENCE, "the command", || process_of(&format!("sleep\0{seconds}\0")))?;
    let guest = parent(work)?;
    signal(guest, Signal::STOP)?;
    let stopped = Stopped(guest);
    server.kill()?;
    server.start_again()?;
    assert_eq!(server.script(&other, "echo well")?.success()?, "well\n");
    assert_eq!(server.run(["inspect", &id])?.json()?["state"], "running");
    let body = json!({"argv": ["true"]});
    server.ask("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&body))?.refused(503, "guest_silent")?;
    drop(stopped);
    let read = until(PATIENCE, "its guest", || {
        server.script(&id, "cat /tmp/f").ok().filter(|finished| finished.code == 0)
    })?;
    assert_eq!(read.out(), "kept\n");
    Ok(())
}

/// Goes on when the test ends, however it ends.
struct Stopped(u32);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = signal(self.0, Signal::CONT);
    }
}

fn signal(process: u32, signal: Signal) -> Result<()> {
    let process = rustix::process::Pid::from_raw(process as i32).context("no process id")?;
    Ok(rustix::process::kill_process(process, signal)?)
}

/// Found by its whole command line.
fn process_of(command_line: &str) -> Option<u32> {
    let matches =
        |path: &Path| std::fs::read(path.join("cmdline")).is_ok_and(|line| line == command_line.as_bytes());
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter(|entry| matches(&entry.path()))
        .find_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn parent(process: u32) -> Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).context("no parent")?;
    Ok(line.trim().parse()?)
}
