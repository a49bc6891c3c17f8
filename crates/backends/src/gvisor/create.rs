//! A sandbox with a sentry, made anew or from kept memory.

use super::fence::engine_fence;
use super::launch::raise;
use super::memory;
use paddock_fences::error::CreateError;
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::adopt::reach;
use paddock_model::{SandboxId, Spec};
use std::path::Path;

pub fn create(state: &Path, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError> {
    raise(state, id, spec, purpose, None).map(|raised| engine_fence(state, id, raised))
}

/// A sandbox that goes on from kept memory, with a stream to its guest.
pub fn create_from_memory(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    kept: &Path,
) -> Result<Raised, CreateError> {
    let raised = raise(state, id, spec, Purpose::Lasting, Some(kept))?;
    memory::hear_that_it_runs(&raised.stream)?;
    Ok(engine_fence(state, id, reach(state, id, raised)?))
}
