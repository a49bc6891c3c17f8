//! The image below a VM's root, as one read-only file that all VMs share. A template's directory is copied into a file
//! system once, and again when anything in it has changed.

use super::disk;
use super::ext4;
use paddock_fences::error::{CreateError, HostStep};
use paddock_model::Root;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Result};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Larger than any image: the kernel of a copied VM believes the size that the first VM had.
pub const LARGEST: u64 = 4 << 40;

/// Opened to be read; `None` where the root has no image.
pub fn open(state: &Path, root: &Root) -> std::result::Result<Option<File>, CreateError> {
    let Root::Directory { path } = root else { return Ok(None) };
    let digest = digest(path).host(|| format!("look at {}", path.display()))?;
    let place = disk::place(state)?;
    let whose = name_of(path);
    let image = place.join(format!("image-{whose:016x}-{digest:016x}"));
    let opened = disk::open_or_make(&image, |new| {
        forget_older(&place, whose);
        ext4::make_from(new, path)
    });
    opened.map(Some).map_err(|error| match error.kind() {
        ErrorKind::NotFound => ext4::unavailable(&error),
        _ => CreateError::Host { step: format!("make an image of {}", path.display()), source: error },
    })
}

fn name_of(directory: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    directory.as_os_str().as_bytes().hash(&mut hasher);
    hasher.finish()
}

/// VMs that run from an older image keep it open.
fn forget_older(place: &Path, whose: u64) {
    let prefix = format!("image-{whose:016x}-");
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(|name| name.starts_with(&prefix)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A digest of all facts that change when a tree changes.
pub fn digest(directory: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(place) = waiting.pop() {
        let mut entries: Vec<_> = std::fs::read_dir(&place)?.collect::<Result<_>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let found = entry.metadata()?;
            entry.path().as_os_str().as_bytes().hash(&mut hasher);
            let what = (found.ino(), found.mode(), found.len(), found.ctime(), found.ctime_nsec());
            what.hash(&mut hasher);
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    Ok(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_tree_has_another_digest() {
        let top = tempfile::tempdir().unwrap();
        std::fs::create_dir(top.path().join("etc")).unwrap();
        std::fs::write(top.path().join("etc/a"), b"one").unwrap();
        let before = digest(top.path()).unwrap();
        assert_eq!(digest(top.path()).unwrap(), before);
        std::fs::write(top.path().join("etc/a"), b"three").unwrap();
        assert_ne!(digest(top.path()).unwrap(), before);
    }
}
