//! Paths from an archive, which a stranger chose: they never lead out of a tree, and through no link.

use paddock_guest_system::failure::{Failure, Outcome};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, statat, unlinkat};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, OwnedFd};

/// The most bytes of a too long path that an error message shows.
const SHOWN: usize = 80;
/// The longest path that the kernel takes.
const LONGEST_PATH: usize = 4095;

/// The parts of a path, `.` left out. Refused: absolute, with `..`, with a NUL, longer than the kernel takes.
pub fn parts(path: &[u8]) -> Outcome<Vec<&[u8]>> {
    if path.len() > LONGEST_PATH {
        let step = format!(
            "a path of {} bytes is too long, {LONGEST_PATH} are the most: {}...",
            path.len(),
            super::shown(&path[..SHOWN])
        );
        return Err(Failure { step, errno: Errno::NAMETOOLONG });
    }
    parts_of_any_length(path)
}

/// The same of a path that is gone step by step.
pub fn parts_of_any_length(path: &[u8]) -> Outcome<Vec<&[u8]>> {
    let refuse = |why: &str| Failure {
        step: format!("the archive's `{}` {why}", super::shown(path)),
        errno: Errno::PERM,
    };
    if path.starts_with(b"/") {
        return Err(refuse("is an absolute path"));
    }
    if path.contains(&0) {
        return Err(refuse("has a NUL in its name"));
    }
    let parts: Vec<&[u8]> =
        path.split(|b| *b == b'/').filter(|part| !part.is_empty() && *part != b".").collect();
    if parts.contains(&&b".."[..]) {
        return Err(refuse("leads out of the archive"));
    }
    if parts.iter().any(|part| part.len() > 255) {
        return Err(refuse("is too long"));
    }
    Ok(parts)
}

/// One step down; a link is refused.
pub fn open(directory: impl AsFd, name: &[u8], flags: OFlags) -> Result<OwnedFd> {
    paddock_guest_system::system::open_below(directory, name, flags, false)
}

/// The directory that `parts` lead to, made where it is missing.
pub fn open_directory(root: impl AsFd, parts: &[&[u8]], make: bool) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    // In one step, where the kernel can: each step is the dearer the deeper it is.
    match open(&root, &parts.join(&b'/'), flags) {
        Err(Errno::NOENT) if make || parts.is_empty() => {}
        // A kernel without openat2 takes one step at a time.
        Err(Errno::XDEV) => {}
        opened => return opened,
    }
    let mut current = open(root, b".", flags)?;
    for part in parts {
        current = match open(&current, part, flags) {
            Err(Errno::NOENT) if make => {
                mkdirat(&current, *part, Mode::from_raw_mode(0o755))?;
                open(&current, part, flags)?
            }
            found => found?,
        };
    }
    Ok(current)
}

/// Makes room for something new. A directory stays, unless it is empty.
pub fn clear(directory: &OwnedFd, name: &[u8]) -> Result<()> {
    let found = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found?,
    };
    let directory_there = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
    unlinkat(directory, name, if directory_there { AtFlags::REMOVEDIR } else { AtFlags::empty() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_below_are_taken() {
        assert_eq!(parts(b"./a//b/").unwrap(), [b"a", b"b"]);
        assert!(parts(b".").unwrap().is_empty());
        for path in [&b"/etc/passwd"[..], b"../x", b"a/../../x", b"a/..", b"a\0b"] {
            assert!(parts(path).is_err(), "{}", super::super::shown(path));
        }
        assert!(parts(&[b'a'; 300]).is_err());
        let deep = ["d"; 3000].join("/");
        let refused = parts(deep.as_bytes()).unwrap_err();
        assert_eq!(refused.errno, Errno::NAMETOOLONG);
        assert!(refused.step.contains("5999 bytes") && refused.step.len() < 300, "{}", refused.step);
        assert_eq!(parts_of_any_length(deep.as_bytes()).unwrap().len(), 3000);
    }
}
