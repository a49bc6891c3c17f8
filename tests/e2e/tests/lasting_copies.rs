//! Snapshots, forks, and their fate.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers, images, skip};

for_both_callers!(
    a_snapshot_is_a_beginning,
    forks_are_apart,
    a_diff_is_a_tree_a_patch_and_an_archive,
    a_patch_of_a_fork_applies_to_what_its_parent_had,
    a_patch_knows_its_snapshot_after_hibernation_and_a_restart,
    what_one_has_mounted_over_another_can_delete,
    a_patch_over_an_image_knows_what_the_image_had,
    a_merge_brings_changes_back_and_refuses_conflicts,
    a_merge_keeps_owners_modes_and_links,
    a_merge_that_does_not_fit_changes_nothing,
    a_pipe_keeps_nothing_else_from_being_merged,
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

/// The files of a sandbox before the changes, in /tmp/t.
const BEFORE: &str = "mkdir -p /tmp/t/d; cd /tmp/t; seq 1 30 > numbers; printf 'no newline' > end; echo gone > d/gone; \
    printf 'a\\0b' > binary; ln -s numbers link; echo run > run.sh; echo 'with space' > 'a b'; : > empty; head -c 300000 \
    /dev/zero | tr '\\0' x > large";
const CHANGES: &str = "cd /tmp/t; sed -i 's/^15$/fifteen/; 1d' numbers; printf 'still no newline' > end; rm -r d; \
    printf 'c\\0d' > binary; ln -sfn end link; chmod +x run.sh; echo 'more space' >> 'a b'; echo new > added; : > fresh; \
    rm empty; echo y >> large";

/// Applies a patch to the files of [`BEFORE`], with both programs that people use.
fn applies(caller: &Caller, patch: &str) -> Result<()> {
    let file = caller.file("changes.patch", patch)?;
    let make = |script: &str| script.replace("/tmp/t", "tmp/t");
    for (number, program) in ["patch -s -p1", "git apply -p1"].into_iter().enumerate() {
        let place = caller.directory(&format!("applied{number}"))?;
        caller.shell(&place, &make(BEFORE))?.success()?;
        caller.shell(&place, &format!("{program} < {}", file.display()))?.success()?;
        let expected = caller.directory(&format!("expected{number}"))?;
        caller.shell(&expected, &make(BEFORE))?.success()?;
        caller.shell(&expected, &make(CHANGES))?.success()?;
        // A file that is no text, or too large, is only named.
        let look = "cd tmp/t && rm -f binary large && find . ! -type d | sort | xargs -d '\\n' ls -ld | cut -c1-10 && grep -r . .";
        let after = caller.shell(&place, look)?.success()?;
        assert_eq!(after, caller.shell(&expected, look)?.success()?, "{program}");
    }
    Ok(())
}

fn a_patch_of_a_fork_applies_to_what_its_parent_had(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, BEFORE)?.success()?;
    let child = server.run(["fork", &id])?.success()?.trim().to_string();
    server.script(&child, CHANGES)?.success()?;
    // Changes of the parent meanwhile are not the fork's.
    server.script(&id, "echo other > /tmp/t/numbers")?.success()?;
    let patch = server.run(["diff", "--patch", "--since", "parent", &child])?.success()?;
    ensure!(patch.contains("-15\n+fifteen\n"), "{patch}");
    ensure!(patch.contains("# Binary files a/tmp/t/binary and b/tmp/t/binary differ\n"), "{patch}");
    ensure!(patch.contains("# modified /tmp/t/large: it is too large for a patch\n"), "{patch}");
    applies(caller, &patch)
}

fn a_patch_knows_its_snapshot_after_hibernation_and_a_restart(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, BEFORE)?.success()?;
    server.run(["snapshot", "create", &id, "--name", "before"])?.success()?;
    let other = server.create(&["--snapshot", "before"])?;
    // Kept for the sandboxes that began with it.
    server.run(["snapshot", "rm", "before"])?.success()?;
    server.run(["kill", &id])?.success()?;
    server.script(&other, CHANGES)?.success()?;
    server.kill()?;
    server.start_again()?;
    server.run(["hibernate", &other])?.success()?;
    let patch = server.run(["diff", "--patch", "--since", "snapshot", &other])?.success()?;
    applies(caller, &patch)
}

fn what_one_has_mounted_over_another_can_delete(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "mkdir /tmp/d && echo kept > /tmp/d/f; echo kept > /workspace/f")?.success()?;
    server.run(["snapshot", "create", &id, "--name", "both"])?.success()?;
    let place = caller.home().join("place");
    caller.shell(&caller.home(), "mkdir place")?.success()?;
    let place = place.display().to_string();
    let covered = server.create(&["--snapshot", "both", "--tmpfs", "/tmp/d", "--workspace", &place])?;
    let tree = server.run(["diff", "--json", "--since", "snapshot", &covered])?.json()?;
    ensure!(!tree["changes"].to_string().contains("deleted"), "all is there still, under the mounts: {tree}");
    let open = server.create(&["--snapshot", "both"])?;
    server.script(&open, "rm /tmp/d/f")?.success()?;
    let tree = server.run(["diff", "--json", "--since", "snapshot", &open])?.json()?;
    let deleted = |change: &serde_json::Value| change["path"] == "/tmp/d/f" && change["kind"] == "deleted";
    ensure!(tree["changes"].as_array().is_some_and(|changes| changes.iter().any(deleted)), "{tree}");
    Ok(())
}

fn a_patch_over_an_image_knows_what_the_image_had(caller: &Caller) -> Result<()> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(reason) => {
            skip("images", &reason);
            return Ok(());
        }
    };
    let image = caller.file("image.tar", images::docker_archive(&busybox)?)?.display().to_string();
    let server = Server::start(caller)?;
    let id = server.create(&["--image", &image, "--user", "root"])?;
    let greeting = images::GREETING.trim_end();
    server.script(&id, "echo \"$(cat /etc/greeting)!\" > /etc/new && busybox mv /etc/new /etc/greeting; echo 10.0.0.1 there >> /etc/hosts")?.success()?;
    let patch = server.run(["diff", "--patch", &id])?.success()?;
    ensure!(patch.contains(&format!("-{greeting}\n+{greeting}!\n")), "{patch}");
    ensure!(patch.contains(" 127.0.0.1 localhost") && patch.contains("+10.0.0.1 there\n"), "{patch}");
    let tree = server.run(["diff", "--json", &id])?.json()?;
    let kind = |path: &str| {
        let changes = tree["changes"].as_array().into_iter().flatten();
        changes
            .filter(|change| change["path"] == path)
            .map(|change| change["kind"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(kind("/etc/greeting"), ["modified"], "replaced, not added: {tree}");
    server.script(&id, "rm /etc/greeting")?.success()?;
    let child = server.run(["fork", &id])?.success()?.trim().to_string();
    server.script(&child, "echo again > /etc/greeting")?.success()?;
    let patch = server.run(["diff", "--patch", &child])?.success()?;
    ensure!(patch.contains("new file mode 100644\n--- /dev/null\n+++ b/etc/greeting"), "{patch}");
    let patch = server.run(["diff", "--patch", &id])?.success()?;
    ensure!(patch.contains(&format!("+++ /dev/null\n@@ -1,1 +0,0 @@\n-{greeting}\n")), "{patch}");
    Ok(())
}

fn a_merge_keeps_owners_modes_and_links(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo old > /tmp/old; mkdir /tmp/away; echo x > /tmp/away/x")?.success()?;
    let child = server.run(["fork", &id])?.success()?.trim().to_string();
    let make = "cd /tmp; mkdir -m 2750 d; echo one > d/f; chmod 4751 d/f; ln d/f d/again; ln -s f d/link; touch -d @1000 d/f; \
        rm -r away; echo new > old; truncate -s 1G d/hole";
    server.script(&child, make)?.success()?;
    // If the host gives more than one id: a file that only root inside can read.
    let rooted = server.run([
        "exec",
        "--user",
        "root",
        &child,
        "--",
        "sh",
        "-c",
        "umask 077; echo s > /root/secret",
    ])?;
    server.run(["merge", &id, &child])?.success()?;
    let look = "cd /tmp; stat -c '%n %F %a %u:%g %h %s %Y' d/f d/again; stat -c '%n %F %a %u:%g' d d/link d/hole; cat old; \
        readlink d/link; ls; test d/f -ef d/again && echo same";
    assert_eq!(server.script(&id, look)?.success()?, server.script(&child, look)?.success()?);
    let blocks = server.script(&id, "stat -c %b /tmp/d/hole")?.success()?;
    ensure!(blocks.trim().parse::<u64>()? < 1000, "a hole stays one: {blocks} blocks");
    if rooted.code == 0 {
        let look = ["exec", "--user", "root", &id, "--", "stat", "-c", "%a %u:%g", "/root/secret"];
        assert_eq!(server.run(look)?.success()?, "600 0:0\n");
    }
    Ok(())
}

fn a_merge_that_does_not_fit_changes_nothing(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--disk", "16MiB"])?;
    server.script(&id, "echo old > /tmp/old")?.success()?;
    let child = server.run(["fork", &id])?.success()?.trim().to_string();
    let make =
        "cd /tmp; echo first > a; head -c 6000000 /dev/urandom > b; echo new > old; mkdir c; echo last > c/z";
    server.script(&child, make)?.success()?;
    server.script(&id, "head -c 30000000 /dev/urandom > /tmp/full; sync; true")?.success()?;
    let finished = server.run(["merge", &id, &child])?;
    let full = ["No space left", "Disk quota exceeded"].iter().any(|words| finished.err().contains(words));
    ensure!(finished.code != 0 && full, "{}", finished.err());
    assert_eq!(
        server.script(&id, "cat /tmp/old; ls -A /tmp; ls -A / /var/tmp | grep -c paddock")?.out(),
        "old\nfull\nold\n0\n"
    );
    server.script(&id, "rm /tmp/full; sync")?.success()?;
    // The attempt lost nothing.
    server.run(["merge", &id, &child, "/tmp/a", "/tmp/old", "/tmp/c"])?.success()?;
    assert_eq!(server.script(&id, "cat /tmp/a /tmp/old /tmp/c/z")?.success()?, "first\nnew\nlast\n");
    Ok(())
}

fn a_pipe_keeps_nothing_else_from_being_merged(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo old > /tmp/f")?.success()?;
    let child = server.run(["fork", &id])?.success()?.trim().to_string();
    server
        .script(&child, "echo new > /tmp/f; mkdir /tmp/d; mkfifo /tmp/d/pipe; echo x > /tmp/d/file")?
        .success()?;
    let report = server.run(["merge", &id, &child, "--json"])?;
    report.success()?;
    let report = report.json()?;
    assert_eq!(report["conflicts"], serde_json::json!([]), "{report}");
    assert_eq!(report["skipped"][0]["path"], "/tmp/d/pipe", "{report}");
    assert_eq!(server.script(&id, "cat /tmp/f /tmp/d/file; ls /tmp/d")?.success()?, "new\nx\nfile\n");
    Ok(())
}
