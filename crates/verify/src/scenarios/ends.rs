//! B, E8: how a run comes to its end, even if the work resists.

use super::{Scenario, Shown, Stage, finding};
use crate::attack::{Finding, Outcome};
use crate::fence::{finish, inside, start};
use crate::host::PROTECTED_AND_ABSENT;
use crate::probe::PROBE;
use crate::sweep;
use anyhow::{Result, ensure};
use paddock_model::Cause;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::time::{Duration, Instant};

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "B6-daemon",
        title: "a daemon that keeps stdout outlives the command",
        control: Shown::Behaviour,
        run: daemon,
    },
    Scenario {
        id: "B7-stubborn",
        title: "a child that heeds no signal and keeps stdout, past --timeout 1s",
        control: Shown::Behaviour,
        run: |stage| past_time_limit(stage, "stubborn"),
    },
    Scenario {
        id: "E8-stop-self",
        title: "SIGSTOP to itself, past --timeout 1s",
        control: Shown::Behaviour,
        run: |stage| past_time_limit(stage, "stop"),
    },
    Scenario {
        id: "B9-controlling-terminal",
        title: "the caller's controlling terminal through /dev/tty",
        control: Shown::Behaviour,
        run: controlling_terminal,
    },
    Scenario {
        id: "B18-forged-end",
        title: "a forged report and frames on stdout; the true exit code is 7",
        control: Shown::Behaviour,
        run: forged_end,
    },
    Scenario {
        id: "B19-engine-killed",
        title: "SIGKILL to paddock while the work runs: the work ends too",
        control: Shown::Behaviour,
        run: |stage| engine_killed(stage, &[Moment::AtWork; 3]),
    },
    Scenario {
        id: "B20-engine-killed-early",
        title: "SIGKILL to paddock while it puts up the fence",
        control: Shown::Behaviour,
        run: |stage| engine_killed(stage, &[3, 6, 9, 12, 15, 20].map(Moment::After)),
    },
    Scenario {
        id: "C18-landlock-reported",
        title: "the Landlock ABI in the guarantees is the kernel's",
        control: Shown::Behaviour,
        run: landlock_reported,
    },
    Scenario {
        id: "E11-churn",
        title: "20 sandboxes in a row leave nothing",
        control: Shown::Behaviour,
        run: churn,
    },
];

#[derive(Debug, Clone, Copy)]
enum Moment {
    /// Milliseconds after the start: anywhere in the creation of the sandbox.
    After(u64),
    AtWork,
}

/// The file that the work makes when it begins.
const BEGUN: &str = "probe-begun";

/// Longest between the end of the command or the limit and the return of the caller's run.
/// The work would take 300 seconds. A busy host may take long for everything, and a verdict must not depend on that.
const PROMPT: Duration = Duration::from_secs(30);

fn nothing_left(stage: &Stage) -> Result<()> {
    let until = Instant::now() + PROMPT + stage.grace;
    loop {
        let left = sweep::processes(stage.host.folder.path());
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < until, "left running: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn daemon(stage: &Stage) -> Result<Finding> {
    let run = stage.part(&[], &["daemon"])?;
    let report = run.report()?;
    ensure!(report.exit_code == 5, "exit {} ({:?})", report.exit_code, report.cause);
    ensure!(run.wall < PROMPT + stage.grace, "returned after {:?}", run.wall);
    nothing_left(stage)?;
    finding(Outcome::Bounded, format!("returned after {:?}", run.wall))
}

fn past_time_limit(stage: &Stage, part: &str) -> Result<Finding> {
    let limit = Duration::from_secs(1);
    let run = stage.part(&["--timeout", "1s"], &[part])?;
    let report = run.report()?;
    ensure!(report.timed_out && matches!(report.cause, Cause::TimeLimit { .. }), "{:?}", report.cause);
    ensure!(run.status.code() == Some(124), "exit {}", run.status);
    ensure!(run.wall < limit + PROMPT + stage.grace, "returned after {:?}", run.wall);
    nothing_left(stage)?;
    finding(Outcome::Bounded, format!("returned {:?} after the limit", run.wall.saturating_sub(limit)))
}

/// Paddock itself has a controlling terminal; its commands must not. The control is `probe` in its place.
fn controlling_terminal(stage: &Stage) -> Result<Finding> {
    let outside = on_terminal(
        std::process::Command::new(stage.fence.inside.join("probe")),
        &[PROBE, "--do", "terminal"],
    )?;
    ensure!(outside.contains("\"done\""), "control: {outside}");
    let command = stage.fence.command(stage.host, true, &[], &inside(&["--do", "terminal"]));
    let said = on_terminal(command, &[])?;
    let report: paddock_model::RunReport = serde_json::from_str(&said)?;
    let said = crate::control::lines(&report.stdout).remove("terminal");
    Ok(said.unwrap_or_else(|| Finding::new(Outcome::Error, format!("said nothing: {report:?}"))))
}

fn on_terminal(mut command: std::process::Command, arguments: &[&str]) -> Result<String> {
    let (mut master, mut slave) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: both outlive the call; name, settings and size may be null.
    let made = unsafe { libc::openpty(&raw mut master, &raw mut slave, null, null.cast(), null.cast()) };
    ensure!(made == 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: both were just made and nobody else has them.
    let (_master, slave) = unsafe { (OwnedFd::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
    // Open for the user that paddock runs as: the terminal is the caller's own.
    // SAFETY: takes a descriptor that is open.
    unsafe { libc::fchmod(slave.as_raw_fd(), 0o666) };
    let terminal = slave.as_raw_fd();
    command.args(arguments);
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            match libc::ioctl(terminal, libc::TIOCSCTTY, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
    Ok(finish(start(command)?)?.stdout)
}

fn forged_end(stage: &Stage) -> Result<Finding> {
    let run = stage.part(&[], &["forge"])?;
    let report = run.report()?;
    let outcome =
        if report.exit_code == 7 && run.status.code() == Some(7) { Outcome::Denied } else { Outcome::Done };
    finding(outcome, format!("exit {} ({:?})", report.exit_code, report.cause))
}

/// Several times: the cleanup races with the kill.
fn engine_killed(stage: &Stage, when: &[Moment]) -> Result<Finding> {
    let mut slowest = Duration::ZERO;
    let mut left = Vec::new();
    for when in when {
        slowest = slowest.max(kill_engine(stage, *when)?);
        left.extend(stand_ins_left(stage).into_iter().map(|name| format!("{name} ({when:?})")));
    }
    ensure!(left.is_empty(), "left in the workspace for good: {left:?}");
    finding(Outcome::Bounded, format!("gone after {slowest:?}"))
}

fn kill_engine(stage: &Stage, when: Moment) -> Result<Duration> {
    // A file shows the beginning behind every fence: a process inside need not be one of the host's.
    let mark = stage.fence.workspace.join(BEGUN);
    let _ = std::fs::remove_file(&mark);
    let inner = format!("/workspace/{BEGUN}");
    let stubborn = inside(&["--do", "stubborn", "0", &inner]);
    let mut started = start(stage.fence.command(stage.host, true, &[], &stubborn))?;
    let until = Instant::now() + PROMPT + stage.grace;
    match when {
        Moment::After(milliseconds) => std::thread::sleep(Duration::from_millis(milliseconds)),
        Moment::AtWork => {
            while !mark.exists() {
                ensure!(Instant::now() < until, "the work never began");
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
    for sandbox in sweep::sandboxes(stage.host.folder.path()) {
        stage.host.remember(&sandbox);
    }
    started.child.kill()?;
    started.child.wait()?;
    let killed = Instant::now();
    nothing_left(stage)?;
    Ok(killed.elapsed())
}

/// The stand-ins for absent protected names that are left after ten seconds of grace; taken away, so that the attacks that
/// follow are judged by themselves.
fn stand_ins_left(stage: &Stage) -> Vec<&'static str> {
    let there = || {
        let names = PROTECTED_AND_ABSENT.iter().copied();
        names.filter(|name| stage.fence.workspace.join(name).symlink_metadata().is_ok()).collect::<Vec<_>>()
    };
    let until = Instant::now() + Duration::from_secs(10) + stage.grace;
    while !there().is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let left = there();
    for name in &left {
        let path = stage.fence.workspace.join(name);
        // Either a file or a directory: one of the two fits.
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
    left
}

fn landlock_reported(stage: &Stage) -> Result<Finding> {
    const VERSION: u32 = 1;
    let null = std::ptr::null::<u8>();
    // SAFETY: with this flag the call takes no memory and answers with the ABI.
    let abi = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null, 0usize, VERSION) };
    let kernel = u32::try_from(abi).unwrap_or(0);
    let report = stage.fence.run(stage.host, &[], &["/bin/true"])?.report()?;
    let said = report.guarantees.landlock_abi.0;
    let outcome = if said == kernel { Outcome::Denied } else { Outcome::Done };
    finding(outcome, format!("kernel {kernel}, guarantees {said}"))
}

fn churn(stage: &Stage) -> Result<Finding> {
    let begun = Instant::now();
    for _ in 0..20 {
        let report = stage.fence.run(stage.host, &[], &["/bin/true"])?.report()?;
        ensure!(report.exit_code == 0, "exit {}", report.exit_code);
    }
    nothing_left(stage)?;
    finding(Outcome::Bounded, format!("{:?} each", begun.elapsed() / 20))
}
