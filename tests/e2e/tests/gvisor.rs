//! Sandboxes with a kernel in user space: a person's view of them, and the parts of their memory that outlive a server.

use crate::contexts::text_of;
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, Terminal, as_root, skip};
use serde_json::{Value, json};

/// One test for root, where there is a `runsc`.
macro_rules! where_there_is_runsc {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() -> Result<()> {
            if is_missing() {
                return Ok(());
            }
            as_root(concat!(module_path!(), "::", stringify!($name)), tests::$name)
        })+
    };
}

/// Tests of other modules, with this backend.
macro_rules! behind_gvisor {
    ($($module:ident::$name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() -> anyhow::Result<()> {
            if $crate::gvisor::is_missing() {
                return Ok(());
            }
            let name = concat!(module_path!(), "::", stringify!($name));
            paddock_e2e::as_root_behind("gvisor", name, $module::$name)
        })+
    };
}
pub(crate) use behind_gvisor;

/// Says so, too.
pub fn is_missing() -> bool {
    let places = ["/usr/bin/runsc", "/usr/local/bin/runsc"];
    let missing = !places.iter().any(|path| std::path::Path::new(path).exists());
    if missing {
        skip("gvisor", "there is no runsc");
    }
    missing
}

where_there_is_runsc!(
    a_command_behind_another_kernel,
    limits_hold,
    what_it_cannot_is_refused_with_a_reason,
    a_server_comes_back_to_it,
    memory_is_in_every_fork_snapshot_and_sleep,
    its_terminal_files_and_ports,
    a_workspace_stays_the_callers,
);

mod tests {
    use super::*;

    pub fn a_command_behind_another_kernel(caller: &Caller) -> Result<()> {
        let host = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let script = "uname -r; id -u; cat; exit 7";
        let ran = caller
            .paddock(["run", "--backend", "gvisor", "-i", "--", "sh", "-c", script])?
            .input("typed")
            .finish()?;
        ran.exited(7)?;
        let lines: Vec<_> = ran.out().lines().map(String::from).collect();
        ensure!(lines[0] != host.trim(), "the host's kernel answers: {lines:?}");
        assert_eq!(lines[1..], ["1000", "typed"]);
        // Asked for by its guarantee, not by its name.
        let demanded =
            caller.paddock(["run", "--json", "--require", "user-space-kernel", "--", "true"])?.finish()?;
        let report = demanded.json()?;
        let guarantees = &report["guarantees"];
        assert_eq!(
            (&guarantees["backend"], &guarantees["boundary"]),
            (&json!("gvisor"), &json!("user-space-kernel"))
        );
        assert_eq!(guarantees["identity"], "own");
        Ok(())
    }

    pub fn limits_hold(caller: &Caller) -> Result<()> {
        let run = |options: &[&str], script: &str| {
            let arguments = [&["run", "--backend", "gvisor"], options, &["--", "sh", "-c", script]].concat();
            caller.paddock(arguments)?.finish()
        };
        let slow = run(&["--timeout", "1s"], "sleep 60")?;
        slow.exited(124)?;
        let large = run(&["--memory", "128MiB"], "exec python3 -c 'x = bytearray(1 << 30)'")?;
        large.exited(137)?;
        ensure!(large.err().contains("out of memory: limit 128 MiB"), "{}", large.err());
        let script = "for place in /workspace /tmp; do head -c 20000000 /dev/zero > $place/x; wc -c < $place/x; rm $place/x; done";
        let full = run(&["--disk", "8MiB"], script)?;
        ensure!(full.err().matches("No space left on device").count() == 2, "{}", full.err());
        for line in full.out().lines() {
            ensure!(line.trim().parse::<u64>()? <= 8 << 20, "{line}");
        }
        passing_the_limit_of_processes_is_told(caller)
    }

    /// A sentry does not outlive a bomb, and yet it is no agent that was lost.
    fn passing_the_limit_of_processes_is_told(caller: &Caller) -> Result<()> {
        // One after the other they are refused, and the work goes on.
        let forks = "import os, signal\ntry:\n  while os.fork(): pass\n  signal.pause()\nexcept BlockingIOError: print('held')";
        let held =
            caller.paddock(["run", "--backend", "gvisor", "--pids", "64", "--", "python3", "-c", forks])?;
        assert_eq!(held.finish()?.success()?, "held\n");
        // A bomb takes the sentry's own threads.
        let bomb = "b() { b | b & }; b; sleep 60";
        let run = ["run", "--json", "--backend", "gvisor", "--pids", "64", "--", "sh", "-c", bomb];
        let report = caller.paddock(run)?.finish()?.exited(137)?.json()?;
        assert_eq!(report["cause"], json!({ "kind": "process_limit", "limit": 64 }));
        let server = Server::start(caller)?;
        let id = server.create(&["--backend", "gvisor", "--pids", "64"])?;
        server.run(["exec", "-d", &id, "--", "sh", "-c", bomb])?.success()?;
        let end = paddock_e2e::until(paddock_e2e::PATIENCE, "the end of the sandbox", || {
            let shown = server.run(["inspect", &id]).and_then(|ran| ran.json()).ok()?;
            (shown["state"] == "ended").then(|| shown["end"].clone())
        })?;
        assert_eq!(end["cause"], json!({ "kind": "limit", "limit": "processes" }));
        assert_eq!(end["reason"], "it passed its limit of processes");
        Ok(())
    }

    pub fn what_it_cannot_is_refused_with_a_reason(caller: &Caller) -> Result<()> {
        let refused =
            caller.paddock(["run", "--backend", "gvisor", "--net", "host", "--", "true"])?.finish()?;
        refused.refused(&["the host's network", "hint:"])?;
        let absent = caller
            .paddock(["run", "--backend", "gvisor", "--", "true"])?
            .environment("PADDOCK_RUNSC", "/nowhere/runsc")
            .finish()?;
        absent.exited(125)?;
        ensure!(
            absent.err().contains("/nowhere/runsc") && absent.err().contains("hint:"),
            "{}",
            absent.err()
        );
        Ok(())
    }

    pub fn a_server_comes_back_to_it(caller: &Caller) -> Result<()> {
        let mut server = Server::start(caller)?;
        let id = server.create(&["--backend", "gvisor"])?;
        let script = "for i in 1 2 3 4 5 6; do echo step $i; sleep 0.3; done";
        server.run(["exec", "-d", &id, "--", "sh", "-c", script])?.success()?;
        server.kill()?;
        server.start_again()?;
        let followed = server.run(["logs", "-f", &id])?.success()?;
        let expected: String = (1..=6).map(|step| format!("step {step}\n")).collect();
        assert_eq!(followed, expected);
        server.run(["pause", &id])?.success()?;
        server.run(["resume", &id])?.success()?;
        assert_eq!(server.script(&id, "echo again")?.success()?, "again\n");
        // Swept with everything that it consists of: the end of the test looks.
        server.run(["kill", &id])?.success().map(drop)
    }

    /// The value of the last expression, in the sandbox's Python.
    fn value(server: &Server<'_>, id: &str, code: &str) -> Result<String> {
        let asked =
            server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(&json!({ "code": code })))?;
        text_of(&asked.expect(200)?)
    }

    pub fn memory_is_in_every_fork_snapshot_and_sleep(caller: &Caller) -> Result<()> {
        let server = Server::start(caller)?;
        let id = server.create(&["--backend", "gvisor"])?;
        let inspected: Value = serde_json::from_str(&server.run(["inspect", &id])?.success()?)?;
        if inspected["guarantees"]["snapshot"] != "memory" {
            skip("gvisor::memory", "disks of this machine are in memory");
            return Ok(());
        }
        assert_eq!(value(&server, &id, "import random\nx = ['kept', random.random()]\nx[0]")?, "'kept'");
        let before = value(&server, &id, "x")?;
        server.script(&id, "echo mine > /workspace/file")?.success()?;
        let children = server.run(["fork", "-n", "2", &id])?.success()?;
        for child in children.lines() {
            assert_eq!(value(&server, child, "x")?, before);
            assert_eq!(value(&server, child, "x.append(1); len(x)")?, "3");
            assert_eq!(
                server.script(child, "cat /workspace/file; echo changed > /workspace/file")?.success()?,
                "mine\n"
            );
        }
        assert_eq!(value(&server, &id, "x")?, before);
        assert_eq!(server.script(&id, "cat /workspace/file")?.success()?, "mine\n");
        server.run(["snapshot", "create", &id, "--name", "then"])?.success()?;
        value(&server, &id, "x = 'later'; x")?;
        let from = server.create(&["--backend", "gvisor", "--snapshot", "then"])?;
        assert_eq!(value(&server, &from, "x")?, before);
        server.run(["hibernate", &id])?.success()?;
        assert_eq!(value(&server, &id, "x")?, "'later'");
        let files = server.run(["snapshot", "create", &id, "--files-only", "--json"])?.success()?;
        let files: Value = serde_json::from_str(&files)?;
        ensure!(files["kind"] == "filesystem", "{files}");
        server.run(["hibernate", "--files-only", &id])?.success()?;
        assert_eq!(value(&server, &id, "'x' in globals()")?, "False", "the files alone are kept");
        assert_eq!(server.script(&id, "cat /workspace/file")?.success()?, "mine\n");
        server.run(["snapshot", "rm", "then"])?.success().map(drop)
    }

    pub fn a_workspace_stays_the_callers(caller: &Caller) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let workspace = caller.directory("repository")?;
        std::fs::create_dir_all(workspace.join(".git/hooks"))?;
        let script = "echo made > made; mkdir below; mv made below/; echo evil > .git/hooks/pre-commit; mv .git other; cat below/made";
        let place = workspace.display().to_string();
        let ran = caller
            .paddock(["run", "--backend", "gvisor", "--workspace", &place, "--", "sh", "-c", script])?
            .finish()?;
        assert_eq!(ran.success()?, "made\n");
        let owner = |path: &str| workspace.join(path).metadata().map(|found| (found.uid(), found.gid()));
        let expected = workspace.metadata().map(|found| (found.uid(), found.gid()))?;
        assert_eq!((owner("below")?, owner("below/made")?), (expected, expected));
        ensure!(workspace.join(".git/hooks").is_dir() && !workspace.join(".git/hooks/pre-commit").exists());
        Ok(())
    }

    pub fn its_terminal_files_and_ports(caller: &Caller) -> Result<()> {
        let server = Server::start(caller)?;
        let id = server.create(&["--backend", "gvisor"])?;
        let mut terminal = Terminal::open(41, 123)?;
        terminal.start(server.paddock(["exec", "-it", &id, "sh"])?.environment("TERM", "xterm").command())?;
        terminal.type_keys(b"stty size; echo done-$((1+1))\r")?;
        terminal.wait_for("done-2")?;
        ensure!(terminal.screen().contains("41 123"), "{:?}", terminal.screen());
        terminal.type_keys(b"exit 9\r")?;
        assert_eq!(terminal.exit_code()?, 9);
        let target = format!("/v1/sandboxes/{id}/files/content?path=/workspace/a/b.txt&parents=true");
        let written = server.send("PUT", &target, "", b"content")?;
        written.ok()?;
        assert_eq!(server.script(&id, "cat /workspace/a/b.txt")?.success()?, "content");
        let changed = server.run(["diff", &id])?.success()?;
        ensure!(changed.contains("b.txt"), "{changed}");
        let serve = "cd /workspace/a && exec python3 -m http.server 8000";
        server.run(["exec", "-d", &id, "--", "sh", "-c", serve])?.success()?;
        let target = format!("/v1/sandboxes/{id}/ports/8000/b.txt");
        paddock_e2e::until(paddock_e2e::PATIENCE, "an answer from inside", || {
            let answer = server.ask("GET", &target, None).ok()?;
            (answer.body == b"content").then_some(())
        })
    }
}
