//! Extended attributes of a file, by its name in a directory. The file is not opened: for each open the kernel asks every
//! directory above it (Landlock), which makes deep trees slow.

use super::manifest::OPAQUE;
use rustix::fs::{lgetxattr, llistxattr};
use rustix::process::fchdir;
use std::os::fd::AsFd;

/// The longest value, and the longest list of names, that the kernel has.
const LONGEST: usize = 64 * 1024;

/// The value of one attribute. The tool's working directory is the file's afterwards.
pub fn value<'a>(
    directory: impl AsFd,
    file: &[u8],
    name: &str,
    space: &'a mut [u8],
) -> rustix::io::Result<&'a [u8]> {
    fchdir(directory)?;
    let length = lgetxattr(file, name, &mut *space)?;
    Ok(&space[..length])
}

/// The user's own. Of an overlay's notes only that a directory is opaque: the others tie a file to one lower layer.
/// Nothing where they cannot be read.
pub fn of_the_user(directory: impl AsFd, file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0; LONGEST];
    let listed = fchdir(&directory).and_then(|()| llistxattr(file, &mut names[..]));
    let Ok(length) = listed else { return Vec::new() };
    let mut found = Vec::new();
    for name in names[..length].split(|b| *b == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        let kept = name.starts_with("user.") && (!name.starts_with("user.overlay.") || name == OPAQUE);
        if !kept {
            continue;
        }
        if let Ok(value) = value(&directory, file, name, &mut vec![0; LONGEST]) {
            found.push((name.to_string(), value.to_vec()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, XattrFlags, open, setxattr};
    use rustix::io::Errno;

    /// A place is enough, and a link is not followed.
    #[test]
    fn attributes_are_read_of_what_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
        for (name, value) in [("user.own", "1"), ("user.overlay.origin", "2"), (OPAQUE, "y")] {
            match setxattr(&file, name, value.as_bytes(), XattrFlags::empty()) {
                Err(Errno::OPNOTSUPP) => {
                    eprintln!("skipped: the file system of {} has no attributes", folder.path().display());
                    return;
                }
                set => set.unwrap(),
            }
        }
        let place = open(folder.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let mut found = of_the_user(&place, b"file");
        found.sort();
        assert_eq!(found, [(OPAQUE.into(), b"y".to_vec()), ("user.own".into(), b"1".to_vec())]);
        assert_eq!(value(&place, b"file", "user.overlay.origin", &mut [0; 8]).unwrap(), b"2");
        assert_eq!(of_the_user(&place, b"link"), []);
        assert_eq!(of_the_user(&place, b"absent"), []);
    }
}
