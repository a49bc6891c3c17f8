//! The operations of the store: objects that are written once, and heads that are swapped.

use crate::error::VolumeError;
use crate::location::Location;
use bytes::Bytes;
use futures_util::TryStreamExt;
use object_store::path::{Path as ObjectPath, PathPart};
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions, UpdateVersion};
use rustix::fs::FlockOperation;
use std::io::{ErrorKind, Write};
use std::ops::Range;
use std::path::PathBuf;

/// Which state of a head was read; a swap goes through only while it is still that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// There was none.
    Nothing,
    /// By the store's own tag.
    Tag(UpdateVersion),
    /// By its content, in a directory of this host.
    Content([u8; 32]),
}

/// The result of a swap.
#[derive(Debug)]
pub enum Swapped {
    Done,
    /// Another writer was faster.
    Overtaken,
    /// It was refused, or its answer was lost: only reading it tells.
    Unanswered(VolumeError),
}

/// The longest head, even if the store says more.
const LONGEST_HEAD: u64 = 32 << 20;

#[derive(Clone)]
pub struct Objects {
    location: Location,
}

impl Objects {
    pub fn new(location: Location) -> Objects {
        Objects { location }
    }

    pub fn is_local(&self) -> bool {
        self.location.directory.is_some()
    }

    /// Writes an object that has no other writer.
    pub async fn put(&self, name: &[&str], bytes: Bytes) -> Result<(), VolumeError> {
        let path = self.path(name);
        let put = self.location.store.put(&path, bytes.into()).await;
        put.map(drop).map_err(|error| VolumeError::store(format!("write {path}"), error))
    }

    /// `None` where there is none. At most `most` bytes.
    pub async fn get(&self, name: &[&str], most: u64) -> Result<Option<Bytes>, VolumeError> {
        let path = self.path(name);
        let failed = |error| VolumeError::store(format!("read {path}"), error);
        let found = match self.location.store.get(&path).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        if found.meta.size > most {
            let reason = format!("it has {} bytes where at most {most} were expected", found.meta.size);
            return Err(VolumeError::io(
                format!("read {path}"),
                std::io::Error::new(ErrorKind::InvalidData, reason),
            ));
        }
        found.bytes().await.map(Some).map_err(failed)
    }

    pub async fn get_range(&self, name: &[&str], range: Range<u64>) -> Result<Option<Bytes>, VolumeError> {
        let path = self.path(name);
        match self.location.store.get_range(&path, range).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(VolumeError::store(format!("read {path}"), error)),
        }
    }

    /// The last parts of the names below a name, with their sizes.
    pub async fn list(&self, name: &[&str]) -> Result<Vec<(String, u64)>, VolumeError> {
        let path = self.path(name);
        let listed: Result<Vec<_>, _> = self.location.store.list(Some(&path)).try_collect().await;
        let listed = listed.map_err(|error| VolumeError::store(format!("list {path}"), error))?;
        let last = |meta: object_store::ObjectMeta| {
            let name = meta.location.filename().map(str::to_string);
            name.map(|name| (name, meta.size))
        };
        Ok(listed.into_iter().filter_map(last).collect())
    }

    /// The names directly below a name that have objects below themselves.
    pub async fn folders(&self, name: &[&str]) -> Result<Vec<String>, VolumeError> {
        let path = self.path(name);
        let listed = self.location.store.list_with_delimiter(Some(&path)).await;
        let listed = listed.map_err(|error| VolumeError::store(format!("list {path}"), error))?;
        let folders = listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_string));
        Ok(folders.collect())
    }

    /// A missing object is no error.
    pub async fn delete(&self, name: &[&str]) -> Result<(), VolumeError> {
        let path = self.path(name);
        match self.location.store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(VolumeError::store(format!("delete {path}"), error)),
        }
    }

    pub async fn read_head(&self, name: &[&str]) -> Result<(Option<Bytes>, Seen), VolumeError> {
        if self.is_local() {
            let bytes = self.get(name, LONGEST_HEAD).await?;
            let seen = bytes.as_ref().map_or(Seen::Nothing, |b| Seen::Content(*blake3::hash(b).as_bytes()));
            return Ok((bytes, seen));
        }
        let path = self.path(name);
        let failed = |error| VolumeError::store(format!("read {path}"), error);
        match self.location.store.get(&path).await {
            Ok(found) => {
                let seen =
                    UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
                Ok((Some(found.bytes().await.map_err(failed)?), Seen::Tag(seen)))
            }
            Err(object_store::Error::NotFound { .. }) => Ok((None, Seen::Nothing)),
            Err(error) => Err(failed(error)),
        }
    }

    /// Puts `bytes` in the place of the head that was seen, or changes nothing.
    pub async fn swap_head(&self, name: &[&str], seen: Seen, bytes: Bytes) -> Result<Swapped, VolumeError> {
        let path = self.path(name);
        let step = || format!("write {path}");
        let mode = match seen {
            seen if self.is_local() => {
                let local = self.local(&path)?;
                let swapped = tokio::task::spawn_blocking(move || swap_file(&local, &seen, &bytes)).await;
                let swapped =
                    swapped.map_err(|error| VolumeError::io(step(), std::io::Error::other(error)))?;
                return swapped.map_err(|error| VolumeError::io(step(), error));
            }
            Seen::Nothing => PutMode::Create,
            Seen::Tag(tag) => PutMode::Update(tag),
            Seen::Content(_) => return Ok(Swapped::Overtaken),
        };
        let options = PutOptions { mode, ..PutOptions::default() };
        match self.location.store.put_opts(&path, bytes.into(), options).await {
            Ok(_) => Ok(Swapped::Done),
            Err(object_store::Error::Precondition { .. } | object_store::Error::AlreadyExists { .. }) => {
                Ok(Swapped::Overtaken)
            }
            Err(
                error @ (object_store::Error::NotImplemented { .. }
                | object_store::Error::NotSupported { .. }),
            ) => Err(VolumeError::store(format!("write {path} on a condition, which fences writers"), error)),
            Err(error) => match VolumeError::store(step(), error) {
                // The answer may have been lost, and not the request.
                error @ VolumeError::Store { .. } => Ok(Swapped::Unanswered(error)),
                other => Err(other),
            },
        }
    }

    fn path(&self, name: &[&str]) -> ObjectPath {
        // Each is one part, with any content.
        let own = self.location.prefix.parts();
        own.chain(name.iter().map(|part| PathPart::from(*part))).collect()
    }

    fn local(&self, path: &ObjectPath) -> Result<Local, VolumeError> {
        let Some(root) = &self.location.directory else {
            return Err(VolumeError::io("find a directory", std::io::Error::from(ErrorKind::NotFound)));
        };
        let locks = root.join("locks");
        let lock = locks.join(blake3::hash(path.as_ref().as_bytes()).to_hex().as_str());
        Ok(Local { file: root.join(path.as_ref()), locks, lock })
    }
}

struct Local {
    file: PathBuf,
    locks: PathBuf,
    lock: PathBuf,
}

/// Compares and renames under a lock, which the kernel lets go of with its process.
fn swap_file(local: &Local, seen: &Seen, bytes: &[u8]) -> std::io::Result<Swapped> {
    std::fs::create_dir_all(&local.locks)?;
    let lock = std::fs::OpenOptions::new().create(true).truncate(false).write(true).open(&local.lock)?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)?;
    let found = match std::fs::read(&local.file) {
        Ok(found) => Seen::Content(*blake3::hash(&found).as_bytes()),
        Err(error) if error.kind() == ErrorKind::NotFound => Seen::Nothing,
        Err(error) => return Err(error),
    };
    if found != *seen {
        return Ok(Swapped::Overtaken);
    }
    let parent = local.file.parent().ok_or(ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(parent)?;
    let mut file = tempfile::Builder::new().prefix(".head").tempfile_in(&local.locks)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(&local.file).map_err(|error| error.error)?;
    std::fs::File::open(parent)?.sync_all()?;
    Ok(Swapped::Done)
}
