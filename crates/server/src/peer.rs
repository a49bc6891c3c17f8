//! The other end of a connection.

use std::net::SocketAddr;

/// Put into every request of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub route: Route,
    pub tls: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    Tcp {
        /// The address of this host that was called.
        local: SocketAddr,
    },
    Unix {
        /// True if the kernel says that the peer is the host's owner: the server's own user, or root.
        owner: bool,
    },
}

impl Peer {
    pub fn is_owner(&self) -> bool {
        self.route == Route::Unix { owner: true }
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}
