//! The registry in the name of an image. A name that a script or a model chose must not send a request to an address
//! that only the host can reach; the engine checks the address that is connected to, this module the text.

use super::domain::DomainName;
use super::rule::{Rule, Target};
use super::special::is_special;
use std::net::IpAddr;

enum Host {
    Name(DomainName),
    Address(IpAddr),
}

/// True if the text alone shows that the registry is on the host or in its networks.
pub fn is_registry_inside(image: &str) -> bool {
    match registry(image) {
        Some((Host::Address(address), _)) => is_special(address),
        Some((Host::Name(name), _)) => name.as_str() == "localhost" || name.as_str().ends_with(".localhost"),
        None => false,
    }
}

/// True if one of these rules, which the person wrote, names the image's registry with its port. A rule for many names
/// means none of them in particular.
pub fn vouches_for_registry(allow: &[String], image: &str) -> bool {
    let Some((host, port)) = registry(image) else { return false };
    let fits = |rule: &Rule| {
        let named = match &host {
            Host::Name(name) => matches!(&rule.target, Target::Name(own) if own == name),
            Host::Address(address) => rule.matches_address(*address),
        };
        named && rule.ports.allow(port)
    };
    allow.iter().filter_map(|text| Rule::parse(text).ok()).any(|rule| fits(&rule))
}

/// Host and port; `None` where the name has no registry of its own.
fn registry(image: &str) -> Option<(Host, u16)> {
    let (first, _) = image.split_once('/')?;
    if !first.contains(['.', ':']) && first != "localhost" {
        return None;
    }
    let (host, port) = match first.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(host, port)| (host, port.strip_prefix(':')))?,
        None => first.split_once(':').map_or((first, None), |(host, port)| (host, Some(port))),
    };
    let port = port.map_or(Some(443), |port| port.parse().ok())?;
    let host = match host.parse::<IpAddr>() {
        Ok(address) => Host::Address(address.to_canonical()),
        Err(_) => Host::Name(DomainName::parse(host).ok()?),
    };
    Some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_of_the_host_is_known_by_its_name() {
        for inside in [
            "127.0.0.1:18080/x",
            "localhost/x",
            "localhost:5000/x",
            "a.localhost:5000/x",
            "[::1]:5000/x",
            "10.0.0.1/x",
            "169.254.169.254/latest/meta-data",
            "[::ffff:127.0.0.1]/x",
        ] {
            assert!(is_registry_inside(inside), "{inside}");
        }
        for outside in ["python:3.12", "some/tool", "ghcr.io/a/b:1", "1.1.1.1:5000/x", "localhost", "[::1"] {
            assert!(!is_registry_inside(outside), "{outside}");
        }
    }

    #[test]
    fn a_rule_with_its_port_vouches_for_a_registry() {
        let vouches = |rule: &str, image| vouches_for_registry(&[rule.to_string()], image);
        assert!(vouches("127.0.0.1:18080", "127.0.0.1:18080/x"));
        assert!(vouches("registry.corp", "registry.corp/x"));
        assert!(vouches("[::1]:5000", "[::1]:5000/x"));
        assert!(!vouches("127.0.0.1", "127.0.0.1:18080/x"));
        assert!(!vouches("127.0.0.2:18080", "127.0.0.1:18080/x"));
        assert!(!vouches("*", "evil.example/x") && !vouches("*.example", "evil.example/x"));
    }
}
