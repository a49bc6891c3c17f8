//! One entry of a volume made, changed or taken out, without a directory: the rest of the version stays as it is. Links are never
//! followed.

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
        let path = self.checked(path)?;
        self.edit(limits, move |edit, packer, send| {
            edit.make_way(&path, true)?;
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

    /// `parents`: directories that are missing on the way are made, and one that is there already is no error.
    pub async fn make_directory(
        &mut self,
        path: &str,
        mode: u32,
        parents: bool,
        limits: Limits,
    ) -> Result<Version, VolumeError> {
        let path = self.checked(path)?;
        if parents && let Some(version) = self.has_directory(&path).await? {
            return Ok(version);
        }
        self.edit(limits, move |edit, _, _| {
            edit.make_way(&path, parents)?;
            if edit.find(&path).is_ok() {
                return Err(edit.refuse(&path, "there is something of that name already"));
            }
            edit.insert(Entry::directory(&path, mode & MODES));
            Ok(())
        })
        .await
    }

    /// The permission bits of a file or a directory; a link has none.
    pub async fn change_mode(&mut self, path: &str, mode: u32) -> Result<Version, VolumeError> {
        let path = self.checked(path)?;
        self.edit(NO_LIMITS, move |edit, _, _| {
            let at = edit.find(&path).map_err(|_| edit.missing(&path))?;
            if matches!(edit.entries[at].node, Node::Link { .. }) {
                return Err(edit.refuse(&path, "it is a symbolic link, which has no mode of its own"));
            }
            edit.entries[at].mode = mode & MODES;
            Ok(())
        })
        .await
    }

    /// A file, or a directory with everything in it.
    pub async fn remove_path(&mut self, path: &str) -> Result<Version, VolumeError> {
        let wanted = self.checked(path)?;
        self.edit(NO_LIMITS, move |edit, _, _| {
            let before = edit.entries.len();
            edit.entries.retain(|entry| !manifest::is_within(&entry.path, &wanted));
            if edit.entries.len() == before { Err(edit.missing(&wanted)) } else { Ok(()) }
        })
        .await
    }

    /// The current version, if it has a directory of this path.
    async fn has_directory(&mut self, path: &[u8]) -> Result<Option<Version>, VolumeError> {
        let Some((number, manifest)) = self.base().await? else { return Ok(None) };
        match manifest.find(path).is_some_and(|entry| entry.node == Node::Directory) {
            true => Ok(self.head().version(Some(number))?.cloned()),
            false => Ok(None),
        }
    }

    fn checked(&self, path: &str) -> Result<Vec<u8>, VolumeError> {
        manifest::plain_path(&self.token().name, path)
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
        let current = self.head().current.unwrap_or(0);
        let (sender, receiver) = tokio::sync::mpsc::channel::<Pack>(1);
        let reading = tokio::task::spawn_blocking(move || -> Result<(Manifest, u64, u64), VolumeError> {
            let mut new_bytes = 0;
            let mut send = |pack: Pack| {
                new_bytes += pack.bytes.len() as u64;
                let gone = |_| VolumeError::io("upload a pack", std::io::ErrorKind::BrokenPipe);
                sender.blocking_send(pack).map_err(gone)
            };
            let mut packer = Packer::new(&cipher, generation, next, Some(&base));
            let entries = again(&base, &mut packer);
            let mut edit = Edit { volume: volume.clone(), version: current, entries };
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
}

const NO_LIMITS: Limits = Limits { files: u64::MAX, bytes: u64::MAX };

type Send<'a> = dyn FnMut(Pack) -> Result<(), VolumeError> + 'a;

struct Edit {
    volume: String,
    /// The version that is changed.
    version: u64,
    entries: Vec<Entry>,
}

impl Edit {
    /// Directories above it, which are made where they are missing and `parents` is set.
    fn make_way(&mut self, path: &[u8], parents: bool) -> Result<(), VolumeError> {
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        for end in ends.collect::<Vec<_>>() {
            match self.find(&path[..end]) {
                Ok(at) if self.entries[at].node == Node::Directory => {}
                Ok(_) => return Err(self.refuse(&path[..end], "it is no directory")),
                Err(_) if parents => self.insert(Entry::directory(&path[..end], 0o755)),
                Err(_) => return Err(self.missing(&path[..end])),
            }
        }
        Ok(())
    }

    /// Nothing in the place of a file.
    fn make_room(&mut self, path: &[u8]) -> Result<(), VolumeError> {
        let Ok(at) = self.find(path) else { return Ok(()) };
        match self.entries[at].node {
            Node::Directory => Err(self.refuse(path, "it is a directory")),
            Node::Link { .. } => Err(self.refuse(path, "it is a symbolic link, which is not followed")),
            Node::File { .. } => {
                self.entries.remove(at);
                Ok(())
            }
        }
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.find(&entry.path).unwrap_or_else(|at| at);
        self.entries.insert(at, entry);
    }

    fn find(&self, path: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| manifest::order(&entry.path, path))
    }

    fn missing(&self, path: &[u8]) -> VolumeError {
        VolumeError::NoFile { volume: self.volume.clone(), version: self.version, path: shown(path) }
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
