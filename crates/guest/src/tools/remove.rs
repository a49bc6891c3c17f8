//! Removes a file, or a tree however deep it is.

use super::walk::{Visit, walk};
use super::{node, shown};
use crate::failure::{During, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat, unlinkat};
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
        walk(root, false, &mut Removal)?;
    }
    unlinkat(CWD, path, AtFlags::REMOVEDIR).during(step)
}

pub struct Removal;

impl Visit for Removal {
    /// What was seen is gone afterwards: the rest is always at the beginning.
    const REREADS: bool = true;

    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        if node::kind(found) == NodeType::Directory {
            return Ok(true);
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
