//! The content of chunks: fetched, opened, and held against the hash that they are named by.

use crate::cache::Cache;
use crate::key::{Cipher, hex};
use crate::manifest::{Chunk, LONGEST, Manifest};
use crate::objects::Objects;
use crate::{Version, VolumeError};
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::Arc;

/// No pack is longer.
const LONGEST_PACK: u64 = 64 << 20;
/// So many packs are held at a time; neighbours in a tree share them.
const HELD: usize = 6;

#[derive(Clone)]
pub struct Reader {
    pub objects: Objects,
    pub cache: Option<Arc<Cache>>,
    pub cipher: Cipher,
    pub volume: String,
    pub id: String,
}

impl Reader {
    pub async fn manifest(&self, version: &Version) -> Result<Manifest, VolumeError> {
        let damaged = |reason: String| VolumeError::Corrupt {
            volume: self.volume.clone(),
            what: format!("the manifest of version {}", version.number),
            reason,
        };
        let name = ["data", &self.id, "manifests", &version.manifest];
        let stored =
            self.objects.get(&name, LONGEST).await?.ok_or_else(|| damaged("it is missing".into()))?;
        let (volume, wanted, cipher) = (self.volume.clone(), version.clone(), self.cipher.clone());
        let read = tokio::task::spawn_blocking(move || {
            if blake3::hash(&stored).to_hex().as_str() != wanted.manifest_hash {
                return Err("its hash is not what was committed".to_string());
            }
            let plain = cipher.open(wanted.manifest.as_bytes(), &stored);
            Manifest::decode(&plain.ok_or("it does not open with the key")?)
        });
        let read = read.await.map_err(|error| {
            VolumeError::io(format!("read volume `{volume}`"), std::io::Error::other(error))
        })?;
        read.map_err(damaged)
    }

    /// One chunk, without the rest of its pack.
    pub async fn chunk(&self, manifest: &Manifest, chunk: &Chunk) -> Result<Vec<u8>, VolumeError> {
        let pack = pack_of(manifest, chunk);
        if let Some(cached) = self.cached(pack).await
            && let Some(plain) = cut(&cached, chunk).and_then(|stored| self.open(chunk, stored))
        {
            return Ok(plain);
        }
        let range = u64::from(chunk.offset)..u64::from(chunk.offset) + u64::from(chunk.stored);
        let stored = self.objects.get_range(&["data", &self.id, "packs", pack], range).await?;
        let stored = stored.ok_or_else(|| self.damaged(chunk, pack, "the pack is missing"))?;
        self.open(chunk, &stored).ok_or_else(|| self.damaged(chunk, pack, "its hash is not its name"))
    }

    async fn cached(&self, pack: &str) -> Option<Bytes> {
        let (cache, id, pack) = (self.cache.clone()?, self.id.clone(), pack.to_string());
        tokio::task::spawn_blocking(move || cache.get(&id, &pack)).await.ok()?.map(Bytes::from)
    }

    async fn pack(&self, pack: &str, fresh: bool) -> Result<Option<Bytes>, VolumeError> {
        if !fresh && let Some(cached) = self.cached(pack).await {
            return Ok(Some(cached));
        }
        let bytes = self.objects.get(&["data", &self.id, "packs", pack], LONGEST_PACK).await?;
        if let (Some(bytes), Some(cache)) = (&bytes, &self.cache) {
            let (cache, id, pack, bytes) = (cache.clone(), self.id.clone(), pack.to_string(), bytes.clone());
            tokio::task::spawn_blocking(move || cache.put(&id, &pack, &bytes));
        }
        Ok(bytes)
    }

    fn open(&self, chunk: &Chunk, stored: &[u8]) -> Option<Vec<u8>> {
        let plain = self.cipher.open(&chunk.id, stored)?;
        (plain.len() == chunk.length as usize && self.cipher.id(&plain) == chunk.id).then_some(plain)
    }

    fn damaged(&self, chunk: &Chunk, pack: &str, reason: &str) -> VolumeError {
        VolumeError::Corrupt {
            volume: self.volume.clone(),
            what: format!("chunk {} in pack {pack}", hex(&chunk.id[..8])),
            reason: reason.into(),
        }
    }
}

/// Many chunks in the order of a tree, for a thread that may block.
pub struct Sequence<'a> {
    reader: &'a Reader,
    manifest: &'a Manifest,
    runtime: tokio::runtime::Handle,
    held: VecDeque<(u32, Bytes)>,
}

impl<'a> Sequence<'a> {
    pub fn new(reader: &'a Reader, manifest: &'a Manifest, runtime: tokio::runtime::Handle) -> Sequence<'a> {
        Sequence { reader, manifest, runtime, held: VecDeque::new() }
    }

    pub fn chunk(&mut self, chunk: &Chunk) -> Result<Vec<u8>, VolumeError> {
        let name = pack_of(self.manifest, chunk);
        for fresh in [false, true] {
            let pack = self.pack(chunk.pack, name, fresh)?;
            let pack = pack.ok_or_else(|| self.reader.damaged(chunk, name, "the pack is missing"))?;
            if let Some(plain) = cut(&pack, chunk).and_then(|stored| self.reader.open(chunk, stored)) {
                return Ok(plain);
            }
            // The damaged copy may be the one in this host's cache.
            self.held.retain(|(number, _)| *number != chunk.pack);
            match &self.reader.cache {
                Some(cache) => cache.drop_pack(&self.reader.id, name),
                None => break,
            }
        }
        Err(self.reader.damaged(chunk, name, "its hash is not its name"))
    }

    fn pack(&mut self, number: u32, name: &str, fresh: bool) -> Result<Option<Bytes>, VolumeError> {
        if let Some((_, bytes)) = self.held.iter().find(|(held, _)| *held == number) {
            return Ok(Some(bytes.clone()));
        }
        let Some(bytes) = self.runtime.block_on(self.reader.pack(name, fresh))? else { return Ok(None) };
        if self.held.len() == HELD {
            self.held.pop_front();
        }
        self.held.push_back((number, bytes.clone()));
        Ok(Some(bytes))
    }
}

fn pack_of<'a>(manifest: &'a Manifest, chunk: &Chunk) -> &'a str {
    manifest.packs.get(chunk.pack as usize).map_or("", String::as_str)
}

fn cut<'a>(pack: &'a Bytes, chunk: &Chunk) -> Option<&'a [u8]> {
    let start = chunk.offset as usize;
    pack.get(start..start.checked_add(chunk.stored as usize)?)
}
