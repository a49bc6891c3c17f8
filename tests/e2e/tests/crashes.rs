//! Nothing stays: not after many runs, and not when Paddock itself is killed in the middle.

use crate::workspace::listing;
use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers, leftovers};
use rustix::process::Signal;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

for_both_callers!(
    two_hundred_runs_leave_nothing,
    runs_side_by_side_leave_nothing,
    a_killed_run_leaves_no_process,
    a_killed_run_in_a_workspace_is_cleaned_up_by_the_next,
    protection_holds_while_a_killed_run_is_cleaned_up,
);

const KILLS: u32 = 30;
/// By then the kernel has taken down everything that hung on the killed process.
const SOON: Duration = Duration::from_secs(5);

fn two_hundred_runs_leave_nothing(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?;
    let option = workspace.display().to_string();
    for number in 0..200 {
        let options = if number % 4 == 0 { vec!["--workspace", &option] } else { Vec::new() };
        caller
            .run(options.iter().chain(&["--", "true"]))?
            .success()
            .with_context(|| format!("run {number}"))?;
    }
    assert_eq!(listing(&workspace)?.len(), 0);
    leftovers::none_of(caller)
}

fn runs_side_by_side_leave_nothing(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?;
    let option = workspace.display().to_string();
    for _ in 0..3 {
        let start = |_| {
            caller.start_run(["--workspace", &option, "--", "sh", "-c", "test -d .git && echo held"])?.start()
        };
        let runs: Vec<_> = (0..8).map(start).collect::<Result<_>>()?;
        for run in runs {
            assert_eq!(run.finish()?.success()?, "held\n");
        }
        assert_eq!(listing(&workspace)?.len(), 0, "{:?}", listing(&workspace)?);
    }
    Ok(())
}

fn a_killed_run_leaves_no_process(caller: &Caller) -> Result<()> {
    let mark = mark(caller);
    for number in 0..KILLS {
        killed(caller, &["--env", &mark], &mark).with_context(|| format!("kill {number}"))?;
    }
    next_runs_clean_up(caller)
}

fn a_killed_run_in_a_workspace_is_cleaned_up_by_the_next(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?;
    std::fs::write(workspace.join("mine"), "")?;
    let option = workspace.display().to_string();
    let mark = mark(caller);
    for number in 0..KILLS {
        killed(caller, &["--env", &mark, "--workspace", &option], &mark)
            .with_context(|| format!("kill {number}"))?;
    }
    next_runs_clean_up(caller)?;
    let left = listing(&workspace)?;
    ensure!(left.len() == 1 && left.contains("mine"), "left in the workspace: {left:?}");
    Ok(())
}

/// The cleanup of dead runs' stand-ins must leave those of live ones, which may have the same names.
fn protection_holds_while_a_killed_run_is_cleaned_up(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?;
    let option = workspace.display().to_string();
    let script = "exec 2>/dev/null; echo ready; read line\n\
                  for n in .hg .jj .claude .vscode .idea; do mkdir -p $n/new && echo planted $n; done\n\
                  for n in .envrc .npmrc .mcp.json refs; do (echo x > $n) && echo planted $n; done; true";
    let mark = mark(caller);
    for number in 0..KILLS {
        let attempt = || -> Result<()> {
            killed(caller, &["--env", &mark, "--workspace", &option], &mark)?;
            let mut running =
                caller.start_run(["--workspace", &option, "--", "sh", "-c", script])?.start()?;
            running.wait_for("ready")?;
            // Cleans up too, so that it has happened for certain.
            caller.run(["--", "true"])?.success()?;
            running.write(b"now\n")?;
            assert_eq!(running.finish()?.success()?, "ready\n", "protected names could be written");
            Ok(())
        };
        attempt().with_context(|| format!("after kill {number}"))?;
    }
    assert_eq!(listing(&workspace)?.len(), 0, "{:?}", listing(&workspace)?);
    Ok(())
}

/// A variable by which the processes of these runs can be told from all others.
fn mark(caller: &Caller) -> String {
    format!("PADDOCK_E2E_MARK={}-{}-{:x}", std::process::id(), caller.uid, random())
}

/// More than one, because the first may come while the kernel still takes the last sandbox down.
fn next_runs_clean_up(caller: &Caller) -> Result<()> {
    for _ in 0..5 {
        caller.run(["--", "true"])?.success()?;
        if leftovers::find(caller).is_empty() {
            return Ok(());
        }
    }
    leftovers::none_of(caller)
}

/// Starts a run, kills Paddock at a moment that is different each time, and waits until all is quiet.
fn killed(caller: &Caller, options: &[&str], mark: &str) -> Result<()> {
    let script = "trap '' TERM INT HUP; setsid sleep 600 & while :; do sleep 600; done";
    let running = caller.start_run(options.iter().chain(&["--", "sh", "-c", script]))?.start()?;
    std::thread::sleep(Duration::from_micros(random() % 40_000));
    running.signal(Signal::KILL)?;
    running.finish()?.exited(128 + libc::SIGKILL)?;
    leftovers::no_processes_of(caller, mark, SOON)
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
