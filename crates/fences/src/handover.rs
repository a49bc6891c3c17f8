//! The network link of a sandbox with network rules, on its way from the guest that made it to the engine that serves
//! it.

use paddock_protocol::HANDED_OVER;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
use std::io::{Error, ErrorKind, IoSliceMut, Result};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// Both were made in the sandbox's own network namespace.
pub struct NetworkEnds {
    /// A packet socket on the far end of the sandbox's link.
    pub link: OwnedFd,
    /// Listens on the sandbox's loopback.
    pub proxy: OwnedFd,
}

pub enum Handover {
    /// The guest sends them over this socket when its inside is built.
    Coming(OwnedFd),
    Here(NetworkEnds),
}

impl Handover {
    /// Blocks until they are there.
    pub fn wait(self, patience: Duration) -> Result<NetworkEnds> {
        match self {
            Handover::Here(ends) => Ok(ends),
            Handover::Coming(socket) => receive(socket, patience),
        }
    }
}

/// The next byte, and the two descriptors that come with it. Anything else is refused: a guest could send anything.
pub fn receive(socket: impl AsFd, patience: Duration) -> Result<NetworkEnds> {
    let timeout =
        Timespec { tv_sec: patience.as_secs().cast_signed(), tv_nsec: patience.subsec_nanos().into() };
    if poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&timeout))? == 0 {
        return Err(ErrorKind::TimedOut.into());
    }
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received = recvmsg(&socket, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
    let mut handed: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            handed.extend(descriptors);
        }
    }
    let refuse = |what| Error::new(ErrorKind::InvalidData, what);
    if received.bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let (Some(proxy), Some(link), None) = (handed.pop(), handed.pop(), handed.pop()) else {
        return Err(refuse("not the two sockets of a link"));
    };
    if byte != [HANDED_OVER]
        || sockopt::socket_domain(&link)? != rustix::net::AddressFamily::PACKET
        || sockopt::socket_domain(&proxy)? != rustix::net::AddressFamily::INET
        || !sockopt::socket_acceptconn(&proxy)?
    {
        return Err(refuse("not the two sockets of a link"));
    }
    Ok(NetworkEnds { link, proxy })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
    use std::io::IoSlice;
    use std::os::unix::net::UnixStream;

    fn send(socket: &UnixStream, byte: u8, descriptors: &[std::os::fd::BorrowedFd<'_>]) {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(descriptors)));
        }
        rustix::net::sendmsg(socket, &[IoSlice::new(&[byte])], &mut control, SendFlags::empty()).unwrap();
    }

    #[test]
    fn what_a_hostile_guest_sends_instead_is_refused() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let (listener, stream, file) = (listener.as_fd(), stream.as_fd(), file.as_fd());
        for descriptors in [&[][..], &[listener], &[listener, listener], &[file, listener], &[stream, stream]]
        {
            let (ours, theirs) = UnixStream::pair().unwrap();
            send(&theirs, HANDED_OVER, descriptors);
            assert!(receive(&ours, Duration::from_secs(5)).is_err());
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let silent = receive(&ours, Duration::from_millis(1)).err().map(|error| error.kind());
        assert_eq!(silent, Some(ErrorKind::TimedOut));
        drop(theirs);
        let gone = receive(&ours, Duration::from_secs(5)).err().map(|error| error.kind());
        assert_eq!(gone, Some(ErrorKind::UnexpectedEof));
    }
}
