//! A second tree with the files of a first. Both names lead to the same file, so that a hundred layers of a root cost
//! little more than one. That is safe because a root's file is never written to, only replaced.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, chownat, fchmod, fchown,
    fstat, futimens, linkat, mkdirat, openat, readlinkat, statat, symlinkat,
};
use rustix::io::Errno;

use super::ImageError;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The deepest directory that is copied: twice the 256 levels that names of an archive may have.
const DEEPEST: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The files are hard links: for a root in the state directory.
    Links,
    /// The files are copies: for a directory that others may write to.
    Copies,
}

/// Fills the empty directory `to` with the content of `from`. Devices, pipes and sockets are left out.
pub fn fill(from: &Path, to: &Path, sharing: Sharing) -> Result<(), ImageError> {
    let open = |path: &Path| {
        openat(CWD, path, DIRECTORY, Mode::empty()).map_err(|e| ImageError::io("open", path, e.into()))
    };
    let (source, target) = (open(from)?, open(to)?);
    fill_directory(&source, &target, sharing, 0).map_err(|error| ImageError::io("copy", from, error))
}

fn fill_directory(from: &OwnedFd, to: &OwnedFd, sharing: Sharing, depth: usize) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(Errno::NAMETOOLONG.into());
    }
    let mut entries = Dir::read_from(from)?;
    while let Some(entry) = entries.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let found = statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                mkdirat(to, name, Mode::RWXU)?;
                let (source, target) = (
                    openat(from, name, DIRECTORY, Mode::empty())?,
                    openat(to, name, DIRECTORY, Mode::empty())?,
                );
                fill_directory(&source, &target, sharing, depth + 1)?;
            }
            FileType::RegularFile | FileType::Symlink => {
                put(from.as_fd(), to.as_fd(), name, &found, sharing)?
            }
            _ => {}
        }
    }
    let found = fstat(from)?;
    dress(to, &found)
}

fn put(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    name: &OsStr,
    found: &Stat,
    sharing: Sharing,
) -> io::Result<()> {
    if sharing == Sharing::Links {
        match linkat(from, name, to, name, AtFlags::empty()) {
            // The link failed: another file system, or a file with as many names as it can have.
            Err(Errno::XDEV | Errno::MLINK) => {}
            linked => return Ok(linked?),
        }
    }
    if FileType::from_raw_mode(found.st_mode) == FileType::Symlink {
        symlinkat(readlinkat(from, name, Vec::new())?, to, name)?;
        if let Some((user, group)) = owner(found) {
            chownat(to, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(openat(from, name, flags, Mode::empty())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut target = File::from(openat(to, name, flags, Mode::RUSR | Mode::WUSR)?);
    // At most the size of the first look is copied, so that a file that grows has an end.
    let size = u64::try_from(found.st_size).unwrap_or(0);
    io::copy(&mut Read::take(&mut source, size), &mut target)?;
    target.flush()?;
    dress(&target, found)
}

/// Sets owner, mode and time; set-user-id bits have no meaning in a root and are left out.
fn dress(file: impl AsFd, found: &Stat) -> io::Result<()> {
    if let Some((user, group)) = owner(found) {
        fchown(&file, Some(user), Some(group))?;
    }
    // The mode always lets an ordinary user fill or remove its own files.
    let directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    let needed = if owner(found).is_some() {
        0
    } else if directory {
        0o700
    } else {
        0o600
    };
    fchmod(&file, Mode::from_raw_mode(found.st_mode & 0o1777 | needed))?;
    let time = Timespec { tv_sec: found.st_mtime, tv_nsec: 0 };
    let _ = futimens(&file, &Timestamps { last_access: time, last_modification: time });
    Ok(())
}

/// An ordinary user's files are its own. Root keeps the owners that have a place in a sandbox; the others become
/// root's.
fn owner(found: &Stat) -> Option<(Uid, Gid)> {
    let known = |id: u32| if id <= paddock_model::HIGHEST_ID { id } else { 0 };
    let root = rustix::process::geteuid().is_root();
    root.then(|| (Uid::from_raw(known(found.st_uid)), Gid::from_raw(known(found.st_gid))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn a_tree_is_shared_or_copied_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let from = place.path().join("from");
        fs::create_dir_all(from.join("a/b")).unwrap();
        fs::write(from.join("a/file"), "content").unwrap();
        fs::set_permissions(from.join("a/file"), fs::Permissions::from_mode(0o4755)).unwrap();
        fs::set_permissions(from.join("a/b"), fs::Permissions::from_mode(0o1777)).unwrap();
        symlink("/etc/passwd", from.join("a/link")).unwrap();
        rustix::fs::mknodat(CWD, from.join("a/pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        for (name, sharing) in [("links", Sharing::Links), ("copies", Sharing::Copies)] {
            let to = place.path().join(name);
            fs::create_dir(&to).unwrap();
            fill(&from, &to, sharing).unwrap();
            assert_eq!(fs::read_to_string(to.join("a/file")).unwrap(), "content");
            assert_eq!(fs::read_link(to.join("a/link")).unwrap(), Path::new("/etc/passwd"));
            assert_eq!(fs::metadata(to.join("a/b")).unwrap().mode() & 0o7777, 0o1777);
            assert!(!to.join("a/pipe").exists());
            let shared = fs::metadata(to.join("a/file")).unwrap().ino()
                == fs::metadata(from.join("a/file")).unwrap().ino();
            assert_eq!(shared, sharing == Sharing::Links);
            if !shared {
                assert_eq!(fs::metadata(to.join("a/file")).unwrap().mode() & 0o7777, 0o755);
            }
        }
    }
}
