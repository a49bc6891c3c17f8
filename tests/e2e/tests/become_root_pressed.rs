//! Code inside that presses the door to root, or that waits before it: what it may cost the guest, and what is taken back.

use crate::become_root::{option, python, said, told};
use crate::forks::made;
use crate::host_limits::children_of;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, as_root, until};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn a_storm_of_callers_costs_the_guest_a_small_share() -> Result<()> {
    as_root("a_storm_of_callers_costs_the_guest_a_small_share", storm)
}

#[test]
fn a_caller_that_waits_can_be_ended_and_its_command_never_begins() -> Result<()> {
    as_root("a_caller_that_waits_can_be_ended_and_its_command_never_begins", waiting)
}

#[test]
fn root_cannot_keep_its_sandbox_from_waking() -> Result<()> {
    as_root("root_cannot_keep_its_sandbox_from_waking", wakes)
}

/// As many connections as the guest takes, each closed when forty more have been made.
const STORM: &str = r#"
import collections, socket, time
end, held, tried = time.monotonic() + 6, collections.deque(), 0
while time.monotonic() < end:
    door = socket.socket(socket.AF_UNIX)
    door.connect('/dev/become-root')
    held.append(door)
    tried += 1
    if len(held) > 40: held.popleft().close()
print(tried)
"#;

/// The guest's time is not counted against the sandbox's limit. So it is bounded, however many processes there are to be looked at.
fn storm(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let mut body = option();
    body["limits"] = json!({ "pids": 1000 });
    let id = made(&server, &body)?;
    // Commands of root that have ended and left something behind, among many other processes.
    let leave = "for i in $(seq 60); do sudo sh -c 'sleep 9999 > /dev/null 2>&1 < /dev/null &'; done; \
                 for i in $(seq 300); do sleep 9999 > /dev/null 2>&1 < /dev/null & done; echo left";
    assert_eq!(said(&server, &id, leave)?, "left\n");
    let guest = guest_of(server.process()?)?;
    let (before, begin) = (used(guest)?, Instant::now());
    let tried: u64 = python(&server, &id, "agent", STORM)?.trim().parse()?;
    let (spent, took) = (used(guest)? - before, begin.elapsed());
    ensure!(tried > 100, "callers are let in all the same: {tried}");
    // A twentieth and a tenth of a second, with a margin for all that is not counted.
    let most = took / 6 + Duration::from_millis(300);
    ensure!(
        spent < most,
        "{tried} connections took the guest {spent:?} of {took:?}, and {most:?} is allowed"
    );
    // Others have their turn, and nothing that was left behind is forgotten.
    assert_eq!(said(&server, &id, "sudo id -u")?, "0\n");
    assert_eq!(said(&server, &id, "sudo pgrep -c -u 0 -x sleep")?, "60\n");
    said(&server, &id, "sudo pkill -x sleep").map(drop)
}

/// The sandbox's guest; there is one sandbox.
fn guest_of(server: u32) -> Result<u32> {
    let is_guest = |child: &u32| {
        std::fs::read(format!("/proc/{child}/cmdline")).is_ok_and(|words| words.starts_with(b"paddock-guest"))
    };
    let guests: Vec<u32> = children_of(server)?.into_iter().filter(is_guest).collect();
    ensure!(guests.len() == 1, "{guests:?}");
    Ok(guests[0])
}

/// Linux tells times to programs in hundredths of a second.
const MS_OF_A_TICK: u64 = 10;

/// The processor time of a process, in user mode and in the kernel.
fn used(process: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields: Vec<&str> = text.rsplit_once(") ").context("a name")?.1.split(' ').collect();
    let ticks = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * MS_OF_A_TICK))
}

/// A `sudo` in the session of its exec, whose parent has left that session and never collects it.
const UNCOLLECTED: &str = r#"
import os, time
if os.fork() == 0:
    null = os.open('/dev/null', os.O_RDWR)
    for stream in range(3): os.dup2(null, stream)
    if os.fork() == 0: os.execvp('sudo', ['sudo', 'mkdir', '/tmp/begun'])
    os.setsid()
    time.sleep(1000)
time.sleep(1000)
"#;

fn waiting(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let mut body = option();
    body["limits"] = json!({ "pids": 1000 });
    let id = made(&server, &body)?;
    start(&server, &id, &["sh", "-c", "for i in $(seq 64); do sudo sleep 1000 & done; wait"])?;
    until(PATIENCE, "64 commands of root run", || {
        let (found, _, _) = told(&server, &id, "root", "pgrep -c -u 0 -x sleep").ok()?;
        (found == "64\n").then_some(())
    })?;
    // All places are taken: the next one waits, and a signal ends it as it ends any program.
    for (signal, code) in [("TERM", 124), ("INT", 124), ("HUP", 124)] {
        let command = format!("timeout -k 10 -s {signal} 0.3 sudo mkdir /tmp/begun; exit $?");
        let (_, errors, found) = told(&server, &id, "agent", &command)?;
        ensure!(found == code, "{signal}: {found}: {errors}");
    }
    // One that ignores a signal waits on.
    let ignores = "timeout -k 1 -s HUP 0.3 sh -c 'trap \"\" HUP; exec sudo mkdir /tmp/begun'; exit $?";
    assert_eq!(told(&server, &id, "agent", ignores)?.2, 137);
    let exec = start(&server, &id, &["python3", "-c", UNCOLLECTED])?;
    until(PATIENCE, "it waits", || said(&server, &id, "pgrep -f -x 'sudo mkdir /tmp/begun'").ok())?;
    said(&server, &id, "sleep 0.3")?;
    let kill = json!({ "signal": "KILL" });
    server.api("POST", &format!("/v1/sandboxes/{id}/execs/{exec}/signal"), Some(&kill))?;
    // Places are free again, and all that waited have their turn before this one.
    let (_, errors, code) = told(&server, &id, "root", "pkill -x sleep")?;
    ensure!(code == 0, "{errors}");
    assert_eq!(said(&server, &id, "sudo id -u")?, "0\n");
    let looked = "sleep 0.2; test -e /tmp/begun || echo never";
    assert_eq!(said(&server, &id, looked)?, "never\n");
    Ok(())
}

/// Begins an exec, and tells its number.
fn start(server: &Server<'_>, id: &str, argv: &[&str]) -> Result<String> {
    let body = json!({ "argv": argv, "background": true });
    let answer = server.api("POST", &format!("/v1/sandboxes/{id}/execs"), Some(&body))?;
    ensure!(answer.status < 300, "{}", answer.text());
    let exec = answer.json()?["exec"].clone();
    Ok(exec.as_str().map_or_else(|| exec.to_string(), str::to_string))
}

fn wakes(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let mut body = option();
    body["root_may_install"] = json!(true);
    let id = made(&server, &body)?;
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    // The name that a layer of the sandbox's /usr once had while it was built.
    for plant in ["ln -s / /.paddock-over", "sh -c 'rm /.paddock-over; echo file > /.paddock-over'"] {
        said(&server, &id, &format!("sudo {plant}"))?;
        server.api("POST", &path("/hibernate"), None)?.expect(200)?;
        assert_eq!(said(&server, &id, "sudo id -u")?, "0\n", "{plant}");
        let forked = server.api("POST", &path("/fork"), Some(&json!({})))?.expect(201)?;
        let child = forked["sandboxes"][0]["id"].as_str().context("a fork")?;
        assert_eq!(said(&server, child, "sudo id -u")?, "0\n", "{plant}");
    }
    // The places that are used instead are mounted on, and cannot be replaced.
    for place in ["/usr", "/dev", "/proc"] {
        let (_, _, code) = told(&server, &id, "agent", &format!("sudo mv {place} /moved"))?;
        ensure!(code != 0, "{place} was moved");
    }
    Ok(())
}
