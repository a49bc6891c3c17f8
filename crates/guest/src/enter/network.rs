//! The link of a sandbox with network rules. The guest sends the messages that the host composed to the kernel, and
//! opens two sockets: a packet socket on the far end, and the one that the proxy listens on. The host serves both; the
//! guest only keeps them for the next host.

use crate::failure::{During, Outcome};
use paddock_protocol::{HANDED_OVER, LinkPlan};
use rustix::io::{Errno, Result};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// The sockets that lead out, once a host serves them.
pub struct Ends {
    pub link: OwnedFd,
    pub proxy: OwnedFd,
    /// The near end too, for a link that carries a VM's frames.
    pub near: Option<OwnedFd>,
}

/// Precondition: loopback is up, and this process may still configure its network namespace.
pub fn raise(plan: &LinkPlan) -> Outcome<Ends> {
    let routing = socket(AddressFamily::NETLINK, SocketType::RAW)
        .and_then(|routing| rustix::net::bind(&routing, &SocketAddrNetlink::new(0, 0)).map(|()| routing));
    let routing = routing.during(|| "talk to the kernel's routing".into())?;
    for message in &plan.messages {
        ask(&routing, message).during(|| "make the link to the gate (a veth)".into())?;
    }
    for message in &plan.messages_6 {
        match ask(&routing, message) {
            // A kernel without version 6 has no way out of that kind, and none to guard.
            Err(Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::ACCESS) => break,
            asked => asked.during(|| "give the link addresses of version 6".into())?,
        }
    }
    let link = packet_socket(plan.far_index).during(|| "open the far end of the link".into())?;
    let proxy = listening_socket(plan.proxy_port).during(|| "listen for the proxy".into())?;
    let near =
        plan.near_index.map(packet_socket).transpose().during(|| "open the near end of the link".into())?;
    Ok(Ends { link, proxy, near })
}

impl Ends {
    /// Sends one byte along, because a message must not be empty.
    pub fn hand_over(&self, socket: impl AsFd) -> Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let both = [self.link.as_fd(), self.proxy.as_fd()];
        if !control.push(SendAncillaryMessage::ScmRights(&both)) {
            return Err(Errno::NOBUFS);
        }
        let byte = [std::io::IoSlice::new(&[HANDED_OVER])];
        rustix::net::sendmsg(socket, &byte, &mut control, SendFlags::NOSIGNAL).map(drop)
    }
}

/// Sends a message, and waits for the kernel's answer: an error number, 0 for success.
fn ask(routing: &OwnedFd, message: &[u8]) -> Result<()> {
    rustix::net::sendto(routing, message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0u8; 4096];
    let (count, _) = rustix::net::recv(routing, &mut answer[..], RecvFlags::empty())?;
    match answer[..count] {
        [_, _, _, _, 2, 0, _, _, _, _, _, _, _, _, _, _, a, b, c, d, ..] => {
            match i32::from_ne_bytes([a, b, c, d]) {
                0 => Ok(()),
                code => Err(Errno::from_raw_os_error(-code)),
            }
        }
        _ => Err(Errno::PROTO),
    }
}

fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd> {
    rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

fn listening_socket(port: u16) -> Result<OwnedFd> {
    const WAITING: i32 = 1024;
    let socket = socket(AddressFamily::INET, SocketType::STREAM)?;
    rustix::net::bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port))?;
    rustix::net::listen(&socket, WAITING)?;
    Ok(socket)
}

/// Receives and sends whole frames, each with the kernel's header (`virtio_net_hdr`) before it.
fn packet_socket(device: u32) -> Result<OwnedFd> {
    // No protocol until it is bound, so that no frame of another device comes in between.
    let socket = socket(AddressFamily::PACKET, SocketType::RAW)?;
    crate::system::set_packet_option(&socket, libc::PACKET_VNET_HDR)?;
    // Newer kernels only; the host that serves it also checks the origin of each frame.
    const IGNORE_OUTGOING: libc::c_int = 23;
    let _ = crate::system::set_packet_option(&socket, IGNORE_OUTGOING);
    crate::system::bind_packet_socket(socket.as_raw_fd(), device)?;
    Ok(socket)
}
