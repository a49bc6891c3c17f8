//! `--explain` says everything and does nothing; `--require` refuses in time.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(
    every_limit_and_guarantee_is_shown,
    values_of_the_caller_are_shown,
    nothing_is_run_or_made,
    what_cannot_be_given_is_refused,
    what_can_be_given_is_not_refused,
    an_unknown_guarantee_is_named,
);

fn every_limit_and_guarantee_is_shown(caller: &Caller) -> Result<()> {
    let output = caller.run(["--explain"])?.success()?;
    let words = [
        "memory",
        "2 GiB",
        "cpus",
        "pids",
        "512",
        "disk",
        "1 GiB",
        "files",
        "4096",
        "output",
        "8 MiB",
        "timeout",
        "1 h",
        "backend",
        "boundary",
        "shared-kernel",
        "identity",
        "landlock",
        "memory limit",
        "pids limit",
        "seccomp",
        "network",
        "none",
        "user",
        "host name",
        "root",
        "read-only",
    ];
    for word in words {
        ensure!(output.contains(word), "no {word:?} in:\n{output}");
    }
    Ok(())
}

fn values_of_the_caller_are_shown(caller: &Caller) -> Result<()> {
    let workspace = caller.directory("workspace")?.display().to_string();
    let options = [
        "--memory",
        "77MiB",
        "--cpus",
        "0.25",
        "--pids",
        "33",
        "--disk",
        "5MiB",
        "--files",
        "99",
        "--output",
        "3KiB",
        "--timeout",
        "90s",
        "--hostname",
        "barn",
        "--user",
        "1234",
        "--cwd",
        "/srv",
        "--tmpfs",
        "/scratch",
        "--workspace",
        &workspace,
        "--protect",
        "secret-name",
        "--read",
        "/etc/hosts",
        "--env",
        "NAME=secret-value",
    ];
    let output = caller.run(options.iter().chain(&["--explain", "--", "echo", "a b"]))?.success()?;
    let words = [
        "77 MiB",
        "0.25",
        "33",
        "5 MiB",
        "99",
        "3 KiB",
        "1m 30s|90 s|1.5 m",
        "barn",
        "1234",
        "/srv",
        "/scratch",
        &workspace,
        "secret-name",
        ".git",
        "/etc/hosts",
        "NAME",
        "echo 'a b'|\"a b\"|`a b`",
    ];
    for word in words {
        ensure!(word.split('|').any(|form| output.contains(form)), "no {word:?} in:\n{output}");
    }
    Ok(())
}

fn nothing_is_run_or_made(caller: &Caller) -> Result<()> {
    let directory = caller.directory("workspace")?;
    let option = format!("{}:/mnt", directory.display());
    let script = "touch /mnt/ran; echo ran";
    let finished = caller.script(
        &["--explain", "--write", &option, "--workspace", &directory.display().to_string()],
        script,
    )?;
    finished.success()?;
    assert_eq!(std::fs::read_dir(&directory)?.count(), 0);
    ensure!(!caller.state().exists(), "{} was made", caller.state().display());
    assert_eq!(std::fs::read_dir(caller.home())?.count(), 0, "something was made in the home directory");
    Ok(())
}

fn what_cannot_be_given_is_refused(caller: &Caller) -> Result<()> {
    caller.run(["--require", "own-kernel", "--", "echo", "ran"])?.refused(&["own-kernel"])?;
    // Another kernel depends on the host; without its runtime there is none.
    let without = caller.paddock(["run", "--require", "user-space-kernel", "--", "echo", "ran"])?;
    let without = without.environment("PADDOCK_RUNSC", "/nowhere/runsc").finish()?;
    without.refused(&["user-space-kernel"])?;
    let finished = caller.run(["--net", "host", "--require", "no-network", "--", "true"])?;
    finished.refused(&["no-network"])
}

fn what_can_be_given_is_not_refused(caller: &Caller) -> Result<()> {
    let finished = caller.run(["--require", "memory-limit", "--", "echo", "ran"])?;
    let guarantees = caller.run(["--json", "--", "true"])?.json()?["guarantees"].clone();
    // Only a limit that the kernel holds is one; a look now and then is not.
    if guarantees["memory_limit"] == "kernel" {
        assert_eq!(finished.success()?, "ran\n");
    } else {
        ensure!(!caller.is_root, "root has no memory limit on this machine: {guarantees}");
        finished.refused(&["memory-limit"])?;
    }
    Ok(())
}

fn an_unknown_guarantee_is_named(caller: &Caller) -> Result<()> {
    caller.run(["--require", "memory-limt", "--", "true"])?.refused(&["memory-limt", "memory-limit"])
}
