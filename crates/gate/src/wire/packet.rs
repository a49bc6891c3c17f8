//! IP packets: the connection that each belongs to, and the few answers that need no connection. Checksums of incoming
//! packets are not looked at: the kernel inside leaves them to a card that is not there.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, Icmpv6DstUnreachable, Icmpv6Packet, Icmpv6Repr,
    IpAddress, IpProtocol, IpRepr, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, TcpControl, TcpPacket,
    TcpRepr, TcpSeqNumber, UdpPacket, UdpRepr,
};
use std::net::{IpAddr, SocketAddr};

/// From the sandbox's socket to the address that it believes to talk to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    pub from: SocketAddr,
    pub to: SocketAddr,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    Tcp {
        key: Key,
        /// The first of a connection.
        opens: bool,
    },
    Udp {
        key: Key,
        payload: &'a [u8],
    },
    Other {
        to: IpAddr,
        protocol: u8,
    },
}

const HOP_LIMIT: u8 = 64;
/// The bytes of a packet that come back with an error: enough for a kernel to find the socket.
const QUOTED: usize = 64;

/// `None`: not a whole packet, or one of a kind that is not answered.
pub fn parse(bytes: &[u8]) -> Option<Packet<'_>> {
    let (from, to, protocol, payload) = network(bytes)?;
    if from.is_unspecified() || from.is_multicast() || to.is_unspecified() {
        return None;
    }
    let key = |source, destination| Key {
        from: SocketAddr::new(from, source),
        to: SocketAddr::new(to, destination),
    };
    match protocol {
        IpProtocol::Tcp => {
            let segment = TcpPacket::new_checked(payload).ok()?;
            if segment.src_port() == 0 || segment.dst_port() == 0 || to.is_multicast() {
                return None;
            }
            let opens = segment.syn() && !segment.ack() && !segment.rst();
            Some(Packet::Tcp { key: key(segment.src_port(), segment.dst_port()), opens })
        }
        IpProtocol::Udp => {
            let datagram = UdpPacket::new_checked(payload).ok()?;
            let key = key(datagram.src_port(), datagram.dst_port());
            Some(Packet::Udp { key, payload: datagram.payload() })
        }
        protocol => Some(Packet::Other { to, protocol: protocol.into() }),
    }
}

/// Addresses, protocol and payload. A piece of a larger packet is none: nothing that may pass is ever cut.
fn network(bytes: &[u8]) -> Option<(IpAddr, IpAddr, IpProtocol, &[u8])> {
    match bytes.first()? >> 4 {
        4 => {
            let packet = Ipv4Packet::new_checked(bytes).ok()?;
            if packet.more_frags() || packet.frag_offset() != 0 {
                return None;
            }
            let start = usize::from(packet.header_len());
            let end = usize::from(packet.total_len());
            let payload = bytes.get(start..end)?;
            Some((packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), payload))
        }
        6 => {
            let packet = Ipv6Packet::new_checked(bytes).ok()?;
            let payload = bytes.get(40..40 + usize::from(packet.payload_len()))?;
            Some((packet.src_addr().into(), packet.dst_addr().into(), packet.next_header(), payload))
        }
        _ => None,
    }
}

/// `payload` back to the sender of the datagram. `None`: it does not fit.
pub fn datagram(key: &Key, payload: &[u8]) -> Option<Vec<u8>> {
    let udp = UdpRepr { src_port: key.to.port(), dst_port: key.from.port() };
    let length = udp.header_len() + payload.len();
    let ip = header(key.to.ip(), key.from.ip(), IpProtocol::Udp, length)?;
    let fill = |out: &mut [u8]| {
        let (source, destination) = (ip.src_addr(), ip.dst_addr());
        let mut packet = UdpPacket::new_unchecked(out);
        udp.emit(
            &mut packet,
            &source,
            &destination,
            payload.len(),
            |out| out.copy_from_slice(payload),
            &ChecksumCapabilities::default(),
        );
    };
    Some(whole(&ip, length, fill))
}

/// The answer to a first segment of a connection that is refused, sent at once.
pub fn reset(bytes: &[u8]) -> Option<Vec<u8>> {
    let (from, to, _, payload) = network(bytes)?;
    let segment = TcpPacket::new_checked(payload).ok()?;
    let tcp = TcpRepr {
        src_port: segment.dst_port(),
        dst_port: segment.src_port(),
        control: TcpControl::Rst,
        seq_number: TcpSeqNumber(0),
        ack_number: Some(segment.seq_number() + segment.segment_len()),
        window_len: 0,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let ip = header(to, from, IpProtocol::Tcp, tcp.buffer_len())?;
    let fill = |out: &mut [u8]| {
        let mut packet = TcpPacket::new_unchecked(out);
        tcp.emit(&mut packet, &ip.src_addr(), &ip.dst_addr(), &ChecksumCapabilities::default());
    };
    Some(whole(&ip, tcp.buffer_len(), fill))
}

/// "Forbidden", for packets that are no TCP, so that a program fails at once and does not wait. `None`: none is due.
pub fn forbidden(bytes: &[u8], gate: IpAddr) -> Option<Vec<u8>> {
    let (from, to, protocol, payload) = network(bytes)?;
    let is_error = match protocol {
        // Only a question is answered; an error about an error never is.
        IpProtocol::Icmp => payload.first() != Some(&8),
        IpProtocol::Icmpv6 => payload.first() != Some(&128),
        _ => false,
    };
    if is_error || from.is_unspecified() || from.is_multicast() || to.is_multicast() || to.is_unspecified() {
        return None;
    }
    let quoted = &payload[..payload.len().min(QUOTED)];
    let checksums = ChecksumCapabilities::default();
    match (from, to, gate) {
        (IpAddr::V4(from), IpAddr::V4(to), IpAddr::V4(_)) => {
            let icmp = Icmpv4Repr::DstUnreachable {
                reason: Icmpv4DstUnreachable::CommProhibited,
                header: Ipv4Repr {
                    src_addr: from,
                    dst_addr: to,
                    next_header: protocol,
                    payload_len: payload.len(),
                    hop_limit: HOP_LIMIT,
                },
                data: quoted,
            };
            let ip = header(gate, from.into(), IpProtocol::Icmp, icmp.buffer_len())?;
            Some(whole(&ip, icmp.buffer_len(), |out| {
                icmp.emit(&mut Icmpv4Packet::new_unchecked(out), &checksums);
            }))
        }
        (IpAddr::V6(from), IpAddr::V6(to), IpAddr::V6(gate_6)) => {
            let icmp = Icmpv6Repr::DstUnreachable {
                reason: Icmpv6DstUnreachable::AdminProhibit,
                header: Ipv6Repr {
                    src_addr: from,
                    dst_addr: to,
                    next_header: protocol,
                    payload_len: payload.len(),
                    hop_limit: HOP_LIMIT,
                },
                data: quoted,
            };
            let ip = header(gate, from.into(), IpProtocol::Icmpv6, icmp.buffer_len())?;
            Some(whole(&ip, icmp.buffer_len(), |out| {
                icmp.emit(&gate_6, &from, &mut Icmpv6Packet::new_unchecked(out), &checksums);
            }))
        }
        _ => None,
    }
}

fn header(from: IpAddr, to: IpAddr, protocol: IpProtocol, length: usize) -> Option<IpRepr> {
    if from.is_ipv4() != to.is_ipv4() || length > 65_000 {
        return None;
    }
    Some(IpRepr::new(IpAddress::from(from), IpAddress::from(to), protocol, length, HOP_LIMIT))
}

fn whole(ip: &IpRepr, length: usize, fill: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut packet = vec![0; ip.header_len() + length];
    ip.emit(&mut packet[..], &ChecksumCapabilities::default());
    fill(&mut packet[ip.header_len()..]);
    packet
}

#[cfg(test)]
#[path = "packet_tests.rs"]
mod tests;
