//! Decides if VMs run on the processor itself (KVM). It boots one to find out: a `/dev/kvm` that opens may still run no
//! kernel. The result is kept in the state directory for as long as QEMU, the kernel, Paddock and the device are the
//! same.

use super::kvm_device::DEVICE;
use super::monitor::{Acceleration, Shape};
use super::parts::{Parts, not_for_this_user};
use super::{bake, sparse};
use crate::installed::{self, Stamp, stamp};
use paddock_fences::error::{CreateError, HostStep};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// `off` leaves the device alone. Declared with all others in the command's `env_vars`.
pub const VARIABLE: &str = "PADDOCK_KVM";
/// A processor of its own boots a kernel within a second; one that does not, never does.
const KVM_BOOT_TIMEOUT: Duration = Duration::from_secs(8);
const MEMORY: u64 = 256 << 20;

/// The acceleration that VMs run with, and the reason if it is not KVM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub acceleration: Acceleration,
    pub why_not: Option<String>,
}

impl Decision {
    fn emulated(why: impl Into<String>) -> Decision {
        Decision { acceleration: Acceleration::Emulated, why_not: Some(why.into()) }
    }
}

/// The decisions that this process knows, by state directory.
static KNOWN: Mutex<BTreeMap<PathBuf, Note>> = Mutex::new(BTreeMap::new());

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Note {
    /// The things that the decision holds for: the parts of a bake, and the device as it was at the host's last start.
    base: u64,
    device: Stamp,
    decision: Decision,
}

/// Boots a VM if the answer is not known yet.
pub fn decide(state: &Path, parts: &Parts) -> Decision {
    let device = match usable() {
        Ok(device) => device,
        Err(why) => return Decision::emulated(why),
    };
    let base = bake::base(parts);
    let holds = |note: &Note| (note.base, note.device) == (base, device);
    // Held while a VM boots: other callers wait for the same answer.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(note) = known.get(state).filter(|note| holds(note)) {
        return note.decision.clone();
    }
    let place = state.join("kvm.json");
    let written = std::fs::read(&place).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok());
    let note = written.filter(holds).unwrap_or_else(|| {
        let note = Note { base, device, decision: attempt(state, parts) };
        installed::note(&place, &note);
        note
    });
    known.insert(state.to_path_buf(), note.clone());
    note.decision
}

/// The check without a boot: the device's stamp, or the reason why no boot need be tried.
fn usable() -> Result<Stamp, String> {
    match std::env::var(VARIABLE).as_deref() {
        Ok("off") => return Err(format!("{VARIABLE} is `off`")),
        Ok("" | "auto") | Err(_) => {}
        Ok(other) => {
            return Err(format!("{VARIABLE} is `{}`; known are `auto` and `off`", other.escape_debug()));
        }
    }
    if let Some((missing, _)) = not_for_this_user() {
        return Err(missing.into());
    }
    let opened = rustix::fs::open(DEVICE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    match opened {
        Ok(_) => stamp(Path::new(DEVICE)).map_err(|error| format!("{DEVICE}: {error}")),
        Err(rustix::io::Errno::NOENT) => Err(format!("there is no {DEVICE}")),
        Err(errno) => Err(format!("{DEVICE} cannot be opened: {}", std::io::Error::from(errno))),
    }
}

fn attempt(state: &Path, parts: &Parts) -> Decision {
    let shape =
        Shape { memory: MEMORY, processors: 1, acceleration: Acceleration::Kvm, fixed_addresses: false };
    let booted = sparse::in_memory("machine", shape.memory)
        .and_then(|memory| Ok((memory, sparse::in_memory("state", 0)?)))
        .host(|| "make the memory of a VM".into())
        .and_then(|(memory, kept)| bake::boot(state, parts, shape, &memory, &kept, KVM_BOOT_TIMEOUT));
    match booted {
        Ok(()) => Decision { acceleration: Acceleration::Kvm, why_not: None },
        Err(error) => Decision::emulated(format!("no VM boots on {DEVICE}: {}", whole(&error))),
    }
}

/// The error with its causes, in one line.
fn whole(error: &CreateError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_with_its_causes() {
        let source = std::io::Error::other("two\nlines");
        let text = whole(&CreateError::Host { step: "boot".into(), source });
        assert!(!text.contains('\n') && text.ends_with("two lines"), "{text}");
    }
}
