//! SOCKS version 5 (RFC 1928), without passwords: every client of the proxy is in the sandbox.
//!
//! Written by hand: two messages of at most 262 bytes, read as values from a buffer. The libraries for SOCKS are servers
//! that read from a socket and connect by themselves, which is what the gate must judge first. A fuzz target covers it.

use super::Incomplete;
use super::host::Host;
use std::net::{Ipv4Addr, Ipv6Addr};

pub const VERSION: u8 = 5;
/// The longest message of either kind: a name of 255 bytes, or as many ways to log in.
pub const LONGEST: usize = 262;
pub const NO_LOGIN: [u8; 2] = [VERSION, 0];
pub const NO_COMMON_LOGIN: [u8; 2] = [VERSION, 0xff];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Connect(Host, u16),
    /// The name is none.
    BadName,
    /// BIND and UDP would be ways around the gate.
    OtherCommand,
    OtherAddress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    Granted = 0,
    Denied = 2,
    Unreachable = 4,
    Refused = 5,
    OtherCommand = 7,
    OtherAddress = 8,
}

/// The client's greeting: its number of bytes, and true if the client can do without a login.
pub fn greeting(bytes: &[u8]) -> Result<(usize, bool), Incomplete> {
    match bytes {
        [] | [VERSION] => Err(Incomplete::More),
        [VERSION, count, rest @ ..] => match rest.get(..usize::from(*count)) {
            Some(ways) => Ok((2 + usize::from(*count), ways.contains(&0))),
            None => Err(Incomplete::More),
        },
        _ => Err(Incomplete::Malformed),
    }
}

/// The request after it, and how many bytes it has.
pub fn request(bytes: &[u8]) -> Result<(usize, Request), Incomplete> {
    match bytes.first() {
        None => return Err(Incomplete::More),
        Some(&VERSION) => {}
        Some(_) => return Err(Incomplete::Malformed),
    }
    let [_, command, _, kind, rest @ ..] = bytes else { return Err(Incomplete::More) };
    let (start, length) = match *kind {
        1 => (0, 4),
        4 => (0, 16),
        3 => (1, usize::from(*rest.first().ok_or(Incomplete::More)?)),
        _ => return Ok((4, Request::OtherAddress)),
    };
    let end = start + length;
    let address = rest.get(start..end).ok_or(Incomplete::More)?;
    let port = match rest.get(end..end + 2) {
        Some(port) => u16::from_be_bytes([port[0], port[1]]),
        None => return Err(Incomplete::More),
    };
    let used = 4 + end + 2;
    if *command != 1 {
        return Ok((used, Request::OtherCommand));
    }
    let host = match *kind {
        1 => <[u8; 4]>::try_from(address).ok().map(|octets| Host::Address(Ipv4Addr::from(octets).into())),
        4 => <[u8; 16]>::try_from(address).ok().map(|octets| Host::Address(Ipv6Addr::from(octets).into())),
        _ => Host::parse(address),
    };
    Ok((used, host.map_or(Request::BadName, |host| Request::Connect(host, port))))
}

impl Reply {
    /// With no address: the program inside need not know which one was dialled.
    pub fn message(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::DomainName;

    #[test]
    fn greetings() {
        assert_eq!(greeting(&[5, 1, 0]), Ok((3, true)));
        assert_eq!(greeting(&[5, 2, 2, 0, 9]), Ok((4, true)));
        assert_eq!(greeting(&[5, 1, 2]), Ok((3, false)));
        assert_eq!(greeting(&[5, 0]), Ok((2, false)));
        assert_eq!(greeting(&[5, 3, 0]), Err(Incomplete::More));
        assert_eq!(greeting(&[4, 1, 0]), Err(Incomplete::Malformed));
    }

    #[test]
    fn requests_of_each_kind() {
        let name = DomainName::parse("a.example").unwrap();
        let mut message = vec![5, 1, 0, 3, 9];
        message.extend_from_slice(b"A.example");
        message.extend_from_slice(&[1, 187]);
        for end in 0..message.len() {
            assert_eq!(request(&message[..end]), Err(Incomplete::More), "{end}");
        }
        assert_eq!(request(&message), Ok((16, Request::Connect(Host::Name(name), 443))));
        let four = [5, 1, 0, 1, 10, 0, 0, 1, 0, 80];
        let host = Host::Address("10.0.0.1".parse().unwrap());
        assert_eq!(request(&four), Ok((10, Request::Connect(host, 80))));
        let mut six = vec![5, 1, 0, 4];
        six.extend_from_slice(&Ipv6Addr::LOCALHOST.octets());
        six.extend_from_slice(&[0, 80]);
        let host = Host::Address("::1".parse().unwrap());
        assert_eq!(request(&six), Ok((22, Request::Connect(host, 80))));
    }

    #[test]
    fn ways_around_the_gate_are_refused() {
        let udp = [5, 3, 0, 1, 10, 0, 0, 1, 0, 80];
        assert_eq!(request(&udp), Ok((10, Request::OtherCommand)));
        assert_eq!(request(&[5, 1, 0, 9]), Ok((4, Request::OtherAddress)));
        assert_eq!(request(&[5, 1, 0, 3, 0, 0, 80]), Ok((7, Request::BadName)));
        assert_eq!(request(&[5, 1, 0, 3, 2, b'1', b'.', 0, 80]), Ok((9, Request::BadName)));
        assert_eq!(request(&[4, 1, 0, 1]), Err(Incomplete::Malformed));
    }
}
