//! The memory of a running sandbox, kept in a directory and brought back by runsc's checkpoint and restore. The
//! supervisor, which runs the sentry inside the fence, does it; commands for it go over a socket beside the guest's.

use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Kept;
use paddock_fences::shared::{identity, lasting, run_directory};
use paddock_model::SandboxId;
use paddock_protocol::{Decoder, Frame, FromGuest, KEEP_MEMORY, RECALL_MEMORY, decode_from_guest};
use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, openat};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{Error, ErrorKind, IoSlice, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Writing out the memory of a large sandbox takes its time.
const SAVE_TIMEOUT: Duration = Duration::from_secs(300);
/// The longest message of the supervisor about a failure, in bytes.
const LONGEST_ANSWER: u32 = 4096;

/// Precondition: `directory` is empty, and only root can reach it.
pub fn keep(state: &Path, id: &SandboxId, directory: &Path) -> Result<Box<dyn Kept>> {
    let (_, record) = lasting::read(state, id).map_err(Error::other)?;
    let Some((uid, gid)) = identity::root_of(record.slot) else {
        let why = "only root can keep the memory of a sandbox: its files have another owner";
        return Err(Error::new(ErrorKind::Unsupported, why));
    };
    let place = File::open(directory)?;
    fchown(&place, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    let supervisor = lasting::connect_for_commands(&run_directory::of_sandbox(state, id))?;
    supervisor.set_read_timeout(Some(SAVE_TIMEOUT))?;
    say(&supervisor, KEEP_MEMORY, Some(&place))?;
    hear(&supervisor)?;
    take(&place, directory)?;
    Ok(Box::new(KeptSentry { supervisor }))
}

/// A sandbox whose memory is kept, and in which nothing runs. Let go of, it goes on.
struct KeptSentry {
    supervisor: UnixStream,
}

impl Kept for KeptSentry {
    fn go_on(self: Box<Self>) -> Result<()> {
        say(&self.supervisor, RECALL_MEMORY, None)?;
        hear(&self.supervisor)
    }

    fn stay_down(self: Box<Self>) -> Result<()> {
        say(&self.supervisor, KEEP_MEMORY, None)
    }
}

/// The stream that came with the plan is closed when the kernel runs again, or says why it does not.
pub fn hear_that_it_runs(stream: &UnixStream) -> std::result::Result<(), CreateError> {
    let (mut decoder, mut buffer, mut stream) = (Decoder::new(), [0; 4096], stream);
    stream.set_read_timeout(Some(SAVE_TIMEOUT)).host(|| "wait for the sandbox".into())?;
    loop {
        let count = stream.read(&mut buffer).host(|| "wait for the sandbox".into())?;
        if count == 0 {
            return Ok(());
        }
        decoder.push(&buffer[..count]);
        match decoder.next_frame().map(|frame| frame.map(said)) {
            Ok(None) => {}
            Ok(Some(Some((step, errno)))) => {
                return Err(CreateError::inside(&step, errno));
            }
            _ => {
                return Err(CreateError::Guest { reason: "it said something else than how it began".into() });
            }
        }
    }
}

fn said(frame: Frame) -> Option<(String, i32)> {
    match frame {
        Frame::Message(body) => match decode_from_guest(&body) {
            Ok(FromGuest::EnterFailed { step, errno }) => Some((step, errno)),
            _ => None,
        },
        Frame::Data { .. } => None,
    }
}

fn say(supervisor: &UnixStream, byte: u8, along: Option<&File>) -> Result<()> {
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let along: Vec<_> = along.iter().map(|file| file.as_fd()).collect();
    if !along.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&along)) {
        return Err(ErrorKind::OutOfMemory.into());
    }
    sendmsg(supervisor, &[IoSlice::new(&[byte])], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A length, and the reason of the failure.
fn hear(mut supervisor: &UnixStream) -> Result<()> {
    let mut length = [0; 4];
    supervisor.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length == 0 {
        return Ok(());
    }
    let mut text = Vec::new();
    supervisor.take(length.min(LONGEST_ANSWER).into()).read_to_end(&mut text)?;
    Err(Error::other(String::from_utf8_lossy(&text).escape_debug().to_string()))
}

/// The written files belong to the engine from here on: another sandbox, with other ids, reads them.
fn take(place: &File, path: &Path) -> Result<()> {
    fchown(place, Some(Uid::ROOT), Some(Gid::ROOT))?;
    fchmod(place, Mode::from_raw_mode(0o755))?;
    for entry in std::fs::read_dir(path)? {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(place, entry?.file_name(), flags, Mode::empty())?;
        fchown(&file, Some(Uid::ROOT), Some(Gid::ROOT))?;
        fchmod(&file, Mode::from_raw_mode(0o444))?;
    }
    Ok(())
}
