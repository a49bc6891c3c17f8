//! Sandboxes that are only entries with a time to live: the tests look at their making, prolonging and ending.

use paddock_model::api::{CreateSandbox, Exec, FileEntry, FilePage, RunCode, Sandbox, Snapshot, StartExec};
use paddock_model::net::NetRules;
use paddock_tools::{FileOperations, Host, OperationError, Operations};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

type Result<T> = std::result::Result<T, OperationError>;

#[derive(Clone, Default)]
pub struct Ledger {
    entries: Arc<Mutex<Entries>>,
    delay: Duration,
}

#[derive(Default)]
struct Entries {
    made: usize,
    ends: BTreeMap<String, Instant>,
    snapshots: BTreeSet<String>,
    cut: bool,
}

impl Ledger {
    pub fn slow(delay: Duration) -> Ledger {
        Ledger { delay, ..Ledger::default() }
    }

    pub fn made(&self) -> usize {
        self.entries().made
    }

    pub fn living(&self) -> usize {
        self.entries().ends.values().filter(|end| **end > Instant::now()).count()
    }

    pub fn left(&self, id: &str) -> Option<Duration> {
        let left = self.entries().ends.get(id)?.checked_duration_since(Instant::now())?;
        (!left.is_zero()).then_some(left)
    }

    pub fn snapshots(&self) -> usize {
        self.entries().snapshots.len()
    }

    /// From now on no request reaches it.
    pub fn cut(&self) {
        self.entries().cut = true;
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap()
    }

    fn reached(&self) -> Result<MutexGuard<'_, Entries>> {
        let entries = self.entries();
        match entries.cut {
            true => Err(OperationError::new("unreachable", "nobody is there")),
            false => Ok(entries),
        }
    }

    fn make(&self, seconds: f64) -> Result<Sandbox> {
        let mut entries = self.reached()?;
        entries.made += 1;
        let id = format!("sb-{}", entries.made);
        entries.ends.insert(id.clone(), Instant::now() + Duration::from_secs_f64(seconds));
        Ok(sandbox(&id))
    }
}

fn sandbox(id: &str) -> Sandbox {
    let guarantees = json!({
        "backend": "process", "boundary": "shared-kernel", "network": "none", "identity": "own",
        "memory_limit": "none", "cpu_limit": "none", "pids_limit": "none", "disk_limit": "kernel",
        "pause": "kernel-freezer", "snapshot": "filesystem-instant", "survives_pause": [], "survives_hibernate": [],
        "seccomp": "on", "landlock_abi": 0, "time_namespace": "on", "weaknesses": [],
    });
    let sandbox = json!({
        "id": id, "state": "running", "tenant": "test", "created_at_ms": 0, "persistent": false, "metadata": {},
        "limits": paddock_model::Limits::default(), "guarantees": guarantees, "running_execs": 0,
    });
    serde_json::from_value(sandbox).unwrap()
}

impl Host for Ledger {
    type Sandbox = Nothing;

    fn sandbox(&self, _: &str) -> Nothing {
        Nothing
    }

    async fn create(&self, request: CreateSandbox) -> Result<Sandbox> {
        tokio::time::sleep(self.delay).await;
        self.make(request.ttl_seconds.unwrap())
    }

    fn get(&self, id: &str) -> impl Future<Output = Result<Sandbox>> + Send {
        ready(Ok(sandbox(id)))
    }

    fn find(&self, _: &str, _: &str) -> impl Future<Output = Result<Vec<Sandbox>>> + Send {
        ready(Ok(Vec::new()))
    }

    fn kill(&self, id: &str) -> impl Future<Output = Result<()>> + Send {
        ready(self.reached().map(|mut entries| {
            entries.ends.remove(id);
        }))
    }

    fn extend(&self, id: &str, seconds: f64) -> impl Future<Output = Result<()>> + Send {
        ready(self.reached().map(|mut entries| {
            if let Some(end) = entries.ends.get_mut(id).filter(|end| **end > Instant::now()) {
                *end = Instant::now() + Duration::from_secs_f64(seconds);
            }
        }))
    }

    fn hibernate(&self, _: &str) -> impl Future<Output = Result<()>> + Send {
        ready(Ok(()))
    }

    fn fork(&self, _: &str, ttl_seconds: f64) -> impl Future<Output = Result<Sandbox>> + Send {
        ready(self.make(ttl_seconds))
    }

    fn snapshot(&self, id: &str, name: Option<String>) -> impl Future<Output = Result<Snapshot>> + Send {
        ready(self.reached().map(|mut entries| {
            let snapshot = format!("sn-{}", entries.snapshots.len());
            entries.snapshots.insert(snapshot.clone());
            Snapshot {
                id: snapshot,
                name,
                tenant: "test".into(),
                sandbox: id.into(),
                created_at_ms: 0,
                kind: "filesystem".into(),
                backend: None,
                template: None,
                image: None,
                user: None,
                cwd: None,
                root_may_install: false,
                become_root: false,
                size_bytes: None,
            }
        }))
    }

    fn delete_snapshot(&self, id: &str) -> impl Future<Output = Result<()>> + Send {
        ready(self.reached().map(|mut entries| {
            entries.snapshots.remove(id);
        }))
    }

    fn network_rules(&self, _: &str) -> impl Future<Output = Result<Option<NetRules>>> + Send {
        ready(Ok(None))
    }
}

/// The inside of an entry: there is none.
pub struct Nothing;

fn nothing<T>() -> std::future::Ready<Result<T>> {
    ready(Err(OperationError::new("unsupported", "an entry has no inside")))
}

impl Operations for Nothing {
    fn run_code(&self, _: RunCode) -> impl Future<Output = Result<Exec>> + Send {
        nothing()
    }

    fn run_command(&self, _: StartExec) -> impl Future<Output = Result<Exec>> + Send {
        nothing()
    }

    fn stat(&self, _: &str) -> impl Future<Output = Result<FileEntry>> + Send {
        nothing()
    }

    fn read_file(&self, _: &str, _: u64) -> impl Future<Output = Result<Vec<u8>>> + Send {
        nothing()
    }

    fn write_file(
        &self,
        _: &str,
        _: Vec<u8>,
        _: Option<u32>,
    ) -> impl Future<Output = Result<FileEntry>> + Send {
        nothing()
    }

    fn list_files(
        &self,
        _: &str,
        _: bool,
        _: usize,
        _: Option<&str>,
    ) -> impl Future<Output = Result<FilePage>> + Send {
        nothing()
    }
}

impl FileOperations for Nothing {
    fn make_directory(&self, _: &str, _: bool) -> impl Future<Output = Result<()>> + Send {
        nothing()
    }

    fn remove_file(&self, _: &str, _: bool) -> impl Future<Output = Result<()>> + Send {
        nothing()
    }

    fn put_file(&self, _: &str, _: Vec<u8>) -> impl Future<Output = Result<()>> + Send {
        nothing()
    }
}
