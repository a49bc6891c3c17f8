//! Root tests real file systems on real loop devices; an ordinary user tests the way without them.

use super::*;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

const MEGABYTE: u64 = 1 << 20;

/// A storage in a small image of its own, taken down when dropped.
struct Scratch {
    storage: Option<Storage>,
    state: tempfile::TempDir,
}

impl Scratch {
    /// `None` if this user or host has no btrfs to test.
    fn new() -> Option<Scratch> {
        let state = tempfile::tempdir().unwrap();
        let storage = Storage::open_sized(state.path(), 2 << 30).unwrap();
        if let Some(why) = storage.why_copy() {
            eprintln!("SKIP btrfs: {why}");
            return None;
        }
        Some(Scratch { storage: Some(storage), state })
    }

    fn reopen(&mut self) {
        self.storage = None;
        self.storage = Some(Storage::open(self.state.path()).unwrap());
    }

    fn close(&mut self) -> bool {
        self.storage.take().unwrap().close().unwrap()
    }

    /// Other tests' sandboxes that are just beginning have a copy of every mount, for a moment.
    fn close_in_the_end(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.close() {
            assert!(Instant::now() < deadline, "the storage stayed up");
            self.reopen();
        }
    }
}

impl std::ops::Deref for Scratch {
    type Target = Storage;
    fn deref(&self) -> &Storage {
        self.storage.as_ref().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.storage.is_some() {
            self.close_in_the_end();
        }
    }
}

fn fill(path: &Path, bytes: u64) -> std::io::Result<u64> {
    let mut file = std::fs::File::create(path)?;
    // The bytes can neither be compressed nor shared.
    let piece: Vec<u8> = (0..MEGABYTE).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut written = 0;
    while written < bytes {
        file.write_all(&piece)?;
        written += MEGABYTE;
    }
    file.sync_all()?;
    Ok(written)
}

/// The bytes that can be written until the kernel refuses.
fn fill_up(directory: &Path) -> u64 {
    let mut total = 0;
    for number in 0..10_000 {
        match fill(&directory.join(format!("fill{number}")), 4 * MEGABYTE) {
            Ok(bytes) => total += bytes,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::QuotaExceeded, "{error}");
                return total;
            }
        }
    }
    total
}

#[test]
fn disks_have_neutral_owners_and_names_are_checked() {
    let Some(storage) = Scratch::new() else { return };
    let path = storage.new_disk("a", 64 * MEGABYTE).unwrap().unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0x6F00_0000, 0x6F00_0000, 0o755));
    assert!(matches!(storage.new_disk("a", 1), Err(StorageError::Exists { .. })));
    for bad in ["", ".", "..", "a/b", "a@b", ".hidden", "x\n", &"x".repeat(101)] {
        assert!(matches!(storage.new_disk(bad, 1), Err(StorageError::Name { .. })), "{bad:?}");
    }
    assert!(matches!(storage.clone_disk("none", "b", 1), Err(StorageError::NotFound { .. })));
    assert!(matches!(storage.usage("none"), Err(StorageError::NotFound { .. })));
    storage.delete("none").unwrap();
}

#[test]
fn a_disk_cannot_pass_its_limit() {
    let Some(storage) = Scratch::new() else { return };
    let limit = 64 * MEGABYTE;
    let path = storage.new_disk("a", limit).unwrap().unwrap();
    let written = fill_up(&path);
    assert!((limit / 2..=limit).contains(&written), "{written}");
    assert!(storage.usage("a").unwrap() <= limit);
    // Another disk is not affected.
    let other = storage.new_disk("b", limit).unwrap().unwrap();
    fill(&other.join("x"), 8 * MEGABYTE).unwrap();
    // And the space of removed files can be written again.
    for entry in std::fs::read_dir(&path).unwrap() {
        std::fs::remove_file(entry.unwrap().path()).unwrap();
    }
    rustix::fs::syncfs(std::fs::File::open(&path).unwrap()).unwrap();
    fill(&path.join("again"), limit / 2).unwrap();
}

#[test]
fn names_attributes_and_holes_count_too() {
    let Some(storage) = Scratch::new() else { return };
    let limit = 32 * MEGABYTE;
    let path = storage.new_disk("a", limit).unwrap().unwrap();
    let mut refused = None;
    for number in 0..2_000_000 {
        if let Err(error) = std::fs::write(path.join(format!("{number:0200}")), "") {
            refused = Some((number, error));
            break;
        }
    }
    let (number, error) = refused.expect("two million names fitted into 32 MiB");
    assert_eq!(error.kind(), ErrorKind::QuotaExceeded);
    assert!(number > 1000, "{number}");
    rustix::fs::syncfs(std::fs::File::open(&path).unwrap()).unwrap();
    let used = storage.usage("a").unwrap();
    assert!(used <= limit + 4 * MEGABYTE, "{used}");

    let path = storage.new_disk("b", limit).unwrap().unwrap();
    let file = std::fs::File::create(path.join("sparse")).unwrap();
    file.set_len(1 << 40).unwrap();
    let value = vec![7u8; 3000];
    let mut refused = false;
    'files: for number in 0..100_000 {
        let Ok(file) = std::fs::File::create(path.join(format!("f{number}"))) else {
            refused = true;
            break;
        };
        for attribute in 0..4 {
            let name = format!("user.a{attribute}");
            if rustix::fs::fsetxattr(&file, name, &value, rustix::fs::XattrFlags::empty()).is_err() {
                refused = true;
                break 'files;
            }
        }
    }
    assert!(refused, "attributes are not counted");
    rustix::fs::syncfs(&file).unwrap();
    let used = storage.usage("b").unwrap();
    assert!(used <= limit + 4 * MEGABYTE, "{used}");
}

#[test]
fn snapshots_stay_as_they_were_and_clones_go_their_own_way() {
    let Some(storage) = Scratch::new() else { return };
    let limit = 64 * MEGABYTE;
    let disk = storage.new_disk("disk", limit).unwrap().unwrap();
    std::fs::write(disk.join("file"), "old").unwrap();
    storage.freeze_copy("disk", "snap").unwrap();
    std::fs::write(disk.join("file"), "new").unwrap();
    let snapshot = storage.disk("snap").unwrap();
    assert_eq!(std::fs::read_to_string(snapshot.join("file")).unwrap(), "old");
    let error = std::fs::write(snapshot.join("file"), "changed").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);

    let clone = storage.clone_disk("snap", "clone", limit).unwrap();
    std::fs::write(clone.join("file"), "mine").unwrap();
    assert_eq!(std::fs::read_to_string(disk.join("file")).unwrap(), "new");
    let names: Vec<_> = storage.list().unwrap().into_iter().map(|s| (s.name, s.is_snapshot)).collect();
    assert_eq!(names, [("clone".into(), false), ("disk".into(), false), ("snap".to_string(), true)]);
    let written = fill_up(&clone);
    assert!((limit / 2..=limit).contains(&written), "a clone has a limit of its own: {written}");

    storage.delete("disk").unwrap();
    storage.delete("snap").unwrap();
    assert_eq!(std::fs::read_to_string(clone.join("file")).unwrap(), "mine");
    storage.delete("clone").unwrap();
    assert_eq!(storage.list().unwrap(), []);
}

#[test]
fn what_a_snapshot_holds_does_not_fill_the_disk() {
    let Some(storage) = Scratch::new() else { return };
    let limit = 64 * MEGABYTE;
    let disk = storage.new_disk("disk", limit).unwrap().unwrap();
    for round in 0..3 {
        fill(&disk.join("data"), 40 * MEGABYTE).unwrap_or_else(|error| panic!("round {round}: {error}"));
        storage.freeze_copy("disk", &format!("snap{round}")).unwrap();
        std::fs::remove_file(disk.join("data")).unwrap();
    }
    // The extra room lasts only as long as the snapshots live.
    for round in 0..3 {
        storage.delete(&format!("snap{round}")).unwrap();
    }
    let written = fill_up(&disk);
    assert!(written <= limit, "{written}");
}

#[test]
fn a_hundred_forks_in_a_moment() {
    let Some(storage) = Scratch::new() else { return };
    let disk = storage.new_disk("disk", 128 * MEGABYTE).unwrap().unwrap();
    for number in 0..500 {
        std::fs::write(disk.join(format!("small{number}")), vec![number as u8; 4096]).unwrap();
    }
    fill(&disk.join("large"), 50 * MEGABYTE).unwrap();
    let started = Instant::now();
    storage.freeze_copy("disk", "snap").unwrap();
    let one = started.elapsed();
    std::thread::scope(|scope| {
        for worker in 0..20 {
            let storage = &storage;
            scope.spawn(move || {
                for number in 0..5 {
                    storage.clone_disk("snap", &format!("fork{worker}-{number}"), 128 * MEGABYTE).unwrap();
                }
            });
        }
    });
    let all = started.elapsed();
    eprintln!("snapshot {one:?}, and 100 forks {all:?}");
    assert_eq!(storage.list().unwrap().len(), 102);
    assert!(storage.usage("fork3-2").unwrap() < MEGABYTE);
    let deleting = Instant::now();
    for stored in storage.list().unwrap() {
        storage.delete(&stored.name).unwrap();
    }
    eprintln!("102 deleted in {:?}", deleting.elapsed());
}

#[test]
fn found_again_by_the_next_engine_and_taken_down_to_its_file() {
    let Some(mut storage) = Scratch::new() else { return };
    let disk = storage.new_disk("disk", 64 * MEGABYTE).unwrap().unwrap();
    std::fs::write(disk.join("file"), "kept").unwrap();
    // The server was killed: nothing is taken down.
    storage.reopen();
    assert_eq!(std::fs::read_to_string(storage.disk("disk").unwrap().join("file")).unwrap(), "kept");
    // The storage is in use.
    let user = std::fs::File::open(disk.join("file")).unwrap();
    assert!(!storage.close());
    storage.reopen();
    drop(user);
    storage.close_in_the_end();
    let left: Vec<_> =
        std::fs::read_dir(storage.state.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["storage.btrfs"]);
    assert_eq!(loop_device::attached(&storage.state.path().join("storage.btrfs")).unwrap(), None);
    storage.reopen();
    assert_eq!(std::fs::read_to_string(storage.disk("disk").unwrap().join("file")).unwrap(), "kept");
    let written = fill_up(&disk);
    assert!(written <= 64 * MEGABYTE, "the limit is kept too: {written}");
}

/// A sandbox has a mount of its own of its disk, which does not keep the storage's mount busy.
#[test]
fn a_detached_mount_keeps_the_storage_up() {
    use rustix::mount::{OpenTreeFlags, open_tree};
    let Some(mut storage) = Scratch::new() else { return };
    let disk = storage.new_disk("disk", 64 * MEGABYTE).unwrap().unwrap();
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mounted = open_tree(rustix::fs::CWD, &disk, flags).unwrap();
    assert!(!storage.close());
    storage.reopen();
    std::fs::write(storage.disk("disk").unwrap().join("file"), "the same file system").unwrap();
    let inside = rustix::fs::openat(
        &mounted,
        "file",
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    );
    inside.unwrap();
    drop(mounted);
    storage.close_in_the_end();
}

#[test]
fn without_btrfs_there_are_archives() {
    let state = tempfile::tempdir().unwrap();
    let driver = Driver::Copy { why: "a test".into() };
    let storage = Storage { state: state.path().into(), driver };
    assert_eq!(storage.kind(), StorageKind::Copy);
    assert_eq!(storage.new_disk("a", 1).unwrap(), None);
    assert!(matches!(storage.freeze_copy("a", "b"), Err(StorageError::Unsupported { .. })));
    std::fs::write(storage.archive("snap").unwrap(), "12345").unwrap();
    assert_eq!(storage.usage("snap").unwrap(), 5);
    assert_eq!(storage.list().unwrap(), [Stored { name: "snap".into(), is_snapshot: true }]);
    storage.delete("snap").unwrap();
    assert_eq!(storage.list().unwrap(), []);
    assert!(storage.close().unwrap());
}

/// The file system inside must never meet a full disk of the host.
#[test]
fn the_file_of_the_storage_has_no_holes_and_grows_ahead_of_need() {
    let Some(mut scratch) = Scratch::new() else { return };
    scratch.reopen();
    let file = scratch.state.path().join("storage.btrfs");
    let solid = || {
        let found = std::fs::metadata(&file).unwrap();
        (found.blocks() * 512 >= found.len()).then_some(found.len())
    };
    let Some(before) = solid() else {
        eprintln!("SKIP space ahead: this file system gives none");
        return;
    };
    assert!(before < 4 << 30, "{before}");
    let room = rustix::fs::statvfs(scratch.state.path()).unwrap();
    let room = room.f_bavail.saturating_mul(room.f_frsize);
    assert!(room > 16 << 30, "6 GiB are written, and 10 are left to others: {room} bytes are free");
    let disk = scratch.new_disk("large", 8 << 30).unwrap().unwrap();
    let large = std::fs::File::create(disk.join("large")).unwrap();
    let mut after = before;
    // More than the file began with, in steps that each fit into the space ahead.
    for step in 0..12 {
        let none = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&large, none, step * 256 * MEGABYTE, 256 * MEGABYTE).unwrap();
        let deadline = Instant::now() + std::time::Duration::from_secs(20);
        while free_inside(&disk) < 1 << 30 && Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        after = solid().expect("no holes");
    }
    assert!(after > before, "{after} after {before}");
    drop(large);
    // And the storage is found again as it was.
    scratch.close();
    scratch.reopen();
    // It may have grown a last time since it was looked at.
    assert!(solid() >= Some(after), "{:?} after {after}", solid());
    assert_eq!(std::fs::metadata(disk.join("large")).unwrap().len(), 12 * 256 * MEGABYTE);
}

fn free_inside(path: &Path) -> u64 {
    let found = rustix::fs::statvfs(path).unwrap();
    found.f_bavail * found.f_frsize
}

/// The number that the kernel gave the subvolume.
fn number(path: &Path) -> u64 {
    btrfs::number(std::fs::File::open(path).unwrap()).unwrap()
}

#[test]
fn a_disk_that_was_hardly_used_is_emptied_and_used_again() {
    let Some(mut storage) = Scratch::new() else { return };
    let limit = 64 * MEGABYTE;
    let first = storage.new_disk("a", limit).unwrap().unwrap();
    let made = number(&first);
    std::fs::create_dir_all(first.join("upper/deep/down")).unwrap();
    std::fs::write(first.join("upper/deep/secret"), "of the first").unwrap();
    std::os::unix::fs::symlink("/etc", first.join("link")).unwrap();
    std::os::unix::fs::chown(&first, Some(7), Some(8)).unwrap();
    std::fs::set_permissions(&first, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    storage.delete("a").unwrap();
    assert!(Path::new("/etc/passwd").exists());
    assert_eq!(storage.list().unwrap(), []);
    assert!(matches!(storage.disk("a"), Err(StorageError::NotFound { .. })));

    // The spare gets another name and another limit, which holds.
    let second = storage.new_disk("b", limit / 2).unwrap().unwrap();
    assert_eq!(number(&second), made);
    assert_eq!(std::fs::read_dir(&second).unwrap().count(), 0);
    let found = std::fs::metadata(&second).unwrap();
    assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0x6F00_0000, 0x6F00_0000, 0o755));
    let written = fill_up(&second);
    assert!((limit / 4..=limit / 2).contains(&written), "{written}");

    // A disk with much written data is not worth emptying.
    storage.delete("b").unwrap();
    let third = storage.new_disk("c", limit).unwrap().unwrap();
    assert_ne!(number(&third), made);

    // A name that is taken keeps its disk, and the ready spare stays ready.
    storage.delete("c").unwrap();
    storage.new_disk("d", limit).unwrap();
    let taken = storage.new_disk("e", limit).unwrap().unwrap();
    storage.delete("d").unwrap();
    assert!(matches!(storage.new_disk("e", limit), Err(StorageError::Exists { .. })));
    assert!(taken.is_dir());
    // An earlier engine may have left a spare half done, so none is used again.
    storage.reopen();
    let spares = std::fs::read_dir(taken.parent().unwrap().parent().unwrap()).unwrap();
    let names: Vec<_> = spares.flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(names, ["e"]);
}

#[test]
fn a_disk_that_is_not_as_it_was_made_is_not_used_again() {
    let Some(storage) = Scratch::new() else { return };
    let limit = 64 * MEGABYTE;
    let many = |path: &Path| (0..300).for_each(|n| std::fs::write(path.join(n.to_string()), "").unwrap());
    let attribute = |path: &Path| {
        rustix::fs::setxattr(path, "user.note", b"x", rustix::fs::XattrFlags::empty()).unwrap();
    };
    let flag = |path: &Path| {
        let root = std::fs::File::open(path).unwrap();
        rustix::fs::ioctl_setflags(&root, rustix::fs::IFlags::NOCOW).unwrap();
    };
    let within = |path: &Path| {
        btrfs::create(std::fs::File::open(path).unwrap(), "inner").unwrap();
        std::fs::write(path.join("inner/file"), "").unwrap();
    };
    let copied = |_: &Path| storage.freeze_copy("x", "copy").unwrap();
    let limited = |_: &Path| storage.limit_disk("x", limit * 2).unwrap();
    type Change<'a> = (&'a str, &'a dyn Fn(&Path));
    let cases: [Change<'_>; 6] = [
        ("many names", &many),
        ("an attribute", &attribute),
        ("a flag", &flag),
        ("a subvolume", &within),
        ("a copy", &copied),
        ("another limit", &limited),
    ];
    for (what, change) in cases {
        let path = storage.new_disk("x", limit).unwrap().unwrap();
        let made = number(&path);
        change(&path);
        if what == "a subvolume" {
            assert!(storage.delete("x").is_err());
            btrfs::destroy(std::fs::File::open(&path).unwrap(), "inner").unwrap();
        }
        storage.delete("x").unwrap();
        let next = storage.new_disk("x", limit).unwrap().unwrap();
        assert_ne!(number(&next), made, "{what}");
        storage.delete("x").unwrap();
    }
}
