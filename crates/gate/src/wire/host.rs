//! The host that a client wants to reach, in SOCKS, in CONNECT and in a URL.

use paddock_model::net::DomainName;
use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    Name(DomainName),
    Address(IpAddr),
}

impl Host {
    /// Clients send addresses as names too.
    pub fn parse(bytes: &[u8]) -> Option<Host> {
        let text = std::str::from_utf8(bytes).ok()?;
        match text.parse::<IpAddr>() {
            Ok(address) => Some(Host::Address(address)),
            Err(_) => DomainName::from_wire(bytes).ok().map(Host::Name),
        }
    }
}

/// As it stands in a URL.
impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Name(name) => write!(f, "{name}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
            Host::Address(address) => write!(f, "{address}"),
        }
    }
}
