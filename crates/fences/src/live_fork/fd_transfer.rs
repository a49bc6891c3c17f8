//! Descriptors for a stopped process, by a pair of sockets that it makes, of which one end is ours too.

use super::idle;
use super::tracee::{Tracee, host};
use crate::error::LiveForkError;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{Error, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Places in the scratch memory, behind those of the module `birth`.
const PAIR: u64 = 80;
const MESSAGE: u64 = 128;
const PIECE: u64 = 256;
const BYTE: u64 = 288;
const CONTROL: u64 = 512;
const CONTROL_LENGTH: u64 = 1280;

/// Children of the process have it as well.
pub struct FdTransfer {
    scratch: u64,
    socket: OwnedFd,
    pair: [i32; 2],
}

impl FdTransfer {
    pub fn into(process: &mut Tracee, scratch: u64) -> Result<FdTransfer, LiveForkError> {
        let kind = (libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC) as u64;
        let arguments = [libc::AF_UNIX as u64, kind, 0, scratch + PAIR];
        process.must("make a socket pair in the copy", libc::SYS_socketpair, &arguments)?;
        let mut pair = [0; 8];
        process.read(scratch + PAIR, &mut pair).map_err(unread)?;
        let pair = [word(&pair, 0), word(&pair, 4)];
        let socket = idle::copy_of(process.pid, pair[0]).map_err(|source| host("reach the copy", source))?;
        // The number in memory may be forged by the process; but the kernel notes which process made a pair.
        let made_by = rustix::net::sockopt::socket_peercred(&socket).ok();
        if made_by.is_none_or(|peer| peer.pid.as_raw_nonzero().get() != process.pid) {
            return Err(misled());
        }
        Ok(FdTransfer { scratch, socket, pair })
    }

    /// The numbers of the pair, in the process.
    pub fn numbers(&self) -> [i32; 2] {
        self.pair
    }

    /// The numbers that they have in the process.
    pub fn pass(&self, process: &mut Tracee, passed: &[BorrowedFd<'_>]) -> Result<Vec<i32>, LiveForkError> {
        let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(passed.len()))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(passed)) {
            return Err(LiveForkError::Unable("it has too many files open".into()));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(b"p")], &mut ancillary, flags)
            .map_err(|errno| host("hand descriptors to the copy", errno.into()))?;
        let scratch = self.scratch;
        process.write(scratch + MESSAGE, &message(scratch))?;
        let piece = [(scratch + BYTE).to_ne_bytes(), 1_u64.to_ne_bytes()].concat();
        process.write(scratch + PIECE, &piece)?;
        let flags = (libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT) as u64;
        let arguments = [self.pair[1] as u64, scratch + MESSAGE, flags];
        process.must("take descriptors", libc::SYS_recvmsg, &arguments)?;
        let mut control = vec![0; CONTROL_LENGTH as usize];
        process.read(scratch + CONTROL, &mut control).map_err(unread)?;
        let length = usize::try_from(u64::from_ne_bytes(array(&control, 0))).unwrap_or(0);
        let numbers: Vec<i32> =
            (16..length.min(control.len())).step_by(4).map(|at| word(&control, at)).collect();
        if numbers.len() != passed.len() || numbers.iter().any(|number| *number < 0) {
            return Err(LiveForkError::Unable("it may not have as many files open as it takes".into()));
        }
        // The numbers may be forged too: each has to stand for the descriptor that was sent.
        let sent =
            |(number, descriptor): (&i32, &BorrowedFd<'_>)| is_one_file(process.pid, *number, *descriptor);
        if !numbers.iter().zip(passed).all(sent) {
            return Err(misled());
        }
        Ok(numbers)
    }
}

/// True if a number of another process stands for an opened file of ours.
fn is_one_file(pid: i32, number: i32, own: BorrowedFd<'_>) -> bool {
    const FILE: i32 = 0;
    let this = std::process::id() as i32;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, pid, this, FILE, number, own.as_raw_fd()) == 0 }
}

pub fn misled() -> LiveForkError {
    LiveForkError::Unable("somebody else writes to its memory".into())
}

fn unread(source: Error) -> LiveForkError {
    host("read from the copy's memory", source)
}

/// `struct msghdr`.
fn message(scratch: u64) -> Vec<u8> {
    [0, 0, scratch + PIECE, 1, scratch + CONTROL, CONTROL_LENGTH, 0]
        .iter()
        .flat_map(|word: &u64| word.to_ne_bytes())
        .collect()
}

fn word(bytes: &[u8], at: usize) -> i32 {
    bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).map_or(-1, i32::from_ne_bytes)
}

fn array(bytes: &[u8], at: usize) -> [u8; 8] {
    bytes.get(at..at + 8).and_then(|eight| eight.try_into().ok()).unwrap_or_default()
}
