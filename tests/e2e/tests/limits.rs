//! Every limit holds, and the command learns of it as the kernel would tell it.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, Invocation, Server, for_both_callers, skip};
use std::path::PathBuf;

for_both_callers!(
    memory,
    memory_of_many_processes_together,
    shared_memory_of_every_kind,
    memory_that_is_shared_counts_once,
    locked_memory,
    processes,
    disk,
    open_files,
    processors,
    time,
    the_largest_and_smallest_values,
    limits_on_record_hold_after_a_crash,
);

fn memory(caller: &Caller) -> Result<()> {
    let program = "x = bytearray(50 << 20); print(len(x))";
    let finished = caller.run(["--memory", "128MiB", "--", "python3", "-c", program])?;
    assert_eq!(finished.success()?, "52428800\n");
    // Files on the private disk count too: it is in memory.
    let script = "head -c 200000000 /dev/zero > /tmp/x";
    let finished = caller.script(&["--memory", "64MiB", "--disk", "1GiB"], script)?;
    ensure!(finished.code != 0, "200 MB of files fit in 64 MiB");
    Ok(())
}

fn memory_of_many_processes_together(caller: &Caller) -> Result<()> {
    // Each fits, all of them do not. They stay until one has been ended.
    let program = "\
import os, signal
for _ in range(8):
    if os.fork() == 0:
        x = bytearray(40 << 20)
        signal.pause()
print('ended by', os.wait()[1])";
    let finished = caller.run(["--memory", "128MiB", "--", "python3", "-c", program])?;
    // The holder of the limit decides if one of them ends or all.
    let one = finished.code == 0 && finished.out() == "ended by 9\n";
    ensure!(one || finished.code == 137, "exit code {}: {}{}", finished.code, finished.out(), finished.err());
    Ok(())
}

fn shared_memory_of_every_kind(caller: &Caller) -> Result<()> {
    // Each of them fills 300 MiB and stays until it is killed.
    let kinds = [
        "m = mmap.mmap(-1, 300 << 20)",
        "f = os.memfd_create('x'); os.ftruncate(f, 300 << 20); m = mmap.mmap(f, 300 << 20); os.close(f)",
        "f = os.open('/dev/zero', os.O_RDWR); m = mmap.mmap(f, 300 << 20)",
        // Neither is over the limit: together they are.
        "open('/dev/shm/x', 'wb').write(bytes(60 << 20)); m = mmap.mmap(-1, 90 << 20)",
    ];
    for kind in kinds {
        let program = format!(
            "import mmap, os, signal\n{kind}\nfor at in range(0, len(m), 4096): m[at] = 1\nsignal.pause()"
        );
        let finished =
            caller.run(["--memory", "128MiB", "--timeout", "60s", "--", "python3", "-c", &program])?;
        ensure!(finished.code == 137, "{kind}: exit code {}: {}", finished.code, finished.err());
    }
    Ok(())
}

fn memory_that_is_shared_counts_once(caller: &Caller) -> Result<()> {
    // 100 MiB that twenty processes map. The watch, where there is one, looks many times before they end.
    let program = "\
import mmap, os, time
own, shared = bytearray(60 << 20), mmap.mmap(-1, 40 << 20)
for at in range(0, len(shared), 4096): shared[at] = 1
children = []
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        sum(shared[at] for at in range(0, len(shared), 4096))
        time.sleep(1)
        os._exit(0)
    children.append(pid)
print([os.waitpid(pid, 0)[1] for pid in children] == [0] * 20)";
    let finished = caller.run(["--memory", "384MiB", "--", "python3", "-c", program])?;
    assert_eq!(finished.success()?, "True\n");
    Ok(())
}

fn locked_memory(caller: &Caller) -> Result<()> {
    // The limit is set as high as the caller may raise it.
    let script = "ulimit -l unlimited 2>/dev/null; exec \"$0\" run -- sh -c 'ulimit -l; ulimit -l 16384'";
    let mut command = caller.program("/bin/sh");
    command.args(["-c", script]).arg(caller.executable()?);
    let finished = Invocation::new(command).finish()?;
    let kibibytes: u64 = finished.out().trim().parse().with_context(|| finished.err())?;
    ensure!(kibibytes <= 8192 && finished.code != 0, "{kibibytes} KiB, exit code {}", finished.code);
    Ok(())
}

fn processes(caller: &Caller) -> Result<()> {
    let program = "\
import os, sys
made = 0
try:
    while made < 200:
        if os.fork() == 0:
            import time; time.sleep(600)
        made += 1
except OSError as error:
    print(made, error.errno)";
    let finished = caller.run(["--pids", "20", "--timeout", "30s", "--", "python3", "-c", program])?;
    let output = finished.success()?;
    let made: u32 = output.split(' ').next().context("no number")?.parse().with_context(|| output.clone())?;
    ensure!((15..=20).contains(&made) && output.ends_with(" 11\n"), "{output}");
    // A real one, bounded in number and in time.
    let bomb = "b() { b | b & b; }; b; sleep 600";
    caller.run(["--pids", "30", "--timeout", "1s", "--", "bash", "-c", bomb])?;
    Ok(())
}

fn disk(caller: &Caller) -> Result<()> {
    for place in ["/tmp", "/workspace", "$HOME"] {
        let script =
            format!("LC_ALL=C dd if=/dev/zero of={place}/x bs=1M count=64 2>&1; stat -c %s {place}/x");
        let output = caller.script(&["--disk", "8MiB"], &script)?.success()?;
        ensure!(output.contains("No space left on device"), "{place}: {output}");
        let size: u64 = output.lines().last().context("no size")?.parse()?;
        ensure!(size <= 8 << 20 && size > 4 << 20, "{place}: {size} bytes were written");
    }
    // Many empty files take space as well.
    let many = "import os\nfor n in range(10**6): open(f'/tmp/{n}', 'w').close()";
    let finished = caller.run(["--disk", "1MiB", "--timeout", "60s", "--", "python3", "-c", many])?;
    finished.exited(1)?;
    ensure!(finished.err().contains("No space left"), "{}", finished.err());
    Ok(())
}

fn open_files(caller: &Caller) -> Result<()> {
    let finished = caller.script(&["--files", "64"], "ulimit -n; ulimit -Hn; ulimit -n 128")?;
    assert_eq!(finished.out(), "64\n64\n");
    ensure!(finished.code != 0, "the limit could be raised");
    Ok(())
}

fn processors(caller: &Caller) -> Result<()> {
    caller.run(["--cpus", "0.5", "--", "true"])?.success()?;
    let parent = caller.cgroups().iter().find(|path| path.join("cpu.cfs_quota_us").exists());
    let Some(parent) = parent else {
        skip("limits::processors", "not root, or no cgroup v1: only that --cpus is accepted was tested");
        return Ok(());
    };
    let mut running =
        caller.start_run(["--cpus", "1.5", "--", "sh", "-c", "echo ready; read line"])?.start()?;
    running.wait_for("ready")?;
    let groups = std::fs::read_dir(parent)?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    let groups: Vec<PathBuf> = groups.collect();
    assert_eq!(groups.len(), 1, "{groups:?}");
    let number =
        |file: &str| -> Result<u64> { Ok(std::fs::read_to_string(groups[0].join(file))?.trim().parse()?) };
    assert_eq!(number("cpu.cfs_quota_us")? * 2, number("cpu.cfs_period_us")? * 3);
    running.write(b"\n")?;
    running.finish()?.success()?;
    Ok(())
}

fn time(caller: &Caller) -> Result<()> {
    caller.run(["--timeout", "30s", "--", "true"])?.success()?;
    caller.run(["--timeout", "none", "--", "true"])?.success()?;
    caller.run(["--timeout", "200ms", "--", "sh", "-c", "while :; do :; done"])?.exited(124)?;
    Ok(())
}

fn the_largest_and_smallest_values(caller: &Caller) -> Result<()> {
    let large =
        ["--memory", "1TiB", "--cpus", "4096", "--pids", "4194304", "--disk", "1TiB", "--files", "1048576"];
    let finished =
        caller.run(large.iter().chain(&["--output", "1GiB", "--timeout", "8760h", "--", "echo", "yes"]))?;
    // More open files than the host gives is the only one of these that a host can lack.
    ensure!(
        finished.code == 0 || (finished.code == 125 && finished.err().contains("files")),
        "exit code {}: {}",
        finished.code,
        finished.err()
    );
    // A limit that is far too small is told as such, by any part that notices it.
    for option in [["--memory", "1"], ["--disk", "1"], ["--pids", "1"], ["--files", "16"], ["--cpus", "0.01"]]
    {
        let finished =
            caller.run(option.iter().chain(&["--timeout", "20s", "--", "sh", "-c", "echo ran"]))?;
        ensure!(
            finished.code == 0 || !finished.err().is_empty(),
            "{option:?}: exit code {} without a word",
            finished.code
        );
    }
    Ok(())
}

/// A server that was killed in the middle of a change left another limit than the one on record.
fn limits_on_record_hold_after_a_crash(caller: &Caller) -> Result<()> {
    let mut server = Server::start(caller)?;
    let id = server.create(&["--memory", "256MiB"])?;
    // The cgroups come with the first command.
    server.script(&id, "true")?.success()?;
    let mut files =
        caller.cgroups().iter().map(|group| group.join(format!("paddock-{id}/memory.limit_in_bytes")));
    let Some(file) = files.find(|file| file.exists()) else {
        skip("limits::after_a_crash", "not root, or no cgroup v1: the limit cannot be seen from outside");
        return Ok(());
    };
    let limit = || std::fs::read_to_string(&file).map(|text| text.trim().to_string());
    assert_eq!(limit()?, (256 << 20).to_string());
    server.kill()?;
    std::fs::write(&file, (128 << 20).to_string())?;
    server.start_again()?;
    server.script(&id, "true")?.success()?;
    assert_eq!(limit()?, (256 << 20).to_string());
    Ok(())
}
