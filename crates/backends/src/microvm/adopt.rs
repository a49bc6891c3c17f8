//! Sandboxes that an earlier engine left: taken over, or ended. Their records are the fence's.

use super::MicrovmBackend;
use super::create::shape;
use super::fence::MicrovmFence;
use super::memory;
use crate::backend::{AdoptError, Raised};
use crate::process::{adopt as fence, lasting};
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::path::Path;

pub fn adopt(state: &Path, id: &SandboxId) -> Result<Raised, AdoptError> {
    // An engine that was killed while it kept a machine left it standing still.
    if let Ok(mut monitor) = memory::monitor(&lasting::directory(state, id)) {
        let _ = monitor.go_on();
    }
    let raised = fence::adopt(state, id, Some(MicrovmBackend::NAME))?;
    let shape = shape(&Default::default());
    Ok(Raised { fence: Box::new(MicrovmFence::new(state, id, raised.fence, shape)), ..raised })
}

pub fn sweep(state: &Path, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
    fence::sweep(state, keep, Some(MicrovmBackend::NAME))
}
