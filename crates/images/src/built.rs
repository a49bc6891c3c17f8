//! Roots that a build makes: another root, and over it the changes of a sandbox.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;

use rustix::fs::{FlockOperation, flock};

use super::ImageError;
use super::digest::Digest;
use super::directories::Root;
use super::job::Reporter;
use super::share::{self, Sharing};
use super::store::Shared;
use super::unpack::{Layer, Style, Unpacker};

/// The root below, and how its files are shared.
pub type Below<'a> = Option<(&'a Path, Sharing)>;

/// The output of a sandbox: its disk, or one of its directories.
pub struct Written {
    /// A pipe or a file with a tar in it.
    pub archive: File,
    pub style: Style,
    /// Receives a message when the archive was sent to its end: an archive that was cut off may look whole.
    pub all_came: Receiver<()>,
}

/// Makes the root `key`. If it fails, nothing of it is left.
///
/// Precondition: the lock of `key` is held, and there is no such root.
pub fn make(
    shared: &Shared,
    key: &Digest,
    below: Below<'_>,
    written: Option<Written>,
    reporter: &Reporter,
) -> Result<Root, ImageError> {
    let work = shared.directories.temporary()?;
    let rootfs = work.make("rootfs")?;
    if let Some((below, sharing)) = below {
        share::fill(below, &rootfs, sharing)?;
    }
    let mut skipped = Vec::new();
    if let Some(Written { archive, style, all_came }) = written {
        let mut unpacker = Unpacker::new(&rootfs, style, &shared.limits)?;
        unpacker.apply(Layer { file: archive, digest: None, size: None, diff_id: None }, reporter)?;
        all_came.recv().map_err(|_| ImageError::Cancelled)?;
        skipped = unpacker.finish();
    }
    shared.directories.publish_root(work, key, skipped)
}

/// The directory of a root of this state directory, from the path that a sandbox has as its root.
pub fn directory_of(state: &Path, rootfs: &Path) -> Option<PathBuf> {
    let roots = fs::canonicalize(state.join("images/roots")).ok()?;
    let directory = rootfs.parent()?;
    (rootfs.file_name()? == "rootfs" && directory.parent()? == roots).then(|| directory.to_path_buf())
}

/// A shared lock on a root: it cannot be removed while the file is open. `None` if it is no root of ours.
pub fn hold(state: &Path, rootfs: &Path) -> Option<File> {
    let file = File::open(directory_of(state, rootfs)?).ok()?;
    flock(&file, FlockOperation::LockShared).ok()?;
    Some(file)
}

/// Removes a root; `false` if it is in use.
pub fn remove(shared: &Shared, key: &Digest) -> Result<bool, ImageError> {
    let directories = &shared.directories;
    let _lock = directories.lock(&format!("root-{}", key.hex()))?;
    let Some(root) = directories.root(key)? else { return Ok(true) };
    let directory = root.path.parent().unwrap_or(&root.path);
    let failed = |error| ImageError::io("remove", directory, error);
    let held = File::open(directory).map_err(failed)?;
    if flock(&held, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Ok(false);
    }
    // The root is renamed first: other processes find all of it, or nothing.
    let grave = directories.temporary()?;
    fs::rename(directory, grave.path.join("root")).map_err(failed)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ImageStore;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::sync::mpsc::channel;
    use tar::{Builder, EntryType, Header};

    fn header(kind: EntryType, mode: u32, size: u64) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(size);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(0);
        header
    }

    fn entry(builder: &mut Builder<File>, kind: EntryType, name: &str, content: &[u8]) {
        let mut header = header(kind, 0o4755, content.len() as u64);
        if kind == EntryType::Char {
            header.set_device_major(0).unwrap();
            header.set_device_minor(0).unwrap();
        }
        builder.append_data(&mut header, name, content).unwrap();
    }

    /// An archive as a guest sends it; `whole`: with the message that this was all.
    fn written(fill: impl FnOnce(&mut Builder<File>), whole: bool) -> Written {
        let mut builder = Builder::new(tempfile::tempfile().unwrap());
        fill(&mut builder);
        let mut archive = builder.into_inner().unwrap();
        archive.flush().unwrap();
        archive.seek(SeekFrom::Start(0)).unwrap();
        let (sender, all_came) = channel();
        if whole {
            sender.send(()).unwrap();
        }
        Written { archive, style: Style::Disk, all_came }
    }

    fn key(name: &str) -> Digest {
        Digest::of(name.as_bytes())
    }

    struct Place {
        state: tempfile::TempDir,
        store: ImageStore,
        below: PathBuf,
    }

    fn place() -> Place {
        let state = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&state.path().join("images")).unwrap();
        let below = state.path().join("below");
        for name in ["etc/gone", "kept", "hidden"] {
            fs::create_dir_all(below.join(name)).unwrap();
            fs::write(below.join(name).join("file"), "below").unwrap();
        }
        fs::write(below.join("etc/replaced"), "below").unwrap();
        Place { state, store, below }
    }

    fn made(place: &Place, name: &str, written: Written) -> Result<PathBuf, ImageError> {
        let below = Some((place.below.as_path(), Sharing::Links));
        Reporter::silent(|reporter| make(place.store.shared(), &key(name), below, Some(written), reporter))
            .map(|root| root.path)
    }

    #[test]
    fn what_a_sandbox_wrote_stands_over_what_was_below() {
        let place = place();
        let root = made(
            &place,
            "layer",
            written(
                |tar| {
                    entry(tar, EntryType::Char, "etc/gone", b"");
                    entry(tar, EntryType::Regular, "etc/replaced", b"above");
                    entry(tar, EntryType::Regular, "etc/resolv.conf", b"nameserver of the host");
                    entry(tar, EntryType::Directory, "run/paddock", b"");
                    entry(tar, EntryType::Regular, "run/paddock/sources.list", b"of the host");
                    entry(tar, EntryType::Directory, "run/paddock-npm", b"");
                    entry(tar, EntryType::Directory, "run/paddock-of-the-image", b"");
                    entry(tar, EntryType::Regular, "run/paddock-of-the-image/file", b"kept");
                    entry(tar, EntryType::Fifo, "etc/pipe", b"");
                    tar.append_pax_extensions([("SCHILY.xattr.user.overlay.opaque", &b"y"[..])]).unwrap();
                    entry(tar, EntryType::Directory, "hidden", b"");
                    entry(tar, EntryType::Regular, "hidden/own", b"above");
                    tar.append_pax_extensions([("PADDOCK.extents", &b"1000,10,5"[..])]).unwrap();
                    entry(tar, EntryType::Regular, "holes", b"12345");
                },
                true,
            ),
        )
        .unwrap();
        let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
        assert_eq!((read("etc/replaced").as_str(), read("kept/file").as_str()), ("above", "below"));
        for gone in
            ["etc/gone", "hidden/file", "etc/resolv.conf", "run/paddock", "run/paddock-npm", "etc/pipe"]
        {
            assert!(fs::symlink_metadata(root.join(gone)).is_err(), "{gone}");
        }
        assert_eq!(read("hidden/own"), "above");
        assert_eq!(read("run/paddock-of-the-image/file"), "kept");
        let holes = fs::read(root.join("holes")).unwrap();
        assert_eq!((holes.len(), &holes[8..17]), (1000, &b"\0\x0012345\0\0"[..]));
        let replaced = fs::metadata(root.join("etc/replaced")).unwrap();
        assert_eq!(replaced.permissions().mode() & 0o7777, 0o755, "no set-user-id bits");
        let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(root.join("kept/file")), inode(place.below.join("kept/file")), "files are shared");
        let below = |name: &str| fs::read_to_string(place.below.join(name)).unwrap();
        assert_eq!((below("etc/replaced").as_str(), below("etc/gone/file").as_str()), ("below", "below"));
    }

    #[test]
    fn a_hostile_disk_is_refused_and_leaves_nothing() {
        let place = place();
        let outside = place.state.path().join("outside");
        fs::create_dir(&outside).unwrap();
        type Fill = Box<dyn FnOnce(&mut Builder<File>)>;
        let link = outside.clone();
        let attempts: Vec<(&str, Fill)> = vec![
            (
                "holes that do not fit",
                Box::new(|tar| {
                    tar.append_pax_extensions([("PADDOCK.extents", &b"10,0,4"[..])]).unwrap();
                    entry(tar, EntryType::Regular, "holes", b"12345");
                }),
            ),
            (
                "a file larger than all",
                Box::new(|tar| {
                    tar.append_pax_extensions([("PADDOCK.extents", &b"9000000000000000000"[..])]).unwrap();
                    entry(tar, EntryType::Regular, "holes", b"");
                }),
            ),
            (
                "a way out by a link",
                Box::new(move |tar| {
                    let mut header = header(EntryType::Symlink, 0o777, 0);
                    tar.append_link(&mut header, "way", &link).unwrap();
                    entry(tar, EntryType::Regular, "way/file", b"x");
                }),
            ),
            (
                "a whiteout beyond a link",
                Box::new(|tar| {
                    let mut header = header(EntryType::Symlink, 0o777, 0);
                    tar.append_link(&mut header, "up", "..").unwrap();
                    entry(tar, EntryType::Char, "up/below", b"");
                }),
            ),
        ];
        for (what, fill) in attempts {
            assert!(made(&place, "layer", written(fill, true)).is_err(), "{what}");
            assert!(place.store.shared().directories.root(&key("layer")).unwrap().is_none(), "{what}");
        }
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
        assert!(place.below.join("kept/file").exists());
        assert_eq!(fs::read_dir(place.state.path().join("images/temporary")).unwrap().count(), 0);
    }

    #[test]
    fn a_disk_that_was_cut_off_is_no_root() {
        let place = place();
        let cut = written(|tar| entry(tar, EntryType::Regular, "a", b"x"), false);
        assert!(matches!(made(&place, "layer", cut), Err(ImageError::Cancelled)));
        assert!(place.store.shared().directories.root(&key("layer")).unwrap().is_none());
    }

    #[test]
    fn a_root_in_use_is_not_removed() {
        let place = place();
        let root = made(&place, "layer", written(|_| {}, true)).unwrap();
        let held = hold(place.state.path(), &root).unwrap();
        assert!(!remove(place.store.shared(), &key("layer")).unwrap());
        drop(held);
        assert!(remove(place.store.shared(), &key("layer")).unwrap());
        assert!(!root.exists() && place.below.join("kept/file").exists());
        assert!(hold(place.state.path(), &place.below).is_none(), "only roots of the store are held");
    }
}
