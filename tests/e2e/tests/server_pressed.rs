//! A server that is short of something, and callers that would use up its resources.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{
    Answer, Caller, PATIENCE, Server, as_ordinary_user, as_root, for_both_callers, http, skip, until,
};

for_both_callers!(ready_means_that_a_create_would_work, large_bodies_take_little_memory);

/// Waits until /readyz says so; it answers from a check that is at most a second old.
fn readiness(server: &Server, status: u16) -> Result<Answer> {
    until(PATIENCE, &format!("readiness {status}"), || {
        server.ask("GET", "/readyz", None).ok().filter(|answer| answer.status == status)
    })
}

/// A soft limit of a caller's process, for as long as this is kept.
struct Limited<'a> {
    caller: &'a Caller,
    process: u32,
    flag: &'static str,
    before: String,
}

impl<'a> Limited<'a> {
    fn set(
        caller: &'a Caller,
        process: u32,
        flag: &'static str,
        shown: &str,
        value: usize,
    ) -> Result<Limited<'a>> {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits"))?;
        let line = limits.lines().find_map(|line| line.strip_prefix(shown)).context("no such limit")?;
        let before = line.split_whitespace().next().context("no value")?.to_string();
        let limited = Limited { caller, process, flag, before };
        limited.write(&value.to_string())?;
        Ok(limited)
    }

    fn write(&self, value: &str) -> Result<()> {
        let change = format!("{}={value}:", self.flag);
        // Only its owner may, if root has no right to change limits.
        let mut prlimit = self.caller.program("prlimit");
        prlimit.args(["--pid", &self.process.to_string(), &change]);
        ensure!(prlimit.status().context("prlimit")?.success(), "prlimit {change}");
        Ok(())
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        let _ = self.write(&self.before);
    }
}

fn ready_means_that_a_create_would_work(caller: &Caller) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        skip("ready_means_that_a_create_would_work", "only root can mount a small disk");
        return Ok(());
    }
    let disk = caller.put_state_on_a_small_disk(if caller.is_root { 2048 } else { 64 })?;
    let server = Server::start(caller)?;
    readiness(&server, 200)?;
    disk.fill()?;
    readiness(&server, 503)?.refused(503, "disk_full")?;
    disk.free()?;
    readiness(&server, 200)?;
    disk.make_read_only()?;
    readiness(&server, 503)?.refused(503, "storage_failed")?;
    disk.make_writable()?;
    readiness(&server, 200)?;

    let process = server.process()?;
    let open = std::fs::read_dir(format!("/proc/{process}/fd"))?.count();
    let limited = Limited::set(caller, process, "--nofile", "Max open files", open + 12)?;
    let short = readiness(&server, 503)?;
    short.refused(503, "too_many_open_files")?;
    drop(limited);
    readiness(&server, 200)?;
    assert_eq!(server.ask("GET", "/healthz", None)?.status, 200);
    drop(server);
    caller.let_go_of_the_disk();
    Ok(())
}

/// Root has no such limit, but its cgroup may have one.
#[test]
fn without_processes_of_its_cgroup_it_is_not_ready() -> Result<()> {
    const NAME: &str = "without_processes_of_its_cgroup_it_is_not_ready";
    as_root(NAME, |caller| {
        let own = caller.cgroups().iter().map(|group| group.join("pids.max")).find(|limit| limit.exists());
        let Some(limit) = own else {
            skip(NAME, "the server has no cgroup of its own with a limit of processes (cgroup v2)");
            return Ok(());
        };
        let server = Server::start(caller)?;
        readiness(&server, 200)?;
        std::fs::write(&limit, "1")?;
        let short = readiness(&server, 503);
        std::fs::write(&limit, "max")?;
        short?.refused(503, "too_many_processes")?;
        readiness(&server, 200).map(drop)
    })
}

#[test]
fn without_processes_it_is_not_ready() -> Result<()> {
    as_ordinary_user("without_processes_it_is_not_ready", |caller| {
        let server = Server::start(caller)?;
        readiness(&server, 200)?;
        let limited = Limited::set(caller, server.process()?, "--nproc", "Max processes", 1)?;
        let short = readiness(&server, 503)?;
        short.refused(503, "too_many_processes")?;
        drop(limited);
        readiness(&server, 200).map(drop)
    })
}

/// Twenty at a time, each as large as a body may be, of the smallest values that there are.
fn large_bodies_take_little_memory(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let body = format!("{{\"argv\": [{}]}}", vec!["\"\""; (8 << 20) / 3 - 20].join(","));
    ensure!(body.len() <= 8 << 20, "{}", body.len());
    let headers = "Content-Type: application/json\r\n";
    let answers: Vec<Result<Answer>> = std::thread::scope(|scope| {
        let ask =
            || http::over_socket(server.socket(), "POST", "/v1/sandboxes/x/execs", headers, body.as_bytes());
        let asked: Vec<_> = (0..20).map(|_| scope.spawn(ask)).collect();
        asked
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| anyhow::bail!("it panicked")))
            .collect()
    });
    for answer in answers {
        answer?.refused(413, "too_large")?;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process()?))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no peak")?;
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse()?;
    ensure!(peak < 400 << 10, "it took {peak} kB");
    Ok(())
}
