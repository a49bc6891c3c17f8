//! Refuses requests that a stranger's web page made a browser send: by a name that was pointed at this host (Host), or
//! from another origin (Origin).

use crate::app::App;
use crate::errors::{Failure, shorten};
use crate::gateway;
use crate::peer::{Peer, Route};
use crate::ui;
use axum::extract::{Request, State};
use axum::http::uri::{Authority, Uri};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use std::net::IpAddr;

pub struct Guard {
    domain: Option<String>,
    allowed: Vec<Name>,
}

/// `host` or `host:port`, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    host: String,
    port: Option<u16>,
}

/// A port inside that a Host names: `{port}-{id}.{domain}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortName {
    pub port: u16,
    pub sandbox: String,
}

pub async fn check(State(app): State<App>, request: Request, next: Next) -> Result<Response, Failure> {
    // No page of a stranger's can send a gateway's key. The gateway checked the Host and the Origin by its own names.
    if gateway::is_from_gateway(request.extensions()) {
        return Ok(next.run(request).await);
    }
    let peer = request.extensions().get::<Peer>().copied();
    if ui::is_asset(request.uri()) {
        // Scripts and styles that hold no data. The frame for results asks for them, and its origin has no name.
        app.guard().allow_host(peer, request.uri(), request.headers())?;
    } else {
        app.guard().allow(peer, request.uri(), request.headers())?;
    }
    Ok(next.run(request).await)
}

impl Guard {
    pub fn new(domain: Option<&str>, allow_hosts: &[String]) -> Guard {
        Guard {
            domain: domain.map(|domain| domain.trim_matches('.').to_ascii_lowercase()),
            allowed: allow_hosts.iter().filter_map(|host| Name::parse(host)).collect(),
        }
    }

    /// The name below which ports inside have names of their own.
    pub fn domain(&self) -> Option<&str> {
        self.domain.as_deref()
    }

    pub fn allow(&self, peer: Option<Peer>, uri: &Uri, headers: &HeaderMap) -> Result<(), Failure> {
        let host = self.allow_host(peer, uri, headers)?;
        match headers.get(header::ORIGIN) {
            None => Ok(()),
            Some(origin) => self.allow_origin(origin.to_str().unwrap_or_default(), &host),
        }
    }

    /// The name by which the server was called, if it is one of its own.
    fn allow_host(&self, peer: Option<Peer>, uri: &Uri, headers: &HeaderMap) -> Result<Name, Failure> {
        let host = named_host(uri, headers)?;
        if !self.host_is_ours(peer, &host) {
            return Err(Failure::forbidden(format!(
                "the host {:?} is not a name of this server",
                shorten(&host.host)
            ))
            .hint("Call the server by its own address, or start it with --allow-host NAME."));
        }
        Ok(host)
    }

    /// The port inside that this request is for, where its Host names one.
    pub fn port_name(&self, uri: &Uri, headers: &HeaderMap) -> Option<PortName> {
        let domain = self.domain.as_deref()?;
        let host = named_host(uri, headers).ok()?.host;
        let label = host.strip_suffix(domain)?.strip_suffix('.')?;
        let (port, sandbox) = label.split_once('-')?;
        let plain =
            port.bytes().all(|byte| byte.is_ascii_digit()) && !sandbox.is_empty() && !sandbox.contains('.');
        let port = port.parse().ok().filter(|port| plain && *port != 0)?;
        Some(PortName { port, sandbox: sandbox.into() })
    }

    fn host_is_ours(&self, peer: Option<Peer>, host: &Name) -> bool {
        // No name can be pointed at a unix socket.
        let Some(Peer { route: Route::Tcp { local }, .. }) = peer else { return true };
        if let Ok(ip) = host.host.trim_matches(['[', ']']).parse::<IpAddr>() {
            let same = |a: IpAddr, b: IpAddr| a.to_canonical() == b.to_canonical();
            return same(ip, local.ip()) || self.is_allowed(host);
        }
        let below_domain = |domain: &String| {
            host.host == *domain
                || host.host.strip_suffix(domain.as_str()).is_some_and(|rest| rest.ends_with('.'))
        };
        host.host == "localhost" || self.domain.as_ref().is_some_and(below_domain) || self.is_allowed(host)
    }

    fn is_allowed(&self, name: &Name) -> bool {
        self.allowed
            .iter()
            .any(|known| known.host == name.host && (known.port.is_none() || known.port == name.port))
    }

    fn allow_origin(&self, origin: &str, host: &Name) -> Result<(), Failure> {
        let parsed = origin.split_once("://").and_then(|(scheme, rest)| {
            let default = match scheme {
                "http" => 80,
                "https" => 443,
                _ => return None,
            };
            Some((default, Name::parse(rest)?))
        });
        let ours = parsed.is_some_and(|(default, name)| {
            let same_port =
                name.port == host.port || name.port.unwrap_or(default) == host.port.unwrap_or(default);
            (name.host == host.host && same_port) || self.is_allowed(&name)
        });
        match ours {
            true => Ok(()),
            false => {
                Err(Failure::forbidden(format!("requests from the origin {:?} are refused", shorten(origin)))
                    .hint(
                        "Only pages of this server itself, or of a name given by --allow-host, may call it.",
                    ))
            }
        }
    }
}

impl Name {
    fn parse(text: &str) -> Option<Name> {
        let authority: Authority = text.parse().ok()?;
        if text.contains('@') || authority.host().is_empty() {
            return None;
        }
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" => None,
            port => Some(port.strip_prefix(':')?.parse().ok()?),
        };
        let host = authority.host().to_ascii_lowercase();
        Some(Name { host: host.strip_suffix('.').unwrap_or(&host).to_string(), port })
    }
}

/// The one host that a request names: in its target (HTTP/2, absolute form), in its Host header, or equal in both.
fn named_host(uri: &Uri, headers: &HeaderMap) -> Result<Name, Failure> {
    let mut given = headers.get_all(header::HOST).iter();
    let header = given.next().map(|value| value.to_str().unwrap_or_default());
    if given.next().is_some() {
        return Err(Failure::invalid("there is more than one Host header"));
    }
    let target = uri.authority().map(Authority::as_str);
    let parse = |text: &str| {
        Name::parse(text)
            .ok_or_else(|| Failure::invalid(format!("the host {:?} is not valid", shorten(text))))
    };
    match (target.map(parse).transpose()?, header.map(parse).transpose()?) {
        (Some(target), Some(header)) if target.host != header.host => {
            Err(Failure::invalid("the target and the Host header name different hosts"))
        }
        (Some(name), _) | (None, Some(name)) => Ok(name),
        (None, None) => Err(Failure::invalid("there is no Host header")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new(Some("Boxes.example"), &["proxy.example".into(), "ui.example:8443".into()])
    }

    fn tcp() -> Option<Peer> {
        let local = "127.0.0.1:8080".parse().expect("an address");
        Some(Peer { route: Route::Tcp { local }, tls: false })
    }

    fn status(peer: Option<Peer>, headers: &[(header::HeaderName, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().expect("a header"));
        }
        guard()
            .allow(peer, &Uri::from_static("/v1/whoami"), &map)
            .map_or_else(|f| f.status.as_u16(), |()| 200)
    }

    #[test]
    fn only_our_own_names_are_answered() {
        for host in
            ["localhost", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "boxes.example", "proxy.example:1"]
        {
            assert_eq!(status(tcp(), &[(header::HOST, host)]), 200, "{host}");
        }
        for host in ["3000-sb-1.boxes.example", "localhost.", "ui.example:8443"] {
            assert_eq!(status(tcp(), &[(header::HOST, host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evilboxes.example",
            "10.0.0.1",
            "ui.example",
            "127.0.0.1.nip.io",
        ] {
            assert_eq!(status(tcp(), &[(header::HOST, host)]), 403, "{host}");
        }
        for host in ["", "a b", "user@localhost", "localhost:x", "localhost:99999", "localhost/"] {
            assert_eq!(status(tcp(), &[(header::HOST, host)]), 400, "{host:?}");
        }
        assert_eq!(status(tcp(), &[]), 400);
        assert_eq!(status(tcp(), &[(header::HOST, "localhost"), (header::HOST, "evil.example")]), 400);
    }

    #[test]
    fn the_socket_has_no_name_to_steal_but_origins_are_checked_there_too() {
        let unix = Some(Peer { route: Route::Unix { owner: true }, tls: false });
        assert_eq!(status(unix, &[(header::HOST, "paddock")]), 200);
        assert_eq!(status(unix, &[(header::HOST, "paddock"), (header::ORIGIN, "https://evil.example")]), 403);
    }

    #[test]
    fn only_pages_of_the_same_origin_may_call() {
        let from = |origin| status(tcp(), &[(header::HOST, "localhost:8080"), (header::ORIGIN, origin)]);
        assert_eq!(from("http://localhost:8080"), 200);
        assert_eq!(from("https://ui.example:8443"), 200);
        for origin in [
            "null",
            "http://localhost:3000",
            "http://localhost",
            "https://evil.example",
            "http://localhost:8080.evil.example",
            "file://localhost:8080",
            "http://evil@localhost:8080",
            "http://3000-sb-1.boxes.example",
        ] {
            assert_eq!(from(origin), 403, "{origin}");
        }
        // Behind a proxy that ends TLS, neither names its port.
        assert_eq!(
            status(tcp(), &[(header::HOST, "boxes.example"), (header::ORIGIN, "https://boxes.example")]),
            200
        );
    }

    #[test]
    fn a_host_name_can_be_a_port_inside() {
        let named = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, host.parse().expect("a header"));
            guard().port_name(&Uri::from_static("/"), &headers)
        };
        let expected = PortName { port: 3000, sandbox: "sb-12ab".into() };
        assert_eq!(named("3000-sb-12ab.boxes.example:8080"), Some(expected));
        for host in [
            "boxes.example",
            "0-a.boxes.example",
            "70000-a.boxes.example",
            "3000-.boxes.example",
            "+3-a.boxes.example",
        ] {
            assert_eq!(named(host), None, "{host}");
        }
        assert_eq!(named("3000-a.b.boxes.example"), None);
    }
}
