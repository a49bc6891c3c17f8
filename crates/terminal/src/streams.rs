//! The caller's own streams. Their flags are left alone, because other programs share them; readiness is asked for
//! instead, so that a reader that stops reading stops the output and nothing else.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The bytes that a ready pipe takes without blocking.
const SAFE_WRITE: usize = 4096;
const SAFE_READ: usize = 64 * 1024;

/// A standard stream, by its number; never closed by us.
struct Standard(RawFd);

impl AsRawFd for Standard {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl AsFd for Standard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: descriptors 0 to 2 stay open for the life of the process; nothing in it closes them.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}

/// One direction of one standard stream.
pub struct Stream {
    standard: Standard,
    /// `None` for streams that are always ready: files and /dev/null cannot be waited for.
    readiness: Option<AsyncFd<Standard>>,
}

impl Stream {
    pub fn stdin() -> Result<Stream> {
        Stream::new(0, Interest::READABLE)
    }

    pub fn stdout() -> Result<Stream> {
        Stream::new(1, Interest::WRITABLE)
    }

    pub fn stderr() -> Result<Stream> {
        Stream::new(2, Interest::WRITABLE)
    }

    fn new(number: RawFd, interest: Interest) -> Result<Stream> {
        // SAFETY: the descriptor stays the same open file for as long as it is registered: nothing in this
        // process closes or replaces its standard streams.
        let registered = unsafe { AsyncFd::register_with_interest(Standard(number), interest) };
        let readiness = match registered.map_err(|error| error.into_parts().1) {
            Ok(readiness) => Some(readiness),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            // A closed stream reads as empty and takes everything.
            Err(error) if error.raw_os_error() == Some(libc::EBADF) => None,
            Err(error) => return Err(error),
        };
        Ok(Stream { standard: Standard(number), readiness })
    }

    /// An empty answer is the end.
    pub async fn read(&self) -> Result<Vec<u8>> {
        let mut buffer = vec![0; SAFE_READ];
        let Some(readiness) = &self.readiness else { return closed_is_empty(self.read_now(&mut buffer)) };
        loop {
            let mut guard = readiness.readable().await?;
            // Another program may have taken the bytes; then reading would block everything.
            if !ready_now(self.standard.as_fd(), rustix::event::PollFlags::IN) {
                guard.clear_ready();
                continue;
            }
            let read = self.read_now(&mut buffer);
            guard.clear_ready();
            return read;
        }
    }

    fn read_now(&self, buffer: &mut Vec<u8>) -> Result<Vec<u8>> {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(self.standard.as_fd(), &mut buffer[..]))?;
        buffer.truncate(count);
        Ok(std::mem::take(buffer))
    }

    /// Writes some of `bytes` and says how much.
    pub async fn write_some(&self, bytes: &[u8]) -> Result<usize> {
        let Some(readiness) = &self.readiness else {
            let written = rustix::io::retry_on_intr(|| rustix::io::write(self.standard.as_fd(), bytes));
            return match written {
                Err(rustix::io::Errno::BADF) => Ok(bytes.len()),
                other => Ok(other?),
            };
        };
        loop {
            let mut guard = readiness.writable().await?;
            if !ready_now(self.standard.as_fd(), rustix::event::PollFlags::OUT) {
                guard.clear_ready();
                continue;
            }
            let piece = &bytes[..bytes.len().min(SAFE_WRITE)];
            match rustix::io::retry_on_intr(|| rustix::io::write(self.standard.as_fd(), piece)) {
                // Another program made it non-blocking.
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                other => return other.map_err(Error::from),
            }
        }
    }
}

fn closed_is_empty(read: Result<Vec<u8>>) -> Result<Vec<u8>> {
    match read {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(Vec::new()),
        other => other,
    }
}

fn ready_now(stream: BorrowedFd<'_>, wanted: rustix::event::PollFlags) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut polled = [PollFd::from_borrowed_fd(stream, wanted)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let answered = poll(&mut polled, Some(&at_once)).unwrap_or(0);
    answered > 0 && polled[0].revents().intersects(wanted | PollFlags::HUP | PollFlags::ERR)
}
