//! How a sandbox begins: one request, one place that decides, one way back.
//!
//! Each beginning comes from a backend, or from a sandbox that stands and that the backend has given out as a source. A
//! beginning is used up when the sandbox is made, so that none can be made of it twice.

use crate::begun::Begun;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::random::new_id;
use crate::sandbox::Sandbox;
use paddock_backends::{
    AdoptError, ForkBegun, ForkComposed, Landing, PausedVm, Purpose, Raised, ZygoteSandbox,
};
use paddock_model::{Guarantees, Root, SandboxId, Spec};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// A request for the fence of a sandbox.
pub struct Request<'a> {
    pub id: &'a SandboxId,
    /// By its name; `None`: the first that meets the demands of the spec.
    pub backend: Option<&'a str>,
    pub spec: &'a Spec,
    pub beginning: Beginning<'a>,
}

impl<'a> Request<'a> {
    pub fn new(
        id: &'a SandboxId,
        backend: Option<&'a str>,
        spec: &'a Spec,
        beginning: Beginning<'a>,
    ) -> Request<'a> {
        Request { id, backend, spec, beginning }
    }
}

pub enum Beginning<'a> {
    /// With its root, its disk and a new guest.
    Fresh(Purpose),
    /// With memory that a fence has kept, over a disk of the same moment. Its guest is to be resumed.
    FromMemory(&'a Path),
    /// As a copy of a VM that stands still; `renamed`: with names of its own. Its guest is to be resumed. The guarantees
    /// are those of the VM, as the caller has changed them for a copy.
    CopyOfVm { vm: &'a dyn PausedVm, renamed: bool, guarantees: Guarantees },
    /// With a zygote's interpreter, which is forked into it when its guest is ready.
    FromZygote(&'a dyn ZygoteSandbox),
    /// With interpreters of a running sandbox, copied as they stand.
    LiveFork(HalfFork<Box<dyn ForkComposed>>),
    /// An earlier engine has made it, and it stands. Its guest is to be resumed. The guarantees are those that were
    /// recorded.
    Adopted(Guarantees),
}

impl Engine {
    /// The fence of a sandbox, however it begins. Blocks for a moment; until its VM runs where it has one.
    pub fn begin(&self, request: Request<'_>) -> Result<Begun, EngineError> {
        let started = Instant::now();
        let Request { id, backend, spec, beginning } = request;
        match beginning {
            Beginning::Fresh(purpose) => {
                spec.limits.check()?;
                let backend = self.select(backend, spec)?;
                let root = self.hold_root(spec);
                let raised = backend.create(id, spec, purpose)?;
                // The guarantees are collected while the guest builds its inside.
                Ok(Begun::of(raised, backend.guarantees(spec), started, root))
            }
            Beginning::FromMemory(memory) => {
                spec.limits.check()?;
                let backend = self.select(backend, spec)?;
                let raised = backend.create_from_memory(id, spec, memory)?;
                Ok(Begun::of(raised, backend.guarantees(spec), started, None))
            }
            Beginning::CopyOfVm { vm, renamed, guarantees } => {
                Ok(Begun::of(vm.copy(id, spec, renamed)?, guarantees, started, None))
            }
            Beginning::FromZygote(zygote) => {
                spec.limits.check()?;
                let root = self.hold_root(spec);
                let (raised, awaited) = zygote.create(id, spec)?;
                let begun = Begun::of(raised, zygote.guarantees(spec), started, root);
                Ok(Begun { awaited: Some(awaited), ..begun })
            }
            Beginning::LiveFork(HalfFork { half, guarantees, started, root }) => {
                Ok(Begun::of(half.finish(&spec.disk)?, guarantees, started, root))
            }
            // The notes of its beginning are among the guarantees that were recorded.
            Beginning::Adopted(guarantees) => {
                let raised = Raised { notes: Vec::new(), ..self.adopt(id, backend)? };
                Ok(Begun::of(raised, guarantees, started, None))
            }
        }
    }

    /// A sandbox whose guest is still coming up: execs may be given to it already, and [`Sandbox::ready`] waits for the
    /// guest. It ends with this engine.
    ///
    /// Precondition: called on a tokio runtime, on which the conversation with the guest then runs.
    pub fn create(&self, backend: Option<&str>, spec: &Spec) -> Result<Sandbox, EngineError> {
        let id = new_id()?;
        let beginning = Beginning::Fresh(Purpose::Passing);
        let begun = self.begin(Request { id: &id, backend, spec, beginning })?;
        Sandbox::start(id, begun)
    }

    fn adopt(&self, id: &SandboxId, backend: Option<&str>) -> Result<Raised, AdoptError> {
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

    /// Begins a sandbox into which interpreters of `source` are copied as they stand, and the way of those into it.
    /// [`Beginning::LiveFork`] takes the rest. Blocks for a moment.
    pub fn prepare_live_fork(
        &self,
        source: &Sandbox,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<PreparedLiveFork, EngineError> {
        let started = Instant::now();
        spec.limits.check()?;
        let root = self.hold_root(spec);
        let (landing, half) = source.begin_live_fork(id, spec, interpreters)?;
        let mut guarantees = source.guarantees.clone();
        let nested = "its source's work can send signals to its processes, and read and write the memory of contexts that were \
                      carried and of what they start, and the files that those see: the kernel gives whoever is forked from \
                      rights over the fork";
        guarantees.weaknesses.retain(|weakness| weakness != nested);
        guarantees.weaknesses.push(nested.into());
        Ok((landing, HalfFork { half, guarantees, started, root }))
    }

    /// A lock on a built root, so that it cannot be removed meanwhile.
    fn hold_root(&self, spec: &Spec) -> Option<File> {
        match &spec.root {
            Root::Directory { path } => paddock_images::built::hold(self.state(), path),
            Root::HostUsr => None,
        }
    }
}

/// The way of interpreters into a live fork, and its first half.
pub type PreparedLiveFork = (Box<dyn Landing>, HalfFork<Box<dyn ForkBegun>>);

/// A live fork whose guest waits for its plan, or for its disk alone. Dropped, it is taken down.
pub struct HalfFork<T> {
    half: T,
    guarantees: Guarantees,
    started: Instant,
    root: Option<File>,
}

impl HalfFork<Box<dyn ForkBegun>> {
    /// Makes the rest of the fork, except its disk. Blocks for a moment.
    pub fn compose(self) -> Result<HalfFork<Box<dyn ForkComposed>>, EngineError> {
        let HalfFork { half, guarantees, started, root } = self;
        Ok(HalfFork { half: half.compose()?, guarantees, started, root })
    }
}
