use std::io::Read;

use rustix::fs::{Gid, Mode, Uid};
use tar::{Entry, EntryType, Header};

use crate::Refusal;

/// The highest owner that is kept: higher ids have no place in the id range of a sandbox.
const HIGHEST_OWNER: u64 = 65534;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    HardLink,
    /// A device or a named pipe.
    Special,
    /// A PAX header about the archive as a whole. It is passed over, as other readers do.
    Global,
}

impl Kind {
    pub fn of<R: Read>(entry: &mut Entry<'_, R>) -> Result<Self, Refusal> {
        let kind = match entry.header().entry_type() {
            // Old archives mark a directory by its name only.
            EntryType::Regular if entry.path_bytes().ends_with(b"/") => Self::Directory,
            EntryType::Regular | EntryType::Continuous => Self::File,
            EntryType::Directory => Self::Directory,
            EntryType::Symlink => Self::Symlink,
            EntryType::Link => Self::HardLink,
            EntryType::Char | EntryType::Block | EntryType::Fifo => Self::Special,
            EntryType::XGlobalHeader => Self::Global,
            EntryType::GNUSparse => return Err(Refusal::Sparse),
            _ => return Err(Refusal::UnknownType),
        };
        if kind == Self::File && has_pax_sparse(entry) {
            return Err(Refusal::Sparse);
        }
        Ok(kind)
    }
}

fn has_pax_sparse<R: Read>(entry: &mut Entry<'_, R>) -> bool {
    let Ok(Some(extensions)) = entry.pax_extensions() else { return false };
    extensions.flatten().any(|extension| extension.key_bytes().starts_with(b"GNU.sparse."))
}

/// The parts of a header that are kept. Extended attributes, and with them file capabilities, are not.
#[derive(Debug, Clone)]
pub struct Metadata {
    mode: u32,
    /// `None` when we are not root: the files then belong to the caller.
    pub owner: Option<(Uid, Gid)>,
    pub seconds: u64,
}

impl Metadata {
    pub fn of(header: &Header) -> Result<Self, Refusal> {
        let mode = header.mode().map_err(|_| Refusal::BadHeader)?;
        let owner = if rustix::process::geteuid().is_root() {
            let user = header.uid().map_err(|_| Refusal::BadHeader)?;
            let group = header.gid().map_err(|_| Refusal::BadHeader)?;
            if user > HIGHEST_OWNER || group > HIGHEST_OWNER {
                return Err(Refusal::OwnerOutOfRange);
            }
            // Both fit, as they are no larger than 65534.
            Some((Uid::from_raw(user as u32), Gid::from_raw(group as u32)))
        } else {
            None
        };
        Ok(Self { mode, owner, seconds: header.mtime().unwrap_or(0) })
    }

    /// The metadata of parents that an archive leaves out.
    pub fn of_missing_parent() -> Self {
        Self { mode: 0o755, owner: None, seconds: 0 }
    }

    pub fn file_mode(&self) -> Mode {
        self.mode_with(0o600)
    }

    pub fn directory_mode(&self) -> Mode {
        self.mode_with(0o700)
    }

    /// The mode without set-user-id and set-group-id. It always lets the caller read and delete its own files.
    fn mode_with(&self, needed: u32) -> Mode {
        let mode = self.mode & 0o1777;
        Mode::from_raw_mode(if self.owner.is_some() { mode } else { mode | needed })
    }
}
