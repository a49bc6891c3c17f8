//! The hosts that a caller may make us connect to: a tenant's image reference must not become a request to a host that
//! only the server can reach.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::ImageError;
use crate::reference::RegistryReference;

/// A name is `host` for every port of it, or `host:port`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum RegistryReach {
    #[default]
    Anywhere,
    /// Any registry with a public address: nothing on this host, and nothing in its networks.
    Public,
    /// These registries, wherever they are; a redirect of theirs must lead to one of them or to a public address.
    Named(Vec<String>),
    /// Any registry with a public address, and these wherever they are.
    PublicOr(Vec<String>),
}

/// Stands in the chain of an error of the HTTP client.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not a public address")]
pub struct Refused(pub String);

impl RegistryReach {
    /// Checks the reference, before the first request.
    pub async fn check(&self, reference: &RegistryReference) -> Result<(), ImageError> {
        let refuse = |why| ImageError::RegistryRefused { registry: reference.registry.clone(), why };
        match self {
            RegistryReach::Anywhere => return Ok(()),
            _ if self.names(&reference.registry) => return Ok(()),
            RegistryReach::Named(_) => return Err(refuse("it is not one of those that the server names")),
            RegistryReach::Public | RegistryReach::PublicOr(_) => {}
        }
        let url = Url::parse(&reference.base_url()).map_err(|_| refuse("it is not a host"))?;
        if !self.allows(&url) {
            return Err(refuse("it is not at a public address"));
        }
        // A proxy resolves names itself; an address that is known here to be private is refused all the same.
        let port = url.port_or_known_default().unwrap_or(443);
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_string();
        if let Ok(found) = tokio::net::lookup_host((host, port)).await
            && found.into_iter().any(|address| !is_public(address.ip()))
        {
            return Err(refuse("it is not at a public address"));
        }
        Ok(())
    }

    /// Judges an address in a URL; names are judged when they are resolved.
    pub fn allows(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let port = url.port_or_known_default().unwrap_or(443);
        if *self == RegistryReach::Anywhere || self.names(&format!("{host}:{port}")) {
            return true;
        }
        match host.trim_matches(['[', ']']).parse::<IpAddr>() {
            Ok(address) => is_public(address),
            // If the host is named with a port, only that port is allowed.
            Err(_) => host != "localhost" && !self.names_a_port_of(host),
        }
    }

    fn names_a_port_of(&self, host: &str) -> bool {
        let names = self.named();
        let is_of =
            |name: &String| name.split_once(':').is_some_and(|(name, _)| name.eq_ignore_ascii_case(host));
        names.iter().any(is_of)
    }

    /// True if the host is named, for all of its ports or for one. Host names have no case.
    fn names_some_port_of(&self, host: &str) -> bool {
        let names = self.named();
        names.iter().any(|name| name.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case(host)))
    }

    fn named(&self) -> &[String] {
        match self {
            RegistryReach::Anywhere | RegistryReach::Public => &[],
            RegistryReach::Named(names) | RegistryReach::PublicOr(names) => names,
        }
    }

    fn names(&self, place: &str) -> bool {
        let names = self.named();
        let host = match place.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => place,
        };
        names.iter().any(|name| name.eq_ignore_ascii_case(place) || name.eq_ignore_ascii_case(host))
    }

    /// `None` if every address is allowed.
    pub fn resolver(&self) -> Option<Arc<Guarded>> {
        match self {
            RegistryReach::Anywhere => None,
            reach => Some(Arc::new(Guarded { reach: reach.clone(), proxies: proxies() })),
        }
    }
}

/// A resolver that judges the address that is really connected to, and not one that the name had before.
pub struct Guarded {
    reach: RegistryReach,
    /// The operator's own proxies, wherever they are.
    proxies: Vec<String>,
}

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_string();
        // A name with a port is for that port only, but a resolver is not told the port; the URL was checked before.
        let trusted = self.proxies.contains(&host) || self.reach.names_some_port_of(&host);
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let usable: Vec<SocketAddr> =
                found.into_iter().filter(|address| trusted || is_public(address.ip())).collect();
            if usable.is_empty() {
                return Err(Refused(host).into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

fn proxies() -> Vec<String> {
    let names = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let set = names.iter().filter_map(|name| std::env::var(name).ok());
    set.filter_map(|url| Url::parse(&url).ok()?.host_str().map(str::to_string)).collect()
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let shared = first == 100 && (64..128).contains(&second);
    let protocols = first == 192 && second == 0 && third == 0;
    let measurements = first == 198 && (second == 18 || second == 19);
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        || address.is_multicast()
        || shared
        || protocols
        || measurements
        || first == 0
        || first >= 240)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let embedded = |at: usize| {
        let octets = address.octets();
        Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3])
    };
    if address.to_ipv4_mapped().is_some() {
        return is_public_v4(embedded(12));
    }
    match (first, second) {
        // Translation to IPv4, and tunnels through it.
        (0x64, 0xff9b) => is_public_v4(embedded(12)),
        (0x2002, _) => is_public_v4(embedded(2)),
        (0x2001, 0) | (0x2001, 0xdb8) => false,
        // Global unicast, the only part that is assigned.
        _ => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_world_are_public() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in
            ["1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "2002:808:808::"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn a_name_is_for_all_ports_or_for_one() {
        let reach = RegistryReach::Named(vec![
            "10.0.0.5".into(),
            "registry.example:5000".into(),
            "[::1]:5000".into(),
        ]);
        for (url, allowed) in [
            ("https://10.0.0.5/v2/", true),
            ("https://10.0.0.5:8443/v2/", true),
            ("https://10.0.0.6/v2/", false),
            ("http://[::1]:5000/v2/", true),
            ("http://[::1]:5001/v2/", false),
            ("http://localhost/v2/", false),
            ("https://1.1.1.1/v2/", true),
            ("https://registry.example:5000/v2/", true),
            ("https://registry.example/v2/", false),
        ] {
            assert_eq!(reach.allows(&Url::parse(url).unwrap()), allowed, "{url}");
        }
        let either = RegistryReach::PublicOr(vec!["127.0.0.1:5000".into()]);
        assert!(either.allows(&Url::parse("http://127.0.0.1:5000/").unwrap()));
        assert!(either.allows(&Url::parse("https://1.1.1.1/").unwrap()));
        assert!(!either.allows(&Url::parse("http://127.0.0.1:5001/").unwrap()));
        // A URL and a resolver have the name in small letters, however the operator wrote it.
        let capitals = RegistryReach::Named(vec!["Registry.Example".into(), "Other.Example:5000".into()]);
        assert!(capitals.allows(&Url::parse("https://REGISTRY.example/v2/").unwrap()));
        assert!(
            capitals.names_some_port_of("registry.example") && capitals.names_some_port_of("other.example")
        );
        assert!(!capitals.names_some_port_of("another.example"));
        assert!(reach.names("registry.example:5000") && !reach.names("registry.example"));
        assert!(!RegistryReach::Public.allows(&Url::parse("http://127.0.0.1:80/").unwrap()));
        // A URL writes an address in many ways; the parser knows them.
        assert!(!RegistryReach::Public.allows(&Url::parse("https://0x7f.1/").unwrap()));
    }
}
