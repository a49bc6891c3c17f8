//! Tells if an address is one of this host's own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The kernel answers, so that an address that came a moment ago counts too: only on its own addresses can a socket be
/// put. Nothing is sent.
pub fn is_own(address: IpAddr) -> bool {
    // The mapped form of version 6 is bound where the version 4 address is.
    let address = address.to_canonical();
    if address.is_loopback() || address.is_unspecified() {
        return true;
    }
    if !can_bind(address) {
        return false;
    }
    // Some hosts let a socket be put anywhere (`ip_nonlocal_bind`): ask which address would talk to it.
    let nobodys = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    };
    !can_bind(nobodys) || talks_from_itself(address)
}

fn can_bind(address: IpAddr) -> bool {
    UdpSocket::bind((address, 0)).is_ok()
}

fn talks_from_itself(address: IpAddr) -> bool {
    let unspecified = match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let Ok(socket) = UdpSocket::bind((unspecified, 0)) else { return true };
    match socket.connect(SocketAddr::new(address, 53)) {
        Ok(()) => socket.local_addr().map_or(true, |from| from.ip() == address),
        // There is no way there, so it is not here either.
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_ours_and_documentation_is_not() {
        for own in ["127.0.0.1", "127.9.8.7", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"] {
            assert!(is_own(own.parse().unwrap()), "{own}");
        }
        for other in ["192.0.2.1", "198.51.100.7", "2001:db8::2"] {
            assert!(!is_own(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn the_address_that_this_machine_talks_from_is_ours() {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        // Nothing is sent. Without a way out there is no such address.
        if socket.connect("192.0.2.1:9").is_ok() {
            assert!(is_own(socket.local_addr().unwrap().ip()));
        }
    }
}
