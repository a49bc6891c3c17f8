//! Removes a file, or a tree however deep it is.

use super::walk::{Visit, walk};
use super::{node, shown};
use paddock_guest_system::failure::{During, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Stat, openat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

pub fn remove(path: &[u8], recursive: bool) -> Outcome<()> {
    let step = || format!("remove {}", shown(path));
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).during(step)?;
    if node::kind(&found) != NodeType::Directory {
        return unlinkat(CWD, path, AtFlags::empty()).during(step);
    }
    if recursive {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let root = openat(CWD, path, flags, Mode::empty()).during(step)?;
        loop {
            let again = openat(&root, ".", flags, Mode::empty()).during(step)?;
            let mut removal = Removal { raised_to: Some(&root), raised: 0 };
            walk(again, false, &mut removal)?;
            if removal.raised == 0 {
                break;
            }
        }
    }
    unlinkat(CWD, path, AtFlags::REMOVEDIR).during(step)
}

/// Deeper directories are moved up before they are removed. The kernel checks every directory above for each removal (Landlock), and for
/// ten thousand levels that takes minutes.
const DEEPEST: usize = 64;

#[derive(Default)]
pub struct Removal<'a> {
    /// Deep directories are moved to this one.
    raised_to: Option<&'a OwnedFd>,
    raised: usize,
}

impl Removal<'_> {
    /// A directory that cannot be moved is removed in its place.
    fn raise(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8]) -> bool {
        let Some(top) = self.raised_to else { return false };
        if path.iter().filter(|byte| **byte == b'/').count() < DEEPEST {
            return false;
        }
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let new = format!(".paddock-removed-{:x}-{:x}{:x}", self.raised, now.tv_sec, now.tv_nsec);
        let moved = renameat_with(directory, name, top, new.as_str(), RenameFlags::NOREPLACE).is_ok();
        self.raised += usize::from(moved);
        moved
    }
}

impl Visit for Removal<'_> {
    /// A visited entry is gone afterwards: the rest is always at the beginning.
    const REREADS: bool = true;

    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        if node::kind(found) == NodeType::Directory {
            return Ok(!self.raise(directory, name, path));
        }
        gone(unlinkat(directory, name, AtFlags::empty())).during(|| format!("remove {}", shown(path)))?;
        Ok(false)
    }

    fn left(&mut self, parent: &OwnedFd, name: &[u8], path: &[u8]) -> Outcome<()> {
        gone(unlinkat(parent, name, AtFlags::REMOVEDIR)).during(|| format!("remove {}", shown(path)))
    }

    fn closed(&mut self, path: &[u8], errno: Errno) -> Outcome<()> {
        Err(errno).during(|| format!("enter {}", shown(path)))
    }
}

fn gone(removed: rustix::io::Result<()>) -> rustix::io::Result<()> {
    if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every level costs the same, however deep: deep directories are brought up first.
    #[test]
    fn a_deep_tree_is_brought_up_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut current: OwnedFd = std::fs::File::open(&top).unwrap().into();
        for level in 0..300 {
            rustix::fs::mkdirat(&current, "d", Mode::from_raw_mode(0o755)).unwrap();
            if level % 100 == 0 {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
                openat(&current, "file", flags, Mode::from_raw_mode(0o644)).unwrap();
            }
            current = openat(&current, "d", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
        // One walk goes no deeper than this, and brings the rest up.
        let root: OwnedFd = std::fs::File::open(&top).unwrap().into();
        let mut removal = Removal { raised_to: Some(&root), raised: 0 };
        walk(root.try_clone().unwrap(), false, &mut removal).unwrap();
        assert_eq!(removal.raised, 1);
        let left: Vec<_> =
            std::fs::read_dir(&top).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(left.len() == 1 && left[0].to_string_lossy().starts_with(".paddock-removed-"), "{left:?}");
        use std::os::unix::ffi::OsStrExt;
        remove(top.as_os_str().as_bytes(), true).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
