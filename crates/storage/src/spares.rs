//! Disks of ended sandboxes, emptied and kept for the next sandbox that needs an empty one. The kernel commits a
//! transaction for every subvolume that it removes, which costs more than all that most sandboxes write.
//!
//! A disk is only kept if it is easy to empty completely: few names, next to nothing written, nothing copied from or to
//! it, and a root as it was made. In case of doubt a disk is removed.

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fchmod, fchown, fstat, ioctl_getflags, openat, unlinkat,
};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// The most spares. Each is used again within moments; more are never needed at once.
const MOST: usize = 64;
/// Removing this many names is cheaper than removing a subvolume.
const MOST_NAMES: usize = 200;
const DEEPEST: usize = 12;
/// The most bytes that the kernel may have counted for a spare; the count goes down only later.
pub const MOST_CHARGED: u64 = 1 << 20;
/// A disk with a lower limit would notice the bytes that are still counted for its last sandbox.
const LEAST_LIMIT: u64 = 32 << 20;
/// The names of disks never begin with a dot.
pub const PREFIX: &str = ".spare-";

pub struct Spare {
    pub name: String,
    pub limit: u64,
}

#[derive(Default)]
pub struct Spares(Mutex<State>);

#[derive(Default)]
struct State {
    /// Disks that were made here, empty, and have no copy, with their limits.
    plain: HashMap<String, u64>,
    ready: Vec<Spare>,
    made: u64,
}

impl Spares {
    pub fn note(&self, name: &str, limit: u64) {
        self.lock().plain.insert(name.into(), limit);
    }

    /// The disk has a copy now, or another limit, and can be no spare.
    pub fn forget(&self, name: &str) {
        self.lock().plain.remove(name);
    }

    pub fn take(&self) -> Option<Spare> {
        self.lock().ready.pop()
    }

    /// The name and limit of a disk as a spare, if it can be one.
    pub fn offer(&self, name: &str) -> Option<Spare> {
        let mut state = self.lock();
        let limit = state.plain.remove(name).filter(|limit| *limit >= LEAST_LIMIT)?;
        if state.ready.len() >= MOST {
            return None;
        }
        state.made += 1;
        Some(Spare { name: format!("{PREFIX}{}", state.made), limit })
    }

    pub fn keep(&self, spare: Spare) {
        self.lock().ready.push(spare);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes a disk's root as it was when it was made. Stops at anything unusual; the caller then removes the disk.
///
/// Precondition: no process that ran with it is left.
pub fn empty(
    disk: impl AsFd,
    attribute: &str,
    owner: (rustix::fs::Uid, rustix::fs::Gid),
) -> rustix::io::Result<()> {
    let disk = disk.as_fd();
    let mut left = MOST_NAMES;
    remove_all(disk, fstat(disk)?.st_dev, 0, &mut left)?;
    let mut names = [0; 256];
    let length = rustix::fs::flistxattr(disk, &mut names)?;
    let expected = [attribute.as_bytes(), &[0]].concat();
    if names[..length] != expected[..] || !ioctl_getflags(disk)?.is_empty() {
        return Err(Errno::NOTEMPTY);
    }
    fchown(disk, Some(owner.0), Some(owner.1))?;
    fchmod(disk, Mode::from_raw_mode(0o755))
}

fn remove_all(
    directory: BorrowedFd<'_>,
    device: u64,
    depth: usize,
    left: &mut usize,
) -> rustix::io::Result<()> {
    let mut names: Vec<(CString, FileType)> = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        *left = left.checked_sub(1).ok_or(Errno::TOOBIG)?;
        names.push((entry.file_name().to_owned(), entry.file_type()));
    }
    for (name, kind) in names {
        if kind != FileType::Directory {
            unlinkat(directory, &name, AtFlags::empty())?;
            continue;
        }
        // Most directories are empty.
        match unlinkat(directory, &name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) if depth < DEEPEST => {}
            Err(Errno::NOTEMPTY) => return Err(Errno::TOOBIG),
            done => {
                done?;
                continue;
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let inner = openat(directory, &name, flags, Mode::empty())?;
        // A subvolume in there would have a number of its own; none can be made from inside.
        if fstat(&inner)?.st_dev != device {
            return Err(Errno::XDEV);
        }
        remove_all(inner.as_fd(), device, depth + 1, left)?;
        unlinkat(directory, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}
