//! The state directory on each file system that a host may have, when it is full. Sandboxes keep their written files, a
//! failure is told, and everything works again by itself when there is room.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, FileSystem, PATIENCE, Server, as_root, skip, until};
use serde_json::json;
use std::path::Path;

#[test]
fn a_full_ext4_takes_nothing_from_sandboxes() -> Result<()> {
    as_root("a_full_ext4_takes_nothing_from_sandboxes", |caller| full(caller, "ext4"))
}

#[test]
fn a_full_xfs_takes_nothing_from_sandboxes() -> Result<()> {
    as_root("a_full_xfs_takes_nothing_from_sandboxes", |caller| full(caller, "xfs"))
}

#[test]
fn a_full_btrfs_takes_nothing_from_sandboxes() -> Result<()> {
    as_root("a_full_btrfs_takes_nothing_from_sandboxes", |caller| full(caller, "btrfs"))
}

#[test]
fn a_storage_that_broke_is_mounted_anew_without_anybody() -> Result<()> {
    as_root("a_storage_that_broke_is_mounted_anew_without_anybody", broken_while_it_serves)
}

#[test]
fn a_start_mounts_a_storage_anew_that_broke_before() -> Result<()> {
    as_root("a_start_mounts_a_storage_anew_that_broke_before", broken_before_the_start)
}

#[test]
fn the_storage_of_an_earlier_paddock_is_kept_from_being_copied() -> Result<()> {
    as_root("the_storage_of_an_earlier_paddock_is_kept_from_being_copied", converted)
}

fn disk<'a>(caller: &'a Caller, kind: &str, mebibytes: u64) -> Result<Option<&'a FileSystem>> {
    for program in [format!("mkfs.{kind}"), "mkfs.btrfs".into()] {
        if !["/usr/sbin", "/sbin"].iter().any(|place| Path::new(place).join(&program).exists()) {
            skip("host_disks", &format!("{program} is not installed"));
            return Ok(None);
        }
    }
    caller.put_state_on(kind, mebibytes).map(Some)
}

/// Blocks that were written before are written again, which a file system that copies needs new room for.
const OVERWRITE: &str = "for i in 1 2 3; do \
    dd if=/dev/urandom of=/tmp/data bs=1M count=8 conv=notrunc 2>/dev/null || exit 3; sync -f /tmp/data || exit 4; done; \
    sha256sum < /tmp/data > /tmp/sum; sync -f /tmp/sum";
/// Each commit of the file system inside writes its superblock anew, in its place.
const OVERWRITE_WITHOUT_END: &str = "while :; do dd if=/dev/urandom of=/tmp/data bs=1M count=1 conv=notrunc; sync -f /tmp/data; sleep 0.01; done 2>/dev/null";
/// Room for the worker's answer stays.
const FILL: &str =
    "i=0; while fallocate -l 64M /tmp/fill$i 2>/dev/null; do i=$((i+1)); [ $i -lt 200 ] || exit 5; done";

fn full(caller: &Caller, kind: &str) -> Result<()> {
    let Some(disk) = disk(caller, kind, 2048)? else { return Ok(()) };
    let mut server = Server::start(caller)?;
    let worker = Worker::start(&server)?;
    let (id, of) = (worker.id.clone(), worker.of.clone());
    disk.fill()?;

    server.ask("POST", "/v1/sandboxes", Some(&json!({})))?.refused(507, "disk_full")?;
    // Its own disk has the room that it was given, however often it is written to.
    server.send("PUT", &worker.file("w"), "", b"written\n")?.ok()?;
    worker.does(&server, OVERWRITE)?;
    // And an end, which is said to be one.
    worker.does(&server, FILL)?;
    // Some hosts give a little room back after they were full, and the storage takes it.
    let large = vec![7; 80 << 20];
    let refused = (0..20).find_map(|number| {
        let answer = server.send("PUT", &worker.file(&format!("large{number}")), "", &large);
        answer.map_or_else(|error| Some(Err(error)), |answer| answer.ok().is_err().then_some(Ok(answer)))
    });
    refused.context("1.6 GB fit on a full disk")??.refused(507, "disk_full")?;
    server.send("DELETE", &format!("{of}/files?path=/tmp/fill0"), "", b"")?.ok()?;

    server.kill()?;
    disk.free()?;
    server.start_again()?;
    let seen =
        server.script(&id, "cat /tmp/f /tmp/w; sha256sum < /tmp/data | cmp - /tmp/sum && echo whole")?;
    assert_eq!(seen.success()?, "kept\nwritten\nwhole\n");
    server.send("PUT", &worker.file("after"), "", b"after")?.ok()?;
    server.create(&[])?;
    server.ask("POST", &format!("{of}/snapshots"), Some(&json!({})))?.ok()?;
    Ok(())
}

/// A file that is copied when it is written to, on a full disk: no server of today makes one.
fn broken<'a>(caller: &'a Caller) -> Result<Option<(&'a FileSystem, Server<'a>, Worker)>> {
    let Some(disk) = disk(caller, "btrfs", 2048)? else { return Ok(None) };
    let file = caller.state().join("storage.btrfs");
    let file = file.display();
    disk.run(&format!(
        "fallocate -l 1G {file} && chmod 600 {file} && mkfs.btrfs -q --nodiscard --data single --metadata single {file} >/dev/null"
    ))?;
    let server = Server::start(caller)?;
    let worker = Worker::start(&server)?;
    disk.fill()?;
    worker.begins(&server, OVERWRITE_WITHOUT_END)?;
    until(PATIENCE, "a storage that takes no writes", || {
        let answer = server.send("PUT", &worker.file("w"), "", b"written\n").ok()?;
        answer.refused(507, "disk_full").is_ok().then_some(())
    })?;
    Ok(Some((disk, server, worker)))
}

fn broken_while_it_serves(caller: &Caller) -> Result<()> {
    let Some((disk, server, worker)) = broken(caller)? else { return Ok(()) };
    let process = server.process()?;
    server.ask("POST", "/v1/sandboxes", Some(&json!({})))?.refused(507, "disk_full")?;
    ensure!(server.ask("GET", "/readyz", None)?.ok().is_err(), "a server that can make nothing is ready");
    // Reading goes on.
    assert_eq!(server.ask("GET", &worker.file("f"), None)?.ok()?.text(), "kept\n");
    disk.free()?;
    until(PATIENCE, "a storage that takes writes", || {
        server.send("PUT", &worker.file("w"), "", b"written\n").ok()?.ok().is_ok().then_some(())
    })?;
    assert_eq!(server.process()?, process);
    works(&server, &worker)
}

fn broken_before_the_start(caller: &Caller) -> Result<()> {
    let Some((disk, mut server, worker)) = broken(caller)? else { return Ok(()) };
    server.kill()?;
    disk.free()?;
    server.start_again()?;
    server.send("PUT", &worker.file("w"), "", b"written\n")?.ok()?;
    works(&server, &worker)
}

fn works(server: &Server<'_>, worker: &Worker) -> Result<()> {
    assert_eq!(server.script(&worker.id, "cat /tmp/f /tmp/w")?.success()?, "kept\nwritten\n");
    let other = server.create(&[])?;
    server.script(&other, "echo fine > /tmp/f")?.success()?;
    server.ask("GET", "/readyz", None)?.ok()?;
    Ok(())
}

fn converted(caller: &Caller) -> Result<()> {
    let Some(disk) = disk(caller, "btrfs", 8192)? else { return Ok(()) };
    let mut server = Server::start(caller)?;
    let id = server.create(&[])?;
    server.script(&id, "echo kept > /tmp/f")?.success()?;
    server.run(["hibernate", &id])?.success()?;
    server.stop()?;
    let file = caller.state().join("storage.btrfs");
    let is_marked = || -> Result<bool> {
        let opened = std::fs::File::open(disk.path(&file))?;
        Ok(rustix::fs::ioctl_getflags(&opened)?.contains(rustix::fs::IFlags::NOCOW))
    };
    ensure!(is_marked()?, "a new storage is not marked");
    let shown = file.display();
    disk.run(&format!(
        "touch {shown}.old && cp --reflink=never {shown} {shown}.old && mv {shown}.old {shown}"
    ))?;
    ensure!(!is_marked()?, "the copy is marked too");
    server.start_again()?;
    // The server answers before its storage is there; a command waits for it.
    assert_eq!(server.script(&id, "cat /tmp/f")?.success()?, "kept\n");
    ensure!(is_marked()?, "the storage of an earlier Paddock stayed as it was");
    Ok(())
}

/// On a full disk the server can record no new command. This one was started before, and follows orders in files.
struct Worker {
    id: String,
    of: String,
}

impl Worker {
    fn start(server: &Server<'_>) -> Result<Worker> {
        let id = server.create(&["--disk", "8GiB"])?;
        server
            .script(&id, "echo kept > /tmp/f; head -c 8M /dev/zero > /tmp/data; sync -f /tmp/data")?
            .success()?;
        let work = "while :; do if [ -e /tmp/go ]; then rm /tmp/go; sh /tmp/task; echo $? > /tmp/new; \
                    mv /tmp/new /tmp/code; fi; sleep 0.05; done";
        server.run(["exec", "-d", &id, "--", "sh", "-c", work])?.success()?;
        let of = format!("/v1/sandboxes/{id}");
        Ok(Worker { id, of })
    }

    fn file(&self, name: &str) -> String {
        format!("{}/files/content?path=/tmp/{name}", self.of)
    }

    fn begins(&self, server: &Server<'_>, task: &str) -> Result<()> {
        server.send("PUT", &self.file("task"), "", task.as_bytes())?.ok().context("task")?;
        server.send("PUT", &self.file("go"), "", b"")?.ok().context("go")?;
        Ok(())
    }

    fn does(&self, server: &Server<'_>, task: &str) -> Result<()> {
        self.begins(server, task)?;
        let code = until(PATIENCE, "the end of a task", || {
            let code = server.ask("GET", &self.file("code"), None).ok()?;
            code.ok().is_ok().then(|| code.text())
        })?;
        ensure!(code == "0\n", "`{task}` ended with {code}");
        server.send("DELETE", &format!("{}/files?path=/tmp/code", self.of), "", b"")?.ok()?;
        Ok(())
    }
}
