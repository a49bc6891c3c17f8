//! How the next host reaches a guest behind a kernel in user space, which cannot listen on sockets of the host. The
//! guest has a socket of the sandbox's own. The runtime starts a process inside, with the connection as its input; that
//! process passes the connection through the socket and ends. Only a process with the guest's id is let in, which no
//! work can have.

use crate::failure::{During, Failure, Outcome};
use crate::system::{accept, receive_with_descriptors};
use paddock_protocol::SENTRY_DOOR;
use rustix::io::{Errno, Result};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, socket_with,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// A process that was let in sends at once.
const VISITOR_TIMEOUT: Duration = Duration::from_secs(1);

pub struct Door {
    socket: OwnedFd,
    /// The id that is let in.
    id: u32,
}

impl Door {
    /// Precondition: no work has begun, so that the name is free.
    pub fn open(id: u32) -> Outcome<Door> {
        let open = || -> Result<OwnedFd> {
            let socket = stream()?;
            rustix::net::bind(&socket, &address()?)?;
            rustix::net::listen(&socket, 16)?;
            rustix::io::ioctl_fionbio(&socket, true)?;
            Ok(socket)
        };
        Ok(Door { socket: open().during(|| "open the door for the next host".into())?, id })
    }

    /// The next connection that a process brought.
    pub fn next(&self) -> Result<OwnedFd> {
        let visitor = accept(&self.socket)?;
        if socket_peercred(&visitor)?.uid.as_raw() != self.id {
            return Err(Errno::PERM);
        }
        rustix::io::ioctl_fionbio(&visitor, false)?;
        set_socket_timeout(&visitor, Timeout::Recv, Some(VISITOR_TIMEOUT))?;
        let (mut byte, mut brought) = ([0], Vec::new());
        receive_with_descriptors(&visitor, &mut byte, &mut brought)?;
        let connection = brought.pop().ok_or(Errno::PROTO)?;
        rustix::io::ioctl_fionbio(&connection, true)?;
        Ok(connection)
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Brings `connection` to the guest of this sandbox. For a process of its own, with the guest's id.
pub fn bring(connection: BorrowedFd<'_>) -> Outcome<()> {
    let bring = || -> Result<()> {
        let door = stream()?;
        rustix::net::connect(&door, &address()?)?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let one = [connection];
        if !control.push(SendAncillaryMessage::ScmRights(&one)) {
            return Err(Errno::NOBUFS);
        }
        let byte = [std::io::IoSlice::new(&[0])];
        rustix::net::sendmsg(&door, &byte, &mut control, SendFlags::NOSIGNAL).map(drop)
    };
    bring().map_err(|errno| Failure { step: "bring a connection to the guest".into(), errno })
}

fn stream() -> Result<OwnedFd> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

fn address() -> Result<SocketAddrUnix> {
    SocketAddrUnix::new_abstract_name(SENTRY_DOOR.as_bytes())
}
