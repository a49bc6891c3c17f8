//! Snapshots, forks, and what became of them.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};

for_both_callers!(
    a_snapshot_is_a_beginning,
    forks_are_apart,
    a_diff_is_a_tree_a_patch_and_an_archive,
    a_merge_brings_changes_back_and_refuses_conflicts,
);

fn a_snapshot_is_a_beginning(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo before > /tmp/f")?.success()?;
    let snapshot = server.run(["snapshot", "create", &id, "--name", "first"])?.success()?;
    server.script(&id, "echo after > /tmp/f")?.success()?;
    let listed = server.run(["snapshot", "ls"])?.success()?;
    ensure!(listed.contains(snapshot.trim()) && listed.contains("first"), "{listed}");
    let other = server.create(&["--snapshot", "first"])?;
    assert_eq!(server.script(&other, "cat /tmp/f")?.success()?, "before\n");
    server.run(["snapshot", "rm", "first"])?.success()?;
    assert_eq!(server.run(["snapshot", "ls", "--json"])?.json()?.as_array().map(Vec::len), Some(0));
    Ok(())
}

fn forks_are_apart(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo parent > /tmp/f")?.success()?;
    let forked = server.run(["fork", "-n", "2", &id])?.success()?;
    let children: Vec<&str> = forked.lines().collect();
    assert_eq!(children.len(), 2);
    server.script(children[0], "cat /tmp/f && echo child > /tmp/f")?.success()?;
    assert_eq!(server.script(children[1], "cat /tmp/f")?.success()?, "parent\n");
    assert_eq!(server.script(&id, "cat /tmp/f")?.success()?, "parent\n");
    Ok(())
}

fn a_diff_is_a_tree_a_patch_and_an_archive(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "mkdir /tmp/new && echo text > /tmp/new/file")?.success()?;
    let tree = server.run(["diff", &id])?.success()?;
    ensure!(tree.contains("+") && tree.contains("file"), "{tree}");
    let json = server.run(["diff", "--json", &id])?.json()?;
    ensure!(json["changes"].to_string().contains("/tmp/new/file"), "{json}");
    let patch = server.run(["diff", "--patch", &id])?.success()?;
    ensure!(patch.contains("+text"), "{patch}");
    let file = caller.home().join("changes.tar");
    server.run(["diff", "--tar", &file.display().to_string(), &id])?.success()?;
    let listed = caller.shell(&caller.home(), "tar tf changes.tar")?.success()?;
    ensure!(listed.contains("tmp/new/file"), "{listed}");
    Ok(())
}

fn a_merge_brings_changes_back_and_refuses_conflicts(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo old > /tmp/f")?.success()?;
    let child = server.run(["fork", &id])?.success()?.trim().to_string();
    server.script(&child, "echo new > /tmp/f; echo more > /tmp/g")?.success()?;
    server.run(["merge", &id, &child, "/tmp/g"])?.success()?;
    assert_eq!(server.script(&id, "cat /tmp/f /tmp/g")?.success()?, "old\nmore\n");
    server.script(&id, "echo mine > /tmp/f")?.success()?;
    let finished = server.run(["merge", &id, &child, "/tmp/f"])?;
    ensure!(finished.exited(1)?.out().contains("/tmp/f"), "{}", finished.out());
    assert_eq!(server.script(&id, "cat /tmp/f")?.success()?, "mine\n");
    Ok(())
}
