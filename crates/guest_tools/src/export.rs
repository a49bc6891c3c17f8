//! The whole disk as an archive: owners, modes, attributes, holes, hard links, and the marks that hide parts of the
//! image below.

use super::archive::{Archive, Extras};
use super::walk::{Visit, walk};
use super::{attributes, beneath, node, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{OFlags, Stat, fstat};
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
    let attributes = attributes::of_the_user(&root, b".");
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
        let has_some = matches!(kind, NodeType::File | NodeType::Directory);
        let attributes = if has_some { attributes::of_the_user(directory, name) } else { Vec::new() };
        match self.archive.add(directory, name, path, found, Extras { attributes, sparse: true }) {
            Err(Failure { errno: Errno::NOENT | Errno::STALE, .. }) => Ok(false),
            added => added.map(|()| true),
        }
    }

    fn closed(&mut self, path: &[u8], errno: Errno) -> Outcome<()> {
        Err(errno).during(|| format!("enter {}", super::shown(path)))
    }
}
