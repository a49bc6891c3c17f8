//! `paddock cp`, both ways, with the tricks of a hostile sandbox.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Server, for_both_callers};

for_both_callers!(
    an_unknown_user_is_a_bad_parameter,
    a_file_goes_in_and_comes_out,
    a_directory_goes_in_and_comes_out,
    attributes_go_in_with_a_file,
    a_link_is_replaced_or_followed,
    standard_streams_stand_for_files_and_archives,
    hostile_links_and_pipes_stay_inside,
    mistakes_are_named,
);

fn a_file_goes_in_and_comes_out(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let bytes: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let source = caller.file("data.bin", &bytes)?.display().to_string();
    server.run(["cp", &source, &format!("{id}:/tmp/")])?.success()?;
    assert_eq!(server.script(&id, "wc -c < /tmp/data.bin")?.success()?.trim(), "1048576");
    let back = caller.directory("back")?;
    server.run(["cp", &format!("{id}:/tmp/data.bin"), &back.display().to_string()])?.success()?;
    ensure!(std::fs::read(back.join("data.bin"))? == bytes, "other bytes came back");
    server.run(["cp", &source, &format!("{id}:/tmp/deep/er/name")])?.success()?;
    server.script(&id, "cmp /tmp/data.bin /tmp/deep/er/name")?.success()?;
    Ok(())
}

fn a_directory_goes_in_and_comes_out(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let tree = caller.directory("tree")?;
    caller.directory("tree/sub")?;
    caller.file("tree/sub/x", "text")?;
    std::os::unix::fs::symlink("sub/x", tree.join("link"))?;
    caller.own_all(&tree)?;
    server.run(["cp", &tree.display().to_string(), &format!("{id}:/tmp")])?.success()?;
    assert_eq!(server.script(&id, "cat /tmp/tree/link")?.success()?, "text");
    let back = caller.home().join("back");
    server.run(["cp", &format!("{id}:/tmp/tree"), &back.display().to_string()])?.success()?;
    assert_eq!(std::fs::read_to_string(back.join("link"))?, "text");
    ensure!(back.join("link").is_symlink(), "the link became a file");
    Ok(())
}

fn attributes_go_in_with_a_file(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let source = caller.file("report.csv", "a,b\n")?.display().to_string();
    let inside = format!("{id}:/workspace/report.csv");
    let flags = ["--attribute=source=the crawl", "--attribute=note=a=b"];
    server.run(["cp", flags[0], flags[1], &source, &inside])?.success()?;
    let line = "python3 -c 'import os; print([os.getxattr(\"/workspace/report.csv\", \"user.\" + n).decode() for n in (\"source\", \"note\")])'";
    assert_eq!(server.script(&id, line)?.success()?, "['the crawl', 'a=b']\n");
    server.paddock(["cp", flags[0], "-", &inside])?.input("typed").finish()?.success()?;
    // Of one file that goes in, and of nothing else.
    let directory = caller.directory("tree")?.display().to_string();
    let tree = format!("{id}:/workspace/tree");
    let files = [(&inside, &source), (&directory, &tree)];
    for (flag, (from, to)) in
        [flags[0], "--follow-links"].into_iter().flat_map(|flag| files.map(|both| (flag, both)))
    {
        let refused = server.run(["cp", flag, from, to])?;
        ensure!(refused.exited(1)?.err().contains("are of one file"), "{refused:?}");
    }
    assert_eq!(server.script(&id, "ls /workspace")?.success()?, "report.csv\n");
    Ok(())
}

fn a_link_is_replaced_or_followed(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo old > /tmp/real; ln -s /tmp/real /tmp/link")?.success()?;
    let inside = format!("{id}:/tmp/link");
    server.paddock(["cp", "--follow-links", "-", &inside])?.input("followed").finish()?.success()?;
    let seen = "cat /tmp/real; echo; readlink /tmp/link || echo a file";
    assert_eq!(server.script(&id, seen)?.success()?, "followed\n/tmp/real\n");
    server.paddock(["cp", "-", &inside])?.input("replaced").finish()?.success()?;
    assert_eq!(server.script(&id, seen)?.success()?, "followed\na file\n");
    Ok(())
}

fn standard_streams_stand_for_files_and_archives(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.paddock(["cp", "-", &format!("{id}:/tmp/typed")])?.input("typed").finish()?.success()?;
    assert_eq!(server.run(["cp", &format!("{id}:/tmp/typed"), "-"])?.success()?, "typed");
    server.script(&id, "mkdir -p /tmp/one/two && echo x > /tmp/one/two/y")?.success()?;
    let archive = server.run(["cp", &format!("{id}:/tmp/one"), "-"])?;
    archive.exited(0)?;
    let unpacked = format!("{id}:/tmp/three/");
    server.script(&id, "mkdir /tmp/three")?.success()?;
    server.paddock(["cp", "-", &unpacked])?.input(archive.stdout).finish()?.success()?;
    assert_eq!(server.script(&id, "cat /tmp/three/two/y")?.success()?, "x\n");
    Ok(())
}

fn hostile_links_and_pipes_stay_inside(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let script = "mkdir -p /tmp/evil/d && cd /tmp/evil && ln -s /etc out && ln -s ../../.. up && mkfifo pipe && echo x > d/ok";
    server.script(&id, script)?.success()?;
    let back = caller.home().join("back");
    let finished = server.run(["cp", &format!("{id}:/tmp/evil"), &back.display().to_string()])?;
    ensure!(finished.exited(1)?.err().contains("left out: out"), "{}", finished.err());
    assert_eq!(std::fs::read_to_string(back.join("d/ok"))?, "x\n");
    for name in ["out", "up", "pipe"] {
        ensure!(back.join(name).symlink_metadata().is_err(), "{name} came out");
    }
    Ok(())
}

fn mistakes_are_named(caller: &Caller) -> Result<()> {
    let server = Server::start(caller)?;
    let id = server.create(&[])?;
    let inside = format!("{id}:/tmp/absent");
    for (words, expected) in [
        (["cp", inside.as_str(), "."], "/tmp/absent"),
        (["cp", "a", "b"], "ID:PATH"),
        (["cp", "absent", inside.as_str()], "absent"),
        (["cp", "box:", "."], "no path"),
    ] {
        let finished = server.run(words)?;
        ensure!(finished.exited(1)?.err().contains(expected), "{}", finished.err());
    }
    Ok(())
}

fn an_unknown_user_is_a_bad_parameter(caller: &Caller) -> Result<()> {
    let server = Server::start_with(caller, &["--listen", "127.0.0.1:0"])?;
    let id = server.create(&[])?;
    let secret = server.run(["token", "create", "--tenant", "owner", "--role", "user"])?.success()?;
    let ask = |query: &str| {
        let url = format!("{}/v1/sandboxes/{id}/files/stat?{query}", server.url()?);
        let call =
            format!("curl -s -H 'Authorization: Bearer {}' -w '\\n%{{http_code}}' '{url}'", secret.trim());
        caller.shell(&caller.home(), &call)?.success()
    };
    let answer = ask("path=/tmp&user=nobody-of-that-name")?;
    ensure!(answer.ends_with("\n400") && answer.contains("\"unknown_user\""), "{answer}");
    let answer = ask("path=/tmp/absent")?;
    ensure!(answer.ends_with("\n404") && answer.contains("\"file_not_found\""), "{answer}");
    Ok(())
}
