//! Disks as subvolumes of btrfs: `disks/NAME/fs`.
//!
//! Each disk has a directory of its own around it: the kernel holds the parent's lock while it takes a snapshot. A
//! hundred forks of one disk must share one transaction, and not wait for each other's.
//!
//! A limit counts the bytes that a disk wrote, for as long as any subvolume holds them. Files that the disk has removed
//! still count against it while a snapshot or a fork holds them. So the disk gets its limit once more for every instant
//! that is kept of it. `disks/NAME/origin` names the disk and the instant of a copy.

use super::btrfs::{self, Quota};
use super::spares::{self, Spares};
use super::{StorageError, Stored, failed};
use paddock_fences::NEUTRAL_ID;
use rustix::fs::{
    CWD, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags, fchmod, fchown, fgetxattr, fsetxattr, open,
    renameat_with,
};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Result as IoResult};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const SUBVOLUME: &str = "fs";
const ORIGIN: &str = "origin";
/// The requested limit, as an attribute on the disk's root; processes inside can neither see nor change it.
const LIMIT: &str = "trusted.paddock.limit";

pub struct Disks {
    directory: PathBuf,
    root: File,
    groups: PathBuf,
    quota: Quota,
    /// Held while a limit is worked out and set, so that the last count wins.
    counting: Mutex<()>,
    spares: Spares,
}

impl Disks {
    pub fn open(file_system: &Path) -> Result<Disks, StorageError> {
        let step = || format!("open the storage in {}", file_system.display());
        let disks = Disks::try_open(file_system).map_err(|error| failed(step(), error))?;
        disks.ok_or_else(|| failed(step(), std::io::Error::other("its quota is off")))
    }

    /// Disks on the state directory's own btrfs, if its administrator has turned the quota on. We do not turn it on: it
    /// is the administrator's file system, and with today's quota older kernels could not mount it any more.
    pub fn beside(state: &Path) -> Result<Option<Disks>, StorageError> {
        let magic = rustix::fs::statfs(state).map(|found| found.f_type);
        if magic != Ok(btrfs::MAGIC) || state.join("storage.btrfs").exists() {
            return Ok(None);
        }
        Disks::try_open(state).map_err(|error| failed("open the storage beside the state", error))
    }

    fn try_open(file_system: &Path) -> IoResult<Option<Disks>> {
        let root = File::open(file_system)?;
        let Some(quota) = btrfs::quota(&root)? else { return Ok(None) };
        let directory = file_system.join("disks");
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let groups = btrfs::quota_directory(&root)?;
        let (counting, spares) = (Mutex::new(()), Spares::default());
        let disks = Disks { directory, root, groups, quota, counting, spares };
        disks.remove_old_spares()?;
        Ok(Some(disks))
    }

    pub fn are_read_only(&self) -> bool {
        rustix::fs::fstatvfs(&self.root)
            .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
    }

    pub fn create(&self, name: &str, limit: u64) -> Result<PathBuf, StorageError> {
        if !self.take_spare(name, limit)? {
            self.make(name, limit)?;
        }
        self.spares.note(name, limit);
        Ok(self.path(name))
    }

    fn make(&self, name: &str, limit: u64) -> Result<(), StorageError> {
        let around = self.make_place(name)?;
        let step = || format!("make disk `{name}`");
        let fail = |error| failed(step(), error);
        btrfs::create(&around, SUBVOLUME).map_err(fail)?;
        let disk = open_directory(&self.path(name)).map_err(fail)?;
        let (uid, gid) = owner();
        fchown(&disk, Some(uid), Some(gid)).map_err(|errno| failed(step(), errno))?;
        fchmod(&disk, Mode::from_raw_mode(0o755)).map_err(|errno| failed(step(), errno))?;
        self.set_limit(&disk, limit).map_err(fail)
    }

    /// Gives a spare disk the name `name`. Returns false if there was none.
    fn take_spare(&self, name: &str, limit: u64) -> Result<bool, StorageError> {
        let Some(spare) = self.spares.take() else { return Ok(false) };
        let (from, to) = (self.around(&spare.name), self.around(name));
        match renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(errno) => {
                self.spares.keep(spare);
                let exists = errno == rustix::io::Errno::EXIST;
                return if exists { Err(StorageError::Exists { name: name.into() }) } else { Ok(false) };
            }
        }
        if spare.limit != limit {
            let set = open_directory(&self.path(name)).and_then(|disk| self.set_limit(&disk, limit));
            set.map_err(|error| failed(format!("limit disk `{name}`"), error))?;
        }
        Ok(true)
    }

    /// Empties a disk and keeps it as a spare. Returns false if that failed: the disk may be half empty then, and the
    /// caller removes it.
    fn keep_as_spare(&self, name: &str) -> bool {
        let Some(spare) = self.spares.offer(name) else { return false };
        if self.usage(name).map_or(true, |charged| charged > spares::MOST_CHARGED) {
            return false;
        }
        let emptied =
            open_directory(&self.path(name)).is_ok_and(|disk| spares::empty(&disk, LIMIT, owner()).is_ok());
        let (from, to) = (self.around(name), self.around(&spare.name));
        let kept = emptied && renameat_with(CWD, &from, CWD, &to, RenameFlags::NOREPLACE).is_ok();
        if kept {
            self.spares.keep(spare);
        }
        kept
    }

    /// Removes the spares of an earlier engine: they may not be empty.
    fn remove_old_spares(&self) -> IoResult<()> {
        for name in self.entries()?.iter().filter(|name| name.starts_with(spares::PREFIX)) {
            self.remove(name)?;
        }
        Ok(())
    }

    pub fn clone_disk(&self, from: &str, to: &str, limit: u64) -> Result<PathBuf, StorageError> {
        let step = || format!("make disk `{to}` from `{from}`");
        let disk = self.copy(from, to, false)?;
        self.set_limit(&disk, limit).map_err(|error| failed(step(), error))?;
        Ok(self.path(to))
    }

    pub fn freeze_copy(&self, from: &str, snapshot: &str) -> Result<(), StorageError> {
        self.copy(from, snapshot, true).map(drop)
    }

    pub fn find(&self, name: &str) -> Result<PathBuf, StorageError> {
        let path = self.path(name);
        if path.is_dir() { Ok(path) } else { Err(StorageError::NotFound { name: name.into() }) }
    }

    pub fn delete(&self, name: &str) -> Result<(), StorageError> {
        if self.keep_as_spare(name) {
            return Ok(());
        }
        self.remove(name).map_err(|error| failed(format!("delete `{name}`"), error))
    }

    fn remove(&self, name: &str) -> IoResult<()> {
        let around = match open_directory(&self.around(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            around => around?,
        };
        let group = open_directory(&self.path(name)).and_then(|disk| btrfs::number(&disk));
        match btrfs::destroy(&around, SUBVOLUME) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if let Ok(group) = group {
            // An error is no problem: the kernel removes the group itself, or the group still counts blocks that others
            // hold.
            let _ = btrfs::remove_group(&self.root, group);
        }
        let origin = self.origin(name);
        match std::fs::remove_file(self.around(name).join(ORIGIN)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        std::fs::remove_dir(self.around(name))?;
        // The instant is no longer kept, unless another copy keeps it too.
        origin.map_or(Ok(()), |(disk, _)| self.count_instants(&disk))
    }

    /// The kernel's own count, including data that is still on its way to the disk.
    pub fn usage(&self, name: &str) -> Result<u64, StorageError> {
        let path = self.find(name)?;
        let group = open_directory(&path)
            .and_then(|disk| btrfs::number(&disk))
            .map_err(|error| failed(format!("look at `{name}`"), error))?;
        let directory = self.groups.join(format!("0_{group}"));
        let read = |file: &str| -> IoResult<u64> {
            let text = std::fs::read_to_string(directory.join(file))?;
            text.trim().parse().map_err(|_| ErrorKind::InvalidData.into())
        };
        let counted =
            read("referenced").map_err(|error| failed(format!("read the usage of `{name}`"), error))?;
        Ok(counted + read("rsv_data").unwrap_or(0))
    }

    pub fn list(&self) -> Result<Vec<Stored>, StorageError> {
        let names = self.names().map_err(|error| failed("list the storage", error))?;
        let described = names.into_iter().map(|name| {
            let disk = open_directory(&self.path(&name));
            let is_snapshot = disk.and_then(|disk| btrfs::is_read_only(&disk)).unwrap_or(false);
            Stored { name, is_snapshot }
        });
        Ok(described.collect())
    }

    /// The origin is written first: a process that is killed here leaves an entry that is listed and can be deleted.
    fn copy(&self, from: &str, to: &str, read_only: bool) -> Result<OwnedFd, StorageError> {
        let source = match open_directory(&self.path(from)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StorageError::NotFound { name: from.into() });
            }
            source => source.map_err(|error| failed(format!("open `{from}`"), error))?,
        };
        let fail = |error| failed(format!("copy `{from}` to `{to}`"), error);
        let frozen = btrfs::is_read_only(&source).map_err(fail)?;
        // A copy of a snapshot keeps the instant that the snapshot keeps.
        let (disk, instant) = match self.origin(from) {
            Some(origin) if frozen => origin,
            _ => (from.into(), to.into()),
        };
        self.spares.forget(from);
        let around = self.make_place(to)?;
        std::os::unix::fs::symlink(format!("{disk}@{instant}"), self.around(to).join(ORIGIN))
            .map_err(fail)?;
        btrfs::snapshot(&source, &around, SUBVOLUME, read_only).map_err(fail)?;
        if !frozen {
            self.count_instants(&disk).map_err(fail)?;
        }
        open_directory(&self.path(to)).map_err(fail)
    }

    /// Gives a disk its limit anew, after the number of its instants has changed.
    fn count_instants(&self, disk: &str) -> IoResult<()> {
        let _counting = self.counting.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match open_directory(&self.path(disk)) {
            // The disk was removed before its copies.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            opened => opened?,
        };
        if self.quota == Quota::Full || btrfs::is_read_only(&opened)? {
            return Ok(());
        }
        let mut bytes = [0; 8];
        fgetxattr(&opened, LIMIT, &mut bytes)?;
        let origins = self.names()?.into_iter().filter_map(|name| self.origin(&name));
        let instants: BTreeSet<String> =
            origins.filter(|(of, _)| of == disk).map(|(_, instant)| instant).collect();
        let limit = u64::from_le_bytes(bytes).saturating_mul(1 + instants.len() as u64);
        btrfs::limit(&self.root, btrfs::number(&opened)?, limit)
    }

    pub fn change_limit(&self, name: &str, limit: u64) -> Result<(), StorageError> {
        let fail = |error| failed(format!("limit disk `{name}`"), error);
        let disk = open_directory(&self.find(name)?).map_err(fail)?;
        self.spares.forget(name);
        self.set_limit(&disk, limit).map_err(fail)?;
        // Each kept instant of the disk adds the limit once more.
        self.count_instants(name).map_err(fail)
    }

    fn set_limit(&self, disk: &OwnedFd, limit: u64) -> IoResult<()> {
        fsetxattr(disk, LIMIT, &limit.to_le_bytes(), XattrFlags::empty())?;
        btrfs::limit(&self.root, btrfs::number(disk)?, limit)
    }

    fn make_place(&self, name: &str) -> Result<OwnedFd, StorageError> {
        let path = self.around(name);
        let made = std::fs::DirBuilder::new().mode(0o700).create(&path);
        match made.and_then(|()| open_directory(&path)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(StorageError::Exists { name: name.into() })
            }
            place => place.map_err(|error| failed(format!("make a place for `{name}`"), error)),
        }
    }

    fn origin(&self, name: &str) -> Option<(String, String)> {
        let target = std::fs::read_link(self.around(name).join(ORIGIN)).ok()?;
        let (disk, instant) = target.to_str()?.split_once('@')?;
        Some((disk.into(), instant.into()))
    }

    fn names(&self) -> IoResult<Vec<String>> {
        let mut names = self.entries()?;
        names.retain(|name| !name.starts_with(spares::PREFIX));
        Ok(names)
    }

    fn entries(&self) -> IoResult<Vec<String>> {
        let entries = std::fs::read_dir(&self.directory)?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    fn around(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.around(name).join(SUBVOLUME)
    }
}

/// The owner of a disk's root: an id that no process has.
fn owner() -> (Uid, Gid) {
    (Uid::from_raw(NEUTRAL_ID), Gid::from_raw(NEUTRAL_ID))
}

fn open_directory(path: &Path) -> IoResult<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}
