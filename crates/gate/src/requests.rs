//! Judges a request by the host that it names and by the method that it really means.

use crate::flows::Target;
use crate::own::is_own;
use crate::wire::head::authority;
use crate::wire::host::Host;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Version};
use paddock_model::net::{Denial, NetRules};

/// Headers by which frameworks take another method than the one of the first line.
const OVERRIDES: [&str; 6] = [
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-method",
    "x-http-verb",
    "x-original-method",
];
/// The same as parameters.
const PARAMETERS: [&str; 6] =
    ["_method", "$httpmethod", "httpmethod", "x-http-method-override", "x-http-method", "x-method-override"];
/// A header that names none of these names no method.
const METHODS: [&str; 27] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "OPTIONS",
    "TRACE",
    "CONNECT",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "MKCOL",
    "PROPFIND",
    "PROPPATCH",
    "SEARCH",
    "REPORT",
    "MERGE",
    "PURGE",
    "LINK",
    "UNLINK",
    "BIND",
    "UNBIND",
    "ACL",
    "QUERY",
    "UPDATE",
];

/// Refuses this method, and any other that a server could take in its place, unless the rules let it pass.
pub fn judge_method(rules: &NetRules, parts: &Parts) -> Result<(), Denial> {
    if rules.methods.is_none() {
        return Ok(());
    }
    rules.method(parts.method.as_str())?;
    for (name, value) in &parts.headers {
        let plain = name.as_str().replace('_', "-");
        let known = OVERRIDES.contains(&plain.as_str());
        let likely =
            (plain.contains("method") || plain.contains("verb")) && !plain.starts_with("access-control-");
        if known || likely {
            judge_words(rules, &String::from_utf8_lossy(value.as_bytes()), known)?;
        }
    }
    let pairs = parts.uri.query().unwrap_or_default().split(['&', ';']);
    for (name, value) in pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))) {
        if PARAMETERS.contains(&decoded(name).to_ascii_lowercase().as_str()) {
            judge_words(rules, &decoded(value), true)?;
        }
    }
    Ok(())
}

/// `all`: each word counts as a method, even an unknown one.
fn judge_words(rules: &NetRules, text: &str, all: bool) -> Result<(), Denial> {
    let words = text.split(',').map(|word| word.trim().to_ascii_uppercase()).filter(|word| !word.is_empty());
    for word in words {
        if all || METHODS.contains(&word.as_str()) {
            rules.method(&word)?;
        }
    }
    Ok(())
}

/// Percent-encoding undone, once.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = escaped.and_then(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok());
        out.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Refuses the host that the request names, unless it may be asked for on a connection to the target. `is_bound`: a
/// secret is bound to the target.
pub fn judge_host(rules: &NetRules, parts: &Parts, target: &Target, is_bound: bool) -> Result<(), Denial> {
    let mut named = parts.headers.get_all(header::HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => host,
        // The gate puts the target's own name there.
        (None, None) if parts.version == Version::HTTP_10 => return Ok(()),
        _ => return Err(Denial::Malformed),
    };
    let shown = || Denial::HostHeader(String::from_utf8_lossy(host.as_bytes()).chars().take(80).collect());
    let (found, _) = host.to_str().ok().and_then(authority).ok_or_else(shown)?;
    let allowed = match (&found, &target.host) {
        (found, host) if found == host => true,
        // A front that many hosts share would pass a value on to another of them, allowed or not.
        _ if is_bound => false,
        (Host::Name(name), Host::Name(_)) => rules.name(name, target.port).is_ok(),
        // An address that a rule names stands for every host there, except denied ones.
        (Host::Name(name), Host::Address(_)) => rules.denied_name(name, target.port).is_none(),
        (Host::Address(address), _) => rules.address(*address, target.port, is_own(*address)).is_ok(),
    };
    if allowed { Ok(()) } else { Err(shown()) }
}

/// The value of `Upgrade`, where the client wants a WebSocket.
pub fn wanted_socket(parts: &Parts) -> Option<HeaderValue> {
    let listed = |name, wanted: &str| {
        let values = parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|word| word.trim().eq_ignore_ascii_case(wanted))
    };
    let value = parts.headers.get(header::UPGRADE)?;
    let possible = parts.method == Method::GET && parts.version == Version::HTTP_11;
    let asked = listed(header::CONNECTION, "upgrade") && value.as_bytes().eq_ignore_ascii_case(b"websocket");
    (possible && asked).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;
    use paddock_model::net::{DomainName, NetLayer, Way};

    fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn no_header_and_no_parameter_brings_another_method() {
        let rules = NetRules { methods: Some(vec!["GET".into(), "POST".into()]), ..NetRules::default() };
        let judge = |headers: &[(&str, &str)], uri: &str| judge_method(&rules, &parts("POST", uri, headers));
        for name in OVERRIDES.iter().chain(&["x_http_method_override", "x-custom-method", "x-some-verb"]) {
            for value in ["DELETE", "delete", " Delete ", "GET, DELETE"] {
                assert_eq!(
                    judge(&[(name, value)], "/"),
                    Err(Denial::Method("DELETE".into())),
                    "{name}: {value}"
                );
            }
            assert_eq!(judge(&[(name, "POST")], "/"), Ok(()), "{name}");
        }
        for uri in
            ["/?_method=DELETE", "/?a=1&_method=delete", "/?%5fmethod=%44ELETE", "/?a;$httpMethod=DELETE"]
        {
            assert_eq!(judge(&[], uri), Err(Denial::Method("DELETE".into())), "{uri}");
        }
        for fine in ["/?_method=post", "/?method=delete", "/?x=_method"] {
            assert_eq!(judge(&[], fine), Ok(()), "{fine}");
        }
        let harmless =
            [("access-control-request-method", "DELETE"), ("x-payment-method", "card"), ("x-verbose", "1")];
        assert_eq!(judge(&harmless, "/"), Ok(()));
        let none = NetRules::default();
        assert_eq!(judge_method(&none, &parts("DELETE", "/", &[("x-http-method", "PUT")])), Ok(()));
    }

    #[test]
    fn a_request_is_for_the_host_that_was_connected_to_or_an_allowed_one() {
        let layer = NetLayer {
            allow: ["front.test", "other.test", "192.0.2.7"].map(String::from).to_vec(),
            deny: vec!["evil.test".into()],
            ..NetLayer::default()
        };
        let rules = layer.resolve(&|_| None, &|_| false).unwrap();
        let name = Host::Name(DomainName::parse("front.test").unwrap());
        let address = Host::Address("192.0.2.7".parse().unwrap());
        let judge = |to: &Host, host: &str, is_bound| {
            let target = Target { host: to.clone(), port: 80, way: Way::Connect };
            judge_host(&rules, &parts("GET", "/", &[("host", host)]), &target, is_bound).is_ok()
        };
        assert!(judge(&name, "front.test", false) && judge(&name, "FRONT.test:80", true));
        assert!(judge(&name, "other.test", false) && !judge(&name, "other.test", true));
        for host in ["evil.test", "EVIL.test.", "unlisted.test", "a@evil.test", "127.0.0.1", "", "x y"] {
            assert!(!judge(&name, host, false), "{host}");
        }
        assert!(judge(&address, "192.0.2.7", false) && judge(&address, "unlisted.test", false));
        assert!(!judge(&address, "evil.test", false) && !judge(&address, "evil.test:80", false));
        let target = Target { host: name, port: 80, way: Way::Connect };
        let twice = parts("GET", "/", &[("host", "front.test"), ("host", "evil.test")]);
        assert_eq!(judge_host(&rules, &twice, &target, false), Err(Denial::Malformed));
        assert_eq!(judge_host(&rules, &parts("GET", "/", &[]), &target, false), Err(Denial::Malformed));
    }

    #[test]
    fn only_a_websocket_is_an_upgrade() {
        let asks = |upgrade: &str| {
            let headers = [("connection", "keep-alive, Upgrade"), ("upgrade", upgrade)];
            wanted_socket(&parts("GET", "/", &headers)).is_some()
        };
        assert!(asks("websocket") && asks("WebSocket"));
        assert!(!asks("h2c") && !asks("TLS/1.0") && !asks("websocket, h2c"));
        assert!(wanted_socket(&parts("GET", "/", &[("upgrade", "websocket")])).is_none());
    }
}
