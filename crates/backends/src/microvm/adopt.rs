//! Sandboxes that an earlier engine left: taken over, or ended. Their records are the fence's.

use super::MicrovmBackend;
use super::fence::MicrovmFence;
use super::memory;
use crate::backend::{AdoptError, Raised};
use crate::process::{adopt as fence, lasting};
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::path::Path;

pub fn adopt(state: &Path, id: &SandboxId) -> Result<Raised, AdoptError> {
    let place = lasting::directory(state, id);
    // An engine that was killed while it kept a VM's memory left the VM paused.
    if let Ok(mut monitor) = memory::monitor(&place) {
        let _ = monitor.go_on();
    }
    let raised = fence::adopt(state, id, Some(MicrovmBackend::NAME))?;
    let Some(shape) = memory::read_shape(&place) else {
        raised.fence.leave();
        let detail = "what its machine was begun with cannot be read".into();
        return Err(AdoptError::Damaged { id: id.clone(), detail });
    };
    Ok(Raised { fence: Box::new(MicrovmFence::new(state, id, raised.fence, shape)), ..raised })
}

pub fn sweep(state: &Path, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
    fence::sweep(state, keep, Some(MicrovmBackend::NAME))
}
