//! A disk in a directory of the host: owners, a second life in another slot, and under an image.
//! On any file system that the tests' temporary directory has.

use crate::support::{Host, backend, is_root, new_id, spec};
use paddock_backends::{CreateError, NEUTRAL_ID, Purpose};
use paddock_model::{Disk, Root, Spec};
use paddock_protocol::{ExitKind, FromGuest};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

/// A disk as the engine's storage makes them.
fn new_disk() -> (tempfile::TempDir, PathBuf) {
    let around = tempfile::tempdir().unwrap();
    let disk = around.path().canonicalize().unwrap().join("fs");
    std::fs::create_dir(&disk).unwrap();
    chown(&disk, Some(NEUTRAL_ID), Some(NEUTRAL_ID)).unwrap();
    (around, disk)
}

/// Runs a script in a sandbox of its own, which must succeed.
fn run(state: &Path, spec: &Spec, script: &str) {
    let mut raised = backend(state).create(&new_id(), spec, Purpose::Lasting).unwrap();
    let mut host = Host::new(raised.stream);
    host.is_ready();
    host.limit_work(raised.fence.as_mut());
    host.start(1, script);
    let status = host.hear(|message| match message {
        FromGuest::Exited { status, .. } => Some(status),
        _ => None,
    });
    assert_eq!(status, ExitKind::Exited(0), "{script}");
}

#[test]
fn a_disk_serves_one_sandbox_after_the_other() {
    if !is_root() {
        eprintln!("skipped: only root gives disks in storage");
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let (_around, disk) = new_disk();
    let spec = Spec { disk: Disk::Directory { path: disk.clone(), start: None }, ..spec(None) };
    run(state.path(), &spec, "echo mine > ~/kept && chmod 600 ~/kept && mkdir ~/d && ln -s kept ~/link");
    let found = std::fs::metadata(disk.join("home/agent/kept")).unwrap();
    assert_eq!((found.uid(), found.gid()), (NEUTRAL_ID + 1000, NEUTRAL_ID + 1000));
    let script = "test $(cat ~/link) = mine && test $(stat -c %u ~/kept) = 1000 && test $(stat -c %u /) = 0 && rmdir ~/d";
    for _ in 0..3 {
        run(state.path(), &spec, &format!("{script} && mkdir ~/d"));
    }
}

#[test]
fn a_disk_lies_over_an_image() {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).exists());
    let (true, Some(busybox)) = (is_root(), busybox) else {
        eprintln!("skipped: needs root and a static busybox");
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let image = tempfile::tempdir().unwrap();
    let root = image.path().canonicalize().unwrap();
    for directory in ["bin", "etc", "opt/old/deep", "tmp", "home/agent"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    std::fs::copy(busybox, root.join("bin/busybox")).unwrap();
    for name in ["sh", "cat", "rm", "mv", "mkdir", "test", "ls", "grep", "stat", "chmod"] {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(name)).unwrap();
    }
    std::fs::write(root.join("opt/old/deep/file"), "of the image").unwrap();
    std::fs::write(root.join("opt/gone"), "of the image").unwrap();
    for path in ["opt", "opt/old", "opt/old/deep", "opt/old/deep/file", "opt/gone"] {
        chown(root.join(path), Some(1000), Some(1000)).unwrap();
    }
    let (_around, disk) = new_disk();
    let spec = Spec {
        root: Root::Directory { path: root.clone() },
        disk: Disk::Directory { path: disk.clone(), start: None },
        ..spec(None)
    };
    // Everything for which an overlay has to take notes: a name gone, a directory gone and another in its place.
    run(
        state.path(),
        &spec,
        "rm /opt/gone && rm -r /opt/old && mkdir /opt/old && echo new > /opt/old/file && echo x > ~/kept && chmod 750 ~",
    );
    let script =
        "test ! -e /opt/gone && test ! -e /opt/old/deep && test $(cat /opt/old/file) = new && test -s ~/kept";
    for _ in 0..3 {
        run(state.path(), &spec, script);
    }
    assert!(root.join("opt/gone").exists() && root.join("opt/old/deep/file").exists());
    let found = std::fs::metadata(disk.join("upper/opt/old/file")).unwrap();
    assert_eq!(found.uid(), NEUTRAL_ID + 1000);
}

#[test]
fn what_is_no_disk_is_refused() {
    let state = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let path = other.path().canonicalize().unwrap();
    let link = path.join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for wrong in [path.clone(), link, path.join("absent")] {
        let spec = Spec { disk: Disk::Directory { path: wrong, start: None }, ..spec(None) };
        let error = backend(state.path()).create(&new_id(), &spec, Purpose::Lasting).err().unwrap();
        assert!(matches!(error, CreateError::Mount { .. }), "{error}");
    }
}
