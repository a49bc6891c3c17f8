//! A directory that was made to get out, to hang, or to fill the host.

use crate::place::{Place, TENANT, checkout, commit, look};
use paddock_volumes::{Kind, Limits};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test(flavor = "multi_thread")]
async fn links_pipes_sockets_and_names_do_no_harm() {
    let place = Place::new();
    let outside = place.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "the host's").unwrap();
    let directory = place.directory("from");
    symlink(&outside, directory.join("out")).unwrap();
    symlink(outside.join("secret"), directory.join("secret")).unwrap();
    symlink("..", directory.join("up")).unwrap();
    mknodat(CWD, directory.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let socket = UnixListener::bind(directory.join("socket")).unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"a\nb\xff\x1b[31m");
    std::fs::write(directory.join(odd), "any bytes").unwrap();
    std::fs::write(directory.join("n".repeat(255)), "long").unwrap();
    std::fs::write(directory.join("one"), "two names").unwrap();
    std::fs::hard_link(directory.join("one"), directory.join("two")).unwrap();
    std::fs::set_permissions(directory.join("one"), std::fs::Permissions::from_mode(0o6755)).unwrap();
    let committed = commit(&place.volumes, "hostile", &directory).await;
    let left_out: Vec<_> = committed.skipped.iter().map(|s| (s.path.as_str(), s.why)).collect();
    assert_eq!(left_out, [("pipe", "it is a pipe"), ("socket", "it is a socket")]);
    assert!(!committed.exact, "the directory has more than the version");
    drop(socket);
    let head = place.volumes.head(TENANT, "hostile").await.unwrap();
    let to = place.directory("to");
    checkout(&place.volumes, &head, None, &to).await;
    assert_eq!(to.join("secret").read_link().unwrap(), outside.join("secret"), "a link is kept as a link");
    assert_eq!(std::fs::read_to_string(to.join("two")).unwrap(), "two names");
    assert_eq!(to.join("one").metadata().unwrap().permissions().mode() & 0o7777, 0o755);
    assert_eq!(std::fs::read(to.join(odd)).unwrap(), b"any bytes");
    // Links of the version before are not followed where the next one has directories.
    let second = place.directory("second");
    std::fs::create_dir(second.join("out")).unwrap();
    std::fs::write(second.join("out/secret"), "of the volume").unwrap();
    commit(&place.volumes, "hostile", &second).await;
    let head = place.volumes.head(TENANT, "hostile").await.unwrap();
    checkout(&place.volumes, &head, None, &to).await;
    assert_eq!(std::fs::read_to_string(outside.join("secret")).unwrap(), "the host's");
    assert_eq!(look(&second), look(&to));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_much_is_refused_with_its_name() {
    let place = Place::new();
    let directory = place.directory("from");
    let mut deep = directory.clone();
    for _ in 0..140 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    let mut writer = place.volumes.acquire(TENANT, "much", "a test", true).await.unwrap();
    let limits = Limits::default();
    let said = writer.commit(&directory, None, limits, Kind::Commit).await.unwrap_err();
    assert!(said.to_string().contains("128 directories deep"), "{said}");
    std::fs::remove_dir_all(directory.join("d")).unwrap();
    for number in 0..20 {
        std::fs::write(directory.join(format!("{number}")), "0123456789").unwrap();
    }
    let few = Limits { files: 10, ..limits };
    assert_eq!(
        writer.commit(&directory, None, few, Kind::Commit).await.unwrap_err().code(),
        "quota_exceeded"
    );
    let small = Limits { bytes: 100, ..limits };
    assert_eq!(
        writer.commit(&directory, None, small, Kind::Commit).await.unwrap_err().code(),
        "quota_exceeded"
    );
    // A file that is nothing but a hole takes no room, however long it says it is.
    std::fs::File::create(directory.join("hole")).unwrap().set_len(1 << 40).unwrap();
    let committed = writer.commit(&directory, None, limits, Kind::Commit).await.unwrap();
    assert!(committed.version.stored_bytes < 10_000);
    writer.release().await.unwrap();
}

/// Files come and go, become links and directories, while they are read: the version is one that can be written out,
/// and holds nothing of the host.
#[tokio::test(flavor = "multi_thread")]
async fn a_directory_that_changes_while_it_is_read_leads_nowhere_else() {
    let place = Place::new();
    let outside = place.root.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "the host's own").unwrap();
    let directory = place.directory("from");
    let stop = Arc::new(AtomicBool::new(false));
    let racer = std::thread::spawn({
        let (stop, directory, outside) = (stop.clone(), directory.clone(), outside.clone());
        move || {
            while !stop.load(Ordering::Relaxed) {
                let (one, two) = (directory.join("one"), directory.join("two"));
                let _ = std::fs::create_dir(&one);
                let _ = std::fs::write(one.join("secret"), "inside");
                let _ = std::fs::rename(&one, &two);
                let _ = symlink(&outside, &one);
                let _ = std::fs::remove_file(&one);
                let _ = std::fs::write(&one, "a file");
                let _ = std::fs::remove_file(&one);
                let _ = std::fs::remove_dir_all(&two);
                let _ = symlink(outside.join("secret"), &two);
                let _ = std::fs::remove_file(&two);
            }
        }
    });
    let mut writer = place.volumes.acquire(TENANT, "raced", "a test", true).await.unwrap();
    let mut index = None;
    for _ in 0..150 {
        // Only a file that is written to during each read may be refused.
        match writer.commit(&directory, index.take(), Limits::default(), Kind::Commit).await {
            Ok(committed) => index = Some(committed.index),
            Err(error) => assert_eq!(error.code(), "volume_content", "{error}"),
        }
    }
    stop.store(true, Ordering::Relaxed);
    racer.join().unwrap();
    let head = writer.head().clone();
    for version in head.versions.iter().rev().take(40) {
        let to = place.directory("to");
        checkout(&place.volumes, &head, Some(version.number), &to).await;
        for (path, what) in look(&to) {
            let is_link = what.contains("->");
            let content = std::fs::read_to_string(to.join(&path)).unwrap_or_default();
            assert!(is_link || !content.contains("host's own"), "{path}: {what}");
        }
        std::fs::remove_dir_all(&to).unwrap();
    }
    writer.release().await.unwrap();
}
