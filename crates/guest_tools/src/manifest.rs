//! Every entry of the disk's own layer, with the facts that show a change.

use super::walk::{Visit, walk};
use super::{attributes, beneath, node, streams};
use paddock_guest_system::failure::{During, Outcome};
use paddock_protocol::{LayerEntry, NodeType};
use rustix::fs::{AtFlags, FileType, OFlags, Stat, StatxFlags, fstat, statx};
use rustix::io::Errno;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The overlay's mark on a directory that hides the image's directory below it.
pub const OPAQUE: &str = "user.overlay.opaque";
/// The overlay's mark on a file that the image below has as well.
const ORIGIN: &str = "user.overlay.origin";

pub fn manifest(layer: BorrowedFd<'_>) -> Outcome<()> {
    let tree = Tree::open(layer)?;
    list(tree.root, Listing { device: tree.device, mounted: None, answers: streams::Answers::open()? })
}

/// The manifest of the tree that the layer was cloned from.
pub fn manifest_of_start(layer: BorrowedFd<'_>, start: BorrowedFd<'_>) -> Outcome<()> {
    let (tree, mounted) = (Tree::open(start)?, Tree::open(layer)?);
    let answers = streams::Answers::open()?;
    list(tree.root, Listing { device: tree.device, mounted: Some(mounted), answers })
}

fn list(root: OwnedFd, mut listing: Listing) -> Outcome<()> {
    walk(root, true, &mut listing)?;
    listing.answers.flush()
}

struct Tree {
    root: OwnedFd,
    device: u64,
}

impl Tree {
    fn open(tree: BorrowedFd<'_>) -> Outcome<Tree> {
        let root = beneath::open(tree, b".", OFlags::RDONLY | OFlags::DIRECTORY)
            .during(|| "open the disk".into())?;
        let device = fstat(&root).during(|| "look at the disk".into())?.st_dev;
        Ok(Tree { root, device })
    }

    fn has_a_mount_at(&self, path: &[u8]) -> bool {
        let found = beneath::open(&self.root, path, OFlags::PATH | OFlags::NOFOLLOW);
        found.and_then(|found| fstat(&found)).is_ok_and(|found| found.st_dev != self.device)
    }
}

struct Listing {
    device: u64,
    /// The tree in which mounts are looked up, for a tree that has none itself.
    mounted: Option<Tree>,
    answers: streams::Answers,
}

impl Visit for Listing {
    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        // A file that is mounted here is not the disk's.
        let covered = self.mounted.as_ref().is_some_and(|tree| tree.has_a_mount_at(path));
        if found.st_dev != self.device || covered {
            return Ok(false);
        }
        let notes = Notes::of(directory, name, found);
        let entry = LayerEntry {
            node: node::describe(directory, name, path, found),
            changed_ns: node::nanoseconds(found.st_ctime, found.st_ctime_nsec),
            born_ns: born(directory, name),
            in_image: notes.origin,
            inode: found.st_ino,
            whiteout: is_whiteout(found),
            opaque: notes.opaque && node::kind(found) == NodeType::Directory,
        };
        self.answers.put(&entry)?;
        Ok(true)
    }

    fn closed(&mut self, path: &[u8], errno: Errno) -> Outcome<()> {
        Err(errno).during(|| format!("enter {}", super::shown(path)))
    }
}

/// When it was made; 0 where the file system does not know.
fn born(directory: &OwnedFd, name: &[u8]) -> i64 {
    match statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME) {
        Ok(found) if found.stx_mask & StatxFlags::BTIME.bits() != 0 => {
            node::nanoseconds(found.stx_btime.tv_sec, i64::from(found.stx_btime.tv_nsec))
        }
        _ => 0,
    }
}

/// The overlay's notes on the origin of a file that it copied up. Links and special files carry no notes, and count as
/// new.
#[derive(Default)]
struct Notes {
    origin: bool,
    opaque: bool,
}

impl Notes {
    fn of(directory: &OwnedFd, name: &[u8], found: &Stat) -> Notes {
        if !matches!(node::kind(found), NodeType::File | NodeType::Directory) {
            return Notes::default();
        }
        let origin = attributes::value(directory, name, ORIGIN, &mut [0; 256]).is_ok();
        Notes { origin, opaque: is_opaque(directory, name) }
    }
}

pub fn is_whiteout(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice && found.st_rdev == 0
}

pub fn is_opaque(directory: &OwnedFd, name: &[u8]) -> bool {
    attributes::value(directory, name, OPAQUE, &mut [0; 8]).is_ok_and(|value| *value == *b"y")
}
