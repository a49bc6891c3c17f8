//! Reading and writing in a repository of the work, which may have put anything there.

use crate::held::git_setting;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use std::ffi::{CStr, CString};
use std::io::{Result, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::PathBuf;

/// The settings of a new repository. Only the storage of objects and branches is taken from the old ones, by known
/// words.
pub fn settings(made: &OwnedFd) -> Result<String> {
    let config = PathBuf::from(format!("/proc/self/fd/{}/config", made.as_raw_fd()));
    let known = |key: &str, words: &[&'static str]| {
        let value = match is_file(made.as_fd(), c"config") {
            true => git_setting(&config, "extensions", key),
            false => None,
        };
        value.and_then(|value| words.iter().find(|word| **word == value).copied())
    };
    let mut text = String::from("[core]\n\trepositoryformatversion = ");
    let (format, storage) = (known("objectformat", &["sha256"]), known("refstorage", &["reftable"]));
    text.push_str(if format.is_some() || storage.is_some() { "1\n" } else { "0\n" });
    text.push_str("\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n");
    for (key, value) in [("objectformat", format), ("refstorage", storage)] {
        if let Some(value) = value {
            text.push_str(&format!("[extensions]\n\t{key} = {value}\n"));
        }
    }
    Ok(text)
}

pub fn write_new(directory: &OwnedFd, name: &CStr, content: &[u8]) -> Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = std::fs::File::from(openat(directory, name, flags, Mode::from_raw_mode(0o644))?);
    let owner = std::fs::File::from(directory.try_clone()?).metadata()?;
    if file.metadata()?.uid() != owner.uid() {
        // Root makes it for another user; if that cannot be, it stays root's.
        let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    file.write_all(content)
}

pub fn entries(directory: &OwnedFd) -> Result<Vec<(CString, FileType)>> {
    let mut found = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // Some file systems do not say the kind in a listing.
        let kind = FileType::from_raw_mode(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
        found.push((name.to_owned(), kind));
    }
    Ok(found)
}

pub fn is_file(directory: BorrowedFd<'_>, name: &CStr) -> bool {
    let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile)
}

pub fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(parent, name, flags, Mode::empty())
}
