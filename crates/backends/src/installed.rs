//! Programs and kernels of others that are installed on this host: where they are, a stamp that changes when one is
//! replaced, and the facts found about each.

use serde::Serialize;
use std::ffi::OsString;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Device, inode, length, change in nanoseconds.
pub type Stamp = (u64, u64, u64, i64);

pub fn stamp(path: &Path) -> Result<Stamp> {
    let found = std::fs::metadata(path)?;
    Ok((found.dev(), found.ino(), found.len(), found.ctime() * 1_000_000_000 + found.ctime_nsec()))
}

/// The one that `variable` names, or the first of the path, or of `more`, where an ordinary user's path may not lead.
pub fn locate(variable: &str, name: &str, more: &[&str]) -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os(variable).filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        return match path.is_absolute() && path.is_file() {
            true => Ok(Some(path)),
            false => Err(Error::new(
                ErrorKind::NotFound,
                format!("{variable} is `{}`, which is not the absolute path of a file", path.display()),
            )),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(""));
    let places = std::env::split_paths(&path).chain(more.iter().map(PathBuf::from));
    let mut found = places.filter(|place| place.is_absolute()).map(|place| place.join(name));
    Ok(found.find(|path| path.is_file()))
}

/// Writes down the found facts, never half of them. Facts that cannot be noted are found out again.
pub fn note(path: &Path, found: &impl Serialize) {
    // Other threads of this process may do the same.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let own = format!("{}-{}.new", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let new = path.with_extension(own);
    let written = serde_json::to_vec(found).map_err(Error::from).and_then(|text| std::fs::write(&new, text));
    if written.and_then(|()| std::fs::rename(&new, path)).is_err() {
        let _ = std::fs::remove_file(&new);
    }
}

/// A script to be executed, written by a process of its own. A file that this process has open for writing is also open
/// in each process that another test is just starting, and cannot be executed for so long.
#[cfg(test)]
pub fn script(directory: &Path, name: &str, text: &str) -> PathBuf {
    let path = directory.join(name);
    let write = "printf '#!/bin/sh\n%s\n' \"$1\" > \"$0\" && chmod 755 \"$0\"";
    let written =
        std::process::Command::new("sh").arg("-c").arg(write).arg(&path).arg(text).status().unwrap();
    assert!(written.success(), "{}: {written}", path.display());
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_many_at_once_are_whole_and_leave_nothing() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("note.json");
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = &path;
                scope.spawn(move || (0..20).for_each(|_| note(path, &vec![number; 1000])));
            }
        });
        let found: Vec<u32> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(found.len() == 1000 && found.iter().all(|number| *number == found[0]));
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 1);
    }
}
