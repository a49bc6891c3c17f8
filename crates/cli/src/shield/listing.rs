//! One walk through a directory: its entries, and the kernel's time of the last change of each.
//!
//! Hostile code may write to the directory meanwhile. Every directory is opened below the first one, never through a link; no
//! file is opened; and the size of the listing is bounded.

use super::old_contents::{Kept, OldContents};
use paddock_model::api::FileKind;
use paddock_model::protected;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// More are not compared.
const MOST_ENTRIES: usize = 1_000_000;
/// The most bytes of their paths: hostile paths are long.
const MOST_BYTES: usize = 128 << 20;
/// Directories full of files that tools make again, or of git's objects: looked at last.
const MADE_AGAIN: [&[u8]; 9] =
    [b"node_modules", b"target", b".venv", b"venv", b"__pycache__", b"dist", b"build", b".cache", b"objects"];

/// A directory that is writable inside.
#[derive(Debug, Clone)]
pub struct Place {
    pub directory: PathBuf,
    /// Relative to it: read-only inside, or a stand-in.
    pub skip: Vec<PathBuf>,
    /// Relative to it, with the reason: files that a repository's settings make git run, and that the caller gave up.
    pub marked: Vec<(PathBuf, &'static str)>,
    /// True if it had no repository when the sandbox started, so that one in it was made inside.
    pub without_repository: bool,
}

impl Place {
    /// The reason why a change there can run code on the host.
    pub fn reason(&self, path: &[u8]) -> Option<&'static str> {
        let marked = Path::new(std::ffi::OsStr::from_bytes(path));
        let marked = self.marked.iter().find(|(name, _)| marked.starts_with(name)).map(|(_, reason)| *reason);
        marked.or_else(|| protected::reason(&String::from_utf8_lossy(path)))
    }
}

/// True if it lies in a repository's own directory.
pub fn is_in_git(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b".git")
}

#[derive(Debug, Default)]
pub struct Listing {
    pub entries: HashMap<Vec<u8>, Seen>,
    /// Nothing was left out.
    pub complete: bool,
    /// Directories that could not be read.
    pub unreadable: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub kind: FileKind,
    pub mode: u32,
    pub size: u64,
    pub inode: u64,
    /// No program can set it: it is the kernel's.
    pub changed_ns: i64,
    /// 0 where the file system does not know.
    pub born_ns: i64,
    pub kept: Option<Kept>,
}

/// Never before the stamp of a file that was changed already: those are of this clock, or of one that lags behind it.
pub fn now_ns() -> i64 {
    let now = clock_gettime(ClockId::Realtime);
    nanoseconds(now.tv_sec, now.tv_nsec as u32)
}

/// `stop`: set when the caller wants no more of it.
pub fn list(place: &Place, mut old_contents: Option<&mut OldContents>, stop: &AtomicBool) -> Listing {
    let mut listing = Listing::default();
    let how = ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = openat2(rustix::fs::CWD, &place.directory, flags, Mode::empty(), how) else {
        listing.unreadable = 1;
        return listing;
    };
    let skipped: HashSet<&[u8]> = place.skip.iter().map(|skip| skip.as_os_str().as_bytes()).collect();
    let above = place.skip.iter().flat_map(|skip| skip.ancestors().skip(1));
    let above: HashSet<&[u8]> = above.map(|path| path.as_os_str().as_bytes()).collect();
    let mut queue = VecDeque::from([Vec::new()]);
    let (mut last, mut bytes) = (VecDeque::new(), 0);
    while let Some(path) = queue.pop_front().or_else(|| last.pop_front()) {
        let Some(directory) = open_below(&root, &path) else {
            listing.unreadable += 1;
            continue;
        };
        let Ok(names) = Dir::read_from(&directory) else {
            listing.unreadable += 1;
            continue;
        };
        for name in names.flatten() {
            let name = name.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            let below = joined(&path, name);
            bytes += below.len();
            let full = listing.entries.len() >= MOST_ENTRIES || bytes > MOST_BYTES;
            if full || stop.load(Ordering::Relaxed) {
                return listing;
            }
            if skipped.contains(&*below) {
                continue;
            }
            let Some(mut seen) = look(&directory, name) else { continue };
            if let Some(old_contents) = old_contents.as_deref_mut().filter(|_| !is_in_git(&below)) {
                seen.kept = old_contents.keep(&directory, name, &seen);
            }
            if seen.kind == FileKind::Directory {
                let later = MADE_AGAIN.contains(&name);
                if later { &mut last } else { &mut queue }.push_back(below.clone());
            }
            // Pinned while it is there, and a stand-in where it is not: never the agent's doing.
            if above.contains(&*below) {
                continue;
            }
            listing.entries.insert(below, seen);
        }
    }
    listing.complete = true;
    listing
}

/// As it is now; nothing where it has gone.
pub fn look(directory: &OwnedFd, name: &[u8]) -> Option<Seen> {
    let name = std::ffi::OsStr::from_bytes(name);
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    statx(directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted).ok().map(|found| seen(&found))
}

/// A directory below the first, reached without a link.
pub fn open_below(root: &OwnedFd, path: &[u8]) -> Option<OwnedFd> {
    let path = if path.is_empty() { Path::new(".") } else { Path::new(std::ffi::OsStr::from_bytes(path)) };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat2(root.as_fd(), path, flags, Mode::empty(), how).ok()
}

fn seen(found: &Statx) -> Seen {
    let mode = u32::from(found.stx_mode);
    Seen {
        kind: match FileType::from_raw_mode(mode) {
            FileType::RegularFile => FileKind::File,
            FileType::Directory => FileKind::Directory,
            FileType::Symlink => FileKind::Link,
            _ => FileKind::Other,
        },
        mode: mode & 0o7777,
        size: found.stx_size,
        inode: found.stx_ino,
        changed_ns: nanoseconds(found.stx_ctime.tv_sec, found.stx_ctime.tv_nsec),
        born_ns: nanoseconds(found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
        kept: None,
    }
}

fn nanoseconds(seconds: i64, more: u32) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(more))
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(directory: &Path) -> Place {
        let skip = vec![".git".into(), "a/held".into()];
        Place { directory: directory.to_path_buf(), skip, marked: Vec::new(), without_repository: false }
    }

    #[test]
    fn everything_is_listed_but_what_is_protected_and_behind_links() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for name in ["a/held", "a/b", ".git/objects", "sub/.git/hooks", "node_modules/x"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        for name in ["a/b/file", ".git/config", "a/held/x", "sub/.git/config"] {
            std::fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("/etc", at("link")).unwrap();
        let listing = list(&place(directory.path()), None, &AtomicBool::new(false));
        assert!(listing.complete && listing.unreadable == 0);
        let mut names: Vec<_> =
            listing.entries.keys().map(|p| String::from_utf8_lossy(p).into_owned()).collect();
        names.sort();
        let expected = [
            "a/b",
            "a/b/file",
            "link",
            "node_modules",
            "node_modules/x",
            "sub",
            "sub/.git",
            "sub/.git/config",
            "sub/.git/hooks",
        ];
        assert_eq!(names, expected);
        assert_eq!(listing.entries[&b"link"[..]].kind, FileKind::Link);
    }

    #[test]
    fn whoever_waits_can_stop_it() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x"), "x").unwrap();
        assert!(!list(&place(directory.path()), None, &AtomicBool::new(true)).complete);
        assert_eq!(list(&place(Path::new("/nowhere")), None, &AtomicBool::new(false)).unreadable, 1);
    }
}
