//! Keeps the state of a running VM in a directory, for [`super::create`] to bring back: QEMU writes it, memory included, to one file.
//! Commands for the guest around the VM go over a socket beside the inner guest's.

use super::monitor::{Monitor, Shape, Vmm};
use super::qemu::Qemu;
use super::runtime;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Kept;
use paddock_fences::shared::{lasting, run_directory};
use paddock_model::SandboxId;
use paddock_protocol::{BE_SILENT, Decoder, Frame, FromGuest, GO_ON, decode_from_guest};
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

pub const STATE: &str = "state";
const SHAPE: &str = "shape.json";
/// Time for a VM to flush its disk and fall silent.
const SILENCE: Duration = Duration::from_secs(60);
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
    let place = run_directory::of_sandbox(state, id);
    let runner = silence(&place)?;
    let mut monitor = monitor(&place)?;
    let written = File::create_new(directory.join(STATE))
        .and_then(|file| monitor.keep(&file, shared))
        .and_then(|()| write_shape(directory, kept));
    if let Err(error) = written {
        // The VM goes on as if nothing had been asked.
        let _ = monitor.go_on();
        return Err(error);
    }
    Ok(Box::new(KeptVm { runner, monitor, over: false }))
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
struct KeptVm {
    runner: UnixStream,
    monitor: Box<dyn Monitor>,
    over: bool,
}

impl KeptVm {
    fn release(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.monitor.go_on()?;
        (&self.runner).write_all(&[GO_ON])
    }
}

impl Kept for KeptVm {
    fn go_on(mut self: Box<Self>) -> Result<()> {
        self.release()
    }

    fn stay_down(mut self: Box<Self>) -> Result<()> {
        self.over = true;
        Ok(())
    }
}

impl Drop for KeptVm {
    fn drop(&mut self) {
        let _ = self.release();
    }
}

/// Silences a VM's guest, so that no message is half sent in its port. The guest may speak again when the connection
/// ends.
pub fn silence(place: &Path) -> Result<UnixStream> {
    let runner = lasting::connect_for_commands(place)?;
    tell(&runner, BE_SILENT)?;
    Ok(runner)
}

/// Sends a command to the guest around a VM, and waits until it is done.
pub fn tell(runner: &UnixStream, what: u8) -> Result<()> {
    runner.set_read_timeout(Some(SILENCE))?;
    let (mut runner, mut answer) = (runner, [0]);
    runner.write_all(&[what])?;
    runner.read_exact(&mut answer)
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
            return Err(guest("the VM did not answer in time"));
        }
        stream.set_read_timeout(Some(left)).host(|| "wait for the VM".into())?;
        let count = match stream.read(&mut buffer) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => continue,
            count => count.host(|| "wait for the VM".into())?,
        };
        if count == 0 {
            return Err(guest("the VM ended"));
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
