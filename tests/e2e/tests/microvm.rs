//! Sandboxes with a kernel of their own: a person's view of them, and the parts of their memory that outlive a server.
//! Booting an emulated VM takes seconds, so that few tests do, and each asks much.

#[path = "../../../crates/backends/tests/microvm/booted.rs"]
mod booted;
pub mod machine;

use anyhow::{Result, ensure};
use booted::boot_once;
use paddock_e2e::{Caller, Server, Terminal, as_root_behind, images, skip};
use serde_json::{Value, json};

/// One size of VM for all sandboxes of a test: small, so that it boots soon.
pub const SIZE: [&str; 6] = ["--memory", "192MiB", "--cpus", "1", "--disk", "64MiB"];

/// Prints the reason, too.
pub fn is_missing() -> bool {
    let qemu = ["/usr/bin/qemu-system-x86_64", "/usr/local/bin/qemu-system-x86_64"];
    let kernel = std::env::var("PADDOCK_TEST_KERNEL").is_ok_and(|path| std::path::Path::new(&path).exists());
    let missing = match (qemu.iter().any(|path| std::path::Path::new(path).exists()), kernel) {
        (false, _) => "there is no qemu-system-x86_64",
        (true, false) => "PADDOCK_TEST_KERNEL names no kernel",
        (true, true) => return false,
    };
    skip("microvm", missing);
    true
}

/// As root, if VMs can run here.
pub fn with_machines(name: &str, test: paddock_e2e::Test) -> Result<()> {
    if is_missing() {
        return Ok(());
    }
    as_root_behind("microvm", name, test)
}

macro_rules! where_there_are_machines {
    ($($name:ident),+ $(,)?) => {
        $(#[test]
        fn $name() -> Result<()> {
            with_machines(concat!(module_path!(), "::", stringify!($name)), tests::$name)
        })+
    };
}

where_there_are_machines!(
    commands_workspaces_limits_and_refusals,
    a_sandbox_that_lives,
    memory_is_in_every_fork_snapshot_and_sleep,
    what_a_template_preloads_is_loaded_once,
    what_goes_wrong_is_told_and_leaves_nothing,
    a_bake_that_is_not_whole_is_made_again,
    the_processor_is_tried_by_booting,
    addresses_are_random_unless_somebody_says_otherwise,
);

/// Makes sure that there is a VM of that size to begin with.
pub fn boot(caller: &Caller) -> Result<()> {
    boot_once(&caller.state().join("machines"), || boot_anew(caller))
}

/// The first VM of a size is booted, without a limit of time: the engine itself gives up in the end.
pub fn boot_anew(caller: &Caller) -> Result<()> {
    let mut command = caller.program(caller.executable()?);
    let booted = command.args(["run", "--backend", "microvm"]).args(SIZE).args(["--", "true"]).output()?;
    let said = String::from_utf8_lossy(&booted.stderr);
    ensure!(booted.status.success() && said.contains("booting a VM"), "{said}");
    Ok(())
}

/// For sandboxes that share nothing with the host: their memory can be kept. Prints the reason if there is no image.
pub fn busybox_image(caller: &Caller) -> Result<Option<String>> {
    let busybox = match images::busybox() {
        Ok(busybox) => busybox,
        Err(reason) => {
            skip("microvm::memory", &reason);
            return Ok(None);
        }
    };
    let image = caller.directory("image")?;
    images::directory(&image, &busybox)?;
    Ok(Some(image.display().to_string()))
}

/// The end of a sandbox is noticed, not asked for.
pub fn ended(server: &Server, id: &str) -> Result<Value> {
    paddock_e2e::until(paddock_e2e::PATIENCE, "the end of the sandbox", || {
        let shown = server.run(["inspect", id]).and_then(|ran| ran.json()).ok()?;
        (shown["state"] == "ended").then(|| shown["end"]["cause"].clone())
    })
}

mod tests {
    use super::*;

    fn with<'a>(options: &[&'a str]) -> Vec<&'a str> {
        SIZE.iter().chain(options).copied().collect()
    }

    pub fn commands_workspaces_limits_and_refusals(caller: &Caller) -> Result<()> {
        boot(caller)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/osrelease")?;
        let ran = caller
            .start_run(with(&["-i", "--", "sh", "-c", "uname -r; id -u; cat; exit 7"]))?
            .input("typed")
            .finish()?;
        ran.exited(7)?;
        let lines: Vec<_> = ran.out().lines().map(String::from).collect();
        ensure!(lines[0] != host.trim(), "the host's kernel answers: {lines:?}");
        assert_eq!(lines[1..], ["1000", "typed"]);
        ensure!(!ran.err().contains("booting a VM"), "{}", ran.err());

        let report = caller.run(with(&["--json", "--require", "own-kernel", "--", "true"]))?.json()?;
        let guarantees = &report["guarantees"];
        assert_eq!(
            (&guarantees["backend"], &guarantees["boundary"]),
            (&json!("microvm"), &json!("own-kernel"))
        );
        ensure!(guarantees["weaknesses"].to_string().contains("emulated"), "{guarantees}");

        // Its seconds are those of the host: between two looks no more passes inside than outside.
        let looks =
            "import time; a = time.time(); time.sleep(3); b = time.time(); print(b - a, time.monotonic())";
        let begun = std::time::Instant::now();
        let slept = caller.run(with(&["--", "python3", "-c", looks]))?.success()?;
        let inside: f64 = slept.split(' ').next().unwrap_or_default().parse()?;
        ensure!(
            inside >= 3.0 && inside <= begun.elapsed().as_secs_f64(),
            "{inside} s in {:?}",
            begun.elapsed()
        );

        copies_share_no_name(caller)?;
        a_workspace_stays_the_callers(caller)?;
        let hungry =
            caller.run(with(&["--", "python3", "-c", "x = []\nwhile True: x.append(bytearray(1 << 24))"]))?;
        hungry.exited(137)?;
        ensure!(hungry.err().contains("out of memory"), "{}", hungry.err());
        let filled =
            caller.script(&SIZE, "head -c 100M /dev/zero > /tmp/full; echo $?; wc -c < /tmp/full")?;
        ensure!(filled.success()?.starts_with("1\n"), "{}", filled.out());

        let refused = caller.run(with(&["--net", "host", "--", "true"]))?;
        refused.exited(125)?;
        ensure!(
            refused.err().contains("the host's network") && refused.err().contains("hint:"),
            "{}",
            refused.err()
        );
        for (variable, value) in [("PADDOCK_QEMU", "/nowhere/qemu"), ("PADDOCK_KERNEL", "/nowhere/vmlinuz-1")]
        {
            let absent = caller.start_run(with(&["--", "true"]))?.environment(variable, value).finish()?;
            absent.exited(125)?;
            ensure!(absent.err().contains(value) && absent.err().contains("hint:"), "{}", absent.err());
        }
        Ok(())
    }

    /// A bake that was kept for the one setting is not used for the other.
    pub fn addresses_are_random_unless_somebody_says_otherwise(caller: &Caller) -> Result<()> {
        boot(caller)?;
        let places = "grep -m1 libc.so /proc/self/maps; grep -m1 libc.so /proc/self/maps";
        for (setting, fixed) in [(None, false), (Some("off"), true), (None, false)] {
            let mut command = caller.program(caller.executable()?);
            command
                .args(["run", "--backend", "microvm", "--json"])
                .args(SIZE)
                .args(["--", "sh", "-c", places]);
            command.envs(setting.map(|value| ("PADDOCK_VM_ASLR", value)));
            let ran = command.output()?;
            let report: Value = serde_json::from_slice(&ran.stdout)?;
            let said = report["stdout"].as_str().unwrap_or_default();
            let begin: Vec<_> = said.lines().filter_map(|line| line.split('-').next()).collect();
            ensure!(begin.len() == 2 && (begin[0] == begin[1]) == fixed, "{setting:?}: {report}");
            let named = report["guarantees"]["weaknesses"].to_string().contains("PADDOCK_VM_ASLR");
            assert_eq!(named, fixed, "{report}");
        }
        fixed_addresses_are_told_by_who_did_not_ask_for_them(caller)
    }

    /// The VM was booted so, and goes on so.
    fn fixed_addresses_are_told_by_who_did_not_ask_for_them(caller: &Caller) -> Result<()> {
        let Some(image) = busybox_image(caller)? else { return Ok(()) };
        let mut server = Server::start_in(caller, &[("PADDOCK_VM_ASLR", "off")])?;
        let id = server.create(&with(&["--image", &image]))?;
        if server.run(["inspect", &id])?.json()?["guarantees"]["snapshot"] != "memory" {
            skip("microvm::memory", "disks of this machine are in memory");
            return Ok(());
        }
        server.run(["hibernate", &id])?.success()?;
        server.stop()?;
        server.start_again_plainly()?;
        server.script(&id, "true")?.success()?;
        let shown = server.run(["inspect", &id])?.json()?;
        ensure!(shown["guarantees"]["weaknesses"].to_string().contains("PADDOCK_VM_ASLR"), "{shown}");
        let anew = server.create(&with(&["--image", &image]))?;
        let shown = server.run(["inspect", &anew])?.json()?;
        ensure!(!shown["guarantees"]["weaknesses"].to_string().contains("PADDOCK_VM_ASLR"), "{shown}");
        for id in [&id, &anew] {
            server.run(["kill", id])?.success()?;
        }
        Ok(())
    }

    /// All begin with the memory of one VM; values that they would share because of that are drawn anew.
    fn copies_share_no_name(caller: &Caller) -> Result<()> {
        let script = "cat /etc/machine-id /proc/sys/kernel/random/boot_id; hostname; \
            python3 -c 'import os, random; print(os.urandom(16).hex()); print(random.random()); print(hash(\"a\")); print(id(os))'";
        let copy = |name: &str| caller.run(with(&["--hostname", name, "--", "sh", "-c", script]))?.success();
        let (one, other) = (copy("one")?, copy("other")?);
        ensure!(one.lines().count() == 7, "{one}");
        for (one, other) in one.lines().zip(other.lines()) {
            ensure!(one != other, "two copies have {one}");
        }
        Ok(())
    }

    /// Cut off by a host that lost its power, or overwritten: the VM's memory, and the rest of its state.
    pub fn a_bake_that_is_not_whole_is_made_again(caller: &Caller) -> Result<()> {
        boot_anew(caller)?;
        let kept = |name: &str| -> Result<std::path::PathBuf> {
            let machines = std::fs::read_dir(caller.state().join("machines"))?.flatten();
            let mut found = machines.map(|entry| entry.path().join(name)).filter(|path| path.exists());
            found.next().ok_or_else(|| anyhow::anyhow!("no {name} was kept"))
        };
        let memory = kept("memory")?;
        std::fs::OpenOptions::new().write(true).open(&memory)?.set_len(1 << 20)?;
        // Without a limit of time: it boots.
        boot_anew(caller)?;
        let state = kept("state")?;
        std::fs::write(&state, b"QEVM and nothing else")?;
        let refused = caller.run(with(&["--", "true"]))?;
        refused.exited(125)?;
        ensure!(refused.err().contains("VM"), "{}", refused.err());
        ensure!(!state.exists(), "it is there for the next one");
        boot_anew(caller)
    }

    fn a_workspace_stays_the_callers(caller: &Caller) -> Result<()> {
        use std::os::unix::fs::MetadataExt;
        let workspace = caller.directory("repository")?;
        std::fs::create_dir_all(workspace.join(".git/hooks"))?;
        let script = "echo made > made; mkdir below; mv made below/; echo evil > .git/hooks/pre-commit; mv .git other; cat below/made";
        let place = workspace.display().to_string();
        let ran = caller.run(with(&["--workspace", &place, "--", "sh", "-c", script]))?;
        assert_eq!(ran.success()?, "made\n");
        let owner = |path: &str| workspace.join(path).metadata().map(|found| (found.uid(), found.gid()));
        let expected = workspace.metadata().map(|found| (found.uid(), found.gid()))?;
        assert_eq!((owner("below")?, owner("below/made")?), (expected, expected));
        ensure!(workspace.join(".git/hooks").is_dir() && !workspace.join(".git/hooks/pre-commit").exists());
        Ok(())
    }

    pub fn a_sandbox_that_lives(caller: &Caller) -> Result<()> {
        boot(caller)?;
        let mut server = Server::start(caller)?;
        let id = server.create(&SIZE)?;
        machine::is_jailed(&id)?;
        let mut terminal = Terminal::open(41, 123)?;
        terminal.start(server.paddock(["exec", "-it", &id, "sh"])?.environment("TERM", "xterm").command())?;
        terminal.type_keys(b"stty size; echo done-$((1+1))\r")?;
        terminal.wait_for("done-2")?;
        ensure!(terminal.screen().contains("41 123"), "{:?}", terminal.screen());
        terminal.type_keys(b"exit 9\r")?;
        assert_eq!(terminal.exit_code()?, 9);
        let target = format!("/v1/sandboxes/{id}/files/content?path=/workspace/a/b.txt&parents=true");
        server.send("PUT", &target, "", b"content")?.ok()?;
        assert_eq!(server.script(&id, "cat /workspace/a/b.txt")?.success()?, "content");
        let changed = server.run(["diff", &id])?.success()?;
        ensure!(changed.contains("b.txt"), "{changed}");

        let script = "for i in 1 2 3 4 5 6; do echo step $i; sleep 0.5; done";
        server.run(["exec", "-d", &id, "--", "sh", "-c", script])?.success()?;
        server.kill()?;
        server.start_again()?;
        let followed = server.run(["logs", "-f", &id])?.success()?;
        let expected: String = (1..=6).map(|step| format!("step {step}\n")).collect();
        assert_eq!(followed, expected);
        server.run(["pause", &id])?.success()?;
        server.run(["resume", &id])?.success()?;
        assert_eq!(server.script(&id, "echo again")?.success()?, "again\n");
        // Files alone: a part of the host is shared with this one.
        server.run(["hibernate", &id])?.success()?;
        assert_eq!(server.script(&id, "cat /workspace/a/b.txt")?.success()?, "content");
        server.run(["kill", &id])?.success().map(drop)
    }

    /// Each of them is the end of one sandbox, with its cause; the others go on.
    pub fn what_goes_wrong_is_told_and_leaves_nothing(caller: &Caller) -> Result<()> {
        boot(caller)?;
        let server = Server::start(caller)?;
        let witness = server.create(&SIZE)?;
        let flooded = server.script(&witness, "head -c 8388608 /dev/zero | tr '\\0' x")?.success()?;
        assert_eq!(flooded.len(), 8 << 20, "output was lost");
        let script = "head -c 100M /dev/zero > full; rm full && echo room > small && cat small";
        let filled = server.script(&witness, script)?;
        assert_eq!(filled.success()?, "room\n");
        ensure!(filled.err().contains("No space left"), "{}", filled.err());

        for end in [machine::panic, machine::kill, machine::power_off, machine::reset] {
            let id = server.create(&SIZE)?;
            end(&id)?;
            let cause = ended(&server, &id)?;
            assert_eq!(cause["kind"], "guest_lost", "{cause}");
            ensure!(machine::parts(&id).is_empty(), "left behind: {:?}", machine::parts(&id));
        }
        // A VM that spins is one that works: it has its share of the processors, and answers.
        let spins = server.create(&SIZE)?;
        server.run(["exec", "-d", &spins, "--", "sh", "-c", "while :; do :; done"])?.success()?;
        assert_eq!(server.script(&spins, "echo heard")?.success()?, "heard\n");
        // A VM that answers nothing is reported, and can be ended as any other.
        machine::fall_silent(&spins)?;
        let asked = server.api("POST", &format!("/v1/sandboxes/{spins}/pause"), Some(&json!({})))?;
        ensure!(asked.status >= 500, "{}: {}", asked.status, asked.text());
        ensure!(asked.text().contains("\"code\""), "{}", asked.text());
        server.run(["kill", &spins])?.success()?;
        ensure!(machine::parts(&spins).is_empty(), "left behind: {:?}", machine::parts(&spins));
        assert_eq!(server.script(&witness, "echo lives")?.success()?, "lives\n");

        // Less than a guest needs is not given.
        let little = caller.run(["--memory", "1KiB", "--", "true"])?;
        little.exited(125)?;
        ensure!(little.err().contains("memory limit 1 KiB is outside 4 MiB"), "{}", little.err());
        // Nor more than the host has.
        let much = caller.run(["--memory", "16TiB", "--", "true"])?;
        much.exited(125)?;
        ensure!(much.err().contains("and this host has") && much.err().contains("hint:"), "{}", much.err());
        ensure!(!much.err().contains("booting"), "{}", much.err());
        Ok(())
    }

    /// On most hosts of tests no kernel boots on /dev/kvm, or there is none: the test checks that it is told.
    pub fn the_processor_is_tried_by_booting(caller: &Caller) -> Result<()> {
        let mut asked = caller.program(caller.executable()?);
        let asked = asked.args(["doctor", "--json"]).env("PADDOCK_KVM", "auto").output()?;
        let found: Value = serde_json::from_slice(&asked.stdout)?;
        let backends = found.as_array().cloned().unwrap_or_default();
        let microvm = backends.iter().find(|one| one["backend"] == "microvm").cloned().unwrap_or_default();
        let checks = microvm["checks"].as_array().cloned().unwrap_or_default();
        let processor = checks.iter().find(|check| check["name"] == "processor").cloned().unwrap_or_default();
        let detail = processor["detail"].as_str().unwrap_or_default().to_string();
        let run =
            caller.start_run(with(&["--json", "--", "true"]))?.environment("PADDOCK_KVM", "auto").finish()?;
        let weaknesses = run.json()?["guarantees"]["weaknesses"].to_string();
        match detail.strip_prefix("emulated: ") {
            None => ensure!(
                detail.starts_with("KVM") && !weaknesses.contains("emulated"),
                "{detail}: {weaknesses}"
            ),
            Some(why) => {
                ensure!(why.contains("/dev/kvm"), "no reason is given: {why}");
                ensure!(weaknesses.contains(why) && processor["remedy"].is_string(), "{why}: {weaknesses}");
            }
        }
        Ok(())
    }

    /// A module that tells when and by which process it was imported.
    const MODULE: &str = "import os, random, tempfile, uuid\nMARK = os.urandom(8).hex()\nrandom.random()\n";

    /// Creates a sandbox that waits for a VM to be booted and loaded, without a limit of time.
    fn create_slowly(server: &Server, options: &[&str]) -> Result<String> {
        let created = server.paddock(["create"].iter().chain(options))?.command().output()?;
        ensure!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
        Ok(String::from_utf8(created.stdout)?.trim().to_string())
    }

    /// The server's warnings, without the requests.
    fn warnings(server: &Server) -> String {
        server.errors().lines().filter(|line| !line.contains(" INFO ")).collect::<Vec<_>>().join("\n")
    }

    fn value(server: &Server, id: &str, code: &str) -> Result<String> {
        let asked = json!({ "code": code });
        let answer = server.api("POST", &format!("/v1/sandboxes/{id}/code"), Some(&asked))?.expect(200)?;
        crate::contexts::text_of(&answer)
    }

    /// The state of an interpreter, an open file and a background process: in each child, and the parent keeps its own.
    fn memory_goes_with_forks(server: &Server, id: &str) -> Result<()> {
        let inspected: Value = serde_json::from_str(&server.run(["inspect", id])?.success()?)?;
        if inspected["guarantees"]["snapshot"] != "memory" {
            skip("microvm::memory", "disks of this machine are in memory");
            return Ok(());
        }
        let before = "import threading, time\nvariable = ['set before']\nopened = open('/tmp/opened', 'w+')\nopened.write('unflushed')\n\
            ticks = []\ndef tick():\n    while True:\n        ticks.append(1)\n        time.sleep(0.1)\n\
            threading.Thread(target=tick, daemon=True).start()\nvariable[0]";
        assert_eq!(value(server, id, before)?, "'set before'");
        let children = server.run(["fork", "-n", "3", id])?.success()?;
        let children: Vec<_> = children.lines().collect();
        assert_eq!(children.len(), 3);
        for (number, one) in children.iter().copied().chain([id]).enumerate() {
            let after = format!(
                "variable.append({number}); opened.write(' {number}'); opened.seek(0); count = len(ticks)\n\
                 while len(ticks) == count: time.sleep(0.05)\n(variable, opened.read())"
            );
            let expected = format!("(['set before', {number}], 'unflushed {number}')");
            assert_eq!(value(server, one, &after)?, expected, "in {one}");
        }
        for child in children {
            server.run(["kill", child])?.success()?;
        }
        server.run(["hibernate", id])?.success()?;
        assert_eq!(value(server, id, "variable[0]")?, "'set before'");
        Ok(())
    }

    pub fn what_a_template_preloads_is_loaded_once(caller: &Caller) -> Result<()> {
        let image = caller.directory("python-image")?;
        images::python(&image)?;
        std::fs::write(image.join("srv/loaded.py"), MODULE)?;
        let policy = format!(
            "image = '{}'\nbackend = 'microvm'\nlimits = {{ memory = '192MiB', cpus = 1, disk = '64MiB' }}\npreload = ['loaded']\n\
             env = {{ PYTHONPATH = '/srv' }}\n",
            image.display()
        );
        let policy = caller.file("preloads.toml", policy)?.display().to_string();
        let mut server = Server::start(caller)?;
        server.run(["template", "add", "preloads", "--policy", &policy])?.success()?;
        let loads =
            |server: &Server| server.errors().matches("loading what template preloads preloads").count();
        let differ = "import random, uuid, tempfile; open('/etc/machine-id').read(), \
            open('/proc/sys/kernel/random/boot_id').read(), random.random(), uuid.uuid4().hex, next(tempfile._get_candidate_names())";
        let mark = "import sys; sys.modules['loaded'].MARK";
        let of_template = ["--template", "preloads", "--env", "WHO=me"];
        let (first, second) = (create_slowly(&server, &of_template)?, server.create(&of_template)?);
        assert_eq!(loads(&server), 1, "{}", server.said());
        let loaded = value(&server, &first, mark)?;
        assert_eq!(value(&server, &second, mark)?, loaded, "each has loaded it itself");
        let (one, other) = (value(&server, &first, differ)?, value(&server, &second, differ)?);
        for (one, other) in one.split(", ").zip(other.split(", ")) {
            ensure!(one != other, "both have {one}");
        }
        assert_eq!(
            value(&server, &first, "import os; os.environ['WHO'], os.getcwd()")?,
            "('me', '/workspace')"
        );
        let clock: f64 = value(&server, &second, "import time; time.time()")?.parse()?;
        let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs_f64();
        ensure!((here - clock).abs() < 60.0, "it is {clock} there, and {here} here");
        assert_eq!(
            server.run(["diff", &first])?.success()?,
            "nothing was changed\n",
            "what was there before its caller"
        );
        assert_eq!(
            server.script(&first, "echo mine > /workspace/file; cat /workspace/file")?.success()?,
            "mine\n"
        );
        let changed = server.run(["diff", &first])?.success()?;
        ensure!(changed.contains("workspace/") && changed.contains("file"), "{changed}");

        // Its interpreter goes on behind the next server, which need not load anything.
        value(&server, &first, "kept = 'kept'; kept")?;
        server.kill()?;
        server.start_again()?;
        assert_eq!(value(&server, &first, "kept")?, "'kept'");
        let third = server.create(&of_template)?;
        assert_eq!((value(&server, &third, mark)?, loads(&server)), (loaded.clone(), 0));

        // A pool begins with the same.
        crate::pools::set(&server, "preloads", 1, 2)?;
        let full = crate::pools::filled(&server, "preloads", 1)?;
        assert_eq!(full["zygote"], "ready", "{full}");
        let fourth = server.create(&of_template)?;
        assert_eq!(value(&server, &fourth, mark)?, loaded);
        assert_eq!(crate::pools::pool(&server, "preloads")?["hits"], 1);
        server.run(["pool", "rm", "preloads"])?.success()?;

        memory_goes_with_forks(&server, &fourth)?;

        // Another template is loaded anew; a template that cannot be loaded is told of, and its sandboxes are there all
        // the same.
        std::fs::write(image.join("srv/loaded.py"), format!("{MODULE}CHANGED = 1\n"))?;
        let fifth = create_slowly(&server, &of_template)?;
        let anew = value(&server, &fifth, mark)?;
        ensure!(
            anew != loaded && loads(&server) == 1,
            "{anew} after {loaded}, {} loads: {}",
            loads(&server),
            warnings(&server)
        );
        std::fs::write(image.join("srv/loaded.py"), "raise ValueError('never loaded')\n")?;
        let sixth = create_slowly(&server, &of_template)?;
        assert_eq!(value(&server, &sixth, "6 * 7")?, "42");
        ensure!(server.errors().contains("never loaded"), "{}", warnings(&server));
        for id in [first, second, third, fourth, fifth, sixth] {
            server.run(["kill", &id])?.success()?;
        }
        Ok(())
    }

    pub fn memory_is_in_every_fork_snapshot_and_sleep(caller: &Caller) -> Result<()> {
        let Some(image) = busybox_image(caller)? else { return Ok(()) };
        boot(caller)?;
        let server = Server::start(caller)?;
        let id = server.create(&with(&["--image", &image]))?;
        let inspected: Value = serde_json::from_str(&server.run(["inspect", &id])?.success()?)?;
        if inspected["guarantees"]["snapshot"] != "memory" {
            skip("microvm::memory", "disks of this machine are in memory");
            return Ok(());
        }
        let count = "i=0; while true; do i=$((i+1)); echo $i > /tmp/count; sleep 1; done";
        server.run(["exec", "-d", &id, "--", "sh", "-c", count])?.success()?;
        server
            .script(&id, "echo mine > /tmp/file; cat /proc/sys/kernel/random/uuid > /dev/null")?
            .success()?;
        let goes_on =
            "a=$(cat /tmp/count); while test \"$(cat /tmp/count)\" = \"$a\"; do sleep 1; done; cat /tmp/file";
        let children = server.run(["fork", "-n", "2", &id])?.success()?;
        let mut drawn = Vec::new();
        for one in children.lines().chain([id.as_str()]) {
            assert_eq!(server.script(one, goes_on)?.success()?, "mine\n", "in {one}");
            drawn.push(server.script(one, "cat /proc/sys/kernel/random/uuid")?.success()?);
            server.script(one, "echo changed > /tmp/file")?.success()?;
        }
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), 3, "random numbers repeat: {drawn:?}");
        server.run(["hibernate", &id])?.success()?;
        assert_eq!(server.script(&id, goes_on)?.success()?, "changed\n");
        Ok(())
    }
}
