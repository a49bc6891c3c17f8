//! A tree comes out as it went in, and only changed parts move.

use crate::place::{Place, TENANT, checkout, commit, look, noise};
use paddock_volumes::{Kind, Limits, VolumeError};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

fn fill(directory: &Path) {
    std::fs::create_dir_all(directory.join("a/deep/er")).unwrap();
    std::fs::create_dir(directory.join("empty")).unwrap();
    std::fs::write(directory.join("a/small"), "small").unwrap();
    std::fs::write(directory.join("a/nothing"), "").unwrap();
    std::fs::write(directory.join("a.txt"), "sorted after what is in a").unwrap();
    std::fs::write(directory.join("a/deep/er/large"), noise(5 << 20, 1)).unwrap();
    std::fs::write(directory.join("run.sh"), "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(directory.join("run.sh"), std::fs::Permissions::from_mode(0o751)).unwrap();
    std::fs::set_permissions(directory.join("empty"), std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink("../../../etc/passwd", directory.join("a/link")).unwrap();
    symlink("/nowhere", directory.join("dangling")).unwrap();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    std::fs::File::options().write(true).open(directory.join("a/small")).unwrap().set_modified(old).unwrap();
    std::fs::File::open(directory.join("empty")).unwrap().set_modified(old).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_comes_back_as_it_was() {
    let place = Place::new();
    let from = place.directory("from");
    fill(&from);
    let sparse = std::fs::File::create(from.join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 500 << 20).unwrap();
    drop(sparse);
    let committed = commit(&place.volumes, "tree", &from).await;
    assert!(committed.changed && committed.exact && committed.skipped.is_empty());
    assert!(committed.version.stored_bytes < 6 << 20, "{:?}", committed.version);
    let head = place.volumes.head(TENANT, "tree").await.unwrap();
    let to = place.directory("to");
    checkout(&place.volumes, &head, None, &to).await;
    let (sparse, copy) = (from.join("sparse"), to.join("sparse"));
    assert_eq!(sparse.metadata().unwrap().len(), copy.metadata().unwrap().len());
    assert!(copy.metadata().unwrap().blocks() * 512 < 1 << 20, "its holes are holes");
    let mut file = place.volumes.open_file(&head, None, "/sparse").await.unwrap();
    let mut read = Vec::new();
    while let Some(piece) = file.next().await.unwrap() {
        read.extend_from_slice(&piece[..piece.len().min(16)]);
    }
    assert!(read.windows(13).any(|part| part == b"in the middle"));
    for path in [sparse, copy] {
        std::fs::remove_file(path).unwrap();
    }
    // Removing it touched the root, which is not in the look.
    assert_eq!(look(&from), look(&to));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_changed_moves_and_nothing_where_nothing_did() {
    let place = Place::new();
    let directory = place.directory("from");
    for number in 0..500 {
        std::fs::write(directory.join(format!("file-{number:04}")), noise(10 << 10, number)).unwrap();
    }
    let large = noise(8 << 20, 77);
    std::fs::write(directory.join("large"), &large).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let mut writer = place.volumes.acquire(TENANT, "many", "a test", true).await.unwrap();
    let limits = Limits::default();
    let first = writer.commit(&directory, None, limits, Kind::Commit).await.unwrap();
    assert!(first.version.stored_bytes > 12 << 20);
    let second = writer.commit(&directory, Some(first.index.clone()), limits, Kind::Commit).await.unwrap();
    assert!(!second.changed && second.version == first.version);
    // Without an index everything is read again, and is found to be the same.
    let second = writer.commit(&directory, None, limits, Kind::Commit).await.unwrap();
    assert!(!second.changed);
    for number in 0..5 {
        std::fs::write(directory.join(format!("file-{number:04}")), noise(10 << 10, 1000 + number)).unwrap();
    }
    // In the middle of a large file: the rest behind it is cut at the same places.
    let shifted = [&large[..4 << 20], b"a few more bytes", &large[4 << 20..]].concat();
    std::fs::write(directory.join("large"), shifted).unwrap();
    let third = writer.commit(&directory, Some(first.index), limits, Kind::Checkpoint).await.unwrap();
    assert!(third.changed && third.version.kind == Kind::Checkpoint && third.version.from == Some(1));
    assert!(third.version.stored_bytes < 2 << 20, "{}", third.version.stored_bytes);
    writer.release().await.unwrap();
    let head = place.volumes.head(TENANT, "many").await.unwrap();
    let to = place.directory("to");
    let written = checkout(&place.volumes, &head, None, &to).await;
    assert_eq!(look(&directory), look(&to));
    // Another version over it: equal files stay where they are.
    let inode = to.join("file-0100").metadata().unwrap().ino();
    std::thread::sleep(Duration::from_millis(60));
    let index = written.index;
    std::fs::write(to.join("file-0200"), "changed by nobody who may").unwrap();
    std::fs::write(to.join("unknown"), "x").unwrap();
    place.volumes.checkout(&head, Some(1), &to, Some(index)).await.unwrap();
    let fresh = place.directory("fresh");
    checkout(&place.volumes, &head, Some(1), &fresh).await;
    assert_eq!(look(&to), look(&fresh));
    assert_eq!(std::fs::read(to.join("large")).unwrap(), large);
    // Files that lay there long enough to be told from changed ones were not written again.
    assert!(inode == to.join("file-0100").metadata().unwrap().ino() || !to.join("unknown").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_kept_restored_and_edited() {
    let place = Place::with_times(3, Duration::from_secs(60));
    let directory = place.directory("from");
    for number in 1..=5 {
        std::fs::write(directory.join("counter"), format!("{number}")).unwrap();
        assert_eq!(commit(&place.volumes, "kept", &directory).await.version.number, number);
    }
    let head = place.volumes.head(TENANT, "kept").await.unwrap();
    let numbers: Vec<u64> = head.versions.iter().map(|version| version.number).collect();
    assert_eq!((numbers.as_slice(), head.current), ([3, 4, 5].as_slice(), Some(5)));
    let mut writer = place.volumes.acquire(TENANT, "kept", "a test", false).await.unwrap();
    let missing = writer.restore(1).await.unwrap_err();
    assert_eq!(missing.code(), "version_not_found");
    assert_eq!(writer.restore(3).await.unwrap().from, Some(3));
    let source = place.root.path().join("source");
    std::fs::write(&source, "put").unwrap();
    let open = || std::fs::File::open(&source).unwrap();
    let limits = Limits::default();
    let put = writer.put_file("/new/place/file", open(), 0o4755, limits).await.unwrap();
    assert_eq!((put.number, put.files), (7, 2));
    for (path, words) in
        [("../x", "`..`"), ("counter/x", "no directory"), ("new", "directory"), ("", "empty")]
    {
        let said = writer.put_file(path, open(), 0o644, limits).await.unwrap_err().to_string();
        assert!(said.contains(words), "{path}: {said}");
    }
    let small = Limits { bytes: 3, ..limits };
    assert_eq!(writer.put_file("more", open(), 0o644, small).await.unwrap_err().code(), "quota_exceeded");
    assert_eq!(writer.remove_path("nothing").await.unwrap_err().code(), "file_not_found");
    assert_eq!(
        writer.make_directory("a/b", 0o750, false, limits).await.unwrap_err().code(),
        "file_not_found"
    );
    let made = writer.make_directory("/a/b/", 0o4750, true, limits).await.unwrap();
    assert_eq!(writer.make_directory("a/b", 0o700, true, limits).await.unwrap().number, made.number);
    assert_eq!(
        writer.make_directory("a/b", 0o700, false, limits).await.unwrap_err().code(),
        "volume_content"
    );
    assert_eq!(
        writer.make_directory("counter", 0o700, true, limits).await.unwrap_err().code(),
        "volume_content"
    );
    writer.change_mode("counter", 0o600).await.unwrap();
    assert_eq!(writer.change_mode("nothing", 0o600).await.unwrap_err().code(), "file_not_found");
    let manifest = place.volumes.manifest(writer.head(), None).await.unwrap().unwrap();
    let mode = |path: &str| manifest.find(path.as_bytes()).unwrap().mode;
    assert_eq!((mode("a/b"), mode("a"), mode("counter")), (0o750, 0o755, 0o600));
    let long = ["d"; 300].join("/") + &"n".repeat(256);
    for path in ["..", "a/../b", "a//b", "./a", "a\0b", long.as_str()] {
        assert_eq!(writer.remove_path(path).await.unwrap_err().code(), "invalid_request", "{path}");
        assert_eq!(
            place.volumes.open_file(writer.head(), None, path).await.err().unwrap().code(),
            "invalid_request"
        );
    }
    assert_eq!(place.volumes.open_file(writer.head(), None, "a").await.err().unwrap().code(), "not_a_file");
    writer.remove_path("a").await.unwrap();
    writer.remove_path("counter").await.unwrap();
    writer.release().await.unwrap();
    let head = place.volumes.head(TENANT, "kept").await.unwrap();
    let to = place.directory("to");
    checkout(&place.volumes, &head, None, &to).await;
    assert_eq!(std::fs::read_to_string(to.join("new/place/file")).unwrap(), "put");
    let mode = to.join("new/place/file").metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode, 0o755, "nobody else's program runs as its owner");
    assert!(!to.join("counter").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_version_names_is_freed_and_nothing_else() {
    let place = Place::with_times(2, Duration::from_secs(60));
    let directory = place.directory("from");
    std::fs::write(directory.join("stays"), noise(200 << 10, 1)).unwrap();
    for number in 0..6 {
        std::fs::write(directory.join("changes"), noise(300 << 10, 100 + number)).unwrap();
        commit(&place.volumes, "collected", &directory).await;
    }
    // The remains of a killed writer: uploaded, and named by no version.
    let mut writer = place.volumes.acquire(TENANT, "collected", "one that is killed", false).await.unwrap();
    std::fs::write(directory.join("changes"), noise(300 << 10, 999)).unwrap();
    let limits = Limits { bytes: 310 << 10, ..Limits::default() };
    let over = writer.commit(&directory, None, limits, Kind::Commit).await.unwrap_err();
    assert!(matches!(over, VolumeError::Quota { what: "bytes", .. }), "{over}");
    assert!(matches!(place.volumes.collect(TENANT, "collected").await, Err(VolumeError::Busy { .. })));
    writer.release().await.unwrap();
    let collected = place.volumes.collect(TENANT, "collected").await.unwrap();
    assert!(collected.objects >= 7 && collected.bytes > 900 << 10, "{collected:?}");
    assert_eq!(place.volumes.collect(TENANT, "collected").await.unwrap().objects, 0);
    let head = place.volumes.head(TENANT, "collected").await.unwrap();
    for version in [5, 6] {
        let to = place.directory(&format!("to-{version}"));
        checkout(&place.volumes, &head, Some(version), &to).await;
        assert_eq!(std::fs::read(to.join("changes")).unwrap(), noise(300 << 10, 99 + version));
        assert_eq!(std::fs::read(to.join("stays")).unwrap(), noise(200 << 10, 1));
    }
    place.volumes.remove(TENANT, "collected").await.unwrap();
    assert_eq!(place.volumes.head(TENANT, "collected").await.unwrap_err().code(), "volume_not_found");
    assert!(place.volumes.list(TENANT).await.unwrap().is_empty());
    let again = place.volumes.create(TENANT, "collected").await.unwrap();
    assert!(again.id != head.id && again.current.is_none());
}

/// A snapshot of a disk: other names of the same files, until one is written to.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_what_is_kept_whatever_became_of_its_source() {
    let place = Place::new();
    let (live, copy) = (place.directory("live"), place.directory("copy"));
    for name in ["same", "replaced", "removed", "below/same", "below/replaced"] {
        let path = live.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, noise(10 << 10, name.len() as u64)).unwrap();
        let other = copy.join(name);
        std::fs::create_dir_all(other.parent().unwrap()).unwrap();
        std::fs::hard_link(path, other).unwrap();
    }
    let before = look(&copy);
    std::thread::sleep(Duration::from_millis(60));
    let mut writer = place.volumes.acquire(TENANT, "copied", "a test", true).await.unwrap();
    let limits = Limits::default();
    let first = writer.commit(&live, None, limits, Kind::Commit).await.unwrap();
    for name in ["replaced", "below/replaced"] {
        std::fs::write(live.join("new"), "what came after the copy").unwrap();
        std::fs::rename(live.join("new"), live.join(name)).unwrap();
    }
    std::fs::remove_file(live.join("removed")).unwrap();
    std::fs::remove_dir_all(copy.join("below")).unwrap();
    std::fs::create_dir(copy.join("below")).unwrap();
    std::fs::hard_link(live.join("below/same"), copy.join("below/same")).unwrap();
    std::fs::write(copy.join("below/replaced"), "before the copy").unwrap();
    std::os::unix::fs::symlink("/etc", live.join("below/link")).unwrap();
    let second = writer.commit_copy(&copy, &live, Some(first.index), limits, Kind::Checkpoint).await.unwrap();
    assert!(second.changed);
    writer.release().await.unwrap();
    let head = place.volumes.head(TENANT, "copied").await.unwrap();
    let to = place.directory("to");
    checkout(&place.volumes, &head, None, &to).await;
    assert_eq!(std::fs::read(to.join("below/replaced")).unwrap(), b"before the copy");
    for name in ["same", "replaced", "removed", "below/same"] {
        let content = noise(10 << 10, name.len() as u64);
        assert_eq!(std::fs::read(to.join(name)).unwrap(), content, "{name}");
    }
    assert!(!to.join("below/link").exists() && !before.is_empty());
}
