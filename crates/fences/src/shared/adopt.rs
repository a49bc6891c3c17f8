//! Sandboxes that an earlier engine left: taken over, or ended.

use super::fence::HostFence;
use super::run_directory;
use super::slot::Lasting;
use super::{lasting, slot};
use crate::error::{AdoptError, CreateError, HostStep};
use crate::fence::{Fence, Raised};
use crate::handover::{self, Handover};
use paddock_model::SandboxId;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// A guest that is alive answers at once.
const GUEST_ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// `backend`: the backend that made the sandbox, if it puts a kernel between the fence and the guest.
pub fn adopt(state: &Path, id: &SandboxId, backend: Option<&str>) -> Result<Raised<HostFence>, AdoptError> {
    let (fence, kept) = find(state, id, backend)?;
    if fence.ended().is_none() {
        // The rest of the sandbox goes with the fence.
        return Err(AdoptError::Gone { id: id.clone(), detail: "its guest runs no more".into() });
    }
    let connected = lasting::connect(&run_directory::of_sandbox(state, id)).and_then(|stream| {
        let network = kept.network.then(|| handover::receive(&stream, GUEST_ANSWER_TIMEOUT)).transpose()?;
        Ok((stream, network.map(Handover::Here)))
    });
    match connected {
        Ok((stream, network)) => Ok(Raised { fence, stream, network, notes: kept.notes }),
        Err(source) => {
            // The sandbox may be reached another time; an engine that does not want it sweeps it.
            Box::new(fence).leave();
            Err(AdoptError::Connect { id: id.clone(), source })
        }
    }
}

/// The same sandbox with a new stream to its guest, which has gone on from kept memory.
pub fn reach<F>(state: &Path, id: &SandboxId, raised: Raised<F>) -> Result<Raised<F>, CreateError> {
    let stream = lasting::connect(&run_directory::of_sandbox(state, id)).host(|| "reach the guest".into())?;
    // Every connection gets the network link first.
    let network = raised.network.as_ref().map(|_| handover::receive(&stream, GUEST_ANSWER_TIMEOUT));
    let network = network.transpose().host(|| "take over the network".into())?;
    Ok(Raised { stream, network: network.map(Handover::Here), ..raised })
}

/// `backend` as in [`adopt`].
pub fn stands(state: &Path, id: &SandboxId, backend: Option<&str>) -> bool {
    let Ok((record, kept)) = lasting::read(state, id) else { return false };
    let ours = kept.between.as_deref() == backend;
    ours && record.guest.is_some_and(|(pid, started)| slot::is_running(pid, started))
}

/// `backend` as in [`adopt`].
pub fn remove(state: &Path, id: &SandboxId, backend: Option<&str>) -> Result<(), AdoptError> {
    let (mut fence, _) = find(state, id, backend)?;
    let removed = fence.destroy();
    removed.map(drop).map_err(|source| AdoptError::Connect { id: id.clone(), source })
}

fn find(state: &Path, id: &SandboxId, backend: Option<&str>) -> Result<(HostFence, Lasting), AdoptError> {
    let (record, kept) = lasting::read(state, id)?;
    if kept.between.as_deref() != backend {
        return Err(AdoptError::Foreign { id: id.clone() });
    }
    Ok((HostFence::found(state, record, &kept), kept))
}

/// `backend` as in [`adopt`].
pub fn sweep(
    state: &Path,
    keep: &BTreeSet<SandboxId>,
    backend: Option<&str>,
) -> std::io::Result<Vec<SandboxId>> {
    let ours = slot::lasting(state).into_iter().filter(|(_, kept)| kept.between.as_deref() == backend);
    let unwanted = ours.filter(|(_, kept)| !keep.contains(&kept.id));
    let mut fences: Vec<(SandboxId, HostFence)> =
        unwanted.map(|(record, kept)| (kept.id.clone(), HostFence::found(state, record, &kept))).collect();
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
