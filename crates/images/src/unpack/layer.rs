use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::{BuildHasher, RandomState};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::name::EntryName;
use crate::Refusal;

const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
const METADATA: &[u8] = b".wh..wh.";

/// A removal by a layer from the layers below it.
#[derive(Debug, PartialEq, Eq)]
pub enum Whiteout {
    Remove(PathBuf),
    /// Removes everything in this directory.
    Opaque(PathBuf),
    /// Notes of a storage driver, without a meaning here.
    Unused,
}

impl Whiteout {
    /// `None` if the name is an ordinary one.
    pub fn parse(name: &EntryName) -> Result<Option<Self>, Refusal> {
        let Some(base) = name.base().map(OsStrExt::as_bytes) else { return Ok(None) };
        if base == OPAQUE {
            return Ok(Some(Self::Opaque(name.parent().to_owned())));
        }
        if base.starts_with(METADATA) {
            return Ok(Some(Self::Unused));
        }
        match base.strip_prefix(WHITEOUT) {
            None => Ok(None),
            Some(b"" | b"." | b"..") => Err(Refusal::BadWhiteout),
            Some(hidden) => Ok(Some(Self::Remove(name.parent().join(OsStr::from_bytes(hidden))))),
        }
    }
}

/// The paths that the current layer has written: a whiteout must spare them, wherever in the layer it stands.
///
/// Only a keyed hash of each path is kept, so that four million of them stay within some 70 MB.
#[derive(Default)]
pub struct Touched {
    hashes: HashSet<u64>,
    key: RandomState,
}

impl Touched {
    /// Also adds the ancestors of `path`.
    pub fn add(&mut self, path: &Path) {
        for ancestor in path.ancestors() {
            if !self.hashes.insert(self.key.hash_one(ancestor.as_os_str())) {
                break;
            }
        }
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.hashes.contains(&self.key.hash_one(path.as_os_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str) -> Result<Option<Whiteout>, Refusal> {
        Whiteout::parse(&EntryName::parse(name.as_bytes()).unwrap())
    }

    #[test]
    fn whiteouts_are_told_by_their_last_part() {
        assert_eq!(parse("a/.wh.b"), Ok(Some(Whiteout::Remove("a/b".into()))));
        assert_eq!(parse("a/.wh..wh..opq"), Ok(Some(Whiteout::Opaque("a".into()))));
        assert_eq!(parse(".wh..wh..opq"), Ok(Some(Whiteout::Opaque("".into()))));
        assert_eq!(parse(".wh..wh.plnk"), Ok(Some(Whiteout::Unused)));
        assert_eq!(parse(".wh.a/b"), Ok(None));
        for bad in [".wh.", "a/.wh..", "a/.wh..."] {
            assert_eq!(parse(bad), Err(Refusal::BadWhiteout), "{bad}");
        }
    }

    #[test]
    fn ancestors_of_a_touched_path_are_touched() {
        let mut touched = Touched::default();
        touched.add(Path::new("a/b/c"));
        assert!(touched.contains(Path::new("a")) && touched.contains(Path::new("a/b/c")));
        assert!(!touched.contains(Path::new("a/b/d")));
    }
}
