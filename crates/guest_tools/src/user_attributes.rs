//! Extended attributes of the user's own namespace. They are set before a file appears, and told with it.

use super::shown;
use paddock_guest_system::failure::{During, Outcome};
use paddock_protocol::{Attribute, MOST_ATTRIBUTE_BYTES};
use rustix::fs::{XattrFlags, fsetxattr, lgetxattr, llistxattr};
use serde_bytes::ByteBuf;
use std::os::fd::{AsFd, AsRawFd};

const NAMESPACE: &str = "user.";
/// The overlay's own notes, which tie a file to its layers.
const OVERLAY: &str = "user.overlay.";
const LARGEST_LIST: usize = 64 * 1024;

pub fn set(file: impl AsFd, attributes: &[Attribute], path: &[u8]) -> Outcome<()> {
    for Attribute { name, value } in attributes {
        fsetxattr(&file, format!("{NAMESPACE}{name}"), value, XattrFlags::empty())
            .during(|| format!("set the attribute {name} of {}", shown(path)))?;
    }
    Ok(())
}

/// Of an entry of a directory. No call of the kernel's takes a directory and a name.
pub fn of_entry(directory: impl AsFd, name: &[u8]) -> Vec<Attribute> {
    let mut path = format!("/proc/self/fd/{}/", directory.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name);
    of(&path)
}

/// A file whose attributes cannot be read, or are more than one answer tells, has none.
pub fn of(path: &[u8]) -> Vec<Attribute> {
    let mut names = [0_u8; 256];
    match llistxattr(path, &mut names[..]) {
        Ok(length) => read(path, &names[..length]),
        Err(rustix::io::Errno::RANGE) => {
            let mut names = vec![0_u8; LARGEST_LIST];
            llistxattr(path, &mut names[..]).map_or(Vec::new(), |length| read(path, &names[..length]))
        }
        Err(_) => Vec::new(),
    }
}

fn read(path: &[u8], names: &[u8]) -> Vec<Attribute> {
    let mut found = Vec::new();
    let mut bytes = 0;
    for full in names.split(|byte| *byte == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        let Some(name) = full.strip_prefix(NAMESPACE).filter(|_| !full.starts_with(OVERLAY)) else {
            continue;
        };
        let mut value = vec![0_u8; MOST_ATTRIBUTE_BYTES];
        let Ok(length) = lgetxattr(path, full, &mut value[..]) else { continue };
        value.truncate(length);
        bytes += name.len() + length;
        if bytes > MOST_ATTRIBUTE_BYTES {
            return Vec::new();
        }
        found.push(Attribute { name: name.into(), value: ByteBuf::from(value) });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn attributes_that_were_set_are_found_by_path_and_by_directory() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        let file = std::fs::File::create(&path).expect("a file");
        let attribute =
            |name: &str, value: &str| Attribute { name: name.into(), value: ByteBuf::from(value.as_bytes()) };
        let wanted = vec![attribute("e2b.owner", "me"), attribute("note", "ä b")];
        set(&file, &wanted, b"file").expect("a file system with attributes");
        let mut found = of(path.as_os_str().as_bytes());
        found.sort_by(|one, other| one.name.cmp(&other.name));
        assert_eq!(found, wanted);
        let opened = std::fs::File::open(directory.path()).expect("the directory");
        assert_eq!(of_entry(&opened, b"file").len(), 2);
        assert!(of(b"/nonexistent").is_empty() && of_entry(&opened, b"other").is_empty());
        set(&file, &[attribute("large", &"x".repeat(MOST_ATTRIBUTE_BYTES - 10))], b"file").expect("room");
        assert!(of(path.as_os_str().as_bytes()).is_empty(), "more than one answer tells");
    }
}
