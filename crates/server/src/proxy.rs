//! One request to a port inside and its answer, streamed both ways, upgrades included. Both ends can be hostile.

use crate::app::App;
use crate::errors::Failure;
use crate::peer::Peer;
use crate::ports::TOKEN;
use crate::revoked::Leash;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, Version, header};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use paddock_fleet::{Actor, PortStream};

/// Which port is meant, and how the outside names it.
pub struct Inside {
    pub sandbox: String,
    pub port: u16,
    /// The outside's path before the path inside; empty where the host names the port.
    pub prefix: String,
    /// The path inside, with its slash.
    pub rest: String,
    /// With its `?`, without a token of ours; empty where there is none.
    pub query: String,
}

/// Headers of one connection only, which are never passed on.
const HOP_BY_HOP: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Headers that would speak for this server's whole name, or to the proxies before it.
const NOT_FROM_INSIDE: [&str; 6] = [
    "strict-transport-security",
    "clear-site-data",
    "service-worker-allowed",
    "alt-svc",
    "x-accel-redirect",
    "public-key-pins",
];

pub async fn forward(
    app: &App,
    actor: &Actor,
    inside: &Inside,
    mut request: Request,
    peer: Option<Peer>,
    leash: Option<Leash>,
) -> Result<Response, Failure> {
    let stream = tokio::select! {
        () = app.ending().cancelled() => return Err(Failure::shutting_down()),
        stream = app.fleet().connect_port(actor, &inside.sandbox, inside.port) => stream?,
    };
    // By default the program inside sees itself as on a developer's computer; so no check of names fails there.
    let host = app.fleet().request_host(actor, &inside.sandbox, inside.port);
    let upgrade = wanted_upgrade(&request);
    let outside = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let request = for_inside(request, inside, &host, peer, upgrade.as_ref())?;
    let mut response = exchange(app, stream, inside, request).await?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(outside), Some(_)) = (outside, &upgrade) else {
            return Err(broken(inside, "it switched protocols without being asked to"));
        };
        let within = hyper::upgrade::on(&mut response);
        join(app, outside, within, leash);
    }
    for_outside(&mut response, inside, &host, upgrade.is_some());
    Ok(response)
}

async fn exchange(
    app: &App,
    stream: PortStream,
    inside: &Inside,
    request: Request,
) -> Result<Response, Failure> {
    let limits = app.limits();
    let builder = {
        let mut builder = http1::Builder::new();
        builder.max_headers(limits.header_count).max_buf_size(limits.header_bytes);
        builder
    };
    let failed = |error: hyper::Error| broken(inside, &error.to_string());
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
    // Ends with the answer's body, or when its reader goes.
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(error = ?error.to_string(), "a connection to a port inside broke");
        }
    });
    tokio::select! {
        () = app.ending().cancelled() => Err(Failure::shutting_down()),
        response = sender.send_request(request) => Ok(response.map_err(failed)?.map(Body::new)),
    }
}

/// Both have agreed on something else than HTTP: from here on bytes are only carried.
pub fn join(app: &App, outside: OnUpgrade, within: OnUpgrade, leash: Option<Leash>) {
    let ending = app.ending().clone();
    let active = app.activity().begin();
    app.upgrades().spawn(async move {
        let _active = active;
        let carried = async {
            let (outside, within) = tokio::try_join!(outside, within)?;
            let (mut outside, mut within) = (TokioIo::new(outside), TokioIo::new(within));
            let _ = tokio::io::copy_bidirectional(&mut outside, &mut within).await;
            Ok::<(), hyper::Error>(())
        };
        let revoked = async {
            match &leash {
                Some(leash) => leash.ends().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // After a revocation nothing more is carried, however much there is to carry.
            biased;
            () = ending.cancelled() => {}
            () = revoked => {}
            _ = carried => {}
        }
    });
}

/// The protocol that the client wants to change to, if this request can.
pub fn wanted_upgrade(request: &Request) -> Option<HeaderValue> {
    let asked =
        lists(request.headers(), &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    let possible = *request.method() == Method::GET && request.version() == Version::HTTP_11;
    request.headers().get(header::UPGRADE).filter(|_| asked && possible).cloned()
}

fn for_inside(
    request: Request,
    inside: &Inside,
    host: &str,
    peer: Option<Peer>,
    upgrade: Option<&HeaderValue>,
) -> Result<Request, Failure> {
    let (mut parts, body) = request.into_parts();
    let target: Result<Uri, _> = format!("{}{}", inside.rest, inside.query).parse();
    let outside = parts.uri.authority().and_then(|authority| authority.as_str().parse().ok());
    let outside: Option<HeaderValue> = outside.or_else(|| parts.headers.get(header::HOST).cloned());
    parts.uri = target.map_err(|_| Failure::invalid("the path is not valid"))?;
    parts.version = Version::HTTP_11;
    parts.extensions.clear();

    let headers = &mut parts.headers;
    strip_hop_by_hop(headers);
    for name in
        ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix"]
    {
        headers.remove(name);
    }
    let own = |text: String| HeaderValue::from_str(&text).map_err(|_| Failure::internal());
    headers.insert(header::HOST, own(host.to_string())?);
    if headers.contains_key(header::ORIGIN) {
        headers.insert(header::ORIGIN, own(format!("http://{host}"))?);
    }
    headers.insert("x-forwarded-proto", HeaderValue::from_static(peer.map_or("http", |peer| peer.scheme())));
    if let Some(outside) = outside {
        headers.insert("x-forwarded-host", outside);
    }
    if !inside.prefix.is_empty() {
        headers.insert("x-forwarded-prefix", own(inside.prefix.clone())?);
    }
    if let Some(protocol) = upgrade {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, protocol.clone());
    }
    Ok(Request::from_parts(parts, body))
}

fn for_outside(response: &mut Response, inside: &Inside, host: &str, upgrade: bool) {
    let switched = response.status() == StatusCode::SWITCHING_PROTOCOLS && upgrade;
    let headers = response.headers_mut();
    let protocol = headers.get(header::UPGRADE).cloned();
    strip_hop_by_hop(headers);
    for name in NOT_FROM_INSIDE {
        headers.remove(name);
    }
    if switched {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            headers.insert(header::UPGRADE, protocol);
        }
    }
    let cookies: Vec<HeaderValue> =
        headers.get_all(header::SET_COOKIE).iter().filter_map(own_cookie).collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        headers.append(header::SET_COOKIE, cookie);
    }
    let location = headers.get(header::LOCATION).and_then(|location| location.to_str().ok());
    if let Some(location) = location.and_then(|location| moved(location, inside, host)) {
        headers.insert(header::LOCATION, location);
    }
    // The answer's own trailers and ours are different things.
    response.extensions_mut().clear();
}

/// A cookie for the program's own name only; never ours.
fn own_cookie(cookie: &HeaderValue) -> Option<HeaderValue> {
    let text = cookie.to_str().ok()?;
    let mut attributes = text.split(';');
    let pair = attributes.next()?;
    if pair.split('=').next()?.trim() == TOKEN {
        return None;
    }
    let mut kept = pair.to_string();
    for attribute in attributes {
        let name = attribute.split('=').next().unwrap_or_default().trim();
        if !name.eq_ignore_ascii_case("domain") {
            kept.push(';');
            kept.push_str(attribute);
        }
    }
    HeaderValue::from_str(&kept).ok()
}

/// The target of a redirect by the program inside, as seen from outside.
fn moved(location: &str, inside: &Inside, host: &str) -> Option<HeaderValue> {
    let of_port = |name: &str| format!("http://{name}:{}", inside.port);
    let hosts = [of_port("localhost"), of_port("127.0.0.1"), format!("http://{host}")];
    // The rest begins with a slash, or the name of the host goes on there.
    let path = hosts.iter().find_map(|host| location.strip_prefix(host.as_str())).unwrap_or(location);
    if path.starts_with("//") || !path.starts_with('/') {
        return None;
    }
    HeaderValue::from_str(&format!("{}{path}", inside.prefix)).ok()
}

/// Takes away what is about this connection only.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named: Vec<String> = lists(headers, &header::CONNECTION).map(str::to_ascii_lowercase).collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers.remove("keep-alive");
    headers.remove("proxy-connection");
}

fn lists<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|token| !token.is_empty())
}

fn broken(inside: &Inside, detail: &str) -> Failure {
    Failure::new(
        StatusCode::BAD_GATEWAY,
        "port_closed",
        format!(
            "what listens on port {} gave no HTTP answer: {}",
            inside.port,
            crate::errors::shorten(detail)
        ),
    )
    .hint("See whether the program inside speaks HTTP on that port.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside() -> Inside {
        Inside {
            sandbox: "a".into(),
            port: 3000,
            prefix: "/v1/sandboxes/a/ports/3000".into(),
            rest: "/x".into(),
            query: "?q=1".into(),
        }
    }

    #[test]
    fn headers_of_one_connection_stay_there() {
        let request = Request::builder()
            .uri("/v1/sandboxes/a/ports/3000/x?q=1")
            .header("host", "boxes.example")
            .header("connection", "keep-alive, X-Private")
            .header("x-private", "1")
            .header("te", "trailers")
            .header("proxy-authorization", "Basic x")
            .header("x-forwarded-for", "6.6.6.6")
            .header("origin", "http://boxes.example")
            .header("x-kept", "2")
            .body(Body::empty())
            .expect("a request");
        let request = for_inside(request, &inside(), "localhost:3000", None, None).expect("valid");
        assert_eq!(request.uri(), "/x?q=1");
        let names: Vec<&str> = request.headers().keys().map(HeaderName::as_str).collect();
        for gone in ["connection", "x-private", "te", "proxy-authorization", "x-forwarded-for"] {
            assert!(!names.contains(&gone), "{gone}");
        }
        let expected = [
            ("host", "localhost:3000"),
            ("origin", "http://localhost:3000"),
            ("x-kept", "2"),
            ("x-forwarded-host", "boxes.example"),
            ("x-forwarded-prefix", "/v1/sandboxes/a/ports/3000"),
        ];
        for (name, value) in expected {
            assert_eq!(request.headers()[name], value);
        }
    }

    #[test]
    fn answers_from_inside_do_not_speak_for_the_server() {
        let mut response = Response::builder()
            .status(302)
            .header("location", "/login")
            .header("set-cookie", "paddock_token=evil")
            .header("set-cookie", "id=1; Domain=boxes.example; Path=/")
            .header("strict-transport-security", "max-age=1")
            .header("connection", "close")
            .body(Body::empty())
            .expect("a response");
        for_outside(&mut response, &inside(), "localhost:3000", false);
        let headers = response.headers();
        assert_eq!(headers["location"], "/v1/sandboxes/a/ports/3000/login");
        assert_eq!(headers.get_all("set-cookie").iter().collect::<Vec<_>>(), ["id=1; Path=/"]);
        assert!(!headers.contains_key("strict-transport-security") && !headers.contains_key("connection"));
    }

    #[test]
    fn only_the_programs_own_addresses_are_rewritten() {
        assert_eq!(
            moved("http://localhost:3000/a", &inside(), "app.example").expect("moved"),
            "/v1/sandboxes/a/ports/3000/a"
        );
        assert_eq!(
            moved("http://app.example/a", &inside(), "app.example").expect("moved"),
            "/v1/sandboxes/a/ports/3000/a"
        );
        for location in [
            "//evil.example/",
            "https://evil.example/",
            "relative",
            "http://localhost:3001/",
            "http://app.example.evil/",
            "http://app.example:81/",
        ] {
            assert_eq!(moved(location, &inside(), "app.example"), None, "{location}");
        }
    }
}
