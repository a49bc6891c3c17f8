//! Limits of the host that a create meets when very many sandboxes live, and the words of `doctor --for` about them
//! before.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, as_ordinary_user, as_root, skip, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const KINDS: [&str; 7] = ["user", "pid", "mnt", "ipc", "uts", "cgroup", "net"];

#[test]
fn without_namespaces_a_create_names_the_limit() -> Result<()> {
    const NAME: &str = "without_namespaces_a_create_names_the_limit";
    if !rustix::process::geteuid().is_root() {
        skip(NAME, "only root can make a user namespace with all ids");
        return Ok(());
    }
    as_ordinary_user(NAME, no_more_namespaces)
}

/// An ordinary user's server in a namespace where the limits are the test's.
fn no_more_namespaces(caller: &Caller) -> Result<()> {
    let namespace = match caller.enter_a_user_namespace() {
        Ok(namespace) => namespace,
        Err(error) => {
            skip("without_namespaces_a_create_names_the_limit", &format!("{error:#}"));
            return Ok(());
        }
    };
    let server = Server::start_with(caller, &["--ready-memory", "0"])?;
    let first = server.create(&[])?;
    for kind in KINDS {
        let limit = format!("max_{kind}_namespaces");
        // The first sandbox has one.
        namespace.set(&limit, 1)?;
        let refused = server.api("POST", "/v1/sandboxes", Some(&json!({})))?;
        if kind == "net" {
            doctor_says_so(caller, &format!("user.{limit}"))?;
        }
        namespace.set(&limit, 1000)?;
        refused.refused(503, "too_many_namespaces").with_context(|| limit.clone())?;
        ensure!(refused.head.to_ascii_lowercase().contains("retry-after:"), "{}", refused.head);
        let error = refused.json()?;
        let hint = error["hint"].as_str().context("no hint")?;
        let setting = format!("user.{limit}");
        ensure!(hint.contains(&setting) && hint.contains("paddock doctor --for"), "{hint}");
    }
    server.create(&[])?;
    server.script(&first, "true")?.success().map(drop)
}

fn doctor_says_so(caller: &Caller, setting: &str) -> Result<()> {
    let doctor = caller.paddock(["doctor", "--for", "100", "--json"])?.finish()?;
    assert_eq!(doctor.code, 1, "{setting}");
    let check = limit_of(&doctor.json()?, setting)?;
    assert_eq!((&check["state"], &check["limit"]), (&json!("too_low"), &json!(1)), "{check}");
    let remedy = check["remedy"].as_str().context("no remedy")?;
    ensure!(remedy.contains(&format!("sysctl -w {setting}=")), "{remedy}");
    Ok(())
}

/// Root raises its limit itself; an ordinary user's server has the limit that it was given.
#[test]
fn doctor_says_that_descriptors_are_too_few() -> Result<()> {
    as_ordinary_user("doctor_says_that_descriptors_are_too_few", |caller| {
        let mut command = caller.program("prlimit");
        command.arg("--nofile=200:200").arg(caller.executable()?).args(["doctor", "--for", "1000", "--json"]);
        let doctor = paddock_e2e::Invocation::new(command).finish()?;
        let check = limit_of(&doctor.json()?, "RLIMIT_NOFILE")?;
        assert_eq!((&check["state"], &check["limit"]), (&json!("too_low"), &json!(200)), "{check}");
        let remedy = check["remedy"].as_str().context("no remedy")?;
        ensure!(remedy.contains("LimitNOFILE=") && remedy.contains("ulimit -n"), "{remedy}");
        assert_eq!(doctor.code, 1);
        Ok(())
    })
}

fn limit_of(report: &Value, setting: &str) -> Result<Value> {
    let limits = report["capacity"]["limits"].as_array().context("no limits")?;
    let found = limits.iter().find(|check| check["setting"] == setting || check["name"] == setting);
    found.cloned().with_context(|| format!("{setting} is not in {report}"))
}

#[test]
fn a_sandbox_takes_no_more_than_doctor_says() -> Result<()> {
    as_root("a_sandbox_takes_no_more_than_doctor_says", counted)
}

/// Files of the state directory that no sandbox has for itself.
const SHARED_FILES: usize = 6;
const COUNTED: usize = 20;

/// The numbers that `doctor` multiplies, counted on this host.
fn counted(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--ready-memory", "0"])?;
    // The first sandbox makes the things that all of them share.
    server.create(&[])?;
    let before = Count::of(caller, server.process()?)?;
    for _ in 0..COUNTED {
        server.create(&[])?;
    }
    let report = caller.paddock(["doctor", "--for", "100", "--json"])?.finish()?.json()?;
    assert_eq!(report["capacity"]["sandboxes"], 100);
    let each = |setting: &str| -> Result<usize> {
        let each = limit_of(&report, setting)?["per_sandbox"].as_u64().context("no number")?;
        Ok(each as usize)
    };
    let descriptors = each("RLIMIT_NOFILE")?;
    // Connections of the creates may be closed a moment later.
    let after = until(PATIENCE, "as many descriptors as doctor says", || {
        let after = Count::of(caller, server.process().ok()?).ok()?;
        (after.descriptors <= before.descriptors + COUNTED * descriptors).then_some(after)
    })?;
    assert_eq!(after.guests.len() - before.guests.len(), COUNTED);
    let expected = COUNTED * each("kernel.pid_max")?;
    ensure!(after.threads - before.threads <= expected, "{before:?} {after:?}");
    for kind in KINDS {
        let expected = COUNTED * each(&format!("user.max_{kind}_namespaces"))?;
        let made = after.namespaces(kind)?.difference(&before.namespaces(kind)?).count();
        ensure!((1..=expected).contains(&made), "{made} {kind} namespaces");
    }
    let files = each("fs.file-max")?;
    for guest in &after.guests {
        // Its standard streams are one open file.
        let counts = |entry: &std::fs::DirEntry| !["1", "2"].iter().any(|name| entry.file_name() == *name);
        let open = std::fs::read_dir(format!("/proc/{guest}/fd"))?.flatten().filter(counts);
        let targets: Vec<_> = open.filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect();
        ensure!(targets.len() + descriptors <= files, "{} open files", targets.len());
        ensure!(!targets.iter().any(|target| target.to_string_lossy().contains("inotify")), "{targets:?}");
        let mounts = std::fs::read_to_string(format!("/proc/{guest}/mountinfo"))?.lines().count();
        ensure!(mounts <= 64, "{mounts} mounts");
    }
    // A few belong to all of them, the log of the database among those, and are made when they are first needed.
    let inodes = COUNTED * each("free inodes of the state directory")? + SHARED_FILES;
    ensure!(after.files - before.files <= inodes, "{before:?} {after:?}");
    Ok(())
}

#[derive(Debug)]
struct Count {
    descriptors: usize,
    /// Children of the server.
    guests: Vec<u32>,
    threads: usize,
    /// The files of the state directory, without the storage.
    files: usize,
}

impl Count {
    fn of(caller: &Caller, server: u32) -> Result<Count> {
        let guests = children_of(server)?;
        let tasks = |guest: &u32| std::fs::read_dir(format!("/proc/{guest}/task")).map_or(0, Iterator::count);
        Ok(Count {
            descriptors: std::fs::read_dir(format!("/proc/{server}/fd"))?.count(),
            threads: guests.iter().map(tasks).sum(),
            files: files_below(&caller.state())?,
            guests,
        })
    }

    fn namespaces(&self, kind: &str) -> Result<BTreeSet<std::path::PathBuf>> {
        let of = |guest: &u32| std::fs::read_link(format!("/proc/{guest}/ns/{kind}"));
        self.guests.iter().map(|guest| of(guest).with_context(|| guest.to_string())).collect()
    }
}

/// Every thread of a process has children of its own.
pub fn children_of(server: u32) -> Result<Vec<u32>> {
    let mut all = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{server}/task"))?.flatten() {
        // A thread may have ended meanwhile; its children are another's then.
        let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        all.extend(text.split_whitespace().filter_map(|word| word.parse::<u32>().ok()));
    }
    Ok(all)
}

fn files_below(directory: &std::path::Path) -> Result<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        count += 1;
        if entry.file_type()?.is_dir() && entry.file_name() != "storage" {
            count += files_below(&entry.path())?;
        }
    }
    Ok(count)
}
