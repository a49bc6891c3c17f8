//! Sandboxes that an earlier engine left: taken over, or ended. Their records are the fence's.

use super::fence::engine_fence_of_another;
use super::{MicrovmBackend, memory};
use paddock_fences::error::AdoptError;
use paddock_fences::fence::{Fence, Raised};
use paddock_fences::shared::{adopt as fence, run_directory};
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::path::Path;

pub fn adopt(state: &Path, id: &SandboxId) -> Result<Raised, AdoptError> {
    let place = run_directory::of_sandbox(state, id);
    // An engine that was killed while it kept a VM's memory left the VM paused.
    if let Ok(mut monitor) = memory::monitor(&place) {
        let _ = monitor.go_on();
    }
    let raised = fence::adopt(state, id, Some(MicrovmBackend::NAME))?;
    let Some(shape) = memory::read_shape(&place) else {
        Box::new(raised.fence).leave();
        let detail = "what its VM was begun with cannot be read".into();
        return Err(AdoptError::Damaged { id: id.clone(), detail });
    };
    Ok(engine_fence_of_another(state, id, raised, shape))
}

pub fn sweep(state: &Path, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
    fence::sweep(state, keep, Some(MicrovmBackend::NAME))
}
