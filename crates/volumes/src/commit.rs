//! From a directory to a version: changed files are read, cut at places that their content chooses, and packed.

use crate::index::{Fingerprint, Index, now_ns};
use crate::key::Cipher;
use crate::manifest::{Entry, HOLE, Manifest, Node};
use crate::pack::{Pack, Packer};
use crate::scan::{self, Beside, Limits, Met, Skipped, Unopened, What};
use crate::{Version, VolumeError};
use fastcdc::v2020::StreamCDC;
use rustix::fs::{SeekFrom, Stat, fstat, seek};
use rustix::io::Errno;
use serde_bytes::ByteBuf;
use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::path::Path;

const SMALLEST: usize = 64 << 10;
const AVERAGE: usize = 256 << 10;
const LARGEST: usize = 1 << 20;
/// How often a file that is being written to is read before it is given up.
const TRIES: usize = 5;
/// The most left out files that are named.
const MOST_SKIPPED: usize = 100;

/// The result of a sync.
#[derive(Debug, Clone)]
pub struct Committed {
    pub version: Version,
    /// True if there was anything new; else `version` is the one that was there before.
    pub changed: bool,
    /// The index of the directory as it is now.
    pub index: Index,
    pub skipped: Vec<Skipped>,
    /// True if the version has everything of the directory: no file left out, no further bits of modes, no second
    /// names.
    pub exact: bool,
}

/// Where the last file was: the next one is not far.
#[derive(Default)]
struct Near {
    index: Cell<usize>,
    base: Cell<usize>,
}

/// The content that has been read of a directory.
pub struct Built {
    pub manifest: Manifest,
    pub index: Index,
    pub skipped: Vec<Skipped>,
    pub exact: bool,
    pub next_pack: u64,
    pub new_bytes: u64,
}

pub struct Build<'a> {
    pub volume: &'a str,
    pub id: &'a str,
    pub cipher: &'a Cipher,
    pub generation: u64,
    pub next_pack: u64,
    /// The version that `index` speaks of.
    pub base: Option<&'a Manifest>,
    pub index: Option<&'a Index>,
    pub limits: Limits,
}

impl Build<'_> {
    /// Blocks. Packs go to `send` as they are filled. `live`: the directory that `directory` is a copy of.
    pub fn run(
        &self,
        directory: &Path,
        live: Option<&Path>,
        send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
    ) -> Result<Built, VolumeError> {
        let looked = now_ns();
        let mut new_bytes = 0;
        let mut counted = |pack: Pack| {
            new_bytes += pack.bytes.len() as u64;
            send(pack)
        };
        let mut packer = Packer::new(self.cipher, self.generation, self.next_pack, self.base);
        let mut entries = Vec::new();
        let mut index = Index::new(self.id, None);
        let (mut skipped, mut exact) = (Vec::new(), true);
        let near = Near::default();
        let is_unchanged =
            |path: &[u8], found: &Stat| self.known(path, &Fingerprint::of(found), &near).is_some();
        let beside = live.map(|directory| Beside { directory, is_unchanged: &is_unchanged });
        scan::walk(self.volume, directory, self.limits, beside.as_ref(), &mut |met: Met<'_>| {
            let Met { path, found, what } = met;
            exact &= scan::is_exact(&found, &what);
            let node = match what {
                What::Other(why) => {
                    if skipped.len() < MOST_SKIPPED {
                        skipped.push(Skipped { path: scan::shown(path), why });
                    }
                    return Ok(());
                }
                What::Directory => Node::Directory,
                What::Link(target) => Node::Link { target: ByteBuf::from(target) },
                What::File(file) => match self.file(path, &file, &near, &mut packer, &mut counted)? {
                    Some((node, fingerprint)) => {
                        index.note(path, fingerprint, looked);
                        node
                    }
                    // It was there a moment ago.
                    None => return Ok(()),
                },
            };
            let modified = (found.st_mtime, found.st_mtime_nsec as u32);
            let (path, mode) = (ByteBuf::from(path), scan::mode(&found));
            entries.push(Entry { path, mode, modified, node });
            Ok(())
        })?;
        let next_pack = packer.close(&mut counted)?;
        let manifest = Manifest::new(packer.packs, packer.chunks, entries);
        Ok(Built { manifest, index, skipped, exact, next_pack, new_bytes })
    }

    fn file(
        &self,
        path: &[u8],
        unopened: &Unopened<'_>,
        near: &Near,
        packer: &mut Packer<'_>,
        send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
    ) -> Result<Option<(Node, Fingerprint)>, VolumeError> {
        let looked = Fingerprint::of(unopened.found());
        if let Some((size, pieces)) = self.known(path, &looked, near) {
            let pieces = pieces.iter().map(|(chunk, length)| (packer.carry(*chunk), *length)).collect();
            return Ok(Some((Node::File { size, pieces }, looked)));
        }
        let failed = |error: std::io::Error| VolumeError::Unkept {
            volume: self.volume.into(),
            path: scan::shown(path),
            reason: error.to_string(),
        };
        let Some(file) = unopened.open().map_err(|errno| failed(errno.into()))? else { return Ok(None) };
        for _ in 0..TRIES {
            let before = fstat(&file).map_err(|errno| failed(errno.into()))?;
            let size = u64::try_from(before.st_size).unwrap_or(0);
            let pieces = match content(&file, size, packer, send) {
                Ok(pieces) => pieces,
                Err(Failure::Read(error)) => return Err(failed(error)),
                Err(Failure::Volume(error)) => return Err(error),
            };
            let after = fstat(&file).map_err(|errno| failed(errno.into()))?;
            let fingerprint = Fingerprint::of(&before);
            let read: u64 = pieces.iter().map(|(_, length)| length).sum();
            if fingerprint == Fingerprint::of(&after) && read == size {
                return Ok(Some((Node::File { size, pieces }, fingerprint)));
            }
        }
        Err(failed(std::io::Error::other("it was written to each time that it was read")))
    }

    /// Its size and content in the version before, if nothing touched it since.
    fn known(&self, path: &[u8], looked: &Fingerprint, near: &Near) -> Option<(u64, &[(u32, u64)])> {
        let base = self.base?;
        if !self.index?.is_unchanged(path, looked, &near.index) {
            return None;
        }
        match &base.find_near(path, &near.base)?.node {
            Node::File { size, pieces } => Some((*size, pieces)),
            _ => None,
        }
    }
}

enum Failure {
    Read(std::io::Error),
    Volume(VolumeError),
}

/// The same for a file of this host's own.
pub fn content_of(
    file: &File,
    size: u64,
    packer: &mut Packer<'_>,
    send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
) -> Result<Vec<(u32, u64)>, VolumeError> {
    content(file, size, packer, send).map_err(|failure| match failure {
        Failure::Read(error) => VolumeError::io("read a file", error),
        Failure::Volume(error) => error,
    })
}

/// Extent by extent, so that holes stay holes.
fn content(
    file: &File,
    size: u64,
    packer: &mut Packer<'_>,
    send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
) -> Result<Vec<(u32, u64)>, Failure> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while at < size {
        let data = match seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(size),
            // Nothing but a hole up to the end.
            Err(Errno::NXIO) => size,
            // A file system without holes.
            Err(Errno::INVAL) => at,
            Err(errno) => return Err(Failure::Read(errno.into())),
        };
        if data > at {
            pieces.push((HOLE, data - at));
            at = data;
            continue;
        }
        let end = seek(file, SeekFrom::Hole(at)).map_or(size, |end| end.min(size));
        if end <= at {
            break;
        }
        seek(file, SeekFrom::Start(at)).map_err(|errno| Failure::Read(errno.into()))?;
        let read = extent(&mut Read::take(file, end - at), end - at, &mut pieces, packer, send)?;
        if read == 0 {
            break;
        }
        at += read;
    }
    Ok(pieces)
}

fn extent(
    reader: &mut dyn Read,
    length: u64,
    pieces: &mut Vec<(u32, u64)>,
    packer: &mut Packer<'_>,
    send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
) -> Result<u64, Failure> {
    if length <= SMALLEST as u64 {
        let mut small = Vec::with_capacity(length as usize);
        reader.read_to_end(&mut small).map_err(Failure::Read)?;
        if !small.is_empty() {
            pieces.push((packer.add(&small, send).map_err(Failure::Volume)?, small.len() as u64));
        }
        return Ok(small.len() as u64);
    }
    let mut read = 0;
    for chunk in StreamCDC::new(reader, SMALLEST, AVERAGE, LARGEST) {
        let chunk = chunk.map_err(|error| Failure::Read(error.into()))?;
        let number = packer.add(&chunk.data, send).map_err(Failure::Volume)?;
        pieces.push((number, chunk.data.len() as u64));
        read += chunk.data.len() as u64;
    }
    Ok(read)
}
