//! A VM of the server's, from the side of root.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Its directory and its processes.
pub fn parts(id: &str) -> Vec<String> {
    let places = ["/run/paddock", "/dev/shm/paddock"].map(|place| PathBuf::from(place).join(id));
    let places = places.into_iter().filter(|place| place.exists()).map(|place| place.display().to_string());
    places.chain(processes(id).into_iter().map(|pid| format!("process {pid}"))).collect()
}

/// Found by their cgroup, which has the name of the sandbox.
pub fn processes(id: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of = |pid: &u32| {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("comm").trim() == "paddock-machine" && read("cgroup").contains(id)
    };
    numbers.filter(of).collect()
}

pub fn kill(id: &str) -> Result<()> {
    let found = processes(id);
    ensure!(found.len() == 1, "its VM is one of {found:?}");
    let killed = std::process::Command::new("kill").args(["-KILL", &found[0].to_string()]).status()?;
    ensure!(killed.success(), "it could not be killed");
    Ok(())
}

/// The surroundings of code that breaks out of the VM: a second fence, which shares nothing with the host.
pub fn is_jailed(id: &str) -> Result<()> {
    let found = processes(id);
    ensure!(found.len() == 1, "its VM is one of {found:?}");
    let process = PathBuf::from(format!("/proc/{}", found[0]));
    let status = std::fs::read_to_string(process.join("status"))?;
    let of = |key: &str| -> Vec<&str> {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
        line.split_whitespace().collect()
    };
    for ids in [of("Uid:"), of("Gid:")] {
        ensure!(ids.len() == 4 && ids.iter().all(|id| id.len() > 5), "host ids of others: {ids:?}");
    }
    for none in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(of(none), ["0000000000000000"], "{none} {status}");
    }
    assert_eq!((of("NoNewPrivs:"), of("Seccomp:")), (vec!["1"], vec!["2"]));
    for kind in ["user", "pid", "mnt", "net", "ipc", "uts"] {
        let [theirs, ours] = [&process, &PathBuf::from("/proc/self")]
            .map(|whose| std::fs::read_link(whose.join("ns").join(kind)));
        ensure!(theirs? != ours?, "the {kind} namespace of the host");
    }
    // By name it sees a read-only system, and nothing of the host's.
    let root = process.join("root");
    for absent in ["etc/shadow", "run/paddock", "var/lib/dpkg", "dev/vda", "dev/sda"] {
        ensure!(!root.join(absent).exists(), "it sees /{absent}");
    }
    for other in ["root", "home", "etc", "tmp", "run"] {
        let [theirs, ours] = [root.join(other), PathBuf::from("/").join(other)].map(std::fs::metadata);
        let same = theirs.is_ok_and(|theirs| {
            ours.is_ok_and(|ours| (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()))
        });
        ensure!(!same, "it sees the host's /{other}");
    }
    let users = |path: &std::path::Path| std::fs::read(path.join("etc/passwd"));
    ensure!(users(&root)? != users("/".as_ref())?, "it sees who is on the host");
    let links = std::fs::read_to_string(process.join("net/dev"))?;
    let links: Vec<_> = links.lines().skip(2).filter_map(|line| line.split(':').next()).collect();
    ensure!(links.iter().all(|link| link.trim() == "lo"), "it has {links:?}");
    Ok(())
}

/// A fault of its processor that no kernel lives through.
pub fn panic(id: &str) -> Result<()> {
    tell(id, &human("mce 0 0 0xbd00000000000000 0x5 0 0"))
}

/// As a kernel that ends its VM.
pub fn power_off(id: &str) -> Result<()> {
    tell(id, &json!({ "execute": "quit" }))
}

/// As a kernel that begins anew, which no VM does.
pub fn reset(id: &str) -> Result<()> {
    tell(id, &json!({ "execute": "system_reset" }))
}

/// Stops the VM, so that nothing in it answers any more.
pub fn fall_silent(id: &str) -> Result<()> {
    tell(id, &json!({ "execute": "stop" }))
}

fn human(line: &str) -> Value {
    json!({ "execute": "human-monitor-command", "arguments": { "command-line": line } })
}

fn tell(id: &str, what: &Value) -> Result<()> {
    let places =
        ["/run/paddock", "/dev/shm/paddock"].map(|place| PathBuf::from(place).join(id).join("monitor.sock"));
    let place = places.iter().find(|place| place.exists());
    let mut stream = UnixStream::connect(place.ok_or_else(|| anyhow::anyhow!("it has no monitor"))?)?;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30)))?;
    let mut lines = BufReader::new(stream.try_clone()?).lines();
    for said in [json!({ "execute": "qmp_capabilities" }), what.clone()] {
        // Its first message introduces it.
        lines.next().transpose()?;
        stream.write_all(format!("{said}\n").as_bytes())?;
    }
    let answer = lines.next().transpose()?.unwrap_or_default();
    ensure!(!answer.contains("error"), "{answer}");
    Ok(())
}
