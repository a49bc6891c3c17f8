//! The volumes of one place.

use crate::cache::Cache;
use crate::checkout::{self, Before};
use crate::head::{self, Head, Share, Version};
use crate::index::Index;
use crate::key::{Cipher, Key};
use crate::location::Location;
use crate::manifest::{Entry, Manifest, Node, plain_path};
use crate::objects::Objects;
use crate::reader::{Reader, Sequence};
use crate::remembered::Remembered;
use crate::{VolumeError, check_name};
use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Holes are read as so many zeroes at a time.
const ZEROES: u64 = 1 << 20;

#[derive(Clone)]
pub struct Volumes(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub objects: Objects,
    pub key: Option<Key>,
    cache: Option<Arc<Cache>>,
    /// The versions that each volume keeps; older ones are retired.
    pub keep_versions: usize,
    /// How long a reader may still read a retired version.
    pub grace: Duration,
    /// A writer that was silent for this long is gone.
    pub lease: Duration,
    /// The manifests of the last commits, so that the next commit need not read them again.
    pub remembered: Remembered,
}

/// A directory that is the same as a version.
pub struct Checkout {
    pub manifest: Arc<Manifest>,
    pub index: Index,
}

impl Volumes {
    pub fn new(location: Location, key: Option<Key>, cache: Option<Cache>) -> Volumes {
        // A directory of this host is as near as its cache would be.
        let cache = cache.filter(|_| location.directory.is_none()).map(Arc::new);
        Volumes(Arc::new(Inner {
            objects: Objects::new(location),
            key,
            cache,
            keep_versions: 100,
            grace: Duration::from_secs(3600),
            lease: Duration::from_secs(60),
            remembered: Remembered::default(),
        }))
    }

    /// Other times than the default: versions kept, how long retired ones stay, how long a lease lasts.
    pub fn with_times(self, keep_versions: usize, grace: Duration, lease: Duration) -> Volumes {
        let inner = &self.0;
        Volumes(Arc::new(Inner {
            objects: inner.objects.clone(),
            key: inner.key.clone(),
            cache: inner.cache.clone(),
            keep_versions: keep_versions.max(1),
            grace,
            lease,
            remembered: Remembered::default(),
        }))
    }

    pub fn lease_time(&self) -> Duration {
        self.0.lease
    }

    pub async fn create(&self, tenant: &str, name: &str) -> Result<Head, VolumeError> {
        let created = self.update(tenant, name, |found| match found {
            Some(head) if !head.removed => Err(VolumeError::Exists(name.into())),
            _ => Ok((Head::new(tenant, name, self.0.key.as_ref())?, ())),
        });
        created.await.map(|(head, ())| head)
    }

    pub async fn head(&self, tenant: &str, name: &str) -> Result<Head, VolumeError> {
        check_tenant(tenant)?;
        head::read(&self.0.objects, self.0.key.as_ref(), tenant, name).await
    }

    /// In the order of their names.
    pub async fn list(&self, tenant: &str) -> Result<Vec<Head>, VolumeError> {
        check_tenant(tenant)?;
        let mut names = self.0.objects.folders(&["heads", tenant]).await?;
        names.sort();
        let mut heads = Vec::new();
        for name in names.iter().filter(|name| check_name(name).is_ok()) {
            match self.head(tenant, name).await {
                Ok(head) => heads.push(head),
                Err(VolumeError::NotFound(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(heads)
    }

    pub async fn tenants(&self) -> Result<Vec<String>, VolumeError> {
        let mut tenants = self.0.objects.folders(&["heads"]).await?;
        tenants.retain(|tenant| check_tenant(tenant).is_ok());
        tenants.sort();
        Ok(tenants)
    }

    /// `None` takes it back.
    pub async fn share(
        &self,
        tenant: &str,
        name: &str,
        with: &str,
        share: Option<Share>,
    ) -> Result<Head, VolumeError> {
        check_tenant(with)?;
        let changed = self.update(tenant, name, |found| {
            let mut head = there(found, name)?;
            match share {
                Some(share) => head.shared.insert(with.into(), share),
                None => head.shared.remove(with),
            };
            Ok((head, ()))
        });
        changed.await.map(|(head, ())| head)
    }

    /// Refused while a writer has it.
    pub async fn remove(&self, tenant: &str, name: &str) -> Result<(), VolumeError> {
        let removed = self.update(tenant, name, |found| {
            let mut head = there(found, name)?;
            not_held(&head)?;
            head.removed = true;
            (head.lease, head.current) = (None, None);
            head.versions.clear();
            head.retired.clear();
            head.shared.clear();
            Ok((head, ()))
        });
        let (head, ()) = removed.await?;
        // From here on it cannot be found; if this is cut off, the rest only takes room.
        for part in ["manifests", "packs"] {
            for (object, _) in self.0.objects.list(&["data", &head.id, part]).await? {
                self.0.objects.delete(&["data", &head.id, part, &object]).await?;
            }
        }
        Ok(())
    }

    /// The manifest of a version, or of the current one; `None` if nothing was ever written.
    pub async fn manifest(
        &self,
        head: &Head,
        version: Option<u64>,
    ) -> Result<Option<Arc<Manifest>>, VolumeError> {
        match head.version(version)? {
            Some(version) => self.remembered_manifest(head, version).await.map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn manifest_of(&self, head: &Head, version: &Version) -> Result<Manifest, VolumeError> {
        self.reader(head).manifest(version).await
    }

    /// The same, from memory where it was read or written lately.
    pub(crate) async fn remembered_manifest(
        &self,
        head: &Head,
        version: &Version,
    ) -> Result<Arc<Manifest>, VolumeError> {
        if let Some(manifest) = self.0.remembered.find(&head.id, version) {
            return Ok(manifest);
        }
        let manifest = Arc::new(self.manifest_of(head, version).await?);
        self.0.remembered.keep(&head.id, version, &manifest);
        Ok(manifest)
    }

    /// A file of a version, piece by piece.
    pub async fn open_file(
        &self,
        head: &Head,
        version: Option<u64>,
        path: &str,
    ) -> Result<FileReader, VolumeError> {
        let number = version.or(head.current).unwrap_or(0);
        let missing =
            || VolumeError::NoFile { volume: head.name.clone(), version: number, path: path.into() };
        let plain = plain_path(&head.name, path)?;
        let manifest = self.manifest(head, version).await?.ok_or_else(missing)?;
        let entry = manifest.find(&plain).ok_or_else(missing)?.clone();
        let other = match entry.node {
            Node::File { .. } => None,
            Node::Directory => Some("a directory"),
            Node::Link { .. } => Some("a symbolic link"),
        };
        if let Some(is) = other {
            return Err(VolumeError::NotAFile { volume: head.name.clone(), path: path.into(), is });
        }
        Ok(FileReader { reader: self.reader(head), manifest, entry, at: 0, hole: 0 })
    }

    /// Makes a directory equal to a version. `index` is of that directory, if it was a version before.
    pub async fn checkout(
        &self,
        head: &Head,
        version: Option<u64>,
        directory: &Path,
        index: Option<Index>,
    ) -> Result<Checkout, VolumeError> {
        let found = head.version(version)?.cloned();
        let manifest = match &found {
            Some(version) => Arc::new(self.manifest_of(head, version).await?),
            None => Arc::new(Manifest::empty()),
        };
        let number = found.map_or(0, |version| version.number);
        let before = match index.as_ref().and_then(|index| index.version) {
            Some(was) if was == number => Some(manifest.clone()),
            Some(was) => match head.version(Some(was)) {
                Ok(Some(version)) => Some(Arc::new(self.manifest_of(head, version).await?)),
                _ => None,
            },
            None => None,
        };
        let (reader, directory) = (self.reader(head), directory.to_path_buf());
        let runtime = tokio::runtime::Handle::current();
        let (wanted, name, id) = (manifest.clone(), head.name.clone(), head.id.clone());
        let written = tokio::task::spawn_blocking(move || {
            let mut chunks = Sequence::new(&reader, &wanted, runtime);
            let before =
                before.as_deref().zip(index.as_ref()).map(|(manifest, index)| Before { manifest, index });
            checkout::write_out(&name, &directory, &wanted, before, &mut chunks)?;
            checkout::look(&name, &id, number, &directory)
        });
        let written = written.await.map_err(|error| {
            VolumeError::io(format!("write out volume `{}`", head.name), std::io::Error::other(error))
        })?;
        Ok(Checkout { manifest, index: written? })
    }

    pub(crate) async fn update<T>(
        &self,
        tenant: &str,
        name: &str,
        change: impl FnMut(Option<Head>) -> Result<(Head, T), VolumeError>,
    ) -> Result<(Head, T), VolumeError> {
        check_tenant(tenant)?;
        head::update(&self.0.objects, self.0.key.as_ref(), tenant, name, change).await
    }

    pub(crate) fn cipher(&self, head: &Head) -> Cipher {
        Cipher::new(self.0.key.as_ref(), &head.id)
    }

    fn reader(&self, head: &Head) -> Reader {
        Reader {
            objects: self.0.objects.clone(),
            cache: self.0.cache.clone(),
            cipher: self.cipher(head),
            volume: head.name.clone(),
            id: head.id.clone(),
        }
    }
}

/// The content of one file.
pub struct FileReader {
    reader: Reader,
    manifest: Arc<Manifest>,
    pub entry: Entry,
    at: usize,
    /// How much of the hole that is read now was read.
    hole: u64,
}

impl FileReader {
    pub fn size(&self) -> u64 {
        match self.entry.node {
            Node::File { size, .. } => size,
            _ => 0,
        }
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, VolumeError> {
        let Node::File { pieces, .. } = &self.entry.node else { return Ok(None) };
        let Some((number, length)) = pieces.get(self.at).copied() else { return Ok(None) };
        if let Some(chunk) = self.manifest.chunks.get(number as usize) {
            self.at += 1;
            return self.reader.chunk(&self.manifest, chunk).await.map(|bytes| Some(bytes.into()));
        }
        let zeroes = (length - self.hole).min(ZEROES);
        self.hole += zeroes;
        if self.hole == length {
            (self.at, self.hole) = (self.at + 1, 0);
        }
        Ok(Some(vec![0; zeroes as usize].into()))
    }
}

pub(crate) fn there(found: Option<Head>, name: &str) -> Result<Head, VolumeError> {
    found.filter(|head| !head.removed).ok_or_else(|| VolumeError::NotFound(name.into()))
}

pub(crate) fn not_held(head: &Head) -> Result<(), VolumeError> {
    match head.held() {
        Some((lease, left)) => Err(VolumeError::Busy {
            volume: head.name.clone(),
            holder: lease.holder.clone(),
            seconds: left.as_secs() + 1,
        }),
        None => Ok(()),
    }
}

/// Tenants are one part of a path, and never look like more.
fn check_tenant(tenant: &str) -> Result<(), VolumeError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let right = (1..=128).contains(&tenant.len()) && tenant.bytes().all(known) && !tenant.starts_with('.');
    if right { Ok(()) } else { Err(VolumeError::Name(tenant.chars().take(80).collect())) }
}
