//! The engine is killed at any instant while it makes sandboxes; the next one finds and removes all remains.

use crate::support::{backend, new_id, spec, traces_in_the_end};
use paddock_backends::Purpose;
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

const STATE: &str = "PADDOCK_TEST_STATE";
const WORKSPACE: &str = "PADDOCK_TEST_WORKSPACE";
const ROUNDS: usize = 100;

/// Not a test by itself: the work of the process that is killed.
#[test]
fn an_engine_that_will_be_killed() {
    let Some(state) = std::env::var_os(STATE).map(PathBuf::from) else { return };
    let workspace = std::env::var_os(WORKSPACE).map(PathBuf::from).unwrap();
    let mut stdout = std::io::stdout();
    // Two at a time, as a server would: open files of one thread are for a moment in the other's child too.
    std::thread::scope(|scope| {
        for place in [None, Some(workspace)] {
            let state = &state;
            scope.spawn(move || {
                let backend = backend(state);
                let mut kept = Vec::new();
                loop {
                    let id = new_id();
                    println!("\nmaking {id}");
                    kept.push(backend.create(&id, &spec(place.as_deref()), Purpose::Lasting).unwrap());
                }
            });
        }
        stdout.flush().unwrap();
    });
}

#[test]
fn nothing_is_left_of_an_engine_that_was_killed_anywhere() {
    let state = tempfile::tempdir().unwrap();
    let workspace = tempfile::tempdir().unwrap();
    let workspace_path = workspace.path().canonicalize().unwrap();
    let mut made = 0;
    for round in 0..ROUNDS {
        let mut engine = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "killed::an_engine_that_will_be_killed", "--nocapture", "--test-threads=1"])
            .env(STATE, state.path())
            .env(WORKSPACE, &workspace_path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(engine.stdout.take().unwrap()).lines();
        let reader = std::thread::spawn(move || -> Vec<SandboxId> {
            let named = lines.map_while(Result::ok);
            named.filter_map(|line| line.strip_prefix("making ")?.to_string().try_into().ok()).collect()
        });
        let mut random = [0; 2];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
        std::thread::sleep(Duration::from_micros(3_000 + u64::from(u16::from_ne_bytes(random)) / 2));
        engine.kill().unwrap();
        engine.wait().unwrap();
        let ids = reader.join().unwrap();
        made += ids.len();
        let swept = backend(state.path()).sweep(&BTreeSet::new()).unwrap();
        assert!(swept.iter().all(|id| ids.contains(id)), "{swept:?} of {ids:?}");
        assert_eq!(traces_in_the_end(state.path(), &ids), [""; 0], "round {round}");
        // A guest that was still coming up ends by itself, and its record with the next sweep.
        assert_eq!(std::fs::read_dir(&workspace_path).unwrap().count(), 0, "round {round}");
    }
    eprintln!("{made} sandboxes of {ROUNDS} killed engines");
    assert!(made > ROUNDS);
}
