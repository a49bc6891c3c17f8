//! A repository that the work makes where the workspace has none.
//!
//! The host must not take it for a repository while hostile code can write to it. So it is a directory within the stand-in of `.git`, and
//! stands in the place of `.git` inside alone: on the host, `.git` has no HEAD. When nothing runs inside any more, commits, branches and
//! the index go where they belong. Hooks and settings do not: the settings are written anew.

use super::repository_files::{entries, is_file, open_directory, settings, write_new};
use super::written_repositories::set_bad_index_aside;
use paddock_model::protected::NEW_REPOSITORY;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, renameat, unlinkat};
use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::io::{Read, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The last part of its path, within `.git`.
pub const NAME: &str = "paddock-new-repository";
/// The parts of .git that hold commits, and none by which git runs anything. HEAD comes last: with it, git takes the directory for a repository.
const KEPT_DIRECTORIES: [&CStr; 4] = [c"objects", c"refs", c"reftable", c"logs"];
const KEPT_FILES: [&CStr; 4] = [c"packed-refs", c"index", c"shallow", c"ORIG_HEAD"];
/// A repository with more, or with deeper directories, is not taken over.
const MOST_ENTRIES: usize = 2_000_000;
const DEEPEST: usize = 64;

/// Relative to the workspace.
pub fn place() -> &'static Path {
    Path::new(NEW_REPOSITORY)
}

/// True if a repository can be made: there is no `.git`, or only the remains of such a stand-in after a crash.
pub fn has_room(workspace: &Path, held_by_others: &BTreeSet<PathBuf>) -> bool {
    let path = workspace.join(".git");
    let Ok(found) = path.symlink_metadata() else { return true };
    if !found.is_dir() || held_by_others.contains(&path) {
        return false;
    }
    let entries = std::fs::read_dir(&path).map(|entries| entries.flatten().take(2).collect::<Vec<_>>());
    entries.is_ok_and(|entries| matches!(&entries[..], [only] if only.file_name() == NAME))
}

/// Takes over the repository that was made, and removes the rest. An error leaves less of a repository, and never one
/// with hooks.
///
/// Precondition: nothing runs in the sandbox any more, and repositories below the workspace were looked at.
pub fn finish(room: &Path) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let Some(parent) = room.parent() else { return };
    let Ok(git) = rustix::fs::open(parent, flags, Mode::empty()) else { return };
    let Ok(made) = openat(&git, NAME, flags, Mode::empty()) else { return };
    let _ = take_over(&git, &made);
    let _ = empty(&made);
}

fn take_over(git: &OwnedFd, made: &OwnedFd) -> Result<()> {
    let Some(head) = head(made) else { return Ok(()) };
    for name in [c"objects", c"refs"] {
        open_directory(made.as_fd(), name)?;
    }
    let settings = settings(made)?;
    set_bad_index_aside(made, Some(&settings))?;
    // Further places of objects, and caches that git makes again.
    let objects = open_directory(made.as_fd(), c"objects")?;
    if let Ok(info) = open_directory(objects.as_fd(), c"info") {
        empty(&info)?;
    }
    for name in KEPT_DIRECTORIES {
        let Ok(directory) = open_directory(made.as_fd(), name) else { continue };
        keep_plain_files(&directory)?;
        renameat(made, name, git, name)?;
    }
    for name in KEPT_FILES {
        if is_file(made.as_fd(), name) {
            renameat(made, name, git, name)?;
        }
    }
    write_new(git, c"config", settings.as_bytes())?;
    write_new(git, c"HEAD", head.as_bytes())
}

/// The branch or commit that it is on, if it is one that git would write.
fn head(made: &OwnedFd) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = std::fs::File::from(openat(made, c"HEAD", flags, Mode::empty()).ok()?);
    let mut text = String::new();
    file.metadata().ok()?.is_file().then_some(())?;
    file.take(1024).read_to_string(&mut text).ok()?;
    let line = text.trim_end();
    let is_plain = line.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let is_commit = matches!(line.len(), 40 | 64) && line.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_plain && (line.starts_with("ref: refs/") || is_commit)).then(|| format!("{line}\n"))
}

/// Removes every link, pipe and device below: git would follow the one and wait for the other.
fn keep_plain_files(directory: &OwnedFd) -> Result<()> {
    let mut waiting = vec![(directory.try_clone()?, 0)];
    let mut seen = 0;
    while let Some((directory, depth)) = waiting.pop() {
        for (name, kind) in entries(&directory)? {
            seen += 1;
            if seen > MOST_ENTRIES || depth > DEEPEST || waiting.len() > 4 * DEEPEST + 256 {
                return Err(std::io::Error::other("too large a repository"));
            }
            match kind {
                FileType::RegularFile => {}
                FileType::Directory => waiting.push((open_directory(directory.as_fd(), &name)?, depth + 1)),
                _ => unlinkat(&directory, &name, AtFlags::empty())?,
            }
        }
    }
    Ok(())
}

/// Removes all in it. Directories below are brought up one by one, so that no depth is too deep.
fn empty(top: &OwnedFd) -> Result<()> {
    let mut number = 0u64;
    let mut waiting: Vec<CString> = Vec::new();
    for (name, kind) in entries(top)? {
        match kind {
            FileType::Directory => waiting.push(name),
            _ => unlinkat(top, &name, AtFlags::empty())?,
        }
    }
    while let Some(name) = waiting.pop() {
        // The owner may read a file that the work made unreadable.
        let _ = rustix::fs::chmodat(top, &name, Mode::from_raw_mode(0o700), AtFlags::empty());
        let directory = open_directory(top.as_fd(), &name)?;
        for (below, kind) in entries(&directory)? {
            if kind != FileType::Directory {
                unlinkat(&directory, &below, AtFlags::empty())?;
                continue;
            }
            number += 1;
            let brought_up =
                CString::new(format!("paddock-removed-{number}")).map_err(std::io::Error::other)?;
            let _ = rustix::fs::chmodat(&directory, &below, Mode::from_raw_mode(0o700), AtFlags::empty());
            renameat(&directory, &below, top, &brought_up)?;
            waiting.push(brought_up);
        }
        unlinkat(top, &name, AtFlags::REMOVEDIR)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(directory: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").arg("-C").arg(directory).args(arguments).output().unwrap();
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A workspace as the work would leave it: made elsewhere, and moved to where the fence makes room.
    fn workspace() -> (tempfile::TempDir, PathBuf) {
        let workspace = tempfile::tempdir().unwrap();
        let at = workspace.path();
        git(at, &["init", "-q", "-b", "trunk"]);
        std::fs::write(at.join("file"), "x\n").unwrap();
        git(at, &["add", "file"]);
        git(at, &["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-qm", "first"]);
        std::fs::rename(at.join(".git"), at.join("made")).unwrap();
        std::fs::create_dir(at.join(".git")).unwrap();
        let room = at.join(place());
        std::fs::rename(at.join("made"), &room).unwrap();
        (workspace, room)
    }

    #[test]
    fn commits_stay_and_what_git_would_run_does_not() {
        let (workspace, room) = workspace();
        let at = workspace.path();
        std::fs::write(room.join("hooks/pre-commit"), "#!/bin/sh\ntouch planted\n").unwrap();
        std::fs::write(room.join("config"), "[core]\n\tfsmonitor = touch planted\n[include]\n\tpath = x\n")
            .unwrap();
        std::fs::write(room.join("commondir"), "/tmp\n").unwrap();
        std::fs::create_dir_all(room.join("objects/info")).unwrap();
        std::fs::write(room.join("objects/info/alternates"), "/etc\n").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", room.join("refs/heads/link")).unwrap();
        finish(&room);
        let _ = std::fs::remove_dir(&room);
        assert_eq!(git(at, &["log", "--format=%s"]), "first\n");
        assert_eq!(git(at, &["status", "--porcelain"]), "");
        assert_eq!(git(at, &["branch", "--show-current"]), "trunk\n");
        git(at, &["fsck"]);
        for gone in ["hooks", "commondir", "objects/info/alternates", "refs/heads/link", NAME] {
            assert!(at.join(".git").join(gone).symlink_metadata().is_err(), "{gone}");
        }
        let settings = std::fs::read_to_string(at.join(".git/config")).unwrap();
        assert!(!settings.contains("fsmonitor") && !settings.contains("include"), "{settings}");
        assert!(!at.join("planted").exists());
    }

    #[test]
    fn what_is_no_repository_goes_whole_however_deep() {
        let workspace = tempfile::tempdir().unwrap();
        let room = workspace.path().join(place());
        std::fs::create_dir_all(&room).unwrap();
        std::fs::write(room.join("HEAD"), "ref: ../../etc\n").unwrap();
        let mut below = rustix::fs::open(&room, OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&below, c"d", Mode::from_raw_mode(0o755)).unwrap();
            below = open_directory(below.as_fd(), c"d").unwrap();
        }
        finish(&room);
        assert_eq!(std::fs::read_dir(&room).unwrap().count(), 0);
        assert!(!workspace.path().join(".git/HEAD").exists());
    }

    #[test]
    fn there_is_room_only_where_nothing_is() {
        assert_eq!(place(), Path::new(".git").join(NAME));
        let workspace = tempfile::tempdir().unwrap();
        let none = BTreeSet::new();
        assert!(has_room(workspace.path(), &none));
        std::fs::create_dir(workspace.path().join(".git")).unwrap();
        assert!(!has_room(workspace.path(), &none), "an empty directory is the caller's");
        std::fs::create_dir(workspace.path().join(place())).unwrap();
        assert!(has_room(workspace.path(), &none), "a crash left it");
        assert!(!has_room(workspace.path(), &BTreeSet::from([workspace.path().join(".git")])));
        std::fs::write(workspace.path().join(".git/HEAD"), "").unwrap();
        assert!(!has_room(workspace.path(), &none));
    }
}
