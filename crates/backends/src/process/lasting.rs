//! The parts of a sandbox that outlive its engine: a directory with the socket on which its guest waits for the next
//! engine, and a record of the facts which that engine needs.
//!
//! The slot's record names the directory before it is made, so that a sweep finds it.

use super::cgroups::Hierarchies;
use super::run_directory::run_directory;
use super::slot::Record;
use crate::backend::AdoptError;
use paddock_model::SandboxId;
use rustix::fs::{CWD, Mode, OFlags, openat};
use serde::{Deserialize, Serialize};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

const SOCKET: &str = "guest.sock";
const COMMANDS: &str = "kernel.sock";
const MONITOR: &str = "monitor.sock";
const RECORD: &str = "record.json";

/// The record of a lasting sandbox: its owner, and where its parts are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lasting {
    pub id: SandboxId,
    /// The state directory of the engine that made it: root's engines share their run directory.
    pub state: PathBuf,
    pub slot: u32,
    pub hierarchies: Hierarchies,
    pub notes: Vec<String>,
    /// The backend that put something between this fence and the guest, where one did.
    #[serde(default)]
    pub between: Option<String>,
    /// True if its guest hands over the network link first on every connection.
    #[serde(default)]
    pub network: bool,
}

/// One name for a state directory, however its engine was told of it.
pub fn owner(state: &Path) -> PathBuf {
    state.canonicalize().unwrap_or_else(|_| state.to_path_buf())
}

/// The directory of the parts that have a name in the file system.
pub fn directory(state: &Path, id: &SandboxId) -> PathBuf {
    run_directory(state).join(id.as_str())
}

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
    let path = directory(state, id).join(RECORD);
    let damaged = |detail: String| AdoptError::Damaged { id: id.clone(), detail };
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            AdoptError::Gone { id: id.clone(), detail: "it left no record on this machine".into() }
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

/// Precondition: nothing runs in the sandbox any more.
pub fn remove(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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
        remove(&directory).unwrap();
        remove(&directory).unwrap();
        assert!(!directory.exists());
    }
}
