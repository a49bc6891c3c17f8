//! Sandboxes that an earlier engine left: taken over, or ended.

use super::fence::ProcessFence;
use super::{lasting, slot};
use crate::backend::{AdoptError, Fence, Raised};
use crate::handover::{self, Handover};
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A guest that is alive answers at once.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn adopt(state: &Path, id: &SandboxId) -> Result<Raised, AdoptError> {
    let (record, kept) = lasting::read(state, id)?;
    let fence = ProcessFence::found(state, record, &kept);
    let fence: Box<dyn Fence> = Box::new(fence);
    if fence.ended().is_none() {
        // What is left of it goes with the fence.
        return Err(AdoptError::Gone { id: id.clone(), detail: "its guest runs no more".into() });
    }
    match lasting::connect(&lasting::directory(state, id)) {
        Ok(stream) => {
            let network = kept.network.then(|| handover::receive(&stream, PATIENCE)).transpose();
            match network {
                Ok(network) => {
                    let network = network.map(Handover::Here);
                    Ok(Raised { fence, stream, network, notes: kept.notes })
                }
                Err(source) => {
                    fence.leave();
                    Err(AdoptError::Connect { id: id.clone(), source })
                }
            }
        }
        Err(source) => {
            // It may be reached another time; whoever does not want it sweeps it.
            fence.leave();
            Err(AdoptError::Connect { id: id.clone(), source })
        }
    }
}

pub fn sweep(state: &Path, keep: &BTreeSet<SandboxId>) -> std::io::Result<Vec<SandboxId>> {
    let unwanted = slot::lasting(state)?.into_iter().filter(|(_, kept)| !keep.contains(&kept.id));
    let mut fences: Vec<(SandboxId, ProcessFence)> =
        unwanted.map(|(record, kept)| (kept.id.clone(), ProcessFence::found(state, record, &kept))).collect();
    // All at once first: the kernel takes each apart while the others are told.
    let killed = fences.iter_mut().try_for_each(|(_, fence)| fence.kill());
    let mut swept = Vec::new();
    let mut failed = killed.err();
    for (id, mut fence) in fences {
        match fence.destroy() {
            Ok(_) => swept.push(id),
            Err(error) => failed = Some(error),
        }
    }
    slot::sweep_all(state);
    failed.map_or(Ok(swept), Err)
}
