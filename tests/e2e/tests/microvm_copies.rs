//! A second request for the same VM gets a copy of a running one, with all its translated code: the values that two of
//! them may not have in common, and their fate when something ends.

use crate::microvm::{SIZE, boot, busybox_image, ended, machine, with_machines};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, skip, until};
use serde_json::json;
use std::collections::BTreeSet;

#[test]
fn copies_are_sandboxes_of_their_own() -> Result<()> {
    with_machines("microvm_copies::copies_are_sandboxes_of_their_own", |caller| {
        boot(caller)?;
        let mut server = Server::start(caller)?;
        let anew = [server.create(&SIZE)?, server.create(&SIZE)?];
        ensure!(anew.iter().all(|id| !is_copy(&server, id).unwrap_or(true)), "there was nothing to copy yet");
        until(PATIENCE, "a VM that stands to be copied", || (stands(&server).ok()? == 1).then_some(()))?;
        let copies = [server.create(&SIZE)?, server.create(&SIZE)?, server.create(&SIZE)?];
        let mut seen = BTreeSet::new();
        for id in anew.iter().chain(&copies) {
            ensure!(is_copy(&server, id)? == copies.contains(id), "{id}");
            machine::is_jailed(id)?;
            let script =
                "cat /etc/machine-id /proc/sys/kernel/random/boot_id; head -c 16 /dev/urandom | od -An -tx1";
            let said = server.script(id, script)?.success()?;
            ensure!(said.lines().count() == 3, "{said}");
            let own = said.lines().map(String::from).chain([host_id(id)?]);
            ensure!(own.into_iter().all(|line| seen.insert(line)), "two have something in common: {said}");
            // Written while others run, read when all have written.
            server.script(id, &format!("echo {id} > /tmp/own; echo {id} > /workspace/own"))?.success()?;
        }
        for id in &copies {
            assert_eq!(server.script(id, "cat /tmp/own /workspace/own")?.success()?, format!("{id}\n{id}\n"));
            let changed = server.run(["diff", id])?.success()?;
            ensure!(changed.contains("own") && !changed.contains("machine-id"), "{changed}");
        }

        // The end of one is not that of another.
        machine::kill(&copies[0])?;
        assert_eq!(ended(&server, &copies[0])?["kind"], "guest_lost");
        ensure!(machine::parts(&copies[0]).is_empty(), "left behind: {:?}", machine::parts(&copies[0]));
        assert_eq!(server.script(&copies[1], "cat /tmp/own")?.success()?, format!("{}\n", copies[1]));

        // Nor the end of a server, which takes their original with it: others are made anew.
        server.kill()?;
        server.start_again()?;
        assert_eq!(server.script(&copies[1], "cat /tmp/own")?.success()?, format!("{}\n", copies[1]));
        // Awake again, it nests in no other fence any more.
        server.run(["hibernate", &copies[2]])?.success()?;
        assert_eq!(server.script(&copies[2], "cat /workspace/own")?.success()?, format!("{}\n", copies[2]));
        assert_eq!(stands(&server)?, 0);
        let later = server.create(&SIZE)?;
        ensure!(!is_copy(&server, &later)?, "it was copied from what an earlier server had");
        for id in [&copies[1], &copies[2], &later] {
            server.run(["kill", id])?.success()?;
        }
        Ok(())
    })
}

/// A user that does not want the values that copies have in common can turn copies off.
#[test]
fn copies_can_be_turned_off() -> Result<()> {
    with_machines("microvm_copies::copies_can_be_turned_off", |caller: &Caller| {
        boot(caller)?;
        let server = Server::start_in(caller, &[("PADDOCK_VM_COPIES", "off")])?;
        for _ in 0..3 {
            let id = server.create(&SIZE)?;
            ensure!(!is_copy(&server, &id)?, "it is a copy");
            server.run(["kill", &id])?.success()?;
        }
        assert_eq!(stands(&server)?, 0);
        Ok(())
    })
}

/// If sandboxes begin with Python, a waiting interpreter is in the next one. It is not the caller's before its first
/// call, and no other caller has used it.
#[test]
fn an_interpreter_waits_where_python_is_what_comes_first() -> Result<()> {
    let name = "microvm_copies::an_interpreter_waits_where_python_is_what_comes_first";
    with_machines(name, |caller: &Caller| {
        boot(caller)?;
        let server = Server::start(caller)?;
        let code = |id: &str, code: &str| -> Result<String> {
            let asked = json!({ "code": code });
            let answer =
                server.ask("POST", &format!("/v1/sandboxes/{id}/code"), Some(&asked))?.expect(200)?;
            Ok(answer["stdout"].as_str().unwrap_or_default().into())
        };
        // Two of them are a habit; two more requests then cause a parent VM with an interpreter.
        for _ in 0..4 {
            let id = server.create(&SIZE)?;
            assert_eq!(code(&id, "print(6 * 7)")?, "42\n");
            server.run(["kill", &id])?.success()?;
        }
        until(PATIENCE, "one with an interpreter, and one without", || {
            (stands(&server).ok()? == 2).then_some(())
        })?;
        let mut said = Vec::new();
        for _ in 0..2 {
            let id = server.create(&SIZE)?;
            ensure!(is_copy(&server, &id)?, "{id} was made anew");
            let shown = server.run(["inspect", &id])?.json()?;
            ensure!(shown["guarantees"]["weaknesses"].to_string().contains("seed of hash()"), "{shown}");
            let seeds =
                "import random, os; print(hash('a'), random.random(), os.urandom(8).hex(), os.getcwd())";
            said.push(code(&id, seeds)?);
            // It is a context as any other: it remembers, and can be begun anew.
            code(&id, "kept = 1")?;
            assert_eq!(code(&id, "print(kept)")?, "1\n");
            server.run(["kill", &id])?.success()?;
        }
        let fields: Vec<Vec<&str>> = said.iter().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(fields[0][0], fields[1][0], "they are no copies of one interpreter");
        ensure!(
            fields[0][1] != fields[1][1] && fields[0][2] != fields[1][2],
            "what is drawn is the same: {said:?}"
        );
        assert_eq!(fields[0][3], "/workspace");

        // A sandbox that begins with a command finds the interpreter there, until commands have become the habit.
        let pythons = "grep -l python /proc/[0-9]*/comm | wc -l";
        let commanded = [server.create(&SIZE)?, server.create(&SIZE)?, server.create(&SIZE)?];
        for id in &commanded {
            ensure!(is_copy(&server, id)?, "{id} was made anew");
            assert_eq!(server.script(id, pythons)?.success()?, "1\n");
        }
        assert_eq!(code(&commanded[0], "print(1)")?, "1\n");
        // On a busy host the VM without an interpreter may not stand yet; each of these begins with a command as well.
        until(PATIENCE, "a copy without an interpreter", || {
            let later = server.create(&SIZE).ok()?;
            let found = server.script(&later, pythons).ok()?.success().ok()?;
            let copied = is_copy(&server, &later).ok()?;
            server.run(["kill", &later]).ok()?.success().ok()?;
            (copied && found == "0\n").then_some(())
        })?;
        for id in &commanded {
            server.run(["kill", id])?.success()?;
        }
        Ok(())
    })
}

/// Forks are copied from a VM that is paused for a moment, and nest in its fence: which has to be there for them, even
/// if the VM ends.
#[test]
fn forks_outlive_the_machine_that_they_were_copied_from() -> Result<()> {
    let name = "microvm_copies::forks_outlive_the_machine_that_they_were_copied_from";
    with_machines(name, |caller: &Caller| {
        let Some(image) = busybox_image(caller)? else { return Ok(()) };
        boot(caller)?;
        let mut server = Server::start(caller)?;
        let options: Vec<&str> = SIZE.iter().copied().chain(["--image", &image]).collect();
        let source = server.create(&options)?;
        if server.run(["inspect", &source])?.json()?["guarantees"]["snapshot"] != "memory" {
            skip("microvm::memory", "disks of this machine are in memory");
            return Ok(());
        }
        let count = "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 1; done";
        server.run(["exec", "-d", &source, "--", "sh", "-c", count])?.success()?;
        server.script(&source, "echo mine > /tmp/file")?.success()?;
        let fork = |server: &Server, of: &str, many: &str| -> Result<Vec<String>> {
            let forked = server.run(["fork", "-n", many, of])?.success()?;
            Ok(forked.lines().map(String::from).collect())
        };
        let forks = fork(&server, &source, "3")?;
        for id in &forks {
            machine::is_jailed(id)?;
            let shown = server.run(["inspect", id])?.json()?;
            ensure!(shown["guarantees"]["weaknesses"].to_string().contains("nests in the fence"), "{shown}");
            goes_on(&server, id)?;
        }
        let of_a_fork = fork(&server, &forks[0], "1")?.remove(0);
        goes_on(&server, &of_a_fork)?;

        // While it sleeps it has no VM: but the fence that they nest in is there.
        server.run(["hibernate", &source])?.success()?;
        ensure!(machine::parts(&source).is_empty(), "left behind: {:?}", machine::parts(&source));
        goes_on(&server, &forks[0])?;
        goes_on(&server, &source)?;
        let later = fork(&server, &source, "1")?.remove(0);

        // Its VM is killed, it is ended, a server is: in any order.
        machine::kill(&source)?;
        assert_eq!(ended(&server, &source)?["kind"], "guest_lost");
        server.run(["kill", &forks[0]])?.success()?;
        for id in [&forks[1], &forks[2], &of_a_fork, &later] {
            goes_on(&server, id)?;
        }
        server.kill()?;
        server.start_again()?;
        for id in [&forks[1], &forks[2], &of_a_fork, &later] {
            goes_on(&server, id)?;
        }
        machine::kill(&forks[1])?;
        assert_eq!(ended(&server, &forks[1])?["kind"], "guest_lost");
        goes_on(&server, &of_a_fork)?;

        // A sandbox that had forks, and has none any more, leaves nothing.
        let last = fork(&server, &forks[2], "1")?.remove(0);
        server.run(["kill", &last])?.success()?;
        machine::kill(&forks[2])?;
        assert_eq!(ended(&server, &forks[2])?["kind"], "guest_lost");
        ensure!(machine::parts(&forks[2]).is_empty(), "left behind: {:?}", machine::parts(&forks[2]));
        for id in [&of_a_fork, &later] {
            server.run(["kill", id])?.success()?;
        }
        Ok(())
    })
}

/// Checks the program that was begun before the fork.
fn goes_on(server: &Server, id: &str) -> Result<()> {
    let script =
        "a=$(cat /tmp/count); while test \"$(cat /tmp/count)\" = \"$a\"; do sleep 1; done; cat /tmp/file";
    let said = server.script(id, script)?.success()?;
    ensure!(said == "mine\n", "{id} says {said}");
    Ok(())
}

fn is_copy(server: &Server, id: &str) -> Result<bool> {
    let shown = server.run(["inspect", id])?.json()?;
    Ok(shown["guarantees"]["weaknesses"].to_string().contains("copied from the same one"))
}

fn stands(server: &Server) -> Result<u64> {
    let text = server.ask("GET", "/metrics", None)?.text();
    let line = text.lines().find_map(|line| line.strip_prefix("paddock_parent_vms "));
    Ok(line.ok_or_else(|| anyhow::anyhow!("it is not counted"))?.trim().parse()?)
}

/// The host's id of its VM's process.
fn host_id(id: &str) -> Result<String> {
    let found = machine::processes(id);
    ensure!(found.len() == 1, "its VM is one of {found:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", found[0]))?;
    let line = status.lines().find(|line| line.starts_with("Uid:"));
    line.map(String::from).ok_or_else(|| anyhow::anyhow!("{status}"))
}
