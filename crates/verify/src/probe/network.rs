//! D: the network of `--net none`. Outside addresses are those kept for documentation, which no host has: inside there
//! must be no route to them, outside the control gives them to its own loopback.

use super::system::{call, check, fact};
use crate::attack::{Attack, Finding, Outcome};
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

const OUTSIDE_4: &str = "198.51.100.1:9";
const OUTSIDE_6: &str = "[2001:db8::1]:9";

pub const ATTACKS: &[Attack] = &[
    Attack::plain("D1-interfaces", "an interface other than lo", interfaces).on_host(),
    Attack::text("D1-connect-v4", "TCP to an outside address", connect, OUTSIDE_4),
    Attack::text("D1-connect-v6", "TCP to an outside IPv6 address", connect, OUTSIDE_6),
    Attack::text("D2-loopback", "the host's 127.0.0.1", connect_host, "127.0.0.1").on_host(),
    Attack::text("D2-any", "the host's loopback as 0.0.0.0", connect_host, "0.0.0.0").on_host(),
    Attack::text("D2-loopback-v6", "the host's ::1", connect_host, "[::1]").on_host(),
    Attack::text("D2-any-v6", "the host's loopback as ::", connect_host, "[::]").on_host(),
    Attack::text("D2-mapped", "::ffff:127.0.0.1", connect_host, "[::ffff:127.0.0.1]").on_host(),
    Attack::text("D2-alias", "127.1 as a number", connect_host, "127.0.0.2").on_host(),
    Attack::plain("D3-abstract", "an abstract socket of the host", abstract_socket).on_host(),
    Attack::number("D4-raw-icmp", "a raw ICMP socket", raw, libc::IPPROTO_ICMP as i64),
    Attack::number("D4-raw-tcp", "a raw TCP socket", raw, libc::IPPROTO_TCP as i64),
    Attack::number("D4-raw-any", "a raw socket with own headers", raw, libc::IPPROTO_RAW as i64),
    Attack::plain("D4-raw-icmp6", "a raw ICMPv6 socket", raw6),
    Attack::text("D4-udp-v4", "UDP to an outside address", udp, OUTSIDE_4),
    Attack::text("D4-udp-v6", "UDP to an outside IPv6 address", udp, OUTSIDE_6),
    Attack::number("D4-sctp", "SCTP to an outside address", stream, libc::IPPROTO_SCTP as i64),
    Attack::number("D4-mptcp", "MPTCP to an outside address", stream, libc::IPPROTO_MPTCP as i64),
    Attack::text("D4-open-mptcp", "an MPTCP socket", open_socket, "mptcp"),
    Attack::text("D4-open-mptcp6", "an MPTCP socket over IPv6", open_socket, "mptcp6"),
    Attack::text("D4-open-udplite", "a UDP-Lite socket", open_socket, "udplite"),
    Attack::text("D4-open-udplite6", "a UDP-Lite socket over IPv6", open_socket, "udplite6"),
    Attack::text("D4-open-sctp", "an SCTP socket", open_socket, "sctp"),
    Attack::text("D4-open-sctp-packets", "an SCTP socket of packets", open_socket, "sctp-packets"),
    Attack::text("D4-open-dccp", "a DCCP socket", open_socket, "dccp"),
    Attack::text("D4-open-ping", "a datagram socket of ICMP", open_socket, "ping"),
    Attack::text("D4-open-ping6", "a datagram socket of ICMPv6", open_socket, "ping6"),
    Attack::text("D4-open-l2tp", "an L2TP socket", open_socket, "l2tp"),
    Attack::text("D4-open-smc", "an SMC socket by its number among the protocols", open_socket, "smc"),
    Attack::plain("D20-interface-change", "setting an interface's flags", interface_change),
];

fn interfaces() -> Finding {
    let table = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let names: Vec<_> =
        table.lines().skip(2).filter_map(|line| line.split(':').next()).map(str::trim).collect();
    let outcome = match names.iter().any(|name| *name != "lo") {
        _ if table.is_empty() => Outcome::Error,
        true => Outcome::Done,
        false => Outcome::Hidden,
    };
    Finding::new(outcome, format!("{names:?}"))
}

/// A refusal by the address itself means that a packet got there.
fn reached(result: io::Result<()>, what: &str) -> Finding {
    match result {
        Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => {
            Finding::new(Outcome::Done, format!("{what}: the address answered"))
        }
        result => Finding::of(result, what),
    }
}

fn connect(address: &'static str) -> Finding {
    match address.parse::<SocketAddr>() {
        Ok(to) => reached(TcpStream::connect_timeout(&to, Duration::from_secs(2)).map(drop), address),
        Err(error) => Finding::new(Outcome::Error, error.to_string()),
    }
}

fn connect_host(host: &'static str) -> Finding {
    let address = format!("{host}:{}", fact("tcp_port"));
    match address.parse::<SocketAddr>() {
        Ok(to) => Finding::of(TcpStream::connect_timeout(&to, Duration::from_secs(2)), &address),
        Err(error) => Finding::new(Outcome::Error, error.to_string()),
    }
}

fn abstract_socket() -> Finding {
    let name = fact("abstract_name");
    Finding::of(UnixAddr::from_abstract_name(&name).and_then(|to| UnixStream::connect_addr(&to)), &name)
}

fn raw(protocol: i64) -> Finding {
    let (family, kind) = (i64::from(libc::AF_INET), i64::from(libc::SOCK_RAW));
    Finding::of(call(libc::SYS_socket, [family, kind, protocol, 0, 0, 0]), "raw socket")
}

fn raw6() -> Finding {
    let (family, kind) = (i64::from(libc::AF_INET6), i64::from(libc::SOCK_RAW));
    Finding::of(
        call(libc::SYS_socket, [family, kind, i64::from(libc::IPPROTO_ICMPV6), 0, 0, 0]),
        "raw socket",
    )
}

fn udp(address: &'static str) -> Finding {
    let from = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    reached(UdpSocket::bind(from).and_then(|socket| socket.send_to(b"x", address)).map(drop), address)
}

fn stream(protocol: i64) -> Finding {
    let (family, kind) = (i64::from(libc::AF_INET), i64::from(libc::SOCK_STREAM));
    let socket = match call(libc::SYS_socket, [family, kind, protocol, 0, 0, 0]) {
        Ok(socket) => socket,
        Err(error) => return Finding::of_rare(Err::<(), _>(error), "socket"),
    };
    let to = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 9u16.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([198, 51, 100, 1]) },
        sin_zero: [0; 8],
    };
    reached(call(libc::SYS_connect, [socket, &raw const to as i64, 16, 0, 0, 0]).map(drop), "connect")
}

/// Tries to open such a socket: no traffic is needed to reach the code behind it.
fn open_socket(name: &'static str) -> Finding {
    const UDPLITE: i32 = 136;
    const DCCP: i32 = 33;
    const SOCK_DCCP: i32 = 6;
    const L2TP: i32 = 115;
    const SMC: i32 = 256;
    let (family, kind, protocol) = match name {
        "mptcp" => (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
        "mptcp6" => (libc::AF_INET6, libc::SOCK_STREAM, libc::IPPROTO_MPTCP),
        "udplite" => (libc::AF_INET, libc::SOCK_DGRAM, UDPLITE),
        "udplite6" => (libc::AF_INET6, libc::SOCK_DGRAM, UDPLITE),
        "sctp" => (libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_SCTP),
        "sctp-packets" => (libc::AF_INET, libc::SOCK_SEQPACKET, libc::IPPROTO_SCTP),
        "dccp" => (libc::AF_INET, SOCK_DCCP, DCCP),
        "ping" => (libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP),
        "ping6" => (libc::AF_INET6, libc::SOCK_DGRAM, libc::IPPROTO_ICMPV6),
        "l2tp" => (libc::AF_INET, libc::SOCK_DGRAM, L2TP),
        "smc" => (libc::AF_INET, libc::SOCK_STREAM, SMC),
        _ => return Finding::new(Outcome::Error, "no such socket"),
    };
    let arguments = [family.into(), kind.into(), protocol.into(), 0, 0, 0];
    Finding::of_rare(call(libc::SYS_socket, arguments), name)
}

fn interface_change() -> Finding {
    let (family, kind) = (i64::from(libc::AF_INET), i64::from(libc::SOCK_DGRAM));
    let Ok(socket) = call(libc::SYS_socket, [family, kind, 0, 0, 0, 0]) else {
        return Finding::new(Outcome::Error, "no socket");
    };
    // SAFETY: an all-zero ifreq is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_LOOPBACK) as i16;
    // SAFETY: request outlives the call.
    let set = check(i64::from(unsafe { libc::ioctl(socket as i32, libc::SIOCSIFFLAGS, &raw const request) }));
    Finding::of(set, "SIOCSIFFLAGS")
}
