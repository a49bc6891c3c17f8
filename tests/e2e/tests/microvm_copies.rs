//! Who asks for the same machine again gets a copy of one that stands, with everything that it has translated: what two of them may
//! not have in common, and what becomes of them when something ends.

use crate::microvm::{SIZE, boot, ended, is_missing, machine};
use anyhow::{Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, as_root_behind, until};
use std::collections::BTreeSet;

#[test]
fn copies_are_sandboxes_of_their_own() -> Result<()> {
    if is_missing() {
        return Ok(());
    }
    as_root_behind("microvm", "microvm_copies::copies_are_sandboxes_of_their_own", |caller| {
        boot(caller)?;
        let mut server = Server::start(caller)?;
        let anew = [server.create(&SIZE)?, server.create(&SIZE)?];
        ensure!(anew.iter().all(|id| !is_copy(&server, id).unwrap_or(true)), "there was nothing to copy yet");
        until(PATIENCE, "a machine that stands to be copied", || (stands(&server).ok()? == 1).then_some(()))?;
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

        // Nor that of a server, for which what they were copied from is gone: others are made anew.
        server.kill()?;
        server.start_again()?;
        assert_eq!(server.script(&copies[1], "cat /tmp/own")?.success()?, format!("{}\n", copies[1]));
        assert_eq!(stands(&server)?, 0);
        let later = server.create(&SIZE)?;
        ensure!(!is_copy(&server, &later)?, "it was copied from what an earlier server had");
        for id in [&copies[1], &copies[2], &later] {
            server.run(["kill", id])?.success()?;
        }
        Ok(())
    })
}

/// Whoever does not want what copies have in common has none.
#[test]
fn copies_can_be_turned_off() -> Result<()> {
    if is_missing() {
        return Ok(());
    }
    as_root_behind("microvm", "microvm_copies::copies_can_be_turned_off", |caller: &Caller| {
        boot(caller)?;
        let server = Server::start_in(caller, &[("PADDOCK_MACHINE_COPIES", "off")])?;
        for _ in 0..3 {
            let id = server.create(&SIZE)?;
            ensure!(!is_copy(&server, &id)?, "it is a copy");
            server.run(["kill", &id])?.success()?;
        }
        assert_eq!(stands(&server)?, 0);
        Ok(())
    })
}

fn is_copy(server: &Server, id: &str) -> Result<bool> {
    let shown = server.run(["inspect", id])?.json()?;
    Ok(shown["guarantees"]["weaknesses"].to_string().contains("copied from the same one"))
}

fn stands(server: &Server) -> Result<u64> {
    let text = server.ask("GET", "/metrics", None)?.text();
    let line = text.lines().find_map(|line| line.strip_prefix("paddock_stems "));
    Ok(line.ok_or_else(|| anyhow::anyhow!("it is not counted"))?.trim().parse()?)
}

/// Of its machine's process.
fn host_id(id: &str) -> Result<String> {
    let found = machine::processes(id);
    ensure!(found.len() == 1, "its machine is one of {found:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", found[0]))?;
    let line = status.lines().find(|line| line.starts_with("Uid:"));
    line.map(String::from).ok_or_else(|| anyhow::anyhow!("{status}"))
}
