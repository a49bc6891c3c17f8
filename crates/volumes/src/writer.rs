//! The one writer of a volume. Its lease is fenced: its objects in the store count only by a swap of the head, and the
//! head takes no swap from a lease that is not the last.

use crate::VolumeError;
use crate::commit::{Build, Committed};
use crate::head::{Head, Kind, Lease, Version, now_ms};
use crate::index::Index;
use crate::key::Cipher;
use crate::manifest::Manifest;
use crate::pack::{Pack, pack_name};
use crate::scan::Limits;
use crate::store::{Volumes, not_held, there};
use bytes::Bytes;
use futures_util::{TryStreamExt, stream};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Packs that are under way at the same time.
const UPLOADS: usize = 4;

/// Enough to go on with a lease after this process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub tenant: String,
    pub name: String,
    pub id: String,
    pub generation: u64,
    pub holder: String,
}

pub struct Writer {
    volumes: Volumes,
    token: Token,
    head: Head,
    /// The version that the next one is made from.
    base: Option<(u64, Arc<Manifest>)>,
    /// The number of the next object of this lease.
    next: u64,
}

/// A version that is ready to be named by the head.
pub(crate) struct New {
    pub manifest: Manifest,
    pub new_bytes: u64,
    pub kind: Kind,
}

/// A manifest as the store has it.
struct Sealed {
    name: String,
    bytes: Bytes,
    hash: String,
}

impl Sealed {
    fn new(
        cipher: &Cipher,
        generation: u64,
        number: u64,
        manifest: &Manifest,
    ) -> Result<Sealed, VolumeError> {
        let name = pack_name(generation, number);
        let mut bytes = Vec::new();
        cipher.seal(name.as_bytes(), &manifest.encode()?, &mut bytes)?;
        let hash = blake3::hash(&bytes).to_hex().to_string();
        Ok(Sealed { name, bytes: bytes.into(), hash })
    }
}

impl Volumes {
    /// Takes the lease, if it is free; with `create` makes a volume that does not exist yet.
    pub async fn acquire(
        &self,
        tenant: &str,
        name: &str,
        holder: &str,
        create: bool,
    ) -> Result<Writer, VolumeError> {
        let lasts = self.0.lease;
        let taken = self.update(tenant, name, |found| {
            let found = found.filter(|head| !head.removed);
            let mut head = match found {
                None if create => Head::new(tenant, name, self.0.key.as_ref())?,
                found => there(found, name)?,
            };
            not_held(&head)?;
            head.generation += 1;
            let expires_at_ms = now_ms() + lasts.as_millis() as u64;
            head.lease = Some(Lease { holder: holder.into(), generation: head.generation, expires_at_ms });
            Ok((head, ()))
        });
        let (head, ()) = taken.await?;
        let token = Token {
            tenant: tenant.into(),
            name: name.into(),
            id: head.id.clone(),
            generation: head.generation,
            holder: holder.into(),
        };
        Ok(Writer { volumes: self.clone(), token, head, base: None, next: 0 })
    }

    /// The same lease again, for a successor of a process that had it.
    pub async fn resume(&self, token: Token) -> Result<Writer, VolumeError> {
        let head = self.head(&token.tenant, &token.name).await?;
        if head.id != token.id {
            return Err(VolumeError::LeaseLost { volume: token.name });
        }
        head.check_lease(token.generation)?;
        // Above every name that the process before it used.
        Ok(Writer { volumes: self.clone(), token, head, base: None, next: now_ms() })
    }
}

impl Writer {
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// The head at the last look at the lease.
    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    pub async fn renew(&mut self) -> Result<(), VolumeError> {
        let lasts = self.volumes.0.lease;
        self.change(move |head| {
            if let Some(lease) = &mut head.lease {
                lease.expires_at_ms = now_ms() + lasts.as_millis() as u64;
            }
        })
        .await
    }

    /// A lease that was lost has nothing to give back.
    pub async fn release(mut self) -> Result<(), VolumeError> {
        match self.change(|head| head.lease = None).await {
            Err(VolumeError::LeaseLost { .. } | VolumeError::NotFound(_)) => Ok(()),
            other => other,
        }
    }

    /// From a directory to a version; if nothing changed, the one before again. `index` is of that directory.
    ///
    /// Precondition: a runtime with more than this task, for the directory is read on another thread.
    pub async fn commit(
        &mut self,
        directory: &Path,
        index: Option<Index>,
        limits: Limits,
        kind: Kind,
    ) -> Result<Committed, VolumeError> {
        self.commit_from(directory, None, index, limits, kind).await
    }

    /// The same from a copy that was made a moment ago, of `live`, which may be written to again. `index` is of `live`.
    pub async fn commit_copy(
        &mut self,
        copy: &Path,
        live: &Path,
        index: Option<Index>,
        limits: Limits,
        kind: Kind,
    ) -> Result<Committed, VolumeError> {
        self.commit_from(copy, Some(live.to_path_buf()), index, limits, kind).await
    }

    async fn commit_from(
        &mut self,
        directory: &Path,
        live: Option<PathBuf>,
        index: Option<Index>,
        limits: Limits,
        kind: Kind,
    ) -> Result<Committed, VolumeError> {
        let base = self.base().await?;
        let (volume, id) = (self.token.name.clone(), self.token.id.clone());
        let (cipher, generation, next) = (self.volumes.cipher(&self.head), self.token.generation, self.next);
        let (sender, receiver) = tokio::sync::mpsc::channel::<Pack>(1);
        let directory = directory.to_path_buf();
        let known = base.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let base = known.as_ref().map(|(_, manifest)| &**manifest);
            let index =
                index.as_ref().filter(|index| index.version == known.as_ref().map(|(number, _)| *number));
            let build = Build {
                volume: &volume,
                id: &id,
                cipher: &cipher,
                generation,
                next_pack: next,
                base,
                index,
                limits,
            };
            let built = build.run(&directory, live.as_deref(), &mut |pack| {
                let gone = |_| VolumeError::io("upload a pack", std::io::ErrorKind::BrokenPipe);
                sender.blocking_send(pack).map_err(gone)
            })?;
            let same = kind != Kind::Kept && base.is_some_and(|base| base.same_tree(&built.manifest));
            // While the last packs are on their way.
            let sealed = match same {
                true => None,
                false => Some(Sealed::new(&cipher, generation, built.next_pack, &built.manifest)?),
            };
            Ok((built, sealed))
        });
        let built = async {
            let failed = |error| VolumeError::io("read a directory", std::io::Error::other(error));
            let (built, sealed): (_, Option<Sealed>) = reading.await.map_err(failed)??;
            // Nothing is named before both are there, so that their order does not matter.
            if let Some(sealed) = &sealed {
                self.put_manifest(sealed).await?;
            }
            Ok::<_, VolumeError>((built, sealed))
        };
        let (uploaded, built) = tokio::join!(self.upload(receiver), built);
        // The reason why packs were not taken comes before the error that they were not.
        uploaded?;
        let (mut built, sealed) = built?;
        self.next = built.next_pack;
        let Some(sealed) = sealed else {
            let number = base.as_ref().map(|(number, _)| *number);
            let version = self.head.version(number)?.ok_or_else(|| self.no_version(number.unwrap_or(0)))?;
            built.index.version = number;
            return Ok(Committed {
                version: version.clone(),
                changed: false,
                index: built.index,
                skipped: built.skipped,
                exact: built.exact,
            });
        };
        self.next += 1;
        let new = New { manifest: built.manifest, new_bytes: built.new_bytes, kind };
        let version = self.name(new, sealed).await?;
        built.index.version = Some(version.number);
        Ok(Committed {
            version,
            changed: true,
            index: built.index,
            skipped: built.skipped,
            exact: built.exact,
        })
    }

    /// An earlier version again, as a new one.
    pub async fn restore(&mut self, number: u64) -> Result<Version, VolumeError> {
        let by = self.token.holder.clone();
        let mut made = None;
        self.change_checked(|head| {
            let Some(found) = head.version(Some(number))?.cloned() else { return Ok(()) };
            let version = Version {
                number: head.next_version,
                kind: Kind::Restore,
                at_ms: now_ms(),
                by: by.clone(),
                from: Some(number),
                stored_bytes: 0,
                ..found
            };
            head.next_version += 1;
            head.current = Some(version.number);
            head.versions.push(version.clone());
            made = Some(version);
            Ok(())
        })
        .await?;
        self.base = None;
        made.ok_or_else(|| self.no_version(number))
    }

    fn no_version(&self, version: u64) -> VolumeError {
        VolumeError::NoVersion { volume: self.token.name.clone(), version }
    }

    /// The version that the next one is made from.
    pub(crate) async fn base(&mut self) -> Result<Option<(u64, Arc<Manifest>)>, VolumeError> {
        let wanted = self.head.current;
        if self.base.as_ref().map(|(number, _)| *number) != wanted {
            self.base = match self.head.version(wanted)? {
                Some(version) => {
                    Some((version.number, self.volumes.remembered_manifest(&self.head, version).await?))
                }
                None => None,
            };
        }
        Ok(self.base.clone())
    }

    pub(crate) async fn upload(
        &self,
        receiver: tokio::sync::mpsc::Receiver<Pack>,
    ) -> Result<(), VolumeError> {
        let packs = stream::unfold(receiver, |mut receiver| async {
            let pack = receiver.recv().await?;
            Some((Ok::<Pack, VolumeError>(pack), receiver))
        });
        let (objects, id) = (&self.volumes.0.objects, &self.token.id);
        let put = |pack: Pack| async move {
            objects.put(&["data", id, "packs", &pack.name], pack.bytes.into()).await
        };
        packs.map_ok(put).try_buffer_unordered(UPLOADS).try_for_each(|()| async { Ok(()) }).await
    }

    pub(crate) fn next_object(&mut self) -> &mut u64 {
        &mut self.next
    }

    /// Writes the manifest, then names it in the head.
    pub(crate) async fn publish(&mut self, new: New) -> Result<Version, VolumeError> {
        let cipher = self.volumes.cipher(&self.head);
        let sealed = Sealed::new(&cipher, self.token.generation, self.next, &new.manifest)?;
        self.next += 1;
        self.put_manifest(&sealed).await?;
        self.name(new, sealed).await
    }

    async fn put_manifest(&self, sealed: &Sealed) -> Result<(), VolumeError> {
        let name = ["data", &self.token.id, "manifests", &sealed.name];
        self.volumes.0.objects.put(&name, sealed.bytes.clone()).await
    }

    /// Names it in the head: that one swap is the commit.
    async fn name(&mut self, new: New, sealed: Sealed) -> Result<Version, VolumeError> {
        let mut version = Version {
            number: 0,
            kind: new.kind,
            at_ms: now_ms(),
            by: self.token.holder.clone(),
            from: self.base.as_ref().map(|(number, _)| *number),
            manifest: sealed.name,
            manifest_bytes: sealed.bytes.len() as u64,
            manifest_hash: sealed.hash,
            files: new.manifest.files(),
            bytes: new.manifest.bytes(),
            stored_bytes: new.new_bytes + sealed.bytes.len() as u64,
        };
        let keep = self.volumes.0.keep_versions;
        self.change_checked(|head| {
            version.number = head.next_version;
            head.next_version += 1;
            head.versions.push(version.clone());
            if version.kind != Kind::Kept {
                head.current = Some(version.number);
            }
            retire(head, keep);
            Ok(())
        })
        .await?;
        let manifest = Arc::new(new.manifest);
        self.volumes.0.remembered.keep(&self.token.id, &version, &manifest);
        self.base = Some((version.number, manifest));
        Ok(version)
    }

    async fn change(&mut self, change: impl Fn(&mut Head)) -> Result<(), VolumeError> {
        self.change_checked(|head| {
            change(head);
            Ok(())
        })
        .await
    }

    /// Changes the head while the lease is this one's, and never else.
    pub(crate) async fn change_checked(
        &mut self,
        mut change: impl FnMut(&mut Head) -> Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        let Token { tenant, name, id, generation, .. } = &self.token;
        let changed = self.volumes.update(tenant, name, |found| {
            let mut head = there(found, name)?;
            if head.id != *id {
                return Err(VolumeError::LeaseLost { volume: name.clone() });
            }
            head.check_lease(*generation)?;
            change(&mut head)?;
            Ok((head, ()))
        });
        let (head, ()) = changed.await?;
        self.head = head;
        Ok(())
    }
}

/// The oldest go first, and never the current one.
fn retire(head: &mut Head, keep: usize) {
    while head.versions.len() > keep {
        let current = head.current;
        let Some(at) = head.versions.iter().position(|version| Some(version.number) != current) else {
            return;
        };
        let version = head.versions.remove(at);
        head.retired.push(crate::head::Retired { version, at_ms: now_ms() });
    }
}
