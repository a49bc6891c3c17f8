//! The link of a sandbox: a packet socket on the far end of its veth. It needs no right on the host: the maker of the
//! network namespace may open one in it.

use crate::place::{GATE_MAC, LARGEST_PACKET, SANDBOX_MAC};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use std::cell::RefCell;
use std::ffi::CString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// The length of the kernel's header before each frame (`struct virtio_net_hdr`).
const ABOUT: usize = 10;
const ETHERNET: usize = 14;
const FRONT: usize = ABOUT + ETHERNET;
/// In version 6 the header comes on top of the largest payload.
const LARGEST_FRAME: usize = FRONT + LARGEST_PACKET as usize + 40;
const TYPE_4: [u8; 2] = [0x08, 0x00];
const TYPE_6: [u8; 2] = [0x86, 0xdd];
const TCP: u8 = 6;
/// The checksum is not there yet; between two ends of a veth it is not needed.
const CHECKSUM_LEFT_OUT: u8 = 1;

thread_local! {
    /// One for a thread and not one for a sandbox: it is never kept over a wait.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; LARGEST_FRAME]);
    static OUTGOING: RefCell<Vec<u8>> = RefCell::new(vec![0; LARGEST_FRAME]);
}

pub struct Link {
    /// `None` only while it is dropped.
    socket: Option<AsyncFd<OwnedFd>>,
}

/// Opens the far end, whose name is `device`, in the network namespace of the calling thread.
pub fn open(device: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    // Protocol 0 hears nothing until it is bound, so that no frame of another device comes in between.
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let name = CString::new(device).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: the name is a string that ends with NUL and lives longer than the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    set_option(&socket, libc::PACKET_VNET_HDR)?;
    // Newer kernels only. Without it the gate also receives its own frames, and drops all that are not from inside.
    let _ = set_option(&socket, PACKET_IGNORE_OUTGOING);
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: i32::try_from(index).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is a whole sockaddr_ll of this length, and the socket is open.
    let bound = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(socket)
}

const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

fn set_option(socket: &OwnedFd, option: libc::c_int) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the value is an int of the length that is given, and the socket is open.
    let set = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

impl Link {
    /// Precondition: called within a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Link> {
        // The guest that handed it over may have left it blocking.
        rustix::io::ioctl_fionbio(&socket, true)?;
        // SAFETY: the descriptor is owned, is never replaced, and is closed only by its drop.
        let socket = unsafe { AsyncFd::register(socket)? };
        Ok(Link { socket: Some(socket) })
    }

    /// Waits for packets and gives each to `take`; at most `most`, so that others get their turn.
    pub async fn receive(&self, most: usize, mut take: impl FnMut(&[u8])) -> io::Result<()> {
        let socket = self.socket.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut ready = socket.readable().await?;
        for _ in 0..most {
            let taken = SCRATCH.with(|scratch| {
                let mut scratch =
                    scratch.try_borrow_mut().map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
                let received = ready.try_io(|socket| {
                    Ok(rustix::net::recv(socket.get_ref(), &mut scratch[..], RecvFlags::TRUNC)?.1)
                });
                match received {
                    Err(_would_block) => Ok(false),
                    Ok(Err(error)) => Err(error),
                    Ok(Ok(length)) => {
                        if let Some(packet) = packet(&scratch, length) {
                            take(packet);
                        }
                        Ok(true)
                    }
                }
            });
            if !taken? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends a packet that `fill` writes. A packet that the kernel has no room for is lost, as on any link; TCP sends
    /// it again.
    pub fn send<R>(&self, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        OUTGOING.with(|outgoing| {
            let mut own;
            let mut shared = outgoing.try_borrow_mut().ok();
            let frame: &mut Vec<u8> = match shared.as_deref_mut() {
                Some(frame) if length <= frame.len() - FRONT => frame,
                _ => {
                    own = vec![0; FRONT + length];
                    &mut own
                }
            };
            let frame = &mut frame[..FRONT + length];
            let result = fill(&mut frame[FRONT..]);
            if write_front(frame)
                && let Some(socket) = &self.socket
            {
                let _ = rustix::net::send(socket.get_ref().as_fd(), frame, SendFlags::DONTWAIT);
            }
            result
        })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(socket) = self.socket.take() {
            close(socket.into_inner());
        }
    }
}

/// The close of a packet socket waits for every processor, ten milliseconds and more. So the kernel does it alone: the
/// socket is put into the queue of another socket that only this queue still holds. The kernel's garbage collector for
/// sockets finds it there.
pub fn close(socket: OwnedFd) {
    match queued(&socket) {
        Ok((sender, queue)) => {
            // The end of a socket that is in no queue starts that collector, so this one comes last.
            drop((socket, queue));
            drop(sender);
        }
        // If no thread can be had, the socket is dropped with the closure, here.
        Err(_) => {
            let _ = std::thread::Builder::new().name("paddock-link".into()).spawn(move || drop(socket));
        }
    }
}

/// Two ends of which the second has itself and `socket` in its queue.
fn queued(socket: &OwnedFd) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (sender, queue) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    let both = [socket.as_fd(), queue.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&both)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    rustix::net::sendmsg(&sender, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::DONTWAIT)?;
    Ok((sender, queue))
}

/// The packet in a frame, where it is whole and came from inside.
fn packet(frame: &[u8], length: usize) -> Option<&[u8]> {
    let frame = frame.get(..length)?;
    let kind: [u8; 2] = frame.get(FRONT - 2..FRONT)?.try_into().ok()?;
    if frame[ABOUT + 6..ABOUT + 12] == GATE_MAC || (kind != TYPE_4 && kind != TYPE_6) {
        return None;
    }
    Some(&frame[FRONT..])
}

/// `false`: not a packet that could be sent.
fn write_front(frame: &mut [u8]) -> bool {
    let (kind, protocol, header) = match frame.get(FRONT).map(|first| first >> 4) {
        Some(4) if frame.len() >= FRONT + 20 => {
            (TYPE_4, frame[FRONT + 9], usize::from(frame[FRONT] & 0xf) * 4)
        }
        Some(6) if frame.len() >= FRONT + 40 => (TYPE_6, frame[FRONT + 6], 40),
        _ => return false,
    };
    frame[..ABOUT].fill(0);
    if protocol == TCP {
        frame[0] = CHECKSUM_LEFT_OUT;
        frame[6..8].copy_from_slice(&((ETHERNET + header) as u16).to_ne_bytes());
        frame[8..10].copy_from_slice(&16u16.to_ne_bytes());
    }
    frame[ABOUT..ABOUT + 6].copy_from_slice(&SANDBOX_MAC);
    frame[ABOUT + 6..ABOUT + 12].copy_from_slice(&GATE_MAC);
    frame[ABOUT + 12..FRONT].copy_from_slice(&kind);
    true
}
