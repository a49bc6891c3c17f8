//! Repositories of the workspace that the work could write to, made harmless before git on the host reads them.
//!
//! Git on the host goes where an index leads it, and runs git in every directory that the index calls a submodule, by the settings that it finds
//! there. A commit that was made inside brings such entries back with every checkout, so entries alone cannot hold it. When nothing runs inside
//! any more:
//!
//! - Every `.git` that was made below the top gets settings that Paddock writes. What it had lies beside them, by names that git does not know.
//! - An index with a path that git would not have added (`../x`, `/x`, `x/.git/y`), or that git may read in another way than Paddock does, is
//!   set aside.
//! - Links in `.git` that were not there are removed: git appends to its logs through them.
//!
//! Git is not asked: nothing is executed, and every byte is taken for hostile.

use super::repository_files::{entries, is_file, open_directory, settings, write_new};
use crate::held::{LARGEST_INDEX, is_plain_index, read_bounded};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, fchmod};
use rustix::fs::{openat, openat2, readlinkat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString, OsStr};
use std::io::Result;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file that is set aside gets this after its name.
pub const ASIDE: &str = ".made-inside";
/// By these a repository makes git execute something, or take settings and objects from elsewhere.
const SET_ASIDE: [&CStr; 7] =
    [c"config", c"config.worktree", c"hooks", c"commondir", c"info", c"modules", c"worktrees"];
/// Git cannot open a longer path below the top either.
const LONGEST_PATH: usize = libc::PATH_MAX as usize;
const ALTERNATES: [&CStr; 2] = [c"alternates", c"http-alternates"];
/// Links in a `.git` that are remembered; tools that make more of them are not known.
const MOST_LINKS: usize = 10_000;

/// The workspace before the work could write to its repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    pub workspace: PathBuf,
    /// Relative; empty: all of it.
    pub writable: Vec<PathBuf>,
    /// Relative: read-only inside, so that nothing below was made there.
    pub held: BTreeSet<String>,
    /// Links and other special files in `.git`, relative to it, and where they lead.
    links: BTreeSet<(String, String)>,
}

impl Before {
    pub fn of(workspace: &Path, writable: &[PathBuf], held: &BTreeSet<String>) -> Before {
        let git = open_beneath_path(workspace, b".git");
        let links = git.and_then(|git| special_files(&git, b"", &BTreeSet::new())).unwrap_or_default();
        let (workspace, writable, held) = (workspace.to_path_buf(), writable.to_vec(), held.clone());
        Before { workspace, writable, held, links: links.into_iter().take(MOST_LINKS).collect() }
    }

    /// For a `.git` that was there, and that the work could write to.
    pub fn disarm(&self) -> Result<()> {
        let git = open_beneath_path(&self.workspace, b".git")?;
        for (name, target) in special_files(&git, b".git/", &self.held)? {
            if !self.links.contains(&(name.clone(), target)) {
                let (parent, last) = name.rsplit_once('/').unwrap_or((".", &name));
                let parent = open_beneath(&git, parent.as_bytes())?;
                unlinkat(&parent, last, AtFlags::empty())?;
            }
        }
        set_bad_index_aside(&git, None)?;
        self.disarm_nested()
    }

    /// Every repository that was made below the top.
    pub fn disarm_nested(&self) -> Result<()> {
        let top = open_beneath_path(&self.workspace, b"")?;
        let roots = self.writable.iter().map(|path| path.as_os_str().as_bytes().to_vec());
        let mut waiting: Vec<Vec<u8>> = match self.writable.is_empty() {
            true => vec![Vec::new()],
            false => roots.filter(|path| path != b".git").collect(),
        };
        while let Some(path) = waiting.pop() {
            // One that its owner may not enter is closed to git as well.
            let Ok(directory) = open_beneath(&top, &path) else { continue };
            for (name, kind) in entries(&directory)? {
                let below = joined(&path, name.to_bytes());
                if self.is_held(&below) || below.len() >= LONGEST_PATH {
                    continue;
                }
                // A file system may take letters of both cases for the same.
                if !name.to_bytes().eq_ignore_ascii_case(b".git") {
                    if kind == FileType::Directory {
                        waiting.push(below);
                    }
                } else if !path.is_empty() {
                    disarm_one(&directory, &name, kind)?;
                }
            }
        }
        Ok(())
    }

    fn is_held(&self, path: &[u8]) -> bool {
        std::str::from_utf8(path).is_ok_and(|path| self.held.contains(path))
    }
}

/// `name`: a `.git` of this kind. Its commits and branches stay.
fn disarm_one(parent: &OwnedFd, name: &CStr, kind: FileType) -> Result<()> {
    if kind != FileType::Directory {
        // It leads to a repository elsewhere.
        return set_aside(parent, name);
    }
    let Ok(git) = open_own(parent, name) else { return set_aside(parent, name) };
    let settings = settings(&git)?;
    for name in SET_ASIDE {
        set_aside(&git, name)?;
    }
    if let Ok(objects) = open_directory(git.as_fd(), c"objects")
        && let Ok(info) = open_directory(objects.as_fd(), c"info")
    {
        ALTERNATES.iter().try_for_each(|name| set_aside(&info, name))?;
    }
    write_new(&git, c"config", settings.as_bytes())?;
    set_bad_index_aside(&git, Some(&settings))
}

/// `settings`: those that were written; `None` where the work could not write to them.
pub fn set_bad_index_aside(git: &OwnedFd, settings: Option<&str>) -> Result<()> {
    let Ok(found) = statat(git, c"index", AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
    let place = PathBuf::from(format!("/proc/self/fd/{}", git.as_raw_fd()));
    let sha256 = match settings {
        Some(settings) => settings.contains("sha256"),
        None => {
            let format = crate::held::git_setting(&place.join("config"), "extensions", "objectformat");
            format.is_some_and(|format| format.eq_ignore_ascii_case("sha256"))
        }
    };
    let read = |name: &str| {
        let name = CString::new(name).ok()?;
        is_file(git.as_fd(), &name)
            .then(|| read_bounded(&place.join(OsStr::from_bytes(name.to_bytes())), LARGEST_INDEX))?
    };
    let index = if is_regular(&found) { read("index") } else { None };
    let hash = if sha256 { 32 } else { 20 };
    match index.is_some_and(|index| index.is_empty() || is_plain_index(&index, hash, &read)) {
        true => Ok(()),
        false => set_aside(git, c"index"),
    }
}

fn is_regular(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
}

fn set_aside(parent: &OwnedFd, name: &CStr) -> Result<()> {
    let aside = [name.to_bytes(), ASIDE.as_bytes()].concat();
    let mut free = CString::new(aside.clone())?;
    loop {
        match renameat_with(parent, name, parent, &free, RenameFlags::NOREPLACE) {
            Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST) => {
                let mut bytes = [0u8; 8];
                rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
                free = CString::new(
                    [&aside[..], format!("-{:016x}", u64::from_ne_bytes(bytes)).as_bytes()].concat(),
                )?;
            }
            done => return Ok(done?),
        }
    }
}

/// Links, pipes, sockets and devices below, and where the links lead; those that are held are left out.
fn special_files(git: &OwnedFd, prefix: &[u8], held: &BTreeSet<String>) -> Result<Vec<(String, String)>> {
    let (mut found, mut waiting) = (Vec::new(), vec![Vec::new()]);
    while let Some(path) = waiting.pop() {
        let Ok(directory) = open_beneath(git, &path) else { continue };
        for (name, kind) in entries(&directory)? {
            let below = joined(&path, name.to_bytes());
            let whole = [prefix, &below[..]].concat();
            if below.len() >= LONGEST_PATH
                || std::str::from_utf8(&whole).is_ok_and(|whole| held.contains(whole))
            {
                continue;
            }
            match kind {
                FileType::Directory => waiting.push(below),
                FileType::RegularFile => {}
                _ => match String::from_utf8(below) {
                    Ok(path) => {
                        let target = readlinkat(&directory, &name, Vec::new()).unwrap_or_default();
                        found.push((path, String::from_utf8_lossy(target.to_bytes()).into_owned()));
                    }
                    // No tool gives its links such names.
                    Err(_) => unlinkat(&directory, &name, AtFlags::empty())?,
                },
            }
        }
    }
    Ok(found)
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

fn open_beneath_path(workspace: &Path, below: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let top = rustix::fs::open(workspace, flags, Mode::empty())?;
    open_beneath(&top, below)
}

/// A directory below `top`, reached without a link: another sandbox may write to the workspace meanwhile.
fn open_beneath(top: &OwnedFd, path: &[u8]) -> Result<OwnedFd> {
    let path = if path.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(path) };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(openat2(top, path, flags, Mode::empty(), how)?)
}

/// The work may have made it unreadable to its owner.
fn open_own(parent: &OwnedFd, name: &CStr) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    if let Ok(git) = openat(parent, name, OFlags::RDONLY | flags, Mode::empty())
        && fchmod(&git, Mode::from_raw_mode(0o755)).is_ok()
    {
        return Ok(git);
    }
    let path = openat(parent, name, OFlags::PATH | flags, Mode::empty())?;
    let by_number = format!("/proc/self/fd/{}", path.as_raw_fd());
    rustix::fs::chmod(&by_number, Mode::from_raw_mode(0o755))?;
    Ok(openat(parent, name, OFlags::RDONLY | flags, Mode::empty())?)
}

#[cfg(test)]
mod tests;
