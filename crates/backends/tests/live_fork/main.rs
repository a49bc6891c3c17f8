//! An interpreter that waits is forked into another sandbox, as it stands.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test: whatever fails shall fail it"
)]

#[path = "../limits/mod.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod limits;
#[path = "../lasting/support.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod support;

mod source;

use paddock_backends::{Fence, LiveForkError};
use source::{Source, land};
use std::time::Duration;
use support::{is_root, new_id, spec};

const LANDING_TIMEOUT: Duration = Duration::from_secs(5);

#[test]
fn what_it_knew_goes_along_and_each_goes_its_own_way() {
    if !is_root() {
        return println!("SKIP live forks: only root suspends seccomp filters");
    }
    let state = tempfile::tempdir().unwrap();
    let mut source = Source::python(state.path());
    source.tell("data = {number: str(number) for number in range(200000)}; note = open('/tmp/note', 'w+')");
    source.tell("note.write('before'); note.flush()");
    let mut child = land(&source, state.path());
    // A copy of the disk has this file.
    child.write_file("/tmp/note", b"before");
    let carried = child.copy_interpreters(&mut source, LANDING_TIMEOUT).unwrap();
    eprintln!("the source stood still for {:?}", carried.stood_still);
    assert_eq!(child.tell("print(len(data), data[7])"), "200000 7\n");
    child.tell("data.clear(); note.write(' child'); note.flush()");
    source.tell("data[7] = 'changed'");
    assert_eq!(source.tell("print(len(data), data[7])"), "200000 changed\n");
    assert_eq!(child.tell("print(len(data))"), "0\n");
    assert_eq!(source.tell("note.seek(0); print(note.read())"), "before\n");
    assert_eq!(child.tell("print(note.tell())"), "12\n");
    // It is in a sandbox like any other, and the source in the one that it was in.
    let seen = "import os; print(os.getppid(), os.getuid(), os.getgroups(), os.listdir('/tmp'), os.getcwd())";
    assert_eq!(child.tell(seen), "1 1000 [1000] ['note'] /workspace\n");
    let status = "print([l.split() for l in open('/proc/self/status') if l[:3] in ('Cap', 'Sec', 'NoN')])";
    assert_eq!(child.tell(status), source.tell(status));
    let refused = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.unshare(0x10000000), ctypes.get_errno())";
    assert_eq!(child.tell(refused), "-1 1\n");
    child.tell("open('/tmp/new', 'w').write('x')");
    assert_eq!(source.tell("print(os.path.exists('/tmp/new'))"), "False\n");
}

#[test]
fn what_cannot_be_carried_is_told_and_left_as_it_was() {
    if !is_root() {
        return println!("SKIP live forks: only root suspends seccomp filters");
    }
    let state = tempfile::tempdir().unwrap();
    for (code, words) in [
        (
            "import threading, time; threading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
            "threads",
        ),
        ("import select; poller = select.epoll()", "descriptor"),
        ("import os; ends = os.pipe()", "both ends"),
    ] {
        let mut source = Source::python(state.path());
        source.tell(code);
        let mut child = land(&source, state.path());
        match child.copy_interpreters(&mut source, LANDING_TIMEOUT) {
            Err(LiveForkError::Unable(why)) => assert!(why.contains(words), "{why}"),
            other => panic!("{code}: {other:?}"),
        }
        assert_eq!(source.tell("print('goes on')"), "goes on\n");
    }
}

#[test]
fn who_is_busy_is_waited_for_within_a_deadline() {
    if !is_root() {
        return println!("SKIP live forks: only root suspends seccomp filters");
    }
    let state = tempfile::tempdir().unwrap();
    let mut source = Source::python(state.path());
    source.tell("x = 1");
    let mut child = land(&source, state.path());
    // It is busy until the file is there: a fork that waited for it would never return.
    source.say(
        "import os, time; [time.sleep(0.01) for _ in iter(lambda: os.path.exists('/tmp/go'), True)]; x = 2",
    );
    match child.copy_interpreters(&mut source, Duration::from_millis(100)) {
        Err(LiveForkError::Busy(_)) => {}
        other => panic!("{other:?}"),
    }
    source.write_file("/tmp/go", b"");
    let mut child = land(&source, state.path());
    child.copy_interpreters(&mut source, LANDING_TIMEOUT).unwrap();
    assert_eq!(child.tell("print(x)"), "2\n");
}

#[test]
fn it_ends_with_its_source_unless_that_is_held() {
    if !is_root() {
        return println!("SKIP live forks: only root suspends seccomp filters");
    }
    let state = tempfile::tempdir().unwrap();
    let mut source = Source::python(state.path());
    source.tell("x = 7");
    let mut child = land(&source, state.path());
    child.copy_interpreters(&mut source, LANDING_TIMEOUT).unwrap();
    let mut grandchild = child.land(state.path());
    grandchild.copy_from(&mut child, LANDING_TIMEOUT).unwrap();
    source.hold();
    child.hold();
    assert_eq!(grandchild.tell("x += 1; print(x)"), "8\n");
    let fences: Vec<&dyn Fence> = vec![source.fence(), child.fence()];
    assert!(fences.iter().all(|fence| fence.usage().unwrap().processes.unwrap_or(0) == 0));
}

#[test]
fn what_comes_before_a_sandbox_that_never_is_goes_again() {
    if !is_root() {
        return println!("SKIP live forks: only root suspends seccomp filters");
    }
    let state = tempfile::tempdir().unwrap();
    let mut source = Source::python(state.path());
    source.tell("x = 7; open('/proc/self/comm', 'w').write('waiting-copy')");
    let interpreter = source.describe();
    for is_taken_down in [false, true] {
        let site = source.fence().live_forks(&spec(None)).unwrap();
        let (landing, begun) = site.begin(&new_id(), &spec(None), 1).unwrap();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let copier = std::thread::spawn(move || {
            source::copy_interpreters(landing, interpreter, LANDING_TIMEOUT, &is_ready)
        });
        while !copy_stands() {
            assert!(!copier.is_finished(), "it waits for the guest to be ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Its processes end before it does: were they not collected, this would never return.
        match is_taken_down {
            true => drop(begun),
            false => drop(ready),
        }
        match copier.join().unwrap() {
            Err(LiveForkError::Unable(why)) => assert!(why.contains("did not come to be"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(source.tell("x += 1; print(x)"), "8\n");
    assert_eq!(source.fence().usage().unwrap().processes, Some(1), "its interpreter alone");
}

/// True if there is a copy that has done the steps before its guest is ready. No other test's process has this name.
fn copy_stands() -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut texts = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    texts.any(|status| {
        ["Name:\twaiting-copy\n", "State:\tt", "CapBnd:\t0000000000000000\n", "CapEff:\t"]
            .iter()
            .all(|line| status.contains(line))
            && !status.contains("CapEff:\t0000000000000000\n")
    })
}
