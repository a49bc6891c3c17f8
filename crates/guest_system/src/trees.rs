//! The trees that a disk consists of, each apart from the joined view that the work has of them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// A tree is absent if there is none, if the host made the root and the guest has no way to it, or if no host will ask.
#[derive(Default)]
pub struct Trees {
    /// All written files, and none of an image.
    pub layer: Option<OwnedFd>,
    /// The tree that the layer was cloned from, as it was then.
    pub start: Option<OwnedFd>,
    /// The image below.
    pub image: Option<OwnedFd>,
    /// True if files of the host's system are there with the host's own inodes, although the plan wanted others.
    pub shares_system: bool,
    /// The files that the guest itself wrote while it built the inside, by path below the root.
    pub built: BTreeMap<Vec<u8>, Built>,
    /// The links that it made, likewise.
    pub links: BTreeSet<Vec<u8>>,
    /// The socket that it made in /dev.
    pub sudo_door: Option<OwnedFd>,
}

pub struct Built {
    pub mode: u32,
    pub content: Vec<u8>,
}

impl Trees {
    pub fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        self.layer.iter().chain(&self.start).chain(&self.image)
    }

    pub fn built(&mut self, path: &str, mode: u32, content: &[u8]) {
        let path = path.trim_start_matches('/').as_bytes().to_vec();
        self.built.insert(path, Built { mode, content: content.to_vec() });
    }

    /// The built files, for a guest behind another kernel: lengths of path and content and the mode, then both.
    pub fn write_built(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (path, Built { mode, content }) in &self.built {
            for number in [path.len() as u32, content.len() as u32, *mode] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(path);
            out.extend_from_slice(content);
        }
        out
    }

    /// Precondition: `rest` is from [`Trees::write_built`]; an entry that is cut off is not taken.
    pub fn read_built(&mut self, mut rest: &[u8]) {
        while let Some((head, after)) = rest.split_first_chunk::<12>() {
            let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
            let (path, content) = (number(0) as usize, number(4) as usize);
            let Some((path, after)) = after.split_at_checked(path) else { return };
            let Some((content, after)) = after.split_at_checked(content) else { return };
            self.built.insert(path.to_vec(), Built { mode: number(8), content: content.to_vec() });
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_built_is_told_whole_or_not_at_all() {
        let mut trees = Trees::default();
        trees.built("/etc/hosts", 0o644, b"127.0.0.1 localhost\n");
        trees.built("/etc/empty", 0o600, b"");
        let told = trees.write_built();
        let mut other = Trees::default();
        other.read_built(&told);
        assert_eq!(other.write_built(), told);
        for cut in 0..told.len() {
            let mut half = Trees::default();
            half.read_built(&told[..cut]);
            assert!(half.built.len() < 2);
        }
    }
}
