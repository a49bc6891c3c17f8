//! The dashboard beside a thousand sandboxes: its first paint and its numbers in a real browser, and the server's work for one open
//! overview, while nothing happens and while sandboxes come, work and go; and for an open tree of forks and an open timeline.

use super::calls::Caller;
use super::part::{Findings, Part};
use super::process::Server;
use super::promises::{Limit, Promise, Source, promise};
use super::{crowd, parallel};
use crate::measure::Timing;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/server/dashboard.mjs");
const LOADS: usize = 10;
/// How long the server's processor time is watched, with an open overview and without one.
const WATCHED: Duration = Duration::from_secs(60);
/// The load: each tick runs a command, and each fourth one also creates a sandbox and ends it.
const TICK: Duration = Duration::from_millis(250);
const TICKS: u32 = 200;
const TICKS_OF_CREATE: u32 = 4;
/// Creates and their guests come to rest.
const SETTLE: Duration = Duration::from_secs(5);
/// The packages of the browser tests, as `scripts/packages.py` fetches them, or as `npm ci` puts them.
const PACKAGES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../target/test-packages/dashboard/node_modules"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../web/node_modules"),
];
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

const PAINT: &str = "first paint of the overview";
const NUMBERS: &str = "the numbers are drawn";
const ALONE: &str = "server, no dashboard open";
const OPEN: &str = "server, one overview open";
const COST: &str = "cost of one open overview";
const BUSY_ALONE: &str = "busy server, no dashboard open";
const BUSY_OPEN: &str = "busy server, one overview open";
const BUSY_COST: &str = "cost of one open overview beside a load";
/// Pages that read whole lists, each with its place below that of a sandbox, the server's work while it is open, and what of that is its own.
const LISTS: [(&str, &str, &str); 2] = [
    ("forks", "busy server, one tree of forks open", "cost of one open tree of forks beside a load"),
    ("timeline", "busy server, one timeline open", "cost of one open timeline beside a load"),
];
const PERCENT: &str = "% of a core";

pub const PROMISES: [Promise; 4] = [
    promise(
        Part::Dashboard,
        "first paint of the overview beside 1,000 sandboxes, slowest of ten",
        "< 1 s",
        Source::Percentile(PAINT, 100),
        Limit::Below(1_000.0),
    ),
    promise(
        Part::Dashboard,
        "the overview's numbers drawn beside 1,000 sandboxes, slowest of ten",
        "< 1 s",
        Source::Percentile(NUMBERS, 100),
        Limit::Below(1_000.0),
    ),
    promise(Part::Dashboard, COST, "< 1 % of a core", Source::Fact(COST), Limit::Below(1.0)),
    promise(
        Part::Dashboard,
        "cost of one open overview while 4 commands and 1 create a second run",
        "< 1 % of a core",
        Source::Fact(BUSY_COST),
        Limit::Below(1.0),
    ),
];

pub async fn measure(server: &Server) -> Result<Findings> {
    // Without a browser there is nothing to measure, so that is told before a thousand sandboxes are made.
    let browser = browser()?;
    let packages = packages()?;
    let mut findings = Findings::default();
    let mut live = Vec::new();
    crowd::fill(server, &mut live, &mut findings).await?;
    let token = server.caller().await?.admin_token().await?;
    tokio::time::sleep(SETTLE).await;
    let alone = share_of_core(server).await?;
    let mut tab = Tab::start(&browser, &packages, server, &token)?;
    let seen = tab.next()?;
    tab.next()?;
    let open = share_of_core(server).await?;
    let mut caller = server.caller().await?;
    let worked = live.first().context("no sandbox was created")?.clone();
    let busy_open = share_under_load(server, &mut caller, &worked).await?;
    let mut lists = Vec::new();
    for (page, open, cost) in LISTS {
        tab.show(&format!("#/sandboxes/{worked}/{page}"))?;
        lists.push((open, cost, share_under_load(server, &mut caller, &worked).await?));
    }
    tab.close()?;
    let busy_alone = share_under_load(server, &mut caller, &worked).await?;
    if seen["running"].as_u64() != Some(live.len() as u64) {
        bail!("the overview shows {} running sandboxes, and there are {}", seen["running"], live.len());
    }
    findings.timings = [(PAINT, "paint"), (NUMBERS, "numbers")]
        .into_iter()
        .map(|(name, of)| Ok(Timing::new(name, String::new(), durations(&seen, of)?)))
        .collect::<Result<_>>()?;
    findings.add("live sandboxes", live.len() as f64, "");
    findings.add(ALONE, alone, PERCENT);
    findings.add(OPEN, open, PERCENT);
    findings.add(COST, (open - alone).max(0.0), PERCENT);
    findings.add(BUSY_ALONE, busy_alone, PERCENT);
    findings.add(BUSY_OPEN, busy_open, PERCENT);
    findings.add(BUSY_COST, (busy_open - busy_alone).max(0.0), PERCENT);
    for (open, cost, share) in lists {
        findings.add(open, share, PERCENT);
        findings.add(cost, (share - busy_alone).max(0.0), PERCENT);
    }
    findings.notes.push(format!(
        "{}, headless, on the same host. The times begin with the navigation of a tab that has nothing in its cache, of {LOADS} tabs. \
         The numbers are drawn when the count of running sandboxes and the newest of them stand in a frame and nothing is loading. \
         The server's processor time is that of its process in /proc over {} s, all sandboxes idle; and under a load over {TICKS} ticks of {} ms, \
         of which each runs a command and each fourth also creates a sandbox and ends it: {} commands and {} creates, the same with and without the page. The forks and the timeline are of the sandbox that runs the commands; its timeline grows by {} commands from one load to the next.",
        browser.display(),
        WATCHED.as_secs(),
        TICK.as_millis(),
        TICKS,
        TICKS / TICKS_OF_CREATE,
        TICKS,
    ));
    parallel::kill(server, live).await?;
    Ok(findings)
}

/// In percent.
async fn share_of_core(server: &Server) -> Result<f64> {
    let before = processor_time(server)?;
    tokio::time::sleep(WATCHED).await;
    let used = processor_time(server)?.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / WATCHED.as_secs_f64())
}

/// The same while sandboxes come, work and go. The work is the same each time: a host that falls behind makes up for it.
async fn share_under_load(server: &Server, caller: &mut Caller, sandbox: &str) -> Result<f64> {
    let mut ticks = tokio::time::interval(TICK);
    let (before, started) = (processor_time(server)?, Instant::now());
    for tick in 0..TICKS {
        ticks.tick().await;
        caller.exec(sandbox, &["true"]).await?;
        if tick % TICKS_OF_CREATE == 0 {
            let made = caller.create().await?;
            caller.kill(&made).await?;
        }
    }
    let used = processor_time(server)?.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / started.elapsed().as_secs_f64())
}

/// Of all its threads, those that are gone among them.
fn processor_time(server: &Server) -> Result<Duration> {
    let path = format!("/proc/{}/stat", server.id());
    let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
    // The name may hold blanks and parentheses; the numbers stand behind its end.
    let rest = text.rsplit_once(')').with_context(|| format!("{path} has another form"))?.1;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
    let used = ticks(11).zip(ticks(12)).with_context(|| format!("{path} has another form"))?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Ok(Duration::from_secs_f64((used.0 + used.1) as f64 / ticks_per_second as f64))
}

/// A browser that is told to end by the end of its stdin.
struct Tab {
    process: Child,
    lines: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
}

impl Tab {
    fn start(browser: &Path, packages: &Path, server: &Server, token: &str) -> Result<Tab> {
        let mut process = Command::new("node")
            .arg(SCRIPT)
            .arg(packages)
            .arg(browser)
            .arg(format!("http://{}", server.tcp_address()?))
            .arg(LOADS.to_string())
            .env("PADDOCK_TOKEN", token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("node")?;
        let lines = BufReader::new(process.stdout.take().context("node has no stdout")?);
        let stdin = process.stdin.take();
        Ok(Tab { process, lines, stdin })
    }

    fn next(&mut self) -> Result<Value> {
        let mut line = String::new();
        if self.lines.read_line(&mut line)? == 0 {
            bail!("the browser's script ended: its message stands above");
        }
        serde_json::from_str(&line).with_context(|| format!("the browser's script said {line:?}"))
    }

    /// Another page from now on; returns when it is there.
    fn show(&mut self, hash: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the browser's script has no stdin")?;
        writeln!(stdin, "{hash}")?;
        let told = self.next()?;
        match told["open"] == hash {
            true => Ok(()),
            false => bail!("the browser's script was to show {hash}, and said {told}"),
        }
    }

    fn close(mut self) -> Result<()> {
        drop(self.stdin.take());
        let status = self.process.wait()?;
        if !status.success() {
            bail!("the browser's script ended with {status}");
        }
        Ok(())
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        // After an error; a script that has ended is not there any more.
        drop(self.stdin.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn browser() -> Result<PathBuf> {
    let given = std::env::var_os("PADDOCK_TEST_CHROMIUM").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = || {
        std::env::split_paths(&path)
            .flat_map(|directory| BROWSERS.map(|name| directory.join(name)))
            .find(|path| path.is_file())
    };
    given.or_else(found).context("there is no Chromium: install one, or name it with PADDOCK_TEST_CHROMIUM")
}

fn packages() -> Result<PathBuf> {
    let given = std::env::var_os("PADDOCK_TEST_DASHBOARD").map(PathBuf::from);
    let mut places = given.into_iter().chain(PACKAGES.map(PathBuf::from));
    places
        .find(|place| place.join("playwright-core/package.json").is_file())
        .context("the packages of the browser tests are not there: `npm ci --ignore-scripts` in web, or PADDOCK_TEST_DASHBOARD")
}

fn durations(told: &Value, of: &str) -> Result<Vec<Duration>> {
    let list = told[of].as_array().with_context(|| format!("the browser's script told no `{of}`"))?;
    Ok(list.iter().filter_map(Value::as_f64).map(Duration::from_secs_f64).collect())
}
