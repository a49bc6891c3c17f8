//! From a spec to a sandbox.

use crate::error::EngineError;
use crate::sandbox::Sandbox;
use paddock_backends::{
    AdoptError, Backend, Cradle, CreateError, Fence, ForkBegun, ForkComposed, Handover, KeepsCgroups,
    Landing, Nursery, Raised,
};
use paddock_images::{ImageStore, NoProgress, Progress, RegistryReach, ResolvedImage};
use paddock_model::{Availability, Guarantees, Requirement, Root, SandboxId, Spec};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

pub struct Engine {
    state: PathBuf,
    _keeps: KeepsCgroups,
}

impl Engine {
    pub fn new(state: &Path) -> Engine {
        Engine { state: state.to_path_buf(), _keeps: KeepsCgroups::begin() }
    }

    pub fn probe(&self) -> Vec<Availability> {
        paddock_backends::all(&self.state).iter().map(|backend| backend.probe()).collect()
    }

    /// The guarantees of a sandbox of this spec; the spec's demands are ignored.
    pub fn guarantees(&self, backend: Option<&str>, spec: &Spec) -> Result<Guarantees, EngineError> {
        let undemanding = Spec { require: Vec::new(), ..spec.clone() };
        Ok(paddock_backends::select(paddock_backends::all(&self.state), backend, &undemanding)?
            .guarantees(spec))
    }

    /// Checks that a backend gives the required guarantees, before anything is made. The limit of a disk is checked
    /// later, when there is a disk.
    pub fn check_required(&self, backend: Option<&str>, spec: &Spec) -> Result<(), EngineError> {
        let mut known = spec.clone();
        known.require.retain(|requirement| *requirement != Requirement::DiskLimit);
        paddock_backends::select(paddock_backends::all(&self.state), backend, &known)?;
        Ok(())
    }

    /// The root file system that `reference` names, fetched and unpacked if necessary.
    pub async fn image(
        &self,
        reference: &str,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, EngineError> {
        let named = |source| EngineError::Image { reference: reference.chars().take(200).collect(), source };
        let store = ImageStore::open(&self.state.join("images")).map_err(named)?;
        store.resolve(reference, progress).await.map_err(named)
    }

    /// As `image` for an absolute path and for an image that was built here. Any other reference is one of a registry,
    /// even if a file of that name exists in the current directory of this process.
    pub async fn image_for_others(
        &self,
        reference: &str,
        reach: &RegistryReach,
    ) -> Result<ResolvedImage, EngineError> {
        if reference.starts_with('/') || reference.starts_with(paddock_images::BUILT) {
            return self.image(reference, &NoProgress).await;
        }
        let named = |source| EngineError::Image { reference: reference.chars().take(200).collect(), source };
        let store = ImageStore::open(&self.state.join("images")).map_err(named)?;
        store.resolve_from_registry(reference, reach, &NoProgress).await.map_err(named)
    }

    /// A sandbox whose guest is still coming up: execs may be given to it already, and [`Sandbox::ready`] waits for the
    /// guest.
    ///
    /// Precondition: called on a tokio runtime, on which the conversation with the guest then runs.
    pub fn create(&self, backend: Option<&str>, spec: &Spec) -> Result<Sandbox, EngineError> {
        let id = new_id()?;
        let raised = self.put_up(&id, backend, spec, false)?;
        Sandbox::start(id, raised)
    }

    /// The fence of a sandbox that outlives this engine. Blocks for a moment.
    pub fn raise(
        &self,
        id: &SandboxId,
        backend: Option<&str>,
        spec: &Spec,
    ) -> Result<RaisedFence, EngineError> {
        self.put_up(id, backend, spec, true)
    }

    /// The same, going on from memory that was kept. Blocks for a moment.
    pub fn raise_from_memory(
        &self,
        id: &SandboxId,
        backend: Option<&str>,
        spec: &Spec,
        memory: &Path,
    ) -> Result<(Raised, Guarantees), EngineError> {
        spec.limits.check()?;
        let backend = paddock_backends::select(paddock_backends::all(&self.state), backend, spec)?;
        let raised = backend.create_from_memory(id, spec, memory)?;
        let mut guarantees = backend.guarantees(spec);
        guarantees.weaknesses.extend(raised.notes.iter().cloned());
        Ok((raised, guarantees))
    }

    /// The directory with memory that sandboxes of this spec, in which `what` was started, can begin with. Blocks for a
    /// moment.
    pub fn bake_place(
        &self,
        backend: Option<&str>,
        spec: &Spec,
        what: &[u8],
    ) -> Result<Option<PathBuf>, EngineError> {
        let backend = paddock_backends::select(paddock_backends::all(&self.state), backend, spec)?;
        Ok(backend.bake_place(spec, what)?)
    }

    /// A sandbox whose memory is kept in that directory. Blocks until its VM runs.
    pub fn raise_to_bake(
        &self,
        id: &SandboxId,
        backend: Option<&str>,
        spec: &Spec,
    ) -> Result<RaisedFence, EngineError> {
        self.raise_by(backend, spec, |backend| backend.create_to_bake(id, spec))
    }

    /// A sandbox that others are copied from. Blocks until its VM runs.
    pub fn raise_stem(
        &self,
        id: &SandboxId,
        backend: Option<&str>,
        spec: &Spec,
    ) -> Result<RaisedFence, EngineError> {
        self.raise_by(backend, spec, |backend| backend.create_stem(id, spec))
    }

    /// The sandbox of an interpreter that is forked into others. Blocks for a moment.
    pub fn raise_nursery(
        &self,
        id: &SandboxId,
        backend: Option<&str>,
        spec: &Spec,
    ) -> Result<(RaisedFence, Arc<dyn Nursery>), EngineError> {
        let started = Instant::now();
        spec.limits.check()?;
        let backend = paddock_backends::select(paddock_backends::all(&self.state), backend, spec)?;
        let root = self.hold_root(spec);
        let (raised, nursery) = backend.create_nursery(id, spec)?;
        Ok((finished(raised, backend.guarantees(spec), started, root), nursery))
    }

    /// A sandbox that such an interpreter is forked into. Blocks for a moment.
    pub fn raise_within(
        &self,
        nursery: &dyn Nursery,
        id: &SandboxId,
        spec: &Spec,
    ) -> Result<(RaisedFence, Box<dyn Cradle>), EngineError> {
        let started = Instant::now();
        spec.limits.check()?;
        let root = self.hold_root(spec);
        let (raised, cradle) = nursery.create(id, spec)?;
        let guarantees = nursery.guarantees(spec);
        Ok((finished(raised, guarantees, started, root), cradle))
    }

    /// A sandbox into which interpreters of `source` are forked live. Blocks for a moment.
    pub fn begin_fork(
        &self,
        source: &Sandbox,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<HalfRaised<Box<dyn ForkBegun>>, EngineError> {
        let started = Instant::now();
        spec.limits.check()?;
        let root = self.hold_root(spec);
        let begun = source.begin_fork(id, spec, interpreters)?;
        let mut guarantees = source.guarantees.clone();
        let nested = "its source's work can send signals to its processes, and read and write the memory of contexts that were \
                      carried and of what they start, and the files that those see: the kernel gives whoever is forked from \
                      rights over the fork";
        guarantees.weaknesses.retain(|weakness| weakness != nested);
        guarantees.weaknesses.push(nested.into());
        Ok(HalfRaised { half: begun, guarantees, started, root })
    }

    /// A lock on a built root, so that it cannot be removed meanwhile.
    fn hold_root(&self, spec: &Spec) -> Option<File> {
        match &spec.root {
            Root::Directory { path } => paddock_images::built::hold(&self.state, path),
            Root::HostUsr => None,
        }
    }

    fn put_up(
        &self,
        id: &SandboxId,
        backend: Option<&str>,
        spec: &Spec,
        lasting: bool,
    ) -> Result<RaisedFence, EngineError> {
        self.raise_by(backend, spec, |backend| backend.create(id, spec, lasting))
    }

    fn raise_by(
        &self,
        backend: Option<&str>,
        spec: &Spec,
        create: impl FnOnce(&dyn Backend) -> Result<Raised, CreateError>,
    ) -> Result<RaisedFence, EngineError> {
        let started = Instant::now();
        spec.limits.check()?;
        let backend = paddock_backends::select(paddock_backends::all(&self.state), backend, spec)?;
        let root = self.hold_root(spec);
        let raised = create(backend.as_ref())?;
        // The guarantees are collected while the guest builds its inside.
        Ok(finished(raised, backend.guarantees(spec), started, root))
    }

    /// Takes over a sandbox that an earlier engine left. Blocks for a moment.
    pub fn adopt(&self, id: &SandboxId, backend: Option<&str>) -> Result<Raised, AdoptError> {
        let mut why = None;
        for candidate in self.backends(backend) {
            match candidate.adopt(id) {
                Ok(raised) => return Ok(raised),
                Err(AdoptError::Foreign { .. }) => {}
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(|| AdoptError::Gone {
            id: id.clone(),
            detail: "its backend is not known".into(),
        }))
    }

    /// Ends every lasting sandbox that is not in `keep`; returns their ids.
    pub fn sweep(&self, keep: &BTreeSet<SandboxId>) -> Vec<SandboxId> {
        let swept = self.backends(None).into_iter().map(|backend| (backend.name(), backend.sweep(keep)));
        let mut all = Vec::new();
        for (backend, swept) in swept {
            match swept {
                Ok(ids) => all.extend(ids),
                Err(error) => tracing::warn!(backend, %error, "what was left behind could not be removed"),
            }
        }
        all
    }

    /// True if the guest of a lasting sandbox runs, and is not just being ended.
    pub fn stands(&self, id: &SandboxId) -> bool {
        self.backends(None).into_iter().any(|backend| backend.stands(id))
    }

    /// Removes the remains of one sandbox that has ended by itself.
    pub fn remove(&self, id: &SandboxId) {
        for backend in self.backends(None) {
            match backend.remove(id) {
                Ok(()) => return,
                Err(AdoptError::Foreign { .. }) => {}
                Err(error) => tracing::debug!(%error, "nothing was left"),
            }
        }
    }

    fn backends(&self, name: Option<&str>) -> Vec<Box<dyn Backend>> {
        let all = paddock_backends::all(&self.state).into_iter();
        all.filter(|backend| name.is_none_or(|name| name == backend.name())).collect()
    }
}

fn finished(raised: Raised, mut guarantees: Guarantees, started: Instant, root: Option<File>) -> RaisedFence {
    guarantees.weaknesses.extend(raised.notes.iter().cloned());
    let Raised { fence, stream, network, .. } = raised;
    RaisedFence { fence, stream, network, guarantees, started, root }
}

/// A fork whose guest waits for its plan, or for its disk alone.
pub struct HalfRaised<T> {
    half: T,
    guarantees: Guarantees,
    started: Instant,
    root: Option<File>,
}

impl HalfRaised<Box<dyn ForkBegun>> {
    /// The way of the interpreters into the fork. To be called once.
    pub fn landing(&mut self) -> Result<Box<dyn Landing>, EngineError> {
        Ok(self.half.landing()?)
    }

    /// Makes the rest of the fork, except its disk. Blocks for a moment.
    pub fn compose(self, spec: &Spec) -> Result<HalfRaised<Box<dyn ForkComposed>>, EngineError> {
        let HalfRaised { half, guarantees, started, root } = self;
        Ok(HalfRaised { half: half.compose(spec)?, guarantees, started, root })
    }
}

impl HalfRaised<Box<dyn ForkComposed>> {
    /// Finishes the fork, with its disk. Blocks for a moment.
    pub fn finish(self, spec: &Spec) -> Result<RaisedFence, EngineError> {
        let HalfRaised { half, guarantees, started, root } = self;
        Ok(finished(half.finish(spec)?, guarantees, started, root))
    }
}

/// A fence that stands, before the first message to its guest.
pub struct RaisedFence {
    pub fence: Box<dyn Fence>,
    pub stream: UnixStream,
    pub network: Option<Handover>,
    pub guarantees: Guarantees,
    pub started: Instant,
    /// The root of an image, held open so that it cannot be removed meanwhile.
    pub root: Option<File>,
}

pub fn new_id() -> Result<SandboxId, EngineError> {
    Ok(SandboxId::from_random(random()?))
}

pub fn random() -> Result<u64, EngineError> {
    random_number().map_err(|source| EngineError::Random { source })
}

pub(crate) fn random_number() -> std::io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
