//! Sandboxes that outlive their engine: left, found again, frozen, swept.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: whatever fails shall fail it"
)]

mod disk;
mod killed;
#[path = "../limits/mod.rs"]
mod limits;
mod support;

use paddock_backends::{AdoptError, Purpose, Raised};
use paddock_protocol::{FromGuest, ToGuest};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use support::{Host, backend, is_root, new_id, raise, spec, traces, traces_in_the_end};

/// Longer than anything here takes on a busy host: only a wait without end is caught by it.
const HANG: Duration = Duration::from_secs(60);

#[test]
fn left_by_one_engine_and_adopted_by_the_next() {
    let state = tempfile::tempdir().unwrap();
    let id = new_id();
    let started = Instant::now();
    let (fence, mut host) = raise(state.path(), &id, &spec(None));
    eprintln!("created and ready in {:?}", started.elapsed());
    host.start(1, "echo before; sleep 1000");
    fence.leave();
    drop(host);

    // Another engine of the same user that comes and goes leaves it alone.
    let passing = backend(state.path()).create(&new_id(), &spec(None), Purpose::Passing).unwrap();
    drop(passing);
    assert!(!traces(state.path(), std::slice::from_ref(&id)).is_empty());
    assert_eq!(backend(state.path()).sweep(&BTreeSet::from([id.clone()])).unwrap(), []);

    let started = Instant::now();
    let Raised { mut fence, stream, .. } = backend(state.path()).adopt(&id).unwrap();
    let mut host = Host::new(stream);
    host.say(&ToGuest::Resume);
    let execs = host.hear(|message| match message {
        FromGuest::Resumed { execs, .. } => Some(execs),
        _ => None,
    });
    eprintln!("adopted and resumed in {:?}", started.elapsed());
    assert_eq!(execs.iter().map(|exec| exec.exec).collect::<Vec<_>>(), [1]);
    if is_root() {
        let usage = fence.usage().unwrap();
        assert!(usage.processes.unwrap() >= 1 && usage.memory.unwrap() > 0, "{usage:?}");
        assert!(usage.cpu_ms.is_some());
    }
    let descriptor = fence.ended().unwrap().try_clone_to_owned().unwrap();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)), Ok(0));
    fence.destroy().unwrap();
    assert_eq!(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&now)), Ok(1));
    assert_eq!(traces_in_the_end(state.path(), std::slice::from_ref(&id)), [""; 0]);
    let error = backend(state.path()).adopt(&id).err().unwrap();
    assert!(matches!(error, AdoptError::Gone { .. }), "{error}");
}

#[test]
fn one_that_ended_alone_is_gone_and_leaves_nothing() {
    let state = tempfile::tempdir().unwrap();
    let id = new_id();
    let (fence, mut host) = raise(state.path(), &id, &spec(None));
    host.say(&ToGuest::Deadline { ms: Some(50) });
    let ended = fence.ended().unwrap().try_clone_to_owned().unwrap();
    fence.leave();
    drop(host);
    let patience = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert_eq!(poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&patience)), Ok(1));
    let error = backend(state.path()).adopt(&id).err().unwrap();
    assert!(matches!(error, AdoptError::Gone { .. }), "{error}");
    assert_eq!(traces_in_the_end(state.path(), std::slice::from_ref(&id)), [""; 0]);
}

#[test]
fn a_damaged_record_is_said_to_be_one() {
    let state = tempfile::tempdir().unwrap();
    let id = new_id();
    let (fence, _host) = raise(state.path(), &id, &spec(None));
    let record = traces(state.path(), std::slice::from_ref(&id))
        .into_iter()
        .map(|path| std::path::Path::new(&path).join("record.json"))
        .find(|path| path.exists())
        .unwrap();
    std::fs::write(&record, "{\"guest\":").unwrap();
    fence.leave();
    let error = backend(state.path()).adopt(&id).err().unwrap();
    assert!(matches!(error, AdoptError::Damaged { .. }), "{error}");
    assert_eq!(backend(state.path()).sweep(&BTreeSet::new()).unwrap(), std::slice::from_ref(&id));
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}

#[test]
fn stand_ins_live_as_long_as_the_sandbox() {
    let state = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let directory = workspace.path().canonicalize().unwrap();
    let id = new_id();
    let (fence, host) = raise(state.path(), &id, &spec(Some(&directory)));
    fence.leave();
    drop(host);
    drop(backend(state.path()).create(&new_id(), &spec(Some(&directory)), Purpose::Passing).unwrap());
    assert!(directory.join(".git").exists() && directory.join("Makefile").exists());
    let raised = backend(state.path()).adopt(&id).unwrap();
    drop(raised);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}

#[test]
fn frozen_work_stands_still_and_can_be_thawed_or_destroyed() {
    let state = tempfile::tempdir().unwrap();
    let id = new_id();
    let (fence, mut host) = raise(state.path(), &id, &spec(None));
    host.start(1, "while :; do :; done");
    let started = Instant::now();
    match fence.freeze() {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            eprintln!("skipped: {error}");
            return;
        }
        frozen => frozen.unwrap(),
    }
    let frozen_in = started.elapsed();
    let spent = |fence: &dyn paddock_backends::Fence| fence.usage().unwrap().cpu_ms.unwrap();
    let before = spent(&*fence);
    std::thread::sleep(Duration::from_millis(200));
    assert!(spent(&*fence) - before < 5.0, "it still runs");
    let started = Instant::now();
    fence.thaw().unwrap();
    eprintln!("frozen in {frozen_in:?}, thawed in {:?}", started.elapsed());
    // A busy host may give it no processor for a while.
    let thawed = Instant::now();
    while spent(&*fence) - before <= 20.0 {
        assert!(thawed.elapsed() < HANG, "it does not run again");
        std::thread::sleep(Duration::from_millis(20));
    }

    // Frozen when its engine ends, and found so by the next.
    fence.freeze().unwrap();
    fence.leave();
    drop(host);
    // A destroy that waited for frozen processes to end would wait for ever.
    let (done, is_done) = std::sync::mpsc::channel();
    let mut adopted = backend(state.path()).adopt(&id).unwrap().fence;
    std::thread::spawn(move || done.send(adopted.destroy().map(drop)));
    is_done.recv_timeout(HANG).expect("it does not wait for the frozen").unwrap();
    assert_eq!(traces_in_the_end(state.path(), &[id]), [""; 0]);
}

#[test]
fn many_at_once_are_swept() {
    let state = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let ids: Vec<_> = (0..12).map(|_| new_id()).collect();
    for id in &ids {
        let (fence, _host) = raise(state.path(), id, &spec(None));
        fence.leave();
    }
    let keep = BTreeSet::from([ids[3].clone()]);
    let started = Instant::now();
    // By another name of the same directory.
    let link = other.path().join("link");
    std::os::unix::fs::symlink(state.path(), &link).unwrap();
    let swept = backend(&link).sweep(&keep).unwrap();
    eprintln!("11 swept in {:?}", started.elapsed());
    assert_eq!(swept.iter().collect::<BTreeSet<_>>(), ids.iter().filter(|id| !keep.contains(*id)).collect());
    // Sandboxes of another state directory are none of ours.
    assert_eq!(backend(other.path()).sweep(&BTreeSet::new()).unwrap(), []);
    drop(backend(state.path()).adopt(&ids[3]).unwrap());
    assert_eq!(traces_in_the_end(state.path(), &ids), [""; 0]);
}
