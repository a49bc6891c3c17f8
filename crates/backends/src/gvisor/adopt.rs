//! Sandboxes that an earlier engine left: taken over, or ended. Their records are the fence's.

use super::GvisorBackend;
use super::fence::engine_fence;
use paddock_fences::error::AdoptError;
use paddock_fences::fence::Raised;
use paddock_fences::shared::adopt as fence;
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::path::Path;

pub fn adopt(state: &Path, id: &SandboxId) -> Result<Raised, AdoptError> {
    let raised = fence::adopt(state, id, Some(GvisorBackend::NAME))?;
    Ok(engine_fence(state, id, raised))
}

pub fn sweep(state: &Path, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
    fence::sweep(state, keep, Some(GvisorBackend::NAME))
}
