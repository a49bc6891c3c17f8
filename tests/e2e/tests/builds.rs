//! `paddock template build`: steps in sandboxes, cached layers, and their results.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Finished, PATIENCE, for_both_callers, images, skip, until};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

for_both_callers!(
    steps_become_a_template,
    the_second_time_is_from_the_cache,
    a_step_that_fails_is_told_and_leaves_no_template,
    nothing_outside_is_copied,
    a_hostile_step_stays_in_its_fence,
    an_interrupted_build_leaves_nothing,
    two_builds_at_once_are_one,
    what_is_not_used_any_more_is_removed,
    a_template_in_use_keeps_its_image,
    a_template_of_somebody_is_replaced_on_demand,
    steps_that_fetch_trust_what_the_host_trusts,
    bad_input_is_told,
);

/// A directory with a root around a busybox in it; `None` if this host has none.
fn project(caller: &Caller) -> Result<Option<PathBuf>> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(why) => {
            skip("builds", &why);
            return Ok(None);
        }
    };
    let project = caller.directory("project")?;
    images::directory(&project.join("root"), &busybox)?;
    std::fs::create_dir(project.join("tools"))?;
    std::fs::write(project.join("tools/hello"), "#!/bin/sh\necho hello $1\n")?;
    std::fs::set_permissions(project.join("tools/hello"), std::fs::Permissions::from_mode(0o755))?;
    symlink("/etc/hello", project.join("tools/link"))?;
    caller.own_all(&project)?;
    Ok(Some(project))
}

fn build_file(caller: &Caller, project: &Path, text: &str) -> Result<()> {
    let path = project.join("box.toml");
    std::fs::write(&path, text)?;
    caller.own(&path)
}

fn build(caller: &Caller, project: &Path, options: &[&str]) -> Result<Finished> {
    let file = project.join("box.toml").display().to_string();
    caller.paddock(["template", "build", file.as_str()])?.arguments(options).finish()
}

fn cached(built: &Value) -> Vec<bool> {
    let layers = built["layers"].as_array().cloned().unwrap_or_default();
    layers.iter().map(|layer| layer["cached"] == true).collect()
}

/// Root file systems that the image store has, and work that is not over.
fn stored(caller: &Caller, part: &str) -> usize {
    std::fs::read_dir(caller.state().join("images").join(part)).map_or(0, Iterator::count)
}

const STEPS: &str = r#"
base = "./root"
copy = [{ from = "tools", to = "/opt/tools" }, { from = "tools/hello", to = "/bin/greet" }]
run = ["/opt/tools/hello $WHO > /etc/made; mkdir /etc/folder; touch /etc/folder/file", "rm -r /etc/greeting /srv"]
env = { WHO = "world" }
preload = ["json"]
[template]
hostname = "barn"
"#;

fn steps_become_a_template(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(caller, &project, STEPS)?;
    let built = build(caller, &project, &[])?;
    built.success()?;
    ensure!(
        built.out().starts_with("template box: ") && built.out().contains("0 of 5 steps cached"),
        "{}",
        built.out()
    );
    for line in
        ["[1/5] base ./root", "[2/5] copy tools /opt/tools", "[4/5] run /opt/tools/hello", "[5/5] done in"]
    {
        ensure!(built.err().contains(line), "no {line:?} in {}", built.err());
    }
    let script = "cat /etc/made; greet you; echo $WHO; cat /proc/sys/kernel/hostname; ls /etc/folder; id -u; \
                  test -e /etc/greeting || test -e /srv || echo gone; ls -l /opt/tools/link; ls /run";
    let seen = caller.script(&["--template", "box"], script)?.success()?;
    let wanted = "hello world\nhello you\nworld\nbarn\nfile\n1000\ngone\n";
    ensure!(seen.starts_with(wanted) && seen.contains("/opt/tools/link -> /etc/hello"), "{seen}");
    ensure!(!seen.contains("paddock\n"), "what was lent to a step is in the image: {seen}");
    let settings = caller.paddock(["template", "show", "box"])?.finish()?.success()?;
    ensure!(
        settings.contains("image = \"built://") && settings.contains("preload = [\"json\"]"),
        "{settings}"
    );
    let listed = caller.paddock(["template", "ls"])?.finish()?.success()?;
    ensure!(listed.contains("BUILT") && listed.contains(" ago "), "{listed}");
    ensure!(!project.join("root/etc/made").exists(), "the base was written to");
    assert_eq!(std::fs::read_to_string(project.join("root/etc/greeting"))?, images::GREETING);
    Ok(())
}

fn the_second_time_is_from_the_cache(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(caller, &project, STEPS)?;
    let first = build(caller, &project, &["--json"])?.json()?;
    assert_eq!(cached(&first), [false; 5]);
    let second = build(caller, &project, &["--json"])?;
    assert_eq!(cached(&second.json()?), [true; 5]);
    ensure!(second.err().contains("[4/5] cached"), "{}", second.err());
    assert_eq!(first["image"], second.json()?["image"]);
    // A copied file has changed: so has everything after it.
    std::fs::write(project.join("tools/hello"), "#!/bin/sh\necho hi $1\n")?;
    let third = build(caller, &project, &["--json"])?.json()?;
    assert_eq!(cached(&third), [true, false, false, false, false]);
    assert_eq!(caller.script(&["--template", "box"], "cat /etc/made")?.success()?, "hi world\n");
    // So it has when a later step sees other variables, but not an earlier one.
    build_file(caller, &project, &STEPS.replace("\"world\"", "\"you\""))?;
    assert_eq!(cached(&build(caller, &project, &["--json"])?.json()?), [true, true, true, false, false]);
    let again = build(caller, &project, &["--json", "--no-cache"])?.json()?;
    assert_eq!(cached(&again), [false; 5]);
    assert_eq!(caller.script(&["--template", "box"], "cat /etc/made")?.success()?, "hi you\n");
    Ok(())
}

fn a_step_that_fails_is_told_and_leaves_no_template(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(
        caller,
        &project,
        "base = './root'\nrun = ['touch /etc/first', 'echo before; touch /etc/x; exit 3']\n",
    )?;
    let failed = build(caller, &project, &[])?;
    ensure!(failed.code != 0 && failed.out().is_empty(), "{} {}", failed.code, failed.out());
    for words in ["before\n", "step 3 of 3, `run echo before; touch /etc/x; exit 3`, failed: exit code 3"] {
        ensure!(failed.err().contains(words), "no {words:?} in {}", failed.err());
    }
    let listed = caller.paddock(["template", "ls"])?.finish()?.success()?;
    ensure!(!listed.contains("box"), "{listed}");
    assert_eq!((stored(caller, "roots"), stored(caller, "temporary")), (2, 0));
    // Steps that worked are kept for the next time; a missing program is told too.
    build_file(caller, &project, "base = './root'\nrun = ['touch /etc/first', 'kill -9 $$']\nnpm = ['x']\n")?;
    let failed = build(caller, &project, &[])?;
    ensure!(
        failed.err().contains("[2/4] cached") && failed.err().contains("ended by signal 9"),
        "{}",
        failed.err()
    );
    build_file(caller, &project, "base = './root'\nnpm = ['x']\n")?;
    let failed = build(caller, &project, &[])?;
    ensure!(failed.err().contains("hint: the image has no npm"), "{}", failed.err());
    Ok(())
}

fn nothing_outside_is_copied(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    caller.file("secret", "secret of the host")?;
    symlink("../secret", project.join("secret"))?;
    symlink("..", project.join("up"))?;
    for (from, words) in [
        (
            "../secret",
            "line 2: copy.from `../secret`: what is copied lies below the directory of the build file",
        ),
        ("/etc/passwd", "line 2: copy.from `/etc/passwd`: what is copied lies below"),
        ("secret", "copy `secret`: a symbolic link is on the way to it"),
        ("up/secret", "copy `up/secret`: a symbolic link is on the way to it"),
        ("absent", "copy `absent`: there is nothing of that name"),
    ] {
        build_file(
            caller,
            &project,
            &format!("base = './root'\ncopy = [{{ from = '{from}', to = '/srv/x' }}]\n"),
        )?;
        let refused = build(caller, &project, &[])?;
        ensure!(refused.code != 0 && refused.err().contains(words), "{from}: {}", refused.err());
    }
    // A link in a directory stays a link, and leads to somewhere in the image.
    std::fs::create_dir(project.join("links"))?;
    symlink(caller.place().join("secret"), project.join("links/a"))?;
    caller.own_all(&project)?;
    build_file(caller, &project, "base = './root'\ncopy = [{ from = 'links', to = '/srv/links' }]\n")?;
    build(caller, &project, &[])?.success()?;
    let seen = caller.script(&["--template", "box"], "cat /srv/links/a || echo nothing")?.success()?;
    assert_eq!(seen, "nothing\n");
    Ok(())
}

fn a_hostile_step_stays_in_its_fence(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    let secret = caller.file("secret", "secret of the host")?;
    let attempts = [
        ("mounted", "busybox mount -t tmpfs none /srv".to_string()),
        ("changed its root", "busybox chroot / /bin/true".into()),
        ("made a device", "busybox mknod /srv/disk b 254 0 && busybox head -c 1 /srv/disk".into()),
        ("set a setting of the kernel", "echo x > /proc/sys/kernel/core_pattern".into()),
        ("saw a file of the host", format!("cat {}", secret.display())),
        ("made a namespace", "busybox unshare -m true".into()),
        ("has a network", "test $(busybox grep -c : /proc/net/dev) -gt 1".into()),
        ("traced the guest", "cat /proc/1/maps | busybox grep -q .".into()),
        ("changed the clock", "busybox date -s 2001-01-01; test $(busybox date +%Y) -lt 2010".into()),
        ("changed the name", "busybox hostname evil".into()),
    ];
    let script: String = attempts
        .iter()
        .map(|(what, attempt)| format!("({attempt}) 2>/dev/null && echo {what} >> /escaped;\n"))
        .collect();
    // A guest that could be killed would take the whole step with it, and the build would fail.
    let script = format!("kill -9 1\n{script}");
    // Set-user-id bits, devices and files under a name of the host's: things that an image must not carry out.
    let more = "busybox cp /bin/busybox /bin/evil; busybox chmod 4755 /bin/evil; busybox ln -s / /srv/host; \
                busybox mkfifo /srv/pipe; echo nameserver 6.6.6.6 > /etc/resolv.conf; true";
    build_file(caller, &project, &format!("base = './root'\nrun = ['''{script}{more}''']\n"))?;
    build(caller, &project, &[])?.success()?;
    let seen =
        "cat /escaped; ls -l /bin/evil; test -p /srv/pipe && echo pipe; cat /etc/resolv.conf; echo end";
    let seen = caller.script(&["--template", "box"], seen)?;
    ensure!(
        seen.out().starts_with("-rwxr-xr-x") && seen.out().ends_with("/bin/evil\nend\n"),
        "{}",
        seen.out()
    );
    if caller.is_root {
        // The control: rights of a step that no other sandbox has.
        build_file(
            caller,
            &project,
            "base = './root'\nrun = ['touch /etc/theirs; busybox chown 7:8 /etc/theirs']\n",
        )?;
        build(caller, &project, &["--name", "owned"])?.success()?;
        let seen = caller.script(&["--template", "owned"], "busybox stat -c %u:%g /etc/theirs")?.success()?;
        assert_eq!(seen, "7:8\n");
        let refused =
            caller.script(&["--template", "owned", "--user", "root"], "busybox chown 1:1 /etc/theirs")?;
        ensure!(refused.code != 0, "root of an ordinary sandbox changes owners");
    }
    Ok(())
}

fn an_interrupted_build_leaves_nothing(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    // Another caller's test may run at the same time.
    let seconds = 10_000_000 + caller.uid;
    build_file(caller, &project, &format!("base = './root'\nrun = ['echo begun; sleep {seconds}']\n"))?;
    let mark = format!("sleep\0{seconds}\0");
    let file = project.join("box.toml").display().to_string();
    let building = caller.paddock(["template", "build", file.as_str()])?.start()?;
    let inside = || {
        std::fs::read_dir("/proc").ok()?.flatten().find(|entry| {
            std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line.starts_with(mark.as_bytes()))
        })
    };
    until(PATIENCE, "the step runs", inside)?;
    building.signal(rustix::process::Signal::INT)?;
    let ended = building.finish()?;
    ensure!(ended.code != 0 && ended.err().contains("interrupted by signal 2"), "{}", ended.err());
    assert_eq!(stored(caller, "temporary"), 0, "work in progress was left");
    let listed = caller.paddock(["template", "ls"])?.finish()?.success()?;
    ensure!(!listed.contains("box"), "{listed}");
    Ok(())
}

fn two_builds_at_once_are_one(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(caller, &project, STEPS)?;
    let file = project.join("box.toml").display().to_string();
    let start = || caller.paddock(["template", "build", file.as_str(), "--json"])?.start();
    let running = [start()?, start()?, start()?];
    let mut built = Vec::new();
    for running in running {
        let finished = running.finish()?;
        finished.success()?;
        built.push(finished.json()?);
    }
    ensure!(built.iter().all(|one| one["image"] == built[0]["image"]), "{built:?}");
    for layer in 0..5 {
        let made = built.iter().filter(|one| !cached(one)[layer]).count();
        ensure!(made == 1, "layer {layer} was made {made} times");
    }
    assert_eq!(stored(caller, "roots"), 5);
    Ok(())
}

fn what_is_not_used_any_more_is_removed(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(caller, &project, STEPS)?;
    build(caller, &project, &[])?.success()?;
    build_file(caller, &project, &STEPS.replace("\"world\"", "\"you\""))?;
    build(caller, &project, &["--name", "other"])?.success()?;
    assert_eq!(stored(caller, "roots"), 7, "three are shared, two are each one's own");
    let rm = |name: &str| caller.paddock(["template", "rm", name])?.finish()?.success();
    rm("box")?;
    assert_eq!(stored(caller, "roots"), 5);
    assert_eq!(caller.script(&["--template", "other"], "cat /etc/made")?.success()?, "hello you\n");
    build(caller, &project, &["--name", "other", "--no-cache"])?.success()?;
    assert_eq!(stored(caller, "roots"), 10);
    let pruned = caller.paddock(["template", "prune", "--json"])?.finish()?.json()?;
    assert_eq!((&pruned["layers"], &pruned["in_use"]), (&5.into(), &0.into()));
    assert_eq!(stored(caller, "roots"), 5);
    assert_eq!(caller.script(&["--template", "other"], "cat /etc/made")?.success()?, "hello you\n");
    rm("other")?;
    assert_eq!((stored(caller, "roots"), stored(caller, "temporary")), (0, 0));
    let said = caller.paddock(["template", "prune"])?.finish()?.success()?;
    assert_eq!(said, "0 layers removed, 0 B\n");
    Ok(())
}

fn a_template_in_use_keeps_its_image(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(caller, &project, "base = './root'\nrun = ['echo made > /etc/made']\n")?;
    build(caller, &project, &[])?.success()?;
    let command = ["--template", "box", "--", "sh", "-c", "echo begun; cat; cat /etc/made"];
    let mut running = caller.start_run(command)?.start()?;
    running.wait_for("begun")?;
    caller.paddock(["template", "rm", "box"])?.finish()?.success()?;
    assert_eq!(stored(caller, "roots"), 1, "the base goes, the image in use stays");
    running.close_input();
    assert_eq!(running.finish()?.success()?, "begun\nmade\n");
    let pruned = caller.paddock(["template", "prune", "--json"])?.finish()?.json()?;
    assert_eq!(pruned["layers"], 1);
    assert_eq!(stored(caller, "roots"), 0);
    Ok(())
}

fn steps_that_fetch_trust_what_the_host_trusts(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    let (_outside, authority) = crate::certificates::inspected(caller)?;
    let certificate = std::fs::read_to_string(&authority)?;
    let line = certificate.lines().nth(1).context("a certificate")?;
    let text = |settings: &str| {
        format!(
            "base = \"./root\"\nrun = [{{ command = \"grep -c -F '{line}' $PIP_CERT > /etc/found; true\", net = \"host\" }}, \
             \"echo [$PIP_CERT] >> /etc/found\"]\n[template]\n{settings}"
        )
    };
    let found = |settings: &str, options: &[&str]| -> Result<String> {
        build_file(caller, &project, &text(settings))?;
        let file = project.join("box.toml").display().to_string();
        let build = caller.paddock(["template", "build", file.as_str(), "--no-cache"])?.arguments(options);
        build.environment("NODE_EXTRA_CA_CERTS", &authority).finish()?.success()?;
        caller.script(&["--template", "box"], "cat /etc/found")?.success()
    };
    assert_eq!(found("", &[])?, "0\n[]\n", "it was lent what nobody asked for");
    assert_eq!(found("", &["--host-certs"])?, "1\n[]\n");
    assert_eq!(found("host_certs = true", &[])?, "1\n[]\n");
    assert_eq!(found("host_certs = true", &["--host-certs=false"])?, "0\n[]\n");
    let refused = build(caller, &project, &["--host-certs"])?;
    refused.success().context("the host's own")?;
    let file = project.join("box.toml").display().to_string();
    let unreadable = caller.paddock(["template", "build", file.as_str(), "--host-certs"])?;
    let unreadable = unreadable.environment("PIP_CERT", "/no/such.pem").finish()?;
    ensure!(
        unreadable.code == 1 && unreadable.err().contains("PIP_CERT names `/no/such.pem`"),
        "{unreadable:?}"
    );
    Ok(())
}

fn a_template_of_somebody_is_replaced_on_demand(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    build_file(caller, &project, "base = './root'\n")?;
    caller.paddock(["template", "add", "box", "--env", "A=own"])?.finish()?.success()?;
    let refused = build(caller, &project, &[])?;
    ensure!(refused.err().contains("there is a template `box` already"), "{}", refused.err());
    ensure!(refused.err().contains("--force"), "{}", refused.err());
    build(caller, &project, &["--force"])?.success()?;
    build(caller, &project, &[])?.success().context("what was built is built again without --force")?;
    assert_eq!(caller.script(&["--template", "box"], "cat /etc/greeting")?.success()?, images::GREETING);
    Ok(())
}

fn bad_input_is_told(caller: &Caller) -> Result<()> {
    let Some(project) = project(caller)? else { return Ok(()) };
    let refused = |text: &str, words: &str| -> Result<()> {
        build_file(caller, &project, text)?;
        let refused = build(caller, &project, &[])?;
        ensure!(refused.code != 0 && refused.err().contains(words), "{text:?}: {}", refused.err());
        Ok(())
    };
    refused("base = ", "line 1, column")?;
    refused(
        "base = './root'\nrnu = ['x']\n",
        "line 2: `rnu` is not a key of a build file; did you mean `run`?",
    )?;
    refused("base = './absent'\n", "there is no image at")?;
    refused("base = './root'\n[template]\nnet = 'lan'\n", "network `lan` is not known")?;
    refused("base = './root'\n[build]\nmemory = '1'\n", "memory limit")?;
    if !caller.is_root {
        refused("base = './root'\napt = ['hello']\n", "a step with `apt` needs root")?;
    }
    let absent = caller.paddock(["template", "build", "nothing"])?.finish()?;
    ensure!(
        absent.err().contains("known are agent, base, bun, claude, code-interpreter"),
        "{}",
        absent.err()
    );
    let absent = caller.paddock(["template", "build", "./nothing.toml"])?.finish()?;
    ensure!(absent.err().contains("./nothing.toml"), "{}", absent.err());
    build_file(caller, &project, "base = './root'\n")?;
    let refused = build(caller, &project, &["--name", "../x"])?;
    ensure!(refused.err().contains("template name `../x`"), "{}", refused.err());
    caller.run(["--image", "built://xyz", "--", "true"])?.refused(&["after built:// stand 64 hex digits"])?;
    let absent = format!("built://{}", "0".repeat(64));
    caller.run(["--image", absent.as_str(), "--", "true"])?.refused(&["paddock template build"])
}
