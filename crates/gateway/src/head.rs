//! Heads of requests on their way to a node, and of answers on their way back.

use axum::http::request::Parts;
use axum::http::uri::{Authority, PathAndQuery, Scheme};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, Version, header};
use paddock_client::Address;
use paddock_model::api::{
    GATEWAY_CALLER_HEADER, GATEWAY_HEADER, GATEWAY_PORT_HEADER, GATEWAY_PROTOCOL, GATEWAY_PROTOCOL_HEADER,
};
use paddock_server::front::{E2B_PORT, E2B_SANDBOX, Failure, REQUEST_ID, strip_hop_by_hop};

/// Every header with this beginning is between gateway and node, or for the gateway. None of a client's is passed on.
const OURS: &str = "paddock-";
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// How one request is to reach its node.
pub struct Toward<'a> {
    pub address: &'a Address,
    pub key: &'a HeaderValue,
    pub caller: Option<&'a HeaderValue>,
    pub request_id: Option<&'a str>,
    /// The scheme by which the client called the gateway.
    pub scheme: &'static str,
    pub kind: RequestKind<'a>,
}

/// The kind of request that the node has to take it for, whatever its path looks like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RequestKind<'a> {
    #[default]
    Api,
    /// The host names a port inside. A node that does not know the domain must not take the path for one of its own.
    PortByHost,
    /// E2B's, for this sandbox. The header is set anew: a client may have named it among those of its connection.
    E2bData { sandbox: &'a str, port: Option<u16> },
}

/// The beginning of the address that the client called, and of the same as the node takes it to be.
#[derive(Debug, PartialEq, Eq)]
pub struct Origins {
    client: String,
    node: String,
}

/// The Host stays as the client wrote it, so that addresses in the answer are the gateway's. The key is what makes a node believe the rest;
/// so it is put in last.
pub fn for_node(parts: &mut Parts, toward: &Toward) -> Result<Origins, Failure> {
    let target = parts.uri.path_and_query().cloned().unwrap_or(PathAndQuery::from_static("/"));
    let host = host(&parts.uri, &parts.headers).unwrap_or_else(|| toward.address.host());
    let scheme = match toward.address {
        Address::Tcp { tls: true, .. } => "https",
        _ => "http",
    };
    let origins =
        Origins { client: format!("{}://{host}", toward.scheme), node: format!("{scheme}://{host}") };
    parts.uri = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(Authority::from_static("node"))
        .path_and_query(target)
        .build()
        .map_err(|_| Failure::invalid("the path is not valid"))?;
    parts.version = Version::HTTP_11;
    let headers = &mut parts.headers;
    clean(headers);
    let value =
        |text: &str| HeaderValue::from_str(text).map_err(|_| Failure::invalid("the host is not valid"));
    headers.insert(header::HOST, value(&host)?);
    if let Some(id) = toward.request_id {
        headers.insert(REQUEST_ID, value(id)?);
    }
    headers.insert(GATEWAY_PROTOCOL_HEADER, HeaderValue::from(GATEWAY_PROTOCOL));
    if toward.scheme == "https" {
        // Addresses in the body of an answer are the client's, too.
        headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
    }
    match toward.kind {
        RequestKind::Api => {}
        RequestKind::PortByHost => {
            headers.insert(GATEWAY_PORT_HEADER, HeaderValue::from_static("1"));
        }
        RequestKind::E2bData { sandbox, port } => {
            headers.insert(E2B_SANDBOX, value(sandbox)?);
            if let Some(port) = port {
                headers.insert(E2B_PORT, HeaderValue::from(port));
            }
        }
    }
    if let Some(caller) = toward.caller {
        headers.insert(GATEWAY_CALLER_HEADER, caller.clone());
    }
    headers.insert(GATEWAY_HEADER, toward.key.clone());
    Ok(origins)
}

/// Takes away what is for this connection and for this gateway.
fn clean(headers: &mut HeaderMap) {
    let ours: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(OURS)).cloned().collect();
    for name in ours {
        headers.remove(name);
    }
    strip_hop_by_hop(headers);
    // This server has answered it already.
    headers.remove(header::EXPECT);
}

/// `upgraded`: the node has changed to another protocol, as the client asked.
pub fn for_client(headers: &mut HeaderMap, origins: &Origins, upgraded: bool) {
    let protocol = headers.get(header::UPGRADE).cloned();
    strip_hop_by_hop(headers);
    if upgraded {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Some(protocol) = protocol {
            headers.insert(header::UPGRADE, protocol);
        }
    }
    if origins.client.starts_with("https:") {
        secure_own_cookie(headers);
    }
    let location = headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
    if let Some(moved) = location.and_then(|location| moved(location, origins)) {
        headers.insert(header::LOCATION, moved);
    }
}

/// The cookie with a right to a port. The node may not know that its client speaks TLS with the gateway.
fn secure_own_cookie(headers: &mut HeaderMap) {
    let cookies: Vec<HeaderValue> = headers.get_all(header::SET_COOKIE).iter().cloned().collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        let text = cookie
            .to_str()
            .ok()
            .filter(|text| text.starts_with("paddock_token=") && !text.contains("; Secure"));
        let secured = text.and_then(|text| HeaderValue::from_str(&format!("{text}; Secure")).ok());
        headers.append(header::SET_COOKIE, secured.unwrap_or(cookie));
    }
}

/// A node that leads on to an address of its own means the same of the gateway's.
fn moved(location: &str, origins: &Origins) -> Option<HeaderValue> {
    let rest = location.strip_prefix(origins.node.as_str())?;
    // The name goes on: it is another one.
    let ends = rest.is_empty() || rest.starts_with(['/', '?', '#']);
    ends.then(|| HeaderValue::from_str(&format!("{}{rest}", origins.client)).ok())?
}

fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let header = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    uri.authority().map(Authority::as_str).or(header).map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Request;

    fn sent(url: &str, headers: &[(&str, &str)]) -> (Parts, Origins) {
        let mut request = Request::builder().uri("/v1/sandboxes/sb-1?x=%20");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (mut parts, ()) = request.body(()).expect("a request").into_parts();
        let address = Address::parse(url).expect("an address");
        let (key, caller) = (HeaderValue::from_static("key"), HeaderValue::from_static("caller"));
        let toward = Toward {
            address: &address,
            key: &key,
            caller: Some(&caller),
            request_id: Some("rq-1"),
            scheme: "https",
            kind: RequestKind::E2bData { sandbox: "sb-7", port: None },
        };
        let origins = for_node(&mut parts, &toward).expect("valid");
        (parts, origins)
    }

    #[test]
    fn nothing_of_a_client_speaks_for_the_gateway() {
        let smuggled = [
            ("host", "box.example"),
            ("paddock-gateway", "mine"),
            ("Paddock-Caller", "me"),
            ("paddock-caller", "also me"),
            ("paddock-node", "7"),
            ("paddock-anything-later", "1"),
            ("connection", "x-own, e2b-sandbox-id"),
            ("e2b-sandbox-id", "sb-other"),
            ("x-own", "1"),
            ("expect", "100-continue"),
            ("x-kept", "2"),
            ("x-forwarded-proto", "http"),
        ];
        let (parts, _) = sent("http://10.0.0.7:70", &smuggled);
        let all = |name: &str| parts.headers.get_all(name).iter().cloned().collect::<Vec<_>>();
        assert_eq!(all("paddock-gateway"), ["key"]);
        assert_eq!(all("paddock-caller"), ["caller"]);
        for gone in ["paddock-node", "paddock-anything-later", "x-own", "connection", "expect"] {
            assert!(all(gone).is_empty(), "{gone}");
        }
        assert_eq!((all("x-kept").len(), all("host")), (1, vec![HeaderValue::from_static("box.example")]));
        assert_eq!(parts.uri.path_and_query().expect("a path"), "/v1/sandboxes/sb-1?x=%20");
        assert_eq!(parts.headers["x-request-id"], "rq-1");
        assert_eq!(all("x-forwarded-proto"), ["https"], "the client speaks TLS with the gateway");
        assert_eq!(all("e2b-sandbox-id"), ["sb-7"]);
    }

    #[test]
    fn the_name_by_which_the_client_called_stays() {
        let (parts, origins) =
            sent("http://10.0.0.7:70", &[("host", "3000-sb-1.box.example"), ("origin", "https://x")]);
        assert_eq!(
            (&parts.headers["host"], &parts.headers["origin"]),
            (&HeaderValue::from_static("3000-sb-1.box.example"), &HeaderValue::from_static("https://x"))
        );
        let moved = |location: &str| moved(location, &origins);
        assert_eq!(
            moved("http://3000-sb-1.box.example/x?y").expect("moved"),
            "https://3000-sb-1.box.example/x?y"
        );
        for location in [
            "/x",
            "http://3000-sb-1.box.example.evil/",
            "http://elsewhere/",
            "https://3000-sb-1.box.example/",
        ] {
            assert_eq!(moved(location), None, "{location}");
        }
        let (parts, _) = sent("http://10.0.0.7:70", &[]);
        assert_eq!(parts.headers["host"], "10.0.0.7:70");
    }

    #[test]
    fn only_our_own_cookie_is_made_secure() {
        let mut headers = HeaderMap::new();
        headers.append(header::SET_COOKIE, HeaderValue::from_static("id=1"));
        headers.append(header::SET_COOKIE, HeaderValue::from_static("paddock_token=a; HttpOnly"));
        secure_own_cookie(&mut headers);
        let all: Vec<_> = headers.get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(all, ["id=1", "paddock_token=a; HttpOnly; Secure"]);
    }
}
