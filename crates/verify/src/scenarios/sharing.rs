//! A22, D18, D19: two sandboxes at once, and a service inside.

use super::{Scenario, Shown, Stage, finding};
use crate::attack::{Finding, Outcome};
use crate::control::lines;
use crate::fence::{finish, inside, start};
use crate::probe::PROBE;
use anyhow::{Context, Result, ensure};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "A22-other-sandbox",
        title: "files of another sandbox in /tmp, /var/tmp and /dev/shm",
        control: Shown::Behaviour,
        run: |stage| beside(stage, &["mark", "0", "pdk-shared-mark"], &["look", "0", "pdk-shared-mark"]),
    },
    Scenario {
        id: "D18-service-from-host",
        title: "a service inside, reached from the host",
        control: Shown::Behaviour,
        run: service_from_host,
    },
    Scenario {
        id: "D19-service-from-sandbox",
        title: "a service inside, reached from another sandbox",
        control: Shown::Behaviour,
        run: |stage| {
            let port = free_port()?.to_string();
            beside(stage, &["listen", &port], &["connect", &port])
        },
    },
];

/// The second part's finding while the first one runs in a sandbox of its own. The same two parts without a fence
/// between them find each other, which is the control.
fn beside(stage: &Stage, first: &[&str], second: &[&str]) -> Result<Finding> {
    let bare = |arguments: &[&str]| {
        let mut command = std::process::Command::new(stage.fence.inside.join("probe"));
        command.args([PROBE, "--do"]).args(arguments);
        command
    };
    let host = start(bare(first))?;
    std::thread::sleep(Duration::from_millis(300));
    let met = lines(&finish(start(bare(second))?)?.stdout).remove(second[0]);
    finish(host)?;
    for place in ["/tmp", "/var/tmp", "/dev/shm"] {
        // Only the one kind of pair leaves marks.
        let _ = std::fs::remove_file(format!("{place}/pdk-shared-mark"));
    }
    ensure!(met.as_ref().is_some_and(|f| f.outcome == Outcome::Done), "control: {met:?}");

    let part: Vec<&str> = std::iter::once("--do").chain(first.iter().copied()).collect();
    let words = inside(&part);
    let running = start(stage.fence.command(stage.host, true, &[], &words))?;
    std::thread::sleep(Duration::from_millis(400));
    let found = stage.said(&[], second);
    let first_report = finish(running)?.report()?;
    ensure!(!first_report.stdout.is_empty(), "the first sandbox did nothing: {first_report:?}");
    found
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn service_from_host(stage: &Stage) -> Result<Finding> {
    let port = free_port()?;
    let port_text = port.to_string();
    let words = inside(&["--do", "listen", &port_text]);
    let running = start(stage.fence.command(stage.host, true, &[], &words))?;
    std::thread::sleep(Duration::from_millis(400));
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let reached = TcpStream::connect_timeout(&to, Duration::from_millis(500)).is_ok();
    let report = finish(running)?.report()?;
    let said = lines(&report.stdout).remove("listen").context("the service said nothing")?;
    finding(if reached { Outcome::Done } else { said.outcome }, said.detail)
}
