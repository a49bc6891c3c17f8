//! The other end of a connection.

use axum::http::HeaderMap;
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

    /// The scheme by which the client called where a proxy in front of this server ended its TLS. Only for an address that is told to
    /// this client alone: whoever makes the header up misleads no other.
    pub fn scheme_outside(&self, headers: &HeaderMap) -> &'static str {
        // The first proxy that a request comes to is named first.
        let first = |name: &str| headers.get(name)?.to_str().ok()?.split(',').next();
        let by_word = first("x-forwarded-proto").map(str::trim);
        let by_pair = first("forwarded").and_then(|hop| {
            let mut pairs = hop.split(';').filter_map(|pair| pair.split_once('='));
            pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("proto"))
        });
        let said = by_word.or(by_pair.map(|(_, value)| value.trim().trim_matches('"')));
        match said {
            Some(said) if said.eq_ignore_ascii_case("https") => "https",
            _ => self.scheme(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_proxy_in_front_says_how_it_was_called() {
        let scheme = |tls: bool, name: &'static str, value: &'static str| {
            let headers =
                HeaderMap::from_iter([(name.parse().expect("a name"), HeaderValue::from_static(value))]);
            Peer { route: Route::Unix { owner: false }, tls }.scheme_outside(&headers)
        };
        for (name, value) in [
            ("x-forwarded-proto", "https"),
            ("x-forwarded-proto", "HTTPS, http"),
            ("forwarded", "for=192.0.2.1;proto=https;by=203.0.113.4, for=10.0.0.1;proto=http"),
            ("forwarded", "Proto=\"https\""),
        ] {
            assert_eq!(scheme(false, name, value), "https", "{name}: {value}");
        }
        for (name, value) in [
            ("x-forwarded-proto", "http, https"),
            ("x-forwarded-proto", "javascript"),
            ("forwarded", "for=1;x=https"),
            ("x", "https"),
        ] {
            assert_eq!(scheme(false, name, value), "http", "{name}: {value}");
            assert_eq!(scheme(true, name, value), "https", "{name}: {value}");
        }
    }
}
