//! A create makes as many system calls with a thousand live sandboxes as with ten. Counted, because a clock on a busy host proves nothing.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Server, as_root, skip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

const NAME: &str = "a_create_makes_as_many_calls_with_a_thousand_live";
const FEW: usize = 10;
const MANY: usize = 1000;
/// At each point; the one in the middle counts, so that work in the background does not decide.
const COUNTED_CREATES: usize = 7;
/// The allowance for one kind of call.
const MORE_OF_A_KIND: u64 = 12;
/// The allowance for all kinds together: 23 more were counted. A look at every sandbox would be a thousand more.
const MORE_IN_ALL: u64 = 150;
/// A create looks at the locks and records of one group of slots. A group has 64, and few sandboxes do not fill one.
const MORE_OF_A_GROUP: u64 = 64;
/// Their number depends on how threads meet, and on the allocator.
const UNSTEADY: [&str; 14] = [
    "futex",
    "epoll_wait",
    "epoll_pwait",
    "poll",
    "ppoll",
    "sched_yield",
    "restart_syscall",
    "clock_nanosleep",
    "rt_sigreturn",
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "brk",
];
/// The calls by which a create looks at a group; and `pread64`, by which SQLite walks down its trees, which have a level more when
/// the records no longer fit into its cache.
const OF_A_GROUP: [&str; 5] = ["fcntl", "openat", "close", "read", "pread64"];

type Calls = BTreeMap<String, u64>;

#[test]
fn a_create_makes_as_many_calls_with_a_thousand_live() -> Result<()> {
    as_root(NAME, compare)
}

fn compare(caller: &Caller) -> Result<()> {
    if let Err(why) = try_strace() {
        skip(NAME, &format!("strace cannot be used: {why:#}"));
        return Ok(());
    }
    let server = Server::start_with(caller, &["--ready-memory", "0"])?;
    fill(&server, FEW)?;
    let few = calls_of_a_create(caller, &server)?;
    fill(&server, MANY - FEW - COUNTED_CREATES)?;
    let many = calls_of_a_create(caller, &server)?;
    let total = |calls: &Calls| calls.values().sum::<u64>();
    println!("system calls of a create: {} with {FEW} live, {} with {MANY}", total(&few), total(&many));
    let mut grown = Vec::new();
    for (call, now) in &many {
        let before = few.get(call).copied().unwrap_or(0);
        println!("{call}: {before} {now}");
        let allowed = if OF_A_GROUP.contains(&call.as_str()) { MORE_OF_A_GROUP } else { MORE_OF_A_KIND };
        if *now > before + allowed {
            grown.push(format!("{call} from {before} to {now}"));
        }
    }
    ensure!(grown.is_empty(), "a create with {MANY} live sandboxes makes more calls: {}", grown.join(", "));
    let (before, now) = (total(&few), total(&many));
    ensure!(
        now <= before + MORE_IN_ALL,
        "a create makes {before} calls with {FEW} live sandboxes, and {now} with {MANY}"
    );
    Ok(())
}

fn try_strace() -> Result<()> {
    let tried = Command::new("strace")
        .args(["-c", "true"])
        .output()
        .context("scripts/setup.py --tests installs it")?;
    ensure!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr).trim());
    Ok(())
}

/// Two at a time: there are two processors where this runs.
fn fill(server: &Server, count: usize) -> Result<()> {
    let half = |count: usize| -> Result<()> {
        for _ in 0..count {
            server.api("POST", "/v1/sandboxes", Some(&json!({})))?.expect(201)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(count / 2));
        half(count - count / 2)?;
        other.join().unwrap_or_else(|_| anyhow::bail!("it panicked"))
    })
}

/// The median of each kind.
fn calls_of_a_create(caller: &Caller, server: &Server) -> Result<Calls> {
    let counted: Vec<Calls> =
        (0..COUNTED_CREATES).map(|_| count_one(caller, server)).collect::<Result<_>>()?;
    let kinds: std::collections::BTreeSet<&String> = counted.iter().flat_map(Calls::keys).collect();
    let middle = |kind: &String| {
        let mut numbers: Vec<u64> =
            counted.iter().map(|calls| calls.get(kind).copied().unwrap_or(0)).collect();
        numbers.sort_unstable();
        numbers[COUNTED_CREATES / 2]
    };
    Ok(kinds.into_iter().map(|kind| (kind.clone(), middle(kind))).collect())
}

/// The calls of the server, all its threads, and the guest that it starts.
fn count_one(caller: &Caller, server: &Server) -> Result<Calls> {
    let table = caller.place().join("calls");
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(&table)
        .args(["-p", &server.process()?.to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .context("strace")?;
    let mut said = String::new();
    let mut errors = BufReader::new(strace.stderr.take().context("no output")?);
    errors.read_line(&mut said)?;
    ensure!(said.contains("attached"), "strace said {said:?}");
    let created = server.api("POST", "/v1/sandboxes", Some(&json!({})));
    let process = Pid::from_raw(strace.id() as i32).context("no process id")?;
    kill_process(process, Signal::INT)?;
    // Its last words, so that it does not wait for a reader.
    std::io::copy(&mut errors, &mut std::io::sink())?;
    strace.wait()?;
    created?.expect(201)?;
    let text = std::fs::read_to_string(&table).context("the table of calls")?;
    let calls: Calls = text.lines().filter_map(line_of_table).collect();
    ensure!(calls.contains_key("clone"), "no clone is in the table:\n{text}");
    Ok(calls)
}

/// `0.52  0.000042  14  3  1 openat`: share, seconds, microseconds for each, calls, perhaps errors, name.
fn line_of_table(line: &str) -> Option<(String, u64)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (name, count) = (fields.last()?, fields.get(3)?.parse().ok()?);
    let counts = fields.len() >= 5 && *name != "total" && !UNSTEADY.contains(name);
    counts.then(|| (name.to_string(), count))
}
