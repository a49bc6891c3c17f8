//! The surroundings of the command: environment, directory, user, host name.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers, skip};

for_both_callers!(
    nothing_of_the_hosts_environment,
    variables_that_are_named,
    variables_from_a_file,
    the_working_directory,
    the_user,
    the_host_name,
    only_its_own_processes,
    what_is_writable,
    no_descriptor_is_inherited,
    what_others_do_with_programs_of_the_host_is_not_seen,
    what_others_do_with_devices_is_not_seen,
);

fn nothing_of_the_hosts_environment(caller: &Caller) -> Result<()> {
    let invocation = caller.start_run(["--", "env"])?;
    let names = ["SECRET", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD_NOT", "BASH_ENV", "PYTHONPATH", "TERM"];
    let invocation = names.iter().fold(invocation, |all, name| all.environment(name, "do-not-leak"));
    let output = invocation.finish()?.success()?;
    ensure!(!output.contains("do-not-leak"), "{output}");
    let mut names: Vec<&str> = output.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "LANG", "PATH", "PIP_BREAK_SYSTEM_PACKAGES"]);
    // Nor through the guest, which the command can see as process 1.
    let look = ["--", "sh", "-c", "cat /proc/1/environ; cat /proc/1/cmdline; true"];
    let finished = caller.start_run(look)?.environment("SECRET", "do-not-leak").finish()?;
    ensure!(!finished.success()?.contains("do-not-leak"), "{}", finished.out());
    Ok(())
}

fn variables_that_are_named(caller: &Caller) -> Result<()> {
    let options =
        ["--env", "A=one", "-e", "B=two=2 \u{e4}", "--env", "SECRET", "--env", "EMPTY=", "--env", "ABSENT"];
    let script = "echo \"$A|$B|$SECRET|${EMPTY-unset}|${ABSENT-unset}|$OTHER\"";
    let invocation = caller.start_run(options.iter().chain(&["--", "sh", "-c", script]))?;
    let invocation = invocation.environment("SECRET", "named").environment("OTHER", "x");
    assert_eq!(invocation.finish()?.success()?, "one|two=2 \u{e4}|named||unset|\n");
    let finished = caller.script(&["--env", "PATH=/nowhere", "--env", "HOME=/tmp"], "echo $PATH $HOME")?;
    // `sh` itself is looked for where the command's own PATH says.
    finished.exited(127)?;
    let finished = caller.run([
        "--env",
        "PATH=/nowhere",
        "--env",
        "HOME=/tmp",
        "--",
        "/bin/sh",
        "-c",
        "echo $PATH $HOME",
    ])?;
    assert_eq!(finished.success()?, "/nowhere /tmp\n");
    Ok(())
}

fn variables_from_a_file(caller: &Caller) -> Result<()> {
    let file = caller.file("variables", "# a comment\n\nA=one\nB=two words\nSECRET\nC=flag loses\n")?;
    let options = ["--env-file", &file.display().to_string(), "--env", "C=flag wins"];
    let arguments = options.iter().chain(&["--", "sh", "-c", "echo \"$A|$B|$SECRET|$C\""]);
    let finished = caller.start_run(arguments)?.environment("SECRET", "named").finish()?;
    assert_eq!(finished.success()?, "one|two words|named|flag wins\n");
    let file = caller.file("bad", "A=one\n=two\n")?.display().to_string();
    caller.run(["--env-file", &file, "--", "true"])?.refused(&[&file, "2"])?;
    caller.run(["--env-file", "/no/such/file", "--", "true"])?.refused(&["/no/such/file"])
}

fn the_working_directory(caller: &Caller) -> Result<()> {
    assert_eq!(caller.run(["--", "pwd"])?.success()?, "/workspace\n");
    for directory in ["/tmp", "/usr/bin", "/home/agent"] {
        let finished = caller.run(["--cwd", directory, "--", "pwd"])?;
        assert_eq!(finished.success()?, format!("{directory}\n"));
    }
    Ok(())
}

fn the_user(caller: &Caller) -> Result<()> {
    let script = "echo $(id -u) $(id -g) $HOME; touch ~/x /tmp/x /workspace/x && echo writes";
    assert_eq!(caller.script(&[], script)?.success()?, "1000 1000 /home/agent\nwrites\n");
    assert_eq!(caller.script(&["--user", "agent"], script)?.success()?, "1000 1000 /home/agent\nwrites\n");
    assert_eq!(caller.script(&["--user", "root"], script)?.success()?, "0 0 /root\nwrites\n");
    let finished = caller.script(&["--user", "1234"], "echo $(id -u) $(id -g)")?;
    ensure!(finished.success()?.starts_with("1234 "), "{}", finished.out());
    let finished = caller.script(&["--user", "1234:4321"], "echo $(id -u) $(id -g); touch /tmp/x")?;
    assert_eq!(finished.success()?, "1234 4321\n");
    for user in ["-1", "no such user", "4294967295", "1:2:3", ""] {
        caller.script(&[&format!("--user={user}")], "true")?.refused(&[user])?;
    }
    Ok(())
}

fn the_host_name(caller: &Caller) -> Result<()> {
    let script = "cat /proc/sys/kernel/hostname; cat /etc/hostname";
    assert_eq!(caller.script(&[], script)?.success()?, "paddock\npaddock\n");
    let finished = caller.script(&["--hostname", "barn-7"], script)?;
    assert_eq!(finished.success()?, "barn-7\nbarn-7\n");
    let finished = caller.script(&["--hostname", "barn-7"], "getent hosts barn-7")?;
    ensure!(
        finished.success()?.contains("127.0.0.1") || finished.out().contains("::1"),
        "{}",
        finished.out()
    );
    Ok(())
}

fn only_its_own_processes(caller: &Caller) -> Result<()> {
    let output = caller.script(&[], "ls -d /proc/[0-9]*")?.success()?;
    ensure!(output.lines().count() <= 3, "{output}");
    Ok(())
}

fn what_is_writable(caller: &Caller) -> Result<()> {
    caller
        .script(&[], "touch /tmp/a /workspace/a ~/a /var/tmp/a /dev/shm/a && echo x > /dev/null")?
        .success()?;
    for path in ["/usr/bin/a", "/usr/a", "/etc/ssl/certs/a", "/proc/sys/kernel/hostname", "/a", "/etc/a"] {
        let finished = caller.script(&[], &format!("echo x > {path}"))?;
        ensure!(finished.code != 0, "{path} is writable");
    }
    let finished = caller.script(&["--user", "root"], "echo x > /etc/a && cat /etc/a; echo x > /usr/a")?;
    ensure!(
        finished.code != 0 && !std::path::Path::new("/usr/a").exists(),
        "/usr is writable to root inside"
    );
    Ok(())
}

fn no_descriptor_is_inherited(caller: &Caller) -> Result<()> {
    // One more than usual is open in the caller.
    let executable = caller.executable()?.display();
    let script = format!("exec 9</etc/passwd; exec {executable} run -- ls -l /proc/self/fd");
    let output = caller.shell(&caller.home(), &script)?.success()?;
    let open = output.lines().filter(|line| line.contains(" -> ")).count();
    // Three streams, and the directory that is being listed.
    assert_eq!(open, 4, "{output}");
    Ok(())
}

fn what_others_do_with_programs_of_the_host_is_not_seen(caller: &Caller) -> Result<()> {
    let guarantees = caller.run(["--json", "--", "true"])?.json()?["guarantees"].clone();
    if guarantees["system_inodes"] == "absent" {
        ensure!(guarantees["weaknesses"].to_string().contains("own inodes"), "{guarantees}");
        skip(
            "inside::what_others_do",
            "other mounts below /usr or /etc, or overlays on overlays: only that it is told",
        );
        return Ok(());
    }
    assert_eq!(guarantees["system_inodes"], "on");
    // Watches a directory, a program and a setting of the host, and its own directory to show that watching works.
    let program = "\
import ctypes, fcntl, os, sys
libc = ctypes.CDLL(None)
watcher = libc.inotify_init1(os.O_NONBLOCK)
places = [b'/usr/bin', b'/usr/bin/env', b'/etc/ld.so.cache']
assert all(libc.inotify_add_watch(watcher, place, 0x20) >= 0 for place in places)
own = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(own, b'/tmp', 0x20) >= 0
print('ready', flush=True)
sys.stdin.readline()
def seen(watcher):
    try:
        return len(os.read(watcher, 4096)) > 0
    except BlockingIOError:
        return False
others = seen(watcher)
open('/tmp/x', 'w').close()
def locked(place):
    try:
        fcntl.flock(os.open(place, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
print(others, seen(own), [locked(place) for place in places[1:]])";
    let locks: Vec<_> = ["/usr/bin/env", "/etc/ld.so.cache"]
        .iter()
        .map(|path| -> Result<_> {
            let file = std::fs::File::open(path)?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockShared)?;
            Ok(file)
        })
        .collect::<Result<_>>()?;
    let mut running = caller.start_run(["--", "python3", "-c", program])?.start()?;
    running.wait_for("ready")?;
    for path in ["/usr/bin/env", "/etc/ld.so.cache"] {
        std::fs::File::open(path)?;
    }
    running.write(b"\n")?;
    let finished = running.finish()?;
    ensure!(finished.success()?.ends_with("False True [False, False]\n"), "{}", finished.out());
    drop(locks);
    Ok(())
}

/// As root each sandbox has nodes of its own; an ordinary user's have the host's, and say so.
fn what_others_do_with_devices_is_not_seen(caller: &Caller) -> Result<()> {
    let guarantees = caller.run(["--json", "--", "true"])?.json()?["guarantees"].clone();
    assert_eq!(guarantees["device_inodes"], if caller.is_root { "on" } else { "absent" });
    let told = guarantees["weaknesses"].to_string().contains("devices (/dev/null");
    assert_eq!(told, !caller.is_root, "{guarantees}");
    let program = "\
import os
for name in ('null', 'zero', 'full', 'random', 'urandom', 'tty'):
    found = os.stat('/dev/' + name)
    print(name, os.major(found.st_rdev), os.minor(found.st_rdev), oct(found.st_mode), found.st_dev, found.st_ino)
assert os.read(os.open('/dev/zero', os.O_RDONLY), 3) == bytes(3) and len(os.urandom(3)) == 3
assert os.write(os.open('/dev/null', os.O_WRONLY), b'x') == 1 and os.read(os.open('/dev/random', os.O_RDONLY), 1)
try:
    os.write(os.open('/dev/full', os.O_WRONLY), b'x')
except OSError as error:
    print(error.errno, flush=True)
os.read(0, 1)";
    // Both are there at the same time: the kernel gives the number of a file system that is gone to the next one.
    let see = || -> Result<_> {
        let mut running = caller.start_run(["--", "python3", "-c", program])?.start()?;
        running.wait_for("\n28\n")?;
        Ok(running)
    };
    let (one, other) = (see()?, see()?);
    let (one, other) = (one.finish()?.success()?, other.finish()?.success()?);
    let forms = |seen: &str| -> Vec<String> {
        seen.lines().map(|line| line.split(' ').take(4).collect::<Vec<_>>().join(" ")).collect()
    };
    let expected = [
        "null 1 3 0o20666",
        "zero 1 5 0o20666",
        "full 1 7 0o20666",
        "random 1 8 0o20666",
        "urandom 1 9 0o20666",
        "tty 5 0 0o20666",
        "28",
    ];
    assert_eq!(forms(&one), expected, "{one}");
    let places = |seen: &str| -> Vec<String> {
        seen.lines()
            .filter_map(|line| line.split_once(" 0o20666 "))
            .map(|(_, place)| place.to_string())
            .collect()
    };
    let host = {
        use std::os::unix::fs::MetadataExt;
        let found = std::fs::metadata("/dev/null")?;
        format!("{} {}", found.dev(), found.ino())
    };
    assert_eq!(places(&one).contains(&host), !caller.is_root, "{one} {host}");
    ensure!(
        !caller.is_root || places(&one).iter().all(|place| !places(&other).contains(place)),
        "{one}{other}"
    );
    Ok(())
}
