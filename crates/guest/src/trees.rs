//! The trees that a disk consists of, each apart from what the work sees of them together.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Absent where there is none, where the host made the root and the guest has no way to it, and where nobody will ask.
#[derive(Default)]
pub struct Trees {
    /// Everything that was written, and nothing of an image.
    pub layer: Option<OwnedFd>,
    /// What the layer was cloned from, as it was then.
    pub start: Option<OwnedFd>,
    /// The image below.
    pub image: Option<OwnedFd>,
    /// What the guest itself wrote while it built the inside, by its path below the root.
    pub built: BTreeMap<Vec<u8>, Built>,
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
}
