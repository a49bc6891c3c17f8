//! Chunks on their way to the store, many in one object: ten thousand small files are not ten thousand requests.

use crate::VolumeError;
use crate::key::{ChunkId, Cipher};
use crate::manifest::{Chunk, HOLE, Manifest};
use std::cell::OnceCell;
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
    /// The number of the next pack of this lease.
    next: u64,
    open: Vec<u8>,
    /// The number of the open pack, from its first chunk on.
    open_pack: Option<u32>,
    /// The version whose chunks are in the store already, because it is kept.
    base: Option<&'a Manifest>,
    /// Its chunks by their id: made only when a new chunk is added.
    known: OnceCell<HashMap<ChunkId, u32>>,
    /// New numbers of its chunks and packs, as far as they are used.
    carried: Vec<Option<u32>>,
    carried_packs: Vec<Option<u32>>,
    added: HashMap<ChunkId, u32>,
    pub packs: Vec<String>,
    pub chunks: Vec<Chunk>,
}

impl<'a> Packer<'a> {
    pub fn new(cipher: &'a Cipher, generation: u64, next: u64, base: Option<&'a Manifest>) -> Packer<'a> {
        Packer {
            cipher,
            generation,
            next,
            open: Vec::new(),
            open_pack: None,
            base,
            known: OnceCell::new(),
            carried: vec![None; base.map_or(0, |base| base.chunks.len())],
            carried_packs: vec![None; base.map_or(0, |base| base.packs.len())],
            added: HashMap::new(),
            packs: Vec::new(),
            chunks: Vec::new(),
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
        let pack = match self.open_pack {
            Some(pack) => pack,
            None => {
                let pack = self.new_pack(&pack_name(self.generation, self.next));
                *self.open_pack.insert(pack)
            }
        };
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let chunk =
            Chunk { id, pack, offset: number(offset), stored: number(stored), length: number(plain.len()) };
        let added = self.push(chunk);
        self.added.insert(id, added);
        if self.open.len() >= FULL {
            self.close(send)?;
        }
        Ok(added)
    }

    /// A chunk that is in the store, or on its way there.
    fn reuse(&mut self, id: &ChunkId) -> Option<u32> {
        if let Some(number) = self.added.get(id) {
            return Some(*number);
        }
        let base = self.base?;
        let known = self.known.get_or_init(|| (0..).zip(&base.chunks).map(|(n, c)| (c.id, n)).collect());
        let number = *known.get(id)?;
        Some(self.carry(number))
    }

    /// A chunk of the version before, by its number there; an unknown number is a hole.
    pub fn carry(&mut self, number: u32) -> u32 {
        let at = number as usize;
        let Some((base, chunk)) = self.base.and_then(|base| Some((base, base.chunks.get(at)?))) else {
            return HOLE;
        };
        if let Some(carried) = self.carried[at] {
            return carried;
        }
        let place = chunk.pack as usize;
        let pack = match self.carried_packs[place] {
            Some(pack) => pack,
            None => {
                let pack = self.new_pack(&base.packs[place]);
                self.carried_packs[place] = Some(pack);
                pack
            }
        };
        let carried = self.push(Chunk { pack, ..chunk.clone() });
        self.carried[at] = Some(carried);
        carried
    }

    /// Sends the open pack; afterwards the number of packs is known.
    pub fn close(
        &mut self,
        send: &mut dyn FnMut(Pack) -> Result<(), VolumeError>,
    ) -> Result<u64, VolumeError> {
        if !self.open.is_empty() {
            let name = pack_name(self.generation, self.next);
            self.next += 1;
            self.open_pack = None;
            send(Pack { name, bytes: std::mem::take(&mut self.open) })?;
        }
        Ok(self.next)
    }

    fn push(&mut self, chunk: Chunk) -> u32 {
        self.chunks.push(chunk);
        u32::try_from(self.chunks.len() - 1).unwrap_or(u32::MAX)
    }

    fn new_pack(&mut self, name: &str) -> u32 {
        self.packs.push(name.into());
        u32::try_from(self.packs.len() - 1).unwrap_or(u32::MAX)
    }
}

/// The lease is in the name: no other writer uses it, and a collector knows which packs are older than itself.
pub fn pack_name(generation: u64, number: u64) -> String {
    format!("{generation:016x}-{number:08x}")
}

/// The lease of an object's name.
pub fn generation_of(name: &str) -> Option<u64> {
    let (generation, _) = name.split_once('-')?;
    u64::from_str_radix(generation, 16).ok()
}
