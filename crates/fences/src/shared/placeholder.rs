//! A name that was made in a workspace only to be mounted over.

use super::new_repository;
use super::written_repositories::Before;
use paddock_protocol::NodeKind;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, StatxFlags, Uid, chownat, mkdirat, openat, statat, statx};
use serde::{Deserialize, Serialize};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File systems stamp with a clock that may lag by a tick.
const CLOCK_LAG: Duration = Duration::from_millis(20);

/// Stands for a repository that was there; there is no such file, but a number behind it.
const COMMITS: &str = ".git/paddock-commits";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placeholder {
    pub path: PathBuf,
    mark: Mark,
    /// The content of a file; mostly empty.
    #[serde(default)]
    content: String,
    /// Set where the work can write to the workspace's repository: there is more to do at the end than to remove this.
    #[serde(default)]
    repositories: Option<Box<Before>>,
}

/// How it is told from a file of the caller's by the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Mark {
    Made {
        device: u64,
        inode: u64,
    },
    /// Not made yet when the record was written: a younger, empty file of this name is ours.
    Intended {
        since: Duration,
    },
}

impl Placeholder {
    pub fn made(path: PathBuf, device: u64, inode: u64) -> Placeholder {
        Placeholder { path, mark: Mark::Made { device, inode }, content: String::new(), repositories: None }
    }

    pub fn intended(path: PathBuf) -> Placeholder {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mark = Mark::Intended { since: now.saturating_sub(CLOCK_LAG) };
        Placeholder { path, mark, content: String::new(), repositories: None }
    }

    /// The same with something in it.
    pub fn with(self, content: &str) -> Placeholder {
        Placeholder { content: content.to_string(), ..self }
    }

    /// The same for a workspace whose repository the work can write to.
    pub fn before(self, before: Before) -> Placeholder {
        Placeholder { repositories: Some(Box::new(before)), ..self }
    }

    /// No file, but the task to look at the repositories of a workspace whose `.git` was there when the work could write to it.
    pub fn of_commits(before: Before) -> Placeholder {
        // Each sandbox has one of its own: the next one takes what this one made for the caller's.
        let mut bytes = [0u8; 8];
        let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
        let name = format!("{COMMITS}-{:016x}", u64::from_ne_bytes(bytes));
        Placeholder::made(before.workspace.join(name), 0, 0).before(before)
    }

    pub fn make(
        parent: impl AsFd,
        name: &str,
        kind: NodeKind,
        owner: (u32, u32),
        path: PathBuf,
        content: &str,
    ) -> rustix::io::Result<Placeholder> {
        let parent = parent.as_fd();
        match kind {
            NodeKind::Directory => mkdirat(parent, name, Mode::from_raw_mode(0o755))?,
            NodeKind::File => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
                let file = openat(parent, name, flags, Mode::from_raw_mode(0o644))?;
                rustix::io::write(&file, content.as_bytes())?;
            }
        }
        let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if (found.st_uid, found.st_gid) != owner {
            // Root makes it for another user; if that cannot be, it stays root's and empty.
            let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
            let _ = chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW);
        }
        Ok(Placeholder::made(path, found.st_dev, found.st_ino).with(content))
    }

    /// Makes repositories of the workspace harmless that the work could write to. To be called before [`Placeholder::remove`]; false if it must not be
    /// removed, because git on the host would then find them.
    pub fn disarm(&self) -> bool {
        let Some(before) = &self.repositories else { return true };
        let done = match self.path.ends_with(new_repository::NAME) {
            // No other has a repository in it.
            true if self.path.join("HEAD").symlink_metadata().is_ok() => before.disarm_nested(),
            true => Ok(()),
            false => before.disarm(),
        };
        if let Err(error) = &done {
            let place = before.workspace.display();
            tracing::warn!(
                "do not use git in {place} before you have looked at the repositories there: \
                 what a sandbox left in them could not be checked: {error}"
            );
        }
        done.is_ok()
    }

    /// Removes it only if it is still the file that we made: a file that the caller put there meanwhile is the
    /// caller's.
    pub fn remove(&self) {
        let Ok(found) = std::fs::symlink_metadata(&self.path) else { return };
        let ours = match self.mark {
            Mark::Made { device, inode } => (found.dev(), found.ino()) == (device, inode),
            Mark::Intended { since } => self.born().is_some_and(|born| born >= since),
        };
        if ours && found.is_dir() {
            if self.path.ends_with(new_repository::NAME) {
                new_repository::finish(&self.path);
            }
            let _ = std::fs::remove_dir(&self.path);
        } else if ours && found.is_file() && self.is_as_made(found.len()) {
            let _ = std::fs::remove_file(&self.path);
        }
    }

    fn is_as_made(&self, length: u64) -> bool {
        let same = || std::fs::read(&self.path).is_ok_and(|found| found == self.content.as_bytes());
        length == 0 || (length == self.content.len() as u64 && same())
    }

    fn born(&self) -> Option<Duration> {
        let found = statx(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME).ok()?;
        let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        known.then(|| Duration::new(found.stx_btime.tv_sec.max(0) as u64, found.stx_btime.tv_nsec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_empty_thing_that_was_made_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("old"), "").unwrap();
        std::thread::sleep(CLOCK_LAG * 3);
        let old = Placeholder::intended(path("old"));
        let new = Placeholder::intended(path("new"));
        let full = Placeholder::intended(path("full"));
        std::fs::write(path("new"), "").unwrap();
        std::fs::write(path("full"), "the caller's").unwrap();
        [old, new, full].iter().for_each(Placeholder::remove);
        assert!(path("old").exists() && path("full").exists() && !path("new").exists());

        let parent: std::os::fd::OwnedFd = std::fs::File::open(directory.path()).unwrap().into();
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let made = Placeholder::make(&parent, "made", NodeKind::Directory, owner, path("made"), "").unwrap();
        std::fs::write(path("made").join("x"), "").unwrap();
        made.remove();
        assert!(path("made").exists(), "something is in it");
        let file = Placeholder::make(&parent, "file", NodeKind::File, owner, path("file"), ".\n").unwrap();
        std::fs::write(path("file"), "x\n").unwrap();
        file.remove();
        assert!(path("file").exists(), "somebody wrote to it");
        std::fs::write(path("file"), ".\n").unwrap();
        file.remove();
        assert!(!path("file").exists(), "it is as it was made");
        std::fs::remove_dir_all(path("made")).unwrap();
        std::fs::create_dir(path("made")).unwrap();
        std::fs::create_dir(path("other")).unwrap();
        Placeholder::made(path("other"), 0, 0).remove();
        assert!(path("other").exists(), "not the one that was made");
    }
}
