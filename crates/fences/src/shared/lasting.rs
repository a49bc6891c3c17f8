//! The parts of a sandbox that outlive its engine: a directory with the socket on which its guest waits for the next
//! engine, and a record of the facts which that engine needs.
//!
//! The slot's record names the directory before it is made, so that a sweep finds it.

use super::run_directory;
use super::slot::{Lasting, Record};
use crate::error::AdoptError;
use paddock_model::SandboxId;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const SOCKET: &str = "guest.sock";
const COMMANDS: &str = "kernel.sock";
const MONITOR: &str = "monitor.sock";
const RECORD: &str = "record.json";

/// Makes the directory and, in it, the socket on which the guest will listen.
pub fn listen(directory: &Path) -> Result<UnixListener> {
    std::fs::DirBuilder::new().mode(0o700).create(directory)?;
    UnixListener::bind(below(&open(directory)?, SOCKET))
}

/// As `listen`, for commands to the guest that runs the kernel between the fence and the inner guest.
///
/// Precondition: the directory is there.
pub fn listen_for_commands(directory: &Path) -> Result<UnixListener> {
    UnixListener::bind(below(&open(directory)?, COMMANDS))
}

pub fn connect_for_commands(directory: &Path) -> Result<UnixStream> {
    UnixStream::connect(below(&open(directory)?, COMMANDS))
}

/// As `listen_for_commands`, for the monitor of the VM itself.
pub fn listen_for_monitor(directory: &Path) -> Result<UnixListener> {
    UnixListener::bind(below(&open(directory)?, MONITOR))
}

pub fn connect_for_monitor(directory: &Path) -> Result<UnixStream> {
    UnixStream::connect(below(&open(directory)?, MONITOR))
}

pub fn connect(directory: &Path) -> Result<UnixStream> {
    UnixStream::connect(below(&open(directory)?, SOCKET))
}

/// Precondition: the record is complete; it is the same one that the slot has.
pub fn write(directory: &Path, record: &Record) -> Result<()> {
    let new = directory.join("record.new");
    std::fs::write(&new, serde_json::to_vec(record)?)?;
    std::fs::rename(new, directory.join(RECORD))
}

pub fn read(state: &Path, id: &SandboxId) -> std::result::Result<(Record, Lasting), AdoptError> {
    let path = run_directory::of_sandbox(state, id).join(RECORD);
    let damaged = |detail: String| AdoptError::Damaged { id: id.clone(), detail };
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            AdoptError::Gone { id: id.clone(), detail: "it left no record on this host".into() }
        }
        // For instance, no descriptor is left: the record itself may be well.
        _ => AdoptError::Connect { id: id.clone(), source: error },
    })?;
    let record: Record =
        serde_json::from_slice(&bytes).map_err(|error| damaged(format!("{}: {error}", path.display())))?;
    match record.lasting.clone() {
        Some(lasting) if lasting.id == *id => Ok((record, lasting)),
        _ => Err(damaged(format!("{} is of another sandbox", path.display()))),
    }
}

fn open(directory: &Path) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(CWD, directory, flags, Mode::empty()).map_err(|errno| {
        let error = Error::from(errno);
        Error::new(error.kind(), format!("{}: {error}", directory.display()))
    })
}

/// A socket's name has 107 bytes at most; the directory may be anywhere.
fn below(directory: &OwnedFd, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", directory.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_in_a_directory_with_a_long_name() {
        let top = tempfile::tempdir().unwrap();
        let directory = top.path().join("d".repeat(200));
        let listener = listen(&directory).unwrap();
        let _stream = connect(&directory).unwrap();
        listener.accept().unwrap();
        assert_eq!(listen(&directory).unwrap_err().kind(), ErrorKind::AlreadyExists);
        drop(listener);
        assert_eq!(connect(&directory).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        run_directory::remove_of_sandbox(&directory).unwrap();
        run_directory::remove_of_sandbox(&directory).unwrap();
        assert!(!directory.exists());
    }
}
