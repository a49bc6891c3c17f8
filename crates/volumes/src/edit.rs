//! One file put into a volume or taken out of it, without a directory: the rest of the version stays as it is.

use crate::head::{Kind, Version, now_ms};
use crate::manifest::{self, Entry, MODES, Manifest, Node};
use crate::pack::{Pack, Packer};
use crate::scan::{Limits, shown};
use crate::writer::New;
use crate::{VolumeError, Writer};
use serde_bytes::ByteBuf;
use std::fs::File;
use std::sync::Arc;

impl Writer {
    /// Directories that are missing on the way are made.
    pub async fn put_file(
        &mut self,
        path: &str,
        content: File,
        mode: u32,
        limits: Limits,
    ) -> Result<Version, VolumeError> {
        let path = path.trim_matches('/').as_bytes().to_vec();
        manifest::check_path(&path).map_err(|problem| self.unkept(&path, problem))?;
        self.edit(limits, move |edit, packer, send| {
            edit.make_room(&path)?;
            let size = content.metadata().map_err(|error| VolumeError::io("read a file", error))?.len();
            let pieces = crate::commit::content_of(&content, size, packer, send)?;
            let modified = (i64::try_from(now_ms() / 1000).unwrap_or(0), 0);
            let (path, mode) = (ByteBuf::from(path), mode & MODES);
            edit.insert(Entry { path, mode, modified, node: Node::File { size, pieces } });
            Ok(())
        })
        .await
    }

    /// A file, or a directory with everything in it.
    pub async fn remove_path(&mut self, path: &str) -> Result<Version, VolumeError> {
        let wanted = path.trim_matches('/').as_bytes().to_vec();
        manifest::check_path(&wanted).map_err(|problem| self.unkept(&wanted, problem))?;
        let current = self.head().current.unwrap_or(0);
        let missing =
            VolumeError::NoFile { volume: self.token().name.clone(), version: current, path: path.into() };
        let all = Limits { files: u64::MAX, bytes: u64::MAX };
        self.edit(all, move |edit, _, _| {
            let before = edit.entries.len();
            edit.entries.retain(|entry| !is_within(&entry.path, &wanted));
            if edit.entries.len() == before { Err(missing) } else { Ok(()) }
        })
        .await
    }

    async fn edit(
        &mut self,
        limits: Limits,
        change: impl FnOnce(&mut Edit, &mut Packer<'_>, &mut Send<'_>) -> Result<(), VolumeError>
        + std::marker::Send
        + 'static,
    ) -> Result<Version, VolumeError> {
        let base = match self.base().await? {
            Some((_, manifest)) => manifest,
            None => Arc::new(Manifest::empty()),
        };
        let (volume, cipher) = (self.token().name.clone(), self.volumes().cipher(self.head()));
        let (generation, next) = (self.token().generation, *self.next_object());
        let (sender, receiver) = tokio::sync::mpsc::channel::<Pack>(1);
        let reading = tokio::task::spawn_blocking(move || -> Result<(Manifest, u64, u64), VolumeError> {
            let mut new_bytes = 0;
            let mut send = |pack: Pack| {
                new_bytes += pack.bytes.len() as u64;
                let gone = |_| VolumeError::io("upload a pack", std::io::ErrorKind::BrokenPipe);
                sender.blocking_send(pack).map_err(gone)
            };
            let mut packer = Packer::new(&cipher, generation, next, Some(&base));
            let mut edit = Edit { volume: volume.clone(), entries: again(&base, &mut packer) };
            change(&mut edit, &mut packer, &mut send)?;
            let next = packer.close(&mut send)?;
            let manifest = Manifest::new(packer.packs, packer.chunks, edit.entries);
            for (what, wanted, allowed) in
                [("files", manifest.files(), limits.files), ("bytes", manifest.bytes(), limits.bytes)]
            {
                if wanted > allowed {
                    return Err(VolumeError::Quota { volume, what, wanted, allowed });
                }
            }
            Ok((manifest, next, new_bytes))
        });
        let uploaded = self.upload(receiver).await;
        let read = reading.await;
        uploaded?;
        let failed = |error| VolumeError::io("read a file", std::io::Error::other(error));
        let (manifest, next, new_bytes) = read.map_err(failed)??;
        *self.next_object() = next;
        self.publish(New { manifest, new_bytes, kind: Kind::Commit }).await
    }

    fn unkept(&self, path: &[u8], problem: &str) -> VolumeError {
        VolumeError::Unkept {
            volume: self.token().name.clone(),
            path: shown(path),
            reason: format!("its path {problem}"),
        }
    }
}

type Send<'a> = dyn FnMut(Pack) -> Result<(), VolumeError> + 'a;

struct Edit {
    volume: String,
    entries: Vec<Entry>,
}

impl Edit {
    /// Directories above it, and nothing in its place.
    fn make_room(&mut self, path: &[u8]) -> Result<(), VolumeError> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.collect::<Vec<_>>() {
            match self.find(&path[..end]) {
                Ok(at) if self.entries[at].node == Node::Directory => {}
                Ok(_) => return Err(self.refuse(&path[..end], "it is no directory")),
                Err(_) => self.insert(Entry {
                    path: ByteBuf::from(&path[..end]),
                    mode: 0o755,
                    modified: (i64::try_from(now_ms() / 1000).unwrap_or(0), 0),
                    node: Node::Directory,
                }),
            }
        }
        match self.find(path) {
            Ok(at) if self.entries[at].node == Node::Directory => Err(self.refuse(path, "it is a directory")),
            Ok(at) => {
                self.entries.remove(at);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.find(&entry.path).unwrap_or_else(|at| at);
        self.entries.insert(at, entry);
    }

    fn find(&self, path: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| manifest::order(&entry.path, path))
    }

    fn refuse(&self, path: &[u8], reason: &str) -> VolumeError {
        VolumeError::Unkept { volume: self.volume.clone(), path: shown(path), reason: reason.into() }
    }
}

/// The entries of the base, with the numbers that their chunks have now.
fn again(base: &Manifest, packer: &mut Packer<'_>) -> Vec<Entry> {
    let mut entries = base.entries.clone();
    for entry in &mut entries {
        if let Node::File { pieces, .. } = &mut entry.node {
            for (number, _) in pieces {
                *number = packer.carry(*number);
            }
        }
    }
    entries
}

fn is_within(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
