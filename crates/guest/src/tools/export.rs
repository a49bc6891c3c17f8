//! The whole disk as an archive: owners, modes, attributes, holes, hard links, and the marks that hide parts of the
//! image below.

use super::archive::{Archive, Extras};
use super::manifest::OPAQUE;
use super::walk::{Visit, walk};
use super::{beneath, node, streams};
use crate::failure::{During, Failure, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{OFlags, Stat, fgetxattr, flistxattr, fstat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::os::fd::{BorrowedFd, OwnedFd};

pub fn export(layer: BorrowedFd<'_>) -> Outcome<()> {
    let root =
        beneath::open(layer, b".", OFlags::RDONLY | OFlags::DIRECTORY).during(|| "open the disk".into())?;
    let found = fstat(&root).during(|| "look at the disk".into())?;
    let output = BufWriter::with_capacity(64 * 1024, streams::output().during(|| "open the output".into())?);
    let mut exporting =
        Exporting { device: found.st_dev, archive: Archive::new(output), names: HashMap::new() };
    let attributes = attributes(&root);
    exporting.archive.add(&root, b".", b".", &found, Extras { attributes, sparse: false })?;
    walk(root, true, &mut exporting)?;
    exporting.archive.finish()
}

struct Exporting {
    device: u64,
    archive: Archive<BufWriter<File>>,
    /// Under which name a file with several is in the archive already.
    names: HashMap<u64, Vec<u8>>,
}

impl Visit for Exporting {
    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        if found.st_dev != self.device {
            return Ok(false);
        }
        let kind = node::kind(found);
        if found.st_nlink > 1 && kind == NodeType::File {
            if let Some(first) = self.names.get(&found.st_ino) {
                self.archive.link(path, first, found)?;
                return Ok(false);
            }
            self.names.insert(found.st_ino, path.to_vec());
        }
        let flags = match kind {
            NodeType::File => Some(OFlags::RDONLY | OFlags::NONBLOCK),
            NodeType::Directory => Some(OFlags::RDONLY | OFlags::DIRECTORY),
            _ => None,
        };
        let opened = flags.and_then(|flags| beneath::open(directory, name, flags).ok());
        let attributes = opened.as_ref().map(attributes).unwrap_or_default();
        match self.archive.add(directory, name, path, found, Extras { attributes, sparse: true }) {
            Err(Failure { errno: Errno::NOENT | Errno::STALE, .. }) => Ok(false),
            added => added.map(|()| true),
        }
    }

    fn closed(&mut self, path: &[u8], errno: Errno) -> Outcome<()> {
        Err(errno).during(|| format!("enter {}", super::shown(path)))
    }
}

/// The user's own. Of an overlay's notes only that a directory is opaque: the others tie a file to one lower layer.
pub fn attributes(file: &OwnedFd) -> Vec<(String, Vec<u8>)> {
    let mut names = vec![0; 64 * 1024];
    let Ok(length) = flistxattr(file, &mut names[..]) else { return Vec::new() };
    let mut found = Vec::new();
    for name in names[..length].split(|b| *b == 0).filter_map(|name| std::str::from_utf8(name).ok()) {
        let kept = name.starts_with("user.") && (!name.starts_with("user.overlay.") || name == OPAQUE);
        if !kept {
            continue;
        }
        let mut value = vec![0; 64 * 1024];
        if let Ok(length) = fgetxattr(file, name, &mut value[..]) {
            value.truncate(length);
            found.push((name.to_string(), value));
        }
    }
    found
}
