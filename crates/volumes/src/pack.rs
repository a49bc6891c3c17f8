//! Chunks on their way to the store, many in one object: ten thousand small files are not ten thousand requests.

use crate::VolumeError;
use crate::key::{ChunkId, Cipher};
use crate::manifest::Chunk;
use std::collections::HashMap;

/// A pack is closed when it has so much. A chunk is smaller, so that no pack is longer than both.
const FULL: usize = 8 << 20;

/// An object that is ready to be written.
pub struct Pack {
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The chunks of one version: those that a version before it brought, and new ones.
pub struct Packer<'a> {
    cipher: &'a Cipher,
    generation: u64,
    /// Of the packs of this lease.
    next: u64,
    open: Vec<u8>,
    known: HashMap<ChunkId, Source<'a>>,
    used: HashMap<ChunkId, u32>,
    pub packs: Vec<String>,
    pub chunks: Vec<Chunk>,
    pack_numbers: HashMap<String, u32>,
}

struct Source<'a> {
    chunk: &'a Chunk,
    pack: &'a str,
}

impl<'a> Packer<'a> {
    /// `known`: what is in the store already, because a version that is kept names it.
    pub fn new(
        cipher: &'a Cipher,
        generation: u64,
        next: u64,
        known: Option<&'a crate::Manifest>,
    ) -> Packer<'a> {
        let sources = known.into_iter().flat_map(|manifest| {
            manifest.chunks.iter().filter_map(|chunk| {
                let pack = manifest.packs.get(chunk.pack as usize)?;
                Some((chunk.id, Source { chunk, pack }))
            })
        });
        Packer {
            cipher,
            generation,
            next,
            open: Vec::new(),
            known: sources.collect(),
            used: HashMap::new(),
            packs: Vec::new(),
            chunks: Vec::new(),
            pack_numbers: HashMap::new(),
        }
    }

    /// The chunk's number in the manifest. A pack that is full goes to `send`.
    pub fn add(
        &mut self,
        plain: &[u8],
        send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
    ) -> Result<u32, VolumeError> {
        let id = self.cipher.id(plain);
        if let Some(number) = self.reuse(&id) {
            return Ok(number);
        }
        let offset = self.open.len();
        self.cipher.seal(&id, plain, &mut self.open)?;
        let stored = self.open.len() - offset;
        let name = pack_name(self.generation, self.next);
        let pack = self.pack_number(&name);
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let chunk =
            Chunk { id, pack, offset: number(offset), stored: number(stored), length: number(plain.len()) };
        let added = self.push(chunk);
        if self.open.len() >= FULL {
            self.close(send)?;
        }
        Ok(added)
    }

    /// One that is in the store, or on its way there.
    pub fn reuse(&mut self, id: &ChunkId) -> Option<u32> {
        if let Some(number) = self.used.get(id) {
            return Some(*number);
        }
        let Source { chunk, pack } = self.known.get(id)?;
        let (chunk, pack) = ((*chunk).clone(), pack.to_string());
        let pack = self.pack_number(&pack);
        Some(self.push(Chunk { pack, ..chunk }))
    }

    /// What is still open goes out; afterwards it is known how many packs there were.
    pub fn close(
        &mut self,
        send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
    ) -> Result<u64, VolumeError> {
        if !self.open.is_empty() {
            let name = pack_name(self.generation, self.next);
            self.next += 1;
            send(Pack { name, bytes: std::mem::take(&mut self.open) })?;
        }
        Ok(self.next)
    }

    fn push(&mut self, chunk: Chunk) -> u32 {
        let number = u32::try_from(self.chunks.len()).unwrap_or(u32::MAX);
        self.used.insert(chunk.id, number);
        self.chunks.push(chunk);
        number
    }

    fn pack_number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.pack_numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.packs.len()).unwrap_or(u32::MAX);
        self.packs.push(name.into());
        self.pack_numbers.insert(name.into(), number);
        number
    }
}

/// The lease is in the name: nobody else writes it, and whoever collects knows which are older than itself.
pub fn pack_name(generation: u64, number: u64) -> String {
    format!("{generation:016x}-{number:08x}")
}

/// The lease of an object's name.
pub fn generation_of(name: &str) -> Option<u64> {
    let (generation, _) = name.split_once('-')?;
    u64::from_str_radix(generation, 16).ok()
}
