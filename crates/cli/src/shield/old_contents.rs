//! The contents of files before the agent came, in a file that has no name: for the patch at the end, within a bound.

use super::listing::{Seen, look};
use paddock_engine::patch::LARGEST_FILE;
use paddock_model::api::FileKind;
use rustix::fs::{Mode, OFlags, openat, readlinkat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The most bytes of one run; a file beyond that is named in the patch and not shown.
const MOST_BYTES_KEPT: u64 = 256 << 20;

#[derive(Debug)]
pub struct OldContents {
    file: File,
    length: u64,
    most: u64,
}

/// A content's place in the old_contents's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    offset: u64,
    length: u64,
}

impl OldContents {
    pub fn new(state: &Path) -> io::Result<OldContents> {
        Ok(OldContents { file: tempfile::tempfile_in(state)?, length: 0, most: MOST_BYTES_KEPT })
    }

    /// `None` if it is no file, is too large, or changed meanwhile.
    pub fn keep(&mut self, directory: &OwnedFd, name: &[u8], seen: &Seen) -> Option<Kept> {
        let left = self.most.saturating_sub(self.length);
        let worth = matches!(seen.kind, FileKind::File | FileKind::Link);
        if !worth || seen.size > LARGEST_FILE.min(left) {
            return None;
        }
        let bytes = read(directory, name, seen.kind)?;
        let unchanged = look(directory, name).is_some_and(|now| now == Seen { kept: None, ..seen.clone() });
        if !unchanged || bytes.len() as u64 > left {
            return None;
        }
        self.file.write_all(&bytes).ok()?;
        let kept = Kept { offset: self.length, length: bytes.len() as u64 };
        self.length += kept.length;
        Some(kept)
    }

    pub fn get(&self, kept: Kept) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; kept.length as usize];
        self.file.read_exact_at(&mut bytes, kept.offset)?;
        Ok(bytes)
    }
}

/// For a link, its target. A pipe that took the file's place neither blocks nor is read.
pub fn read(directory: &OwnedFd, name: &[u8], kind: FileKind) -> Option<Vec<u8>> {
    let name = OsStr::from_bytes(name);
    if kind == FileKind::Link {
        return readlinkat(directory, name, Vec::new()).ok().map(|target| target.into_bytes());
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_FILE + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() as u64 <= LARGEST_FILE).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shield::listing::open_below;

    fn opened(path: &Path) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = rustix::fs::open(path, flags, Mode::empty()).unwrap();
        open_below(&root, b"").unwrap()
    }

    #[test]
    fn what_is_kept_comes_back_and_the_rest_is_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("one"), "first").unwrap();
        std::fs::write(at("two"), "second").unwrap();
        std::fs::write(at("large"), vec![b'x'; LARGEST_FILE as usize + 1]).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("link")).unwrap();
        let opened = opened(directory.path());
        let mut old_contents = OldContents::new(directory.path()).unwrap();
        let mut keep = |name: &str| {
            let seen = look(&opened, name.as_bytes()).unwrap();
            old_contents.keep(&opened, name.as_bytes(), &seen)
        };
        let (one, two, link) = (keep("one").unwrap(), keep("two").unwrap(), keep("link").unwrap());
        assert_eq!(keep("large"), None);
        assert_eq!(old_contents.get(one).unwrap(), b"first");
        assert_eq!(old_contents.get(two).unwrap(), b"second");
        assert_eq!(old_contents.get(link).unwrap(), b"/etc/passwd");
        old_contents.most = old_contents.length + 2;
        let seen = look(&opened, b"one").unwrap();
        assert_eq!(old_contents.keep(&opened, b"one", &seen), None, "beyond the bound");
    }

    #[test]
    fn a_pipe_or_a_link_in_a_files_place_is_not_read() {
        let directory = tempfile::tempdir().unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, directory.path().join("pipe"), Mode::RUSR | Mode::WUSR)
            .unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("link")).unwrap();
        let opened = opened(directory.path());
        assert_eq!(read(&opened, b"pipe", FileKind::File), None);
        assert_eq!(read(&opened, b"link", FileKind::File), None);
    }
}
