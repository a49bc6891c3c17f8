//! Keeps the state of a running VM in a directory, and brings it back: QEMU writes it, memory included, to one file.
//! Commands for the guest around the VM go over a socket beside the inner guest's.

use super::create::{Kind, Life, Parts, Recalled, Work, failed, raise, shape};
use super::machine::{Monitor, Origin, Shape, Vmm};
use super::qemu::Qemu;
use super::{above, disk, kvm, probe, qemu, runtime};
use crate::backend::{CreateError, HostStep, Kept, Raised};
use crate::handover::{self, Handover};
use crate::process::lasting;
use paddock_model::{SandboxId, Spec};
use paddock_protocol::{BE_SILENT, Decoder, Frame, FromGuest, GO_ON, decode_from_guest};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub const STATE: &str = "state";
const SHAPE: &str = "shape.json";
/// Time for a VM to flush its disk and fall silent.
const SILENCE: Duration = Duration::from_secs(60);
const HANDOVER: Duration = Duration::from_secs(10);
/// Time to wait for the message about a failure, which is sent at once.
const MOMENT: Duration = Duration::from_secs(3);

/// `shared`: keeps everything but the memory itself, which lies in a file that others see.
///
/// Precondition: `directory` is empty, and only root can reach it.
pub fn keep(
    state: &Path,
    id: &SandboxId,
    kept: Shape,
    directory: &Path,
    shared: bool,
) -> Result<Box<dyn Kept>> {
    let place = lasting::directory(state, id);
    let keeper = silence(&place)?;
    let mut monitor = monitor(&place)?;
    let written = File::create_new(directory.join(STATE))
        .and_then(|file| monitor.keep(&file, shared))
        .and_then(|()| write_shape(directory, kept));
    if let Err(error) = written {
        // The VM goes on as if nothing had been asked.
        let _ = monitor.go_on();
        return Err(error);
    }
    Ok(Box::new(Standing { keeper, monitor, over: false }))
}

/// For an engine that finds the VM later: the VM cannot be asked for the shape that it began with.
pub fn write_shape(directory: &Path, shape: Shape) -> Result<()> {
    std::fs::write(directory.join(SHAPE), serde_json::to_vec(&shape)?)
}

pub fn read_shape(directory: &Path) -> Option<Shape> {
    std::fs::read(directory.join(SHAPE)).ok().and_then(|text| serde_json::from_slice(&text).ok())
}

/// The monitor of a lasting sandbox.
pub fn monitor(place: &Path) -> Result<Box<dyn Monitor>> {
    let runtime = runtime::find()?;
    Qemu { runtime }.monitor(lasting::connect_for_monitor(place)?)
}

/// A VM that is paused since it was kept.
struct Standing {
    keeper: UnixStream,
    monitor: Box<dyn Monitor>,
    over: bool,
}

impl Standing {
    fn release(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.monitor.go_on()?;
        (&self.keeper).write_all(&[GO_ON])
    }
}

impl Kept for Standing {
    fn go_on(mut self: Box<Self>) -> Result<()> {
        self.release()
    }

    fn stay_down(mut self: Box<Self>) -> Result<()> {
        self.over = true;
        Ok(())
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

/// A sandbox that goes on from `memory`, with a stream to its guest.
pub fn recall(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    memory: &Path,
) -> std::result::Result<Raised, CreateError> {
    let parts = Parts::find(state, spec)?;
    let above = above::load(memory)?;
    let recalled = Some(Recalled { connection: random()?, renamed: above.is_some() });
    let work = |disk: File| Kind::Sandbox(Work { spec, life: Life::Lasting, disk, recalled, baking: None });
    let (mut raised, shape, recalled) = match above {
        Some(above) => {
            let kind = work(disk::open(state, spec, Some(&above.disk))?);
            let copy = above.memory.try_clone().host(|| "copy a descriptor".into())?;
            let origin = Origin::Copy { memory: copy.into(), shared: false };
            let (raised, mut monitor) = raise(state, id, kind, &parts, above.shape, origin)?;
            (raised, above.shape, monitor.recall(&above.state, true))
        }
        None => {
            let kept = File::open(memory.join(STATE)).host(|| format!("open {}", memory.display()))?;
            // The sandbox's limits may have changed since; the VM's shape has not.
            let shape = read_shape(memory)
                .unwrap_or_else(|| shape(&spec.limits, kvm::decide(state, &parts).acceleration));
            let kind = work(disk::open(state, spec, None)?);
            let (raised, mut monitor) = raise(state, id, kind, &parts, shape, Origin::Stream)?;
            let recalled = monitor.recall(&kept, false).and_then(|()| monitor.go_on());
            (raised, shape, recalled)
        }
    };
    if shape.fixed_addresses && !qemu::wants_fixed_addresses() {
        raised.notes.push(probe::FIXED.into());
    }
    recalled
        .map_err(|error| failed(&raised, Error::new(error.kind(), format!("the kept memory: {error}"))))?;
    reach(state, id, raised)
}

/// Connects to the guest in a VM that has gone on.
pub fn reach(state: &Path, id: &SandboxId, raised: Raised) -> std::result::Result<Raised, CreateError> {
    let stream = lasting::connect(&lasting::directory(state, id)).host(|| "reach the guest".into())?;
    // Every connection gets the network link first.
    let network = match raised.network {
        Some(_) => Some(handover::receive(&stream, HANDOVER).host(|| "take over the network".into())?),
        None => None,
    };
    Ok(Raised { stream, network: network.map(Handover::Here), ..raised })
}

/// Silences a VM's guest, so that no message is half sent in its port. The guest may speak again when the connection
/// ends.
pub fn silence(place: &Path) -> Result<UnixStream> {
    let keeper = lasting::connect_for_commands(place)?;
    tell(&keeper, BE_SILENT)?;
    Ok(keeper)
}

/// Sends a command to the guest around a VM, and waits until it is done.
pub fn tell(keeper: &UnixStream, what: u8) -> Result<()> {
    keeper.set_read_timeout(Some(SILENCE))?;
    let (mut keeper, mut answer) = (keeper, [0]);
    keeper.write_all(&[what])?;
    keeper.read_exact(&mut answer)
}

pub fn random() -> std::result::Result<u32, CreateError> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty()).host(|| "take random bytes".into())?;
    Ok(u32::from_le_bytes(bytes))
}

/// The reason why the VM ended, if the guest around it has told.
pub fn said(stream: &UnixStream) -> Option<CreateError> {
    match hear(stream, MOMENT) {
        Err(error @ (CreateError::Inside { .. } | CreateError::Limit { .. })) => Some(error),
        _ => None,
    }
}

/// Waits until the VM waits for its orders.
pub fn wait_until_ready(stream: &UnixStream, patience: Duration) -> std::result::Result<(), CreateError> {
    hear(stream, patience)
}

fn hear(mut stream: &UnixStream, patience: Duration) -> std::result::Result<(), CreateError> {
    let (mut decoder, mut buffer) = (Decoder::new(), [0; 4096]);
    let deadline = Instant::now() + patience;
    let guest = |reason: &str| CreateError::Guest { reason: reason.into() };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(guest("the machine did not answer in time"));
        }
        stream.set_read_timeout(Some(left)).host(|| "wait for the machine".into())?;
        let count = match stream.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            count => count.host(|| "wait for the machine".into())?,
        };
        if count == 0 {
            return Err(guest("the machine ended"));
        }
        decoder.push(&buffer[..count]);
        let frame = decoder.next_frame().map_err(|error| guest(&error.to_string()))?;
        let Some(Frame::Message(body)) = frame else { continue };
        return match decode_from_guest(&body) {
            Ok(FromGuest::Ready { .. }) => Ok(()),
            Ok(FromGuest::EnterFailed { step, errno }) => Err(CreateError::inside(&step, errno)),
            _ => Err(guest("it said something else than how it began")),
        };
    }
}
