use std::io::Read;
use std::path::Path;

use paddock_protocol::{EXTENTS, MOST_EXTENTS, parse_extents};
use tar::{Entry, EntryType};

use super::entry::Kind;
use super::layer::Whiteout;
use super::name::EntryName;
use super::tree::Failure;
use crate::Refusal;

const OPAQUE: &[u8] = b"SCHILY.xattr.user.overlay.opaque";
/// Files that are written anew in every sandbox; those of a build would tell of the host that it ran on.
const OWN_FILES: [&str; 4] = ["etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/machine-id"];
/// The places that a build mounts for a step: what it lends to the step (`builds/fetch.rs`), and npm's cache
/// (`builds/step.rs`). Their content is the host's.
const LENT: [&str; 2] = ["run/paddock", "run/paddock-npm"];

/// A file of which the archive has only some parts.
pub struct Holes {
    pub size: u64,
    pub extents: Vec<(u64, u64)>,
}

pub fn is_paddocks_own(path: &Path) -> bool {
    OWN_FILES.iter().any(|own| path == Path::new(own)) || LENT.iter().any(|lent| path.starts_with(lent))
}

/// The removal in the root below that an entry stands for, besides being an entry itself.
pub fn mark<R: Read>(entry: &mut Entry<'_, R>, kind: Kind, name: &EntryName) -> Option<Whiteout> {
    match kind {
        Kind::Special if is_whiteout(entry) => Some(Whiteout::Remove(name.path().to_owned())),
        Kind::Directory if extension(entry, OPAQUE).as_deref() == Some(b"y") => {
            Some(Whiteout::Opaque(name.path().to_owned()))
        }
        _ => None,
    }
}

/// True for an overlay's whiteout: a character device with the numbers 0, 0.
pub fn is_whiteout<R: Read>(entry: &Entry<'_, R>) -> bool {
    let header = entry.header();
    let zero = |number: std::io::Result<Option<u32>>| matches!(number, Ok(Some(0)));
    header.entry_type() == EntryType::Char && zero(header.device_major()) && zero(header.device_minor())
}

/// `largest`: a file that claims to be larger is refused.
pub fn holes<R: Read>(entry: &mut Entry<'_, R>, largest: u64) -> Result<Option<Holes>, Failure> {
    let Some(text) = extension(entry, EXTENTS.as_bytes()) else { return Ok(None) };
    let found = parse_extents(&text).filter(|(size, extents)| {
        let bytes: u64 = extents.iter().map(|(_, length)| length).fold(0, |sum, n| sum.saturating_add(*n));
        *size <= largest && extents.len() <= MOST_EXTENTS && bytes == entry.size()
    });
    let (size, extents) = found.ok_or(Refusal::BadHeader)?;
    Ok(Some(Holes { size, extents }))
}

fn extension<R: Read>(entry: &mut Entry<'_, R>, key: &[u8]) -> Option<Vec<u8>> {
    let extensions = entry.pax_extensions().ok()??;
    extensions.flatten().find(|extension| extension.key_bytes() == key).map(|e| e.value_bytes().to_vec())
}
