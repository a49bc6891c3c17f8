//! The link of a sandbox with network rules, as messages to the kernel's routing: a veth whose two ends lie in the sandbox's
//! own network namespace, addresses and a default route of each version. The guest asks them, where it alone may.
//!
//! Written by hand, as bytes: the guest sends them, which is to stay small, and is told no more than these few
//! messages, all of which are known when the plan is made.
//! A client for all of routing would go into every sandbox.

use super::passed::Passed;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::handover::Handover;
use paddock_model::net::place;
use paddock_protocol::LinkPlan;
use serde_bytes::ByteBuf;
use std::os::unix::net::UnixStream;

/// Numbers that no device of a new namespace has by itself.
const INDEX: u32 = 100;
const FAR_INDEX: u32 = 101;
const NEW_LINK: u16 = 16;
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;
const HEADER: usize = 16;
/// Asked for, answered, and only if it is not there yet.
const CREATING: u16 = CHANGING | 0x200 | 0x400;
const CHANGING: u16 = 0x1 | 0x4;
/// No ARP requests: the other end takes every frame.
const NO_ARP: u32 = libc::IFF_NOARP as u32;
const FLAGS: u32 = libc::IFF_UP as u32 | NO_ARP;

/// The guest's part of the link, and the engine's end of it.
pub fn plan(passed: &mut Passed) -> Result<(LinkPlan, Handover), CreateError> {
    let (ours, theirs) = UnixStream::pair().host(|| "make a socket pair".into())?;
    Ok((link(passed.place(theirs.into())?), Handover::Coming(ours.into())))
}

/// The same without addresses, for a fence whose link passes on the frames of a VM.
pub fn for_a_vm(link: &mut LinkPlan) {
    link.messages = vec![veth(), far_end_up()];
    link.messages_6.clear();
    link.near_index = Some(INDEX);
}

/// `handover`: the place of the socket over which it is handed over.
pub fn link(handover: usize) -> LinkPlan {
    LinkPlan {
        messages: vec![
            veth(),
            far_end_up(),
            address(&place::SANDBOX_4.octets(), place::PREFIX_4),
            default_route(&place::GATE_4.octets()),
        ],
        messages_6: vec![
            address(&place::SANDBOX_6.octets(), place::PREFIX_6),
            default_route(&place::GATE_6.octets()),
        ],
        near_index: None,
        far_index: FAR_INDEX,
        proxy_port: place::PROXY_PORT,
        handover,
    }
}

fn veth() -> ByteBuf {
    let named = |message: Message, name: &str, hardware: &[u8; 6]| {
        message
            .attribute(libc::IFLA_IFNAME, &[name.as_bytes(), &[0]].concat())
            .attribute(libc::IFLA_ADDRESS, hardware)
            .attribute(libc::IFLA_MTU, &place::LARGEST_PACKET.to_ne_bytes())
            .attribute(libc::IFLA_NUM_TX_QUEUES, &1u32.to_ne_bytes())
            .attribute(libc::IFLA_NUM_RX_QUEUES, &1u32.to_ne_bytes())
    };
    const PEER: u16 = 1;
    let message = Message::creating(NEW_LINK, &device(INDEX, FLAGS));
    let message = named(message, place::SANDBOX_DEVICE, &place::SANDBOX_MAC);
    let message = message.nested(libc::IFLA_LINKINFO, &[], |info| {
        info.attribute(libc::IFLA_INFO_KIND, b"veth").nested(libc::IFLA_INFO_DATA, &[], |data| {
            data.nested(PEER, &device(FAR_INDEX, NO_ARP), |peer| {
                named(peer, place::GATE_DEVICE, &place::GATE_MAC)
            })
        })
    });
    message.finished()
}

/// The kernel makes the far end before it has a peer, and it cannot go up then. So a message of its own brings it up.
fn far_end_up() -> ByteBuf {
    Message::asking(SET_LINK, CHANGING, &device(FAR_INDEX, FLAGS)).finished()
}

/// `struct ifinfomsg` with these flags on.
fn device(index: u32, flags: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

fn address(own: &[u8], prefix: u8) -> ByteBuf {
    const WITHOUT_ASKING_OTHERS: u8 = 2;
    let mut fixed = [family(own), prefix, WITHOUT_ASKING_OTHERS, 0, 0, 0, 0, 0];
    fixed[4..].copy_from_slice(&INDEX.to_ne_bytes());
    let message = Message::creating(NEW_ADDRESS, &fixed);
    message.attribute(libc::IFA_LOCAL, own).attribute(libc::IFA_ADDRESS, own).finished()
}

fn default_route(gate: &[u8]) -> ByteBuf {
    const MAIN_TABLE: u8 = 254;
    const BY_BOOT: u8 = 3;
    const UNICAST: u8 = 1;
    let fixed = [family(gate), 0, 0, 0, MAIN_TABLE, BY_BOOT, 0, UNICAST, 0, 0, 0, 0];
    let message = Message::creating(NEW_ROUTE, &fixed).attribute(libc::RTA_GATEWAY, gate);
    message.attribute(libc::RTA_OIF, &INDEX.to_ne_bytes()).finished()
}

fn family(address: &[u8]) -> u8 {
    (if address.len() == 4 { libc::AF_INET } else { libc::AF_INET6 }) as u8
}

/// A message that is being composed.
struct Message(Vec<u8>);

impl Message {
    fn creating(kind: u16, fixed: &[u8]) -> Message {
        Message::asking(kind, CREATING, fixed)
    }

    /// `fixed`: the bytes behind the header.
    fn asking(kind: u16, flags: u16, fixed: &[u8]) -> Message {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(fixed);
        Message(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Message {
        self.0.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// An attribute that holds others, after `fixed`.
    fn nested(mut self, kind: u16, fixed: &[u8], fill: impl FnOnce(Message) -> Message) -> Message {
        let start = self.0.len();
        self.0.extend_from_slice(&[0; 2]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(fixed);
        let mut filled = fill(self);
        let length = (filled.0.len() - start) as u16;
        filled.0[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        filled
    }

    fn finished(mut self) -> ByteBuf {
        let length = self.0.len() as u32;
        self.0[..4].copy_from_slice(&length.to_ne_bytes());
        ByteBuf::from(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_those_that_hold_others_have_their_length() {
        let message =
            Message::creating(16, &[7; 4]).attribute(3, b"lo\0").nested(18, &[], |m| m.attribute(1, b"veth"));
        let bytes = message.finished();
        assert_eq!(bytes[..6], [40, 0, 0, 0, 16, 0]);
        assert_eq!(bytes[16..20], [7; 4]);
        assert_eq!(bytes[20..28], [7, 0, 3, 0, b'l', b'o', 0, 0]);
        assert_eq!(bytes[28..40], [12, 0, 18, 0, 8, 0, 1, 0, b'v', b'e', b't', b'h']);
    }
}
