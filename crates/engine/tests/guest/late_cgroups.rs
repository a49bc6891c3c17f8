//! The cgroups of the work are made with its first command. An idle sandbox has none.

use crate::support::{Place, backend, run, sandbox, script};
use paddock_engine::{Begun, ExecEvent, Sandbox};
use paddock_model::{Limits, SandboxId};
use std::path::PathBuf;
use std::sync::Arc;

/// The cgroups of the sandbox, in whichever hierarchies this host has.
fn cgroups(id: &SandboxId) -> Vec<PathBuf> {
    let mut places = vec![PathBuf::from("/sys/fs/cgroup")];
    let mut found = Vec::new();
    for _depth in 0..4 {
        let below = places.iter().flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
        places = below.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
        found.extend(places.iter().filter(|path| path.ends_with(format!("paddock-{id}"))).cloned());
    }
    found
}

async fn taken_over(place: &Place, sandbox: Sandbox) -> Sandbox {
    let guarantees = sandbox.guarantees.clone();
    sandbox.leave();
    let raised = backend(place.state.path()).adopt(&place.id).unwrap();
    Sandbox::resume(place.id.clone(), Begun::over(raised, guarantees), &[]).await.unwrap().0
}

/// Root has cgroups on every host that the tests run on.
fn skipped() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIP late cgroups: not root, so that nobody may have lent a cgroup");
    }
    !root
}

#[tokio::test]
async fn they_come_with_the_first_command_and_go_with_the_sandbox() {
    if skipped() {
        return;
    }
    let (place, sandbox) = sandbox().await;
    assert!(cgroups(&place.id).is_empty());
    let usage = sandbox.usage();
    assert_eq!((usage.processes, usage.memory), (Some(0), Some(0)), "it is known that nothing runs");
    // It has nothing to stop, and can be stopped.
    sandbox.freeze(true).await.unwrap();
    sandbox.freeze(false).await.unwrap();
    run(&sandbox, 1, "true").await;
    assert!(!cgroups(&place.id).is_empty());
    assert!(sandbox.usage().cpu_ms.unwrap() > 0.0);
    sandbox.end(None).unwrap();
    assert!(cgroups(&place.id).is_empty());
}

#[tokio::test]
async fn of_many_first_commands_none_runs_outside() {
    if skipped() {
        return;
    }
    let (place, sandbox) = sandbox().await;
    let sandbox = Arc::new(sandbox);
    let mut starts = tokio::task::JoinSet::new();
    for number in 1..=16 {
        let (sandbox, command) = (sandbox.clone(), script("echo runs; exec sleep 1000"));
        starts.spawn(async move { sandbox.exec_numbered(number, command).await });
    }
    for exec in starts.join_all().await {
        let mut exec = exec.unwrap();
        loop {
            match exec.next().await {
                ExecEvent::Output { .. } => break,
                ExecEvent::Started => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(sandbox.usage().processes.unwrap() >= 16, "{:?}", sandbox.usage());
    sandbox.destroy().unwrap();
    assert!(cgroups(&place.id).is_empty());
}

#[tokio::test]
async fn limits_that_change_before_the_first_command_hold() {
    if skipped() {
        return;
    }
    let (place, sandbox) = sandbox().await;
    let more = Limits { memory: 64 << 20, ..place.spec.limits.clone() };
    sandbox.change_limits(&place.spec.limits, &more).await.unwrap();
    let hog = "python3 -c 'x = bytearray(200 << 20); print(len(x))' || echo killed";
    assert_eq!(run(&sandbox, 1, hog).await, "killed\n");
    assert_eq!(sandbox.memory_kills(), 1);
    sandbox.end(None).unwrap();
}

/// An engine may end at any point between a create and the first command.
#[tokio::test]
async fn the_next_engine_makes_them_or_sends_them_again() {
    if skipped() {
        return;
    }
    let (place, sandbox) = sandbox().await;
    let sandbox = taken_over(&place, sandbox).await;
    assert!(cgroups(&place.id).is_empty());
    run(&sandbox, 1, "true").await;
    assert!(!cgroups(&place.id).is_empty());
    let sandbox = taken_over(&place, sandbox).await;
    assert!(sandbox.usage().cpu_ms.unwrap() > 0.0, "it knows the cgroups that there are");
    run(&sandbox, 2, "true").await;
    // An engine that ended while it made them left some, in one hierarchy of several.
    let (other, idle) = crate::support::sandbox().await;
    let of_first = cgroups(&place.id);
    if of_first.len() > 1 {
        std::fs::create_dir(of_first[0].with_file_name(format!("paddock-{}", other.id))).unwrap();
    }
    let idle = taken_over(&other, idle).await;
    assert!(cgroups(&other.id).is_empty());
    idle.freeze(false).await.unwrap();
    run(&idle, 1, "true").await;
    idle.destroy().unwrap();
    assert!(cgroups(&other.id).is_empty());
    // A sandbox that its engine lost before anything ran is removed like any other.
    let (other, idle) = crate::support::sandbox().await;
    idle.leave();
    backend(other.state.path()).remove(&other.id).unwrap();
    sandbox.leave();
    backend(place.state.path()).remove(&place.id).unwrap();
    assert!(cgroups(&place.id).is_empty());
}
