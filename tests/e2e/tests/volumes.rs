//! Directories that outlive sandboxes, as people and scripts have them.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, for_both_callers, until};
use serde_json::{Value, json};

for_both_callers!(
    what_one_sandbox_writes_the_next_one_has,
    a_volume_has_one_writer_and_many_readers,
    hostile_content_stays_in_its_volume,
    a_server_that_is_killed_loses_nothing,
    what_ends_without_a_server_is_stored_by_the_next_one,
    checkpoints_are_made_while_it_runs,
    what_is_written_through_a_mapping_is_seen,
    mistakes_are_named,
    a_link_does_not_lead_a_volume_elsewhere,
);

const MEMORY: &str = "memory:/data/memory";

fn history(server: &Server<'_>, name: &str) -> Result<Vec<Value>> {
    let listed = server.api("GET", &format!("/v1/volumes/{name}/history"), None)?.expect(200)?;
    Ok(listed["versions"].as_array().context("a list")?.clone())
}

fn what_one_sandbox_writes_the_next_one_has(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--volume", MEMORY])?;
    let script = "cd /data/memory && mkdir -p notes empty && echo one > notes/a && chmod 640 notes/a && ln -s a notes/link \
                  && touch -d 2001-02-03 notes/a && truncate -s 100M sparse && id -u > who";
    server.script(&id, script)?.success()?;
    server.run(["kill", &id])?.success()?;
    let ended = server.api("GET", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
    ensure!(ended["volumes"][0]["outcome"] == "committed as version 1", "{ended}");

    let id = server.create(&["--volume", MEMORY])?;
    let look = "cd /data/memory && stat -c '%a %u %Y' notes/a && readlink notes/link && ls -d empty && du -k sparse | cut -f1 \
                && cat notes/a && echo two >> notes/a";
    let said = server.script(&id, look)?.success()?;
    let owner = server.script(&id, "id -u")?.success()?;
    assert_eq!(said, format!("640 {} 981158400\na\nempty\n0\none\n", owner.trim()));
    server.run(["kill", &id])?.success()?;
    assert_eq!(server.run(["volume", "get", "memory", "notes/a"])?.success()?, "one\ntwo\n");
    assert_eq!(server.run(["volume", "get", "memory", "notes/a", "--version", "1"])?.success()?, "one\n");

    // Nothing changed: no version more.
    let id = server.create(&["--volume", MEMORY])?;
    server.script(&id, "cat /data/memory/notes/a")?.success()?;
    server.run(["kill", &id])?.success()?;
    assert_eq!(history(&server, "memory")?.len(), 2);

    let put = caller.file("put.txt", "three\n")?.display().to_string();
    assert_eq!(server.run(["volume", "put", "memory", &put, "notes/b"])?.success()?, "3\n");
    assert_eq!(server.run(["volume", "rm", "memory", "notes"])?.success()?, "4\n");
    assert_eq!(server.run(["volume", "restore", "memory", "1"])?.success()?, "5\n");
    let listed = server.run(["volume", "history", "memory"])?.success()?;
    ensure!(listed.contains("5 *") && listed.contains("restore"), "{listed}");
    let files = server.run(["volume", "files", "memory", "notes"])?.success()?;
    ensure!(
        files.contains("notes/a") && files.contains("link -> a") && !files.contains("notes/b"),
        "{files}"
    );
    let back = caller.home().join("back");
    server.run(["volume", "get", "memory", "notes/a", &back.display().to_string()])?.success()?;
    assert_eq!(std::fs::read_to_string(back)?, "one\n");
    let all = server.run(["volume", "ls"])?.success()?;
    ensure!(all.contains("memory") && all.contains("owner"), "{all}");
    server.run(["volume", "create", "other"])?.success()?;
    let shown: Value = serde_json::from_str(&server.run(["volume", "show", "other"])?.success()?)?;
    ensure!(shown["versions"] == 0 && shown.get("version").is_none(), "{shown}");
    for name in ["memory", "other"] {
        server.run(["volume", "rm", name])?.success()?;
    }
    ensure!(!server.run(["volume", "ls"])?.success()?.contains("memory"), "a removed volume is listed");
    Ok(())
}

fn a_volume_has_one_writer_and_many_readers(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let writer = server.create(&["--volume", MEMORY])?;
    server.script(&writer, "echo first > /data/memory/file")?.success()?;
    server.run(["volume", "checkpoint", &writer, "memory"])?.success()?;
    let refused = server.run(["create", "--volume", MEMORY])?;
    ensure!(
        refused.exited(1)?.err().contains(&format!("is written to by sandbox {writer}")),
        "{}",
        refused.err()
    );
    let removed = server.run(["volume", "rm", "memory"])?;
    ensure!(removed.exited(1)?.err().contains("is written to by"), "{}", removed.err());
    let readers = [
        server.create(&["--volume", "memory:/data/memory:ro"])?,
        server.create(&["--volume", "memory:/mnt/m:ro"])?,
    ];
    server.script(&writer, "echo second > /data/memory/file")?.success()?;
    server.run(["kill", &writer])?.success()?;
    // They have the version that was current when they began.
    assert_eq!(server.script(&readers[0], "cat /data/memory/file")?.success()?, "first\n");
    assert_eq!(server.script(&readers[1], "cat /mnt/m/file")?.success()?, "first\n");
    for script in [
        "echo x > /mnt/m/file",
        "rm /mnt/m/file",
        "mkdir /mnt/m/d",
        "chmod 777 /mnt/m",
        "mv /mnt/m/file /mnt/m/g",
    ] {
        let refused = server.script(&readers[1], script)?;
        ensure!(refused.err().contains("Read-only file system"), "{script}: {}", refused.err());
    }
    // A child of a sandbox has no volumes: a writer has the only lease.
    let parent = server.create(&["--volume", MEMORY])?;
    let child = server.run(["fork", &parent])?.success()?.trim().to_string();
    let inside = server.script(&child, "ls /data/memory/file 2>/dev/null || echo none")?.success()?;
    assert_eq!(inside, "none\n");
    Ok(())
}

fn hostile_content_stays_in_its_volume(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--volume", "hostile:/data/v"])?;
    let script = "cd /data/v && ln -s /etc/passwd passwd && ln -s / root && mkfifo pipe && cp /bin/true suid && (chmod 6755 suid || chmod 755 suid) \
                  && ln suid twin && mkdir -p d/d/d && printf x > \"$(printf 'a\\nb')\"";
    server.script(&id, script)?.success()?;
    server.run(["kill", &id])?.success()?;
    for (path, why) in [
        ("passwd", "is a symbolic link"),
        ("root/etc/passwd", "has no `"),
        ("pipe", "has no `"),
        ("../../../etc/passwd", ".."),
        ("d", "is a directory"),
    ] {
        let refused = server.run(["volume", "get", "hostile", path])?;
        ensure!(refused.exited(1)?.err().contains(why), "{path}: {}", refused.err());
    }
    let id = server.create(&["--volume", "hostile:/data/v"])?;
    let look = "cd /data/v && stat -c %a suid && readlink passwd root && ls pipe 2>/dev/null || echo no pipe";
    assert_eq!(server.script(&id, look)?.success()?, "755\n/etc/passwd\n/\nno pipe\n");
    Ok(())
}

fn a_server_that_is_killed_loses_nothing(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&["--volume", MEMORY])?;
    server.script(&id, "echo before > /data/memory/file")?.success()?;
    server.kill()?;
    server.start_again()?;
    server.script(&id, "echo after >> /data/memory/file")?.success()?;
    server.run(["kill", &id])?.success()?;
    assert_eq!(server.run(["volume", "get", "memory", "file"])?.success()?, "before\nafter\n");
    Ok(())
}

fn what_ends_without_a_server_is_stored_by_the_next_one(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&["--volume", MEMORY, "--ttl", "3s"])?;
    server.script(&id, "echo kept > /data/memory/file")?.success()?;
    server.kill()?;
    std::thread::sleep(std::time::Duration::from_secs(4));
    server.start_again()?;
    until(PATIENCE, "a version", || {
        let made = history(&server, "memory").ok()?;
        (!made.is_empty()).then_some(())
    })?;
    assert_eq!(server.run(["volume", "get", "memory", "file"])?.success()?, "kept\n");
    // And the next one may write.
    server.create(&["--volume", MEMORY])?;
    Ok(())
}

fn checkpoints_are_made_while_it_runs(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--volume", MEMORY, "--checkpoint", "1s"])?;
    server.script(&id, "echo running > /data/memory/file")?.success()?;
    until(PATIENCE, "a checkpoint", || {
        let made = history(&server, "memory").ok()?;
        made.iter().any(|version| version["kind"] == "checkpoint" && version["files"] == 1).then_some(())
    })?;
    assert_eq!(server.run(["volume", "get", "memory", "file"])?.success()?, "running\n");
    Ok(())
}

fn what_is_written_through_a_mapping_is_seen(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--volume", MEMORY])?;
    let run = |code: &str| -> Result<()> {
        let of = format!("/v1/sandboxes/{id}/code");
        let ran = server.api("POST", &of, Some(&json!({"code": code})))?.expect(200)?;
        ensure!(ran["error"].is_null(), "{ran}");
        server.run(["volume", "checkpoint", &id, "memory"])?.success().map(drop)
    };
    run(
        "import mmap\nf = open('/data/memory/m', 'w+b')\nf.truncate(4096)\nm = mmap.mmap(f.fileno(), 4096)\nm[:3] = b'one'",
    )?;
    // The page is the same, and its file is never written to by name again.
    run("m[:3] = b'two'")?;
    run("m[:3] = b'six'")?;
    for (version, word) in [("1", "one"), ("2", "two"), ("3", "six")] {
        let kept = server.run(["volume", "get", "memory", "m", "--version", version])?.success()?;
        assert_eq!(&kept[..3], word);
    }
    Ok(())
}

fn mistakes_are_named(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let ask = |volumes: Value| server.api("POST", "/v1/sandboxes", Some(&json!({ "volumes": volumes })));
    for (volumes, words) in [
        (json!([{"name": "one", "path": "/etc/x"}]), "is not below"),
        (json!([{"name": "one", "path": "/data/../../etc"}]), "`..`"),
        (json!([{"name": "../one", "path": "/data/x"}]), "not allowed"),
        (
            json!([{"name": "one", "path": "/data/x"}, {"name": "two", "path": "/data/x"}]),
            "has something already",
        ),
        (json!([{"name": "one", "path": "/data/x"}, {"name": "one", "path": "/data/y"}]), "twice"),
        (json!([{"name": "one", "path": "/data/x", "mode": "wo"}]), "mode"),
        (json!([{"name": "one", "path": "/data/x", "on_failure": "explode"}]), "on_failure"),
        (json!([{"name": "one", "path": "/data/x", "version": 1}]), "cannot be written to"),
    ] {
        let answer = ask(volumes)?;
        ensure!(answer.refused(400, "invalid_request")?.text().contains(words), "{words}: {}", answer.text());
    }
    ask(json!([{"name": "absent", "path": "/data/x", "mode": "ro"}]))?.refused(404, "volume_not_found")?;
    ask(json!([{"name": "other/absent", "path": "/data/x"}]))?.refused(404, "volume_not_found")?;
    ensure!(
        server.api("GET", "/v1/volumes", None)?.expect(200)?["volumes"] == json!([]),
        "something was made"
    );
    let refused = server.run(["create", "--volume", "memory"])?;
    ensure!(refused.exited(2)?.err().contains("NAME:PATH"), "{}", refused.err());
    server.run(["volume", "create", "one"])?.success()?;
    for (words, said) in [
        (vec!["volume", "create", "one"], "already"),
        (vec!["volume", "create", "x"], "not allowed"),
        (vec!["volume", "restore", "one", "7"], "no version 7"),
        (vec!["volume", "get", "one", "nothing"], "has no `nothing`"),
        (vec!["volume", "history", "two"], "no volume `two`"),
        (vec!["volume", "share", "one", "Bad Tenant"], "tenant"),
    ] {
        let refused = server.run(&words)?;
        ensure!(refused.exited(1)?.err().contains(said), "{words:?}: {}", refused.err());
    }
    Ok(())
}

fn a_link_does_not_lead_a_volume_elsewhere(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let first = server.create(&[])?;
    server.script(&first, "mkdir /tmp/trap && ln -s /tmp/trap /tmp/in")?.success()?;
    server.run(["snapshot", "create", &first, "--name", "planted"])?.success()?;
    let id = server.create(&["--snapshot", "planted", "--volume", "memory:/tmp/in/memory"])?;
    server.script(&id, "echo mine > /tmp/in/memory/word")?.success()?;
    server.run(["hibernate", &id])?.success()?;
    server.run(["wake", &id])?.success()?;
    let seen = server.script(&id, "cat /tmp/in/memory/word; ls /tmp/trap; readlink /tmp/in.moved-aside-0")?;
    assert_eq!(seen.success()?, "mine\n/tmp/trap\n");
    server.script(&id, "echo more >> /tmp/in/memory/word")?.success()?;
    server.run(["kill", &id])?.success()?;
    assert_eq!(server.run(["volume", "get", "memory", "word"])?.success()?, "mine\nmore\n");
    Ok(())
}
