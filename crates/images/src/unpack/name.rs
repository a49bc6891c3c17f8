use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Refusal;

const LONGEST_NAME: usize = 4095;
const LONGEST_COMPONENT: usize = 255;
/// A deep tree costs an open directory for each level when it is removed.
const DEEPEST: usize = 256;

/// The name of an entry, relative to the root, without `.`, `..` or empty parts. The root itself is the empty path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryName(PathBuf);

impl EntryName {
    pub fn parse(bytes: &[u8]) -> Result<Self, Refusal> {
        if bytes.contains(&0) {
            return Err(Refusal::NulInName);
        }
        if bytes.first() == Some(&b'/') {
            return Err(Refusal::AbsoluteName);
        }
        if bytes.len() > LONGEST_NAME {
            return Err(Refusal::OverlongName);
        }
        let mut path = PathBuf::new();
        let parts = bytes.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
        for (depth, part) in parts.enumerate() {
            if part == b".." {
                return Err(Refusal::ParentInName);
            }
            if part.len() > LONGEST_COMPONENT || depth >= DEEPEST {
                return Err(Refusal::OverlongName);
            }
            path.push(OsStr::from_bytes(part));
        }
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn parent(&self) -> &Path {
        self.0.parent().unwrap_or(Path::new(""))
    }

    /// `None` for the root.
    pub fn base(&self) -> Option<&OsStr> {
        self.0.file_name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_relative_and_normal() {
        for (text, path) in
            [("a/b", "a/b"), ("./a", "a"), ("a//b/./c/", "a/b/c"), ("./", ""), (".", ""), ("", "")]
        {
            assert_eq!(EntryName::parse(text.as_bytes()).unwrap().path(), Path::new(path), "{text}");
        }
        assert_eq!(EntryName::parse(b"..a/b..").unwrap().path(), Path::new("..a/b.."));
    }

    #[test]
    fn names_that_could_lead_out_are_refused() {
        for (bytes, refusal) in [
            (&b"/etc/passwd"[..], Refusal::AbsoluteName),
            (b"//x", Refusal::AbsoluteName),
            (b"../x", Refusal::ParentInName),
            (b"a/../../x", Refusal::ParentInName),
            (b"a/..", Refusal::ParentInName),
            (b"a\0b", Refusal::NulInName),
            (&[b'a'; 256], Refusal::OverlongName),
            (&[b'a'; 5000], Refusal::OverlongName),
            (&b"a/".repeat(257), Refusal::OverlongName),
        ] {
            assert_eq!(EntryName::parse(bytes), Err(refusal));
        }
    }
}
