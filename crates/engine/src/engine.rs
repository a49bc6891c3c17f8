//! From a spec to a sandbox.

use crate::error::EngineError;
use crate::images::{ImageStore, Progress, ResolvedImage};
use crate::link::Link;
use crate::sandbox::Sandbox;
use paddock_model::{Availability, Guarantees, SandboxId, Spec};
use std::path::{Path, PathBuf};
use std::time::Instant;

pub struct Engine {
    state: PathBuf,
}

impl Engine {
    pub fn new(state: &Path) -> Engine {
        Engine { state: state.to_path_buf() }
    }

    pub fn probe(&self) -> Vec<Availability> {
        paddock_backends::all(&self.state).iter().map(|backend| backend.probe()).collect()
    }

    /// What a sandbox of this spec would have; the spec's demands are not looked at.
    pub fn guarantees(&self, backend: Option<&str>, spec: &Spec) -> Result<Guarantees, EngineError> {
        let undemanding = Spec { require: Vec::new(), ..spec.clone() };
        Ok(paddock_backends::select(paddock_backends::all(&self.state), backend, &undemanding)?
            .guarantees(spec))
    }

    /// The root file system that `reference` names, fetched and unpacked where it has to be.
    pub async fn image(
        &self,
        reference: &str,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, EngineError> {
        let named = |source| EngineError::Image { reference: reference.chars().take(200).collect(), source };
        let store = ImageStore::open(&self.state.join("images")).map_err(named)?;
        store.resolve(reference, progress).await.map_err(named)
    }

    /// A sandbox whose guest is still coming up: commands may be given to it already, and
    /// [`Sandbox::ready`] says whether it did.
    ///
    /// Precondition: called on a tokio runtime, on which the conversation with the guest then runs.
    pub fn create(&self, backend: Option<&str>, spec: &Spec) -> Result<Sandbox, EngineError> {
        let started = Instant::now();
        spec.limits.check()?;
        let backend = paddock_backends::select(paddock_backends::all(&self.state), backend, spec)?;
        let id = SandboxId::from_random(random()?);
        let raised = backend.create(&id, spec)?;
        let lost = |error: std::io::Error| EngineError::Lost { detail: error.to_string() };
        raised.stream.set_nonblocking(true).map_err(lost)?;
        let stream = tokio::net::UnixStream::from_std(raised.stream).map_err(lost)?;
        let link = Link::start(stream);
        // While the guest builds its inside.
        let mut guarantees = backend.guarantees(spec);
        guarantees.weaknesses.extend(raised.notes);
        Ok(Sandbox::new(id, guarantees, raised.fence, link, started))
    }
}

fn random() -> Result<u64, EngineError> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| EngineError::Random { source: errno.into() })?;
    Ok(u64::from_ne_bytes(bytes))
}
