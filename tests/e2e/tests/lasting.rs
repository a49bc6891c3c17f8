//! Sandboxes that last, from create to kill, and commands in them.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};
use serde_json::json;

for_both_callers!(
    from_create_to_kill,
    a_list_is_filtered,
    exec_passes_streams_and_codes,
    a_command_is_as_large_as_the_kernel_takes,
    input_reaches_the_command_once,
    a_detached_command_runs_on_and_its_log_is_kept,
    a_time_limit_ends_the_command_and_not_the_sandbox,
    commands_of_one_sandbox_share_its_files,
    several_are_killed_and_failures_are_told,
    pause_and_resume,
    hibernate_and_wake_keep_the_files,
    extend_moves_the_end,
    limits_are_changed_while_it_lives,
    limits_that_cannot_be_held_are_refused,
    what_is_for_life_is_not_changed,
    what_is_not_there_is_named,
    names_from_inside_cannot_speak_to_the_terminal,
    usage_is_shown_once_without_a_terminal,
    events_are_followed,
    the_timeline_is_shown_exported_and_verified,
);

fn from_create_to_kill(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--name", "build", "--ttl", "10m", "--metadata", "owner=me"])?;
    let seen = server.run(["inspect", "build"])?.json()?;
    assert_eq!((seen["id"].as_str(), seen["state"].as_str()), (Some(id.as_str()), Some("running")));
    assert_eq!(seen["metadata"]["owner"], "me");
    let listed = server.run(["ps"])?.success()?;
    ensure!(listed.contains(&id) && listed.contains("build") && listed.contains("running"), "{listed}");
    assert_eq!(server.run(["kill", "build"])?.success()?, "build\n");
    ensure!(!server.run(["ps"])?.success()?.contains(&id), "an ended sandbox is listed");
    let listed = server.run(["ps", "-a"])?.success()?;
    ensure!(listed.contains(&id) && listed.contains("ended: "), "{listed}");
    assert_eq!(server.run(["ps", "-q", "--state", "ended"])?.success()?, format!("{id}\n"));
    assert_eq!(server.run(["inspect", &id])?.json()?["end"]["cause"]["kind"], "killed");
    let finished = server.run(["kill", "absent"])?;
    ensure!(finished.exited(1)?.err().contains("there is no sandbox `absent`"), "{}", finished.err());
    Ok(())
}

fn a_list_is_filtered(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let one = server.create(&["--metadata", "team=a"])?;
    let two = server.create(&["--metadata", "team=b", "--name", "two"])?;
    assert_eq!(server.run(["ps", "-q", "--metadata", "team=a"])?.success()?, format!("{one}\n"));
    assert_eq!(server.run(["ps", "-q", "--name", "two"])?.success()?, format!("{two}\n"));
    assert_eq!(server.run(["ps", "-q", "--state", "paused"])?.success()?, "");
    assert_eq!(server.run(["ps", "--json"])?.json()?.as_array().map(Vec::len), Some(2));
    Ok(())
}

fn exec_passes_streams_and_codes(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let finished = server.script(&id, "echo out; echo err >&2; exit 7")?;
    finished.exited(7)?;
    assert_eq!((finished.out().as_str(), finished.err().as_str()), ("out\n", "err\n"));
    let finished = server.run(["exec", &id, "--", "no-such-command"])?;
    ensure!(finished.exited(127)?.err().contains("`no-such-command` could not be run"), "{}", finished.err());
    server.script(&id, "kill -9 $$")?.exited(137)?;
    let finished =
        server.run(["exec", "--env", "A=b", "--cwd", "/tmp", &id, "--", "sh", "-c", "echo $A; pwd"])?;
    assert_eq!(finished.success()?, "b\n/tmp\n");
    let json = server.run(["exec", "--json", &id, "--", "sh", "-c", "echo x; exit 3"])?;
    assert_eq!((json.exited(3)?.json()?["stdout"].as_str(), json.code), (Some("x\n"), 3));
    Ok(())
}

fn a_command_is_as_large_as_the_kernel_takes(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let of = format!("/v1/sandboxes/{id}/execs");
    let with = |pieces: usize| {
        let script = ["sh", "-c", "tr -cd x < /proc/$$/cmdline | wc -c", "sh"].map(str::to_string);
        let argv: Vec<String> =
            script.into_iter().chain(std::iter::repeat_n("x".repeat(64 << 10), pieces)).collect();
        server.ask("POST", &of, Some(&json!({ "argv": argv })))
    };
    // 16 are more than the protocol had room for once, 31 are nearly all that the kernel takes.
    for pieces in [1, 16, 31] {
        let told = with(pieces)?.ok()?.json()?;
        // The script has one `x` of its own.
        assert_eq!(told["stdout"], format!("{}\n", (pieces << 16) + 1), "{told}");
    }
    let refused = with(32)?;
    let told = refused.refused(413, "too_large")?.text();
    ensure!(told.contains("at most 2040 KiB") && told.contains("standard input"), "{told}");
    let one = json!({"argv": ["true", "x".repeat(128 << 10)]});
    let refused = server.ask("POST", &of, Some(&one))?;
    ensure!(refused.refused(413, "too_large")?.text().contains("argument 1"), "{}", refused.text());
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    Ok(())
}

fn input_reaches_the_command_once(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let data: Vec<u8> = (0..300_000u32).flat_map(|number| number.to_le_bytes()).collect();
    let finished = server.paddock(["exec", "-i", &id, "--", "cat"])?.input(data.clone()).finish()?;
    finished.exited(0)?;
    ensure!(finished.stdout == data, "{} bytes came back of {}", finished.stdout.len(), data.len());
    assert_eq!(server.paddock(["exec", &id, "--", "cat"])?.input("unwanted").finish()?.success()?, "");
    Ok(())
}

fn a_detached_command_runs_on_and_its_log_is_kept(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let script = "echo begin; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo end";
    let number = server.run(["exec", "-d", &id, "--", "sh", "-c", script])?.success()?;
    let mut followed = server.paddock(["logs", "-f", &id, number.trim()])?.start()?;
    followed.wait_for("begin\n")?;
    server.script(&id, "touch /tmp/go")?.success()?;
    assert_eq!(followed.finish()?.success()?, "begin\nend\n");
    assert_eq!(server.run(["logs", &id, number.trim()])?.success()?, "begin\nend\n");
    let listed = server.run(["logs", "--list", &id])?.success()?;
    ensure!(listed.contains("touch /tmp/go") && listed.contains("exit code 0"), "{listed}");
    Ok(())
}

fn a_time_limit_ends_the_command_and_not_the_sandbox(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let finished =
        server.run(["exec", "--timeout", "300ms", &id, "--", "sh", "-c", "echo before; sleep 60"])?;
    assert_eq!(finished.exited(124)?.out(), "before\n");
    ensure!(finished.err().contains("time limit"), "{}", finished.err());
    assert_eq!(server.script(&id, "echo alive")?.success()?, "alive\n");
    Ok(())
}

fn commands_of_one_sandbox_share_its_files(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let (one, other) = (server.create(&[])?, server.create(&[])?);
    server.script(&one, "echo kept > /tmp/f")?.success()?;
    assert_eq!(server.script(&one, "cat /tmp/f")?.success()?, "kept\n");
    server.script(&other, "test ! -e /tmp/f")?.success()?;
    Ok(())
}

fn several_are_killed_and_failures_are_told(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let (one, two) = (server.create(&[])?, server.create(&[])?);
    let finished = server.run(["kill", &one, "absent", &two])?;
    finished.exited(1)?;
    assert_eq!(finished.out(), format!("{one}\n{two}\n"));
    ensure!(finished.err().contains("absent"), "{}", finished.err());
    server.create(&[])?;
    server.create(&[])?;
    assert_eq!(server.run(["kill", "--all"])?.success()?.lines().count(), 2);
    assert_eq!(server.run(["ps", "-q"])?.success()?, "");
    Ok(())
}

fn pause_and_resume(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server
        .run(["exec", "-d", &id, "--", "sh", "-c", "while :; do echo x >> /tmp/n; sleep 0.01; done"])?
        .success()?;
    server.run(["pause", &id])?.success()?;
    assert_eq!(server.run(["inspect", &id])?.json()?["state"], "paused");
    server.run(["resume", &id])?.success()?;
    assert_eq!(server.run(["inspect", &id])?.json()?["state"], "running");
    assert_eq!(server.script(&id, "echo again")?.success()?, "again\n");
    Ok(())
}

fn hibernate_and_wake_keep_the_files(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo kept > ~/f || echo kept > /tmp/f")?.success()?;
    server.run(["hibernate", &id])?.success()?;
    assert_eq!(server.run(["inspect", &id])?.json()?["state"], "hibernated");
    server.run(["wake", &id])?.success()?;
    assert_eq!(server.script(&id, "cat ~/f || cat /tmp/f")?.success()?, "kept\n");
    Ok(())
}

fn extend_moves_the_end(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&["--ttl", "5m"])?;
    let before = server.run(["inspect", &id])?.json()?["expires_at_ms"].as_u64();
    let after = server.run(["extend", "--json", &id, "2h"])?.json()?["expires_at_ms"].as_u64();
    ensure!(before.is_some() && after > before.map(|at| at + 3_600_000), "{before:?} -> {after:?}");
    Ok(())
}

fn what_is_not_there_is_named(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    for words in [&["inspect", "absent"][..], &["pause", "absent"], &["logs", "absent"], &["diff", "absent"]]
    {
        let finished = server.run(words)?;
        finished.exited(1)?;
        ensure!(
            finished.err().starts_with("error: ") && finished.err().contains("absent"),
            "{}",
            finished.err()
        );
    }
    server.run(["exec", "absent", "--", "true"])?.refused(&["absent"])
}

fn names_from_inside_cannot_speak_to_the_terminal(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "touch \"$(printf '/tmp/a\\033]0;owned\\007')\"")?.success()?;
    server.run(["exec", &id, "--", "sh", "-c", ": \u{1b}[2J"])?.success()?;
    for words in
        [&["diff", id.as_str()][..], &["logs", "--list", &id], &["audit", "show", &id], &["ps", "-a"]]
    {
        let shown = server.run(words)?.success()?;
        ensure!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{words:?}: {shown:?}");
    }
    Ok(())
}

fn usage_is_shown_once_without_a_terminal(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let shown = server.run(["top"])?.success()?;
    ensure!(shown.contains(&id) && shown.starts_with("ID "), "{shown}");
    assert_eq!(server.run(["top", "--json"])?.json()?[0]["sandbox"]["id"], id.as_str());
    Ok(())
}

fn events_are_followed(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let mut events = server.paddock(["events", "-f", "--json"])?.start()?;
    // The opening of the stream is not announced: an event happens again and again until it is seen.
    for _ in 0..50 {
        let id = server.create(&[])?;
        server.run(["kill", &id])?.success()?;
        std::thread::sleep(std::time::Duration::from_millis(20));
        // The stream may have opened between the two.
        let said = events.said();
        if said.contains("created") && said.contains("ended") {
            break;
        }
    }
    events.wait_for("\"created\"")?;
    events.wait_for("\"ended\"")
}

fn the_timeline_is_shown_exported_and_verified(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo hello")?.success()?;
    ensure!(
        server.run(["audit", "show", &id])?.success()?.contains("echo hello"),
        "the command is not in it"
    );
    let file = caller.home().join("box.audit");
    let path = file.display().to_string();
    server.run(["audit", "export", &id, "-o", &path])?.success()?;
    ensure!(server.run(["audit", "verify", &path])?.success()?.contains("is whole"), "not whole");
    let text = std::fs::read_to_string(&file)?;
    let lines: Vec<&str> = text.lines().collect();
    let forgeries = [
        text.replace("echo hello", "echo hallo"),
        lines[..lines.len() - 1].join("\n") + "\n",
        [&lines[..1], &lines[2..]].concat().join("\n") + "\n",
        text.clone() + lines[lines.len() - 1] + "\n",
    ];
    // One byte anywhere.
    let flipped = (0..16).map(|part| {
        let mut bytes = text.clone().into_bytes();
        let at = part * (bytes.len() - 1) / 15;
        bytes[at] ^= 1;
        bytes
    });
    for forgery in forgeries.into_iter().map(String::into_bytes).chain(flipped) {
        let forged = caller.file("forged.audit", &forgery)?.display().to_string();
        let finished = caller.paddock(["audit", "verify", &forged])?.finish()?;
        ensure!(finished.exited(1)?.out().contains("was changed"), "{}", finished.out());
    }
    server.run(["kill", &id])?.success()?;
    server.run(["audit", "export", &id, "-o", &path])?.success()?;
    let verdict = server.run(["audit", "verify", "--json", &path])?.json()?;
    assert_eq!((&verdict["verified"], &verdict["closed"]), (&true.into(), &true.into()));
    Ok(())
}

fn limits_are_changed_while_it_lives(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id =
        server.create(&["--memory", "512MiB", "--pids", "64", "--metadata", "a=1", "--metadata", "b=2"])?;
    let guarantees = server.run(["inspect", &id])?.json()?["guarantees"].clone();
    let held = guarantees["memory_limit"] == "kernel" && guarantees["pids_limit"] == "kernel";
    let eats = "dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null && echo fits";
    if held {
        assert_eq!(server.script(&id, eats)?.success()?, "fits\n");
        server.run(["update", &id, "--memory", "128MiB", "--pids", "300", "--cpus", "0.5"])?.success()?;
        ensure!(!server.script(&id, eats)?.out().contains("fits"), "the new limit of memory does not hold");
        let many = "for i in $(seq 100); do sleep 1 & done; wait; echo all";
        assert_eq!(server.script(&id, many)?.success()?, "all\n", "more processes than before");
    } else {
        let finished = server.run(["update", &id, "--memory", "128MiB"])?;
        ensure!(finished.exited(1)?.err().contains("hibernate it and ask again"), "{}", finished.err());
        server.run(["hibernate", &id])?.success()?;
        server.run(["update", &id, "--memory", "128MiB", "--pids", "300", "--cpus", "0.5"])?.success()?;
    }
    server.run(["update", &id, "--metadata", "c=3", "--forget", "a", "--files", "100"])?.success()?;
    assert_eq!(server.script(&id, "ulimit -n")?.success()?, "100\n");
    let check = |server: &Server| -> Result<()> {
        let seen = server.run(["inspect", &id])?.json()?;
        let limits = &seen["limits"];
        assert_eq!((limits["memory"].as_u64(), limits["pids"].as_u64()), (Some(128 << 20), Some(300)));
        assert_eq!((limits["cpus"].as_f64(), limits["files"].as_u64()), (Some(0.5), Some(100)));
        assert_eq!(seen["metadata"], serde_json::json!({ "b": "2", "c": "3" }));
        Ok(())
    };
    check(&server)?;
    server.kill()?;
    server.start_again()?;
    check(&server)?;
    server.run(["hibernate", &id])?.success()?;
    server.run(["wake", &id])?.success()?;
    check(&server)?;
    assert_eq!(server.script(&id, "ulimit -n")?.success()?, "100\n");
    if held {
        ensure!(!server.script(&id, eats)?.out().contains("fits"), "it woke with the old limit");
    }
    Ok(())
}

fn limits_that_cannot_be_held_are_refused(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    server.run(["quota", "owner", "--memory", "1GiB", "--cpus", "2"])?.success()?;
    let id = server.create(&["--memory", "512MiB", "--cpus", "1"])?;
    server.run(["hibernate", &id])?.success()?;
    for (options, words) in [
        (["--memory", "2GiB"], "the quota `memory_bytes` of tenant `owner` has no room"),
        (["--cpus", "2.5"], "the quota `cpus` of tenant `owner` has no room"),
        (["--memory", "1KiB"], "memory limit 1 KiB is outside"),
        (["--pids", "0"], "pids limit 0 is outside"),
    ] {
        let finished = server.run(["update", &id].iter().chain(&options))?;
        ensure!(finished.exited(1)?.err().contains(words), "{options:?}: {}", finished.err());
    }
    // Within the quota, its own share counted once.
    server.run(["update", &id, "--memory", "1GiB", "--cpus", "2"])?.success()?;
    let usage = server.run(["quota", "owner", "--json"])?.json()?[0]["usage"].clone();
    assert_eq!((usage["memory_bytes"].as_u64(), usage["cpus"].as_f64()), (Some(1 << 30), Some(2.0)));
    let seen = server.run(["inspect", &id])?.json()?;
    assert_eq!(seen["limits"]["memory"].as_u64(), Some(1 << 30));
    server.run(["wake", &id])?.success()?;
    // Memory in use is not taken away.
    if seen["guarantees"]["memory_limit"] == "kernel" {
        let mut running = server.paddock(["exec", &id, "--", "python3", "-c", HOLDS])?.start()?;
        running.wait_for("held")?;
        let finished = server.run(["update", &id, "--memory", "64MiB"])?;
        ensure!(finished.exited(1)?.err().contains("are in use"), "{}", finished.err());
        running.wait_for("still here")?;
        running.signal(rustix::process::Signal::INT)?;
        running.finish()?;
    }
    Ok(())
}

const HOLDS: &str = "import time\nb = bytearray(200_000_000)\nprint('held', flush=True)\ntime.sleep(1)\nprint('still here', \
    flush=True)\ntime.sleep(600)";

fn what_is_for_life_is_not_changed(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let id = server.create(&[])?;
    let secret = server.run(["token", "create", "--tenant", "owner", "--role", "user"])?.success()?;
    for field in ["image", "template", "backend", "workspace", "hostname"] {
        let call = format!(
            "curl -s -X PATCH -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' -d '{{\"{field}\":\"x\"}}' \
             -w '\\n%{{http_code}}' {}/v1/sandboxes/{id}",
            secret.trim(),
            server.url()?
        );
        let answer = caller.shell(&caller.home(), &call)?.success()?;
        ensure!(answer.ends_with("\n409") && answer.contains("\"not_changeable\""), "{answer}");
        ensure!(
            answer.contains(&format!("`{field}` of sandbox {id} cannot be changed while it lives")),
            "{answer}"
        );
        ensure!(answer.contains("make a snapshot of it"), "{answer}");
    }
    Ok(())
}
