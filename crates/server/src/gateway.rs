//! Requests of a gateway: it shows its key and names the caller. Its headers are taken out before anything else sees the request, so that
//! they reach no program inside and no log; what they said is put beside the request, where everything that looks for a caller looks
//! first.

use crate::app::App;
use crate::auth;
use crate::errors::Failure;
use crate::gateway_key::GatewayKey;
use crate::peer::{Peer, Route};
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap};
use axum::middleware::Next;
use axum::response::Response;
use paddock_fleet::Actor;
use paddock_model::api::{
    GATEWAY_CALLER_HEADER, GATEWAY_HEADER, GATEWAY_PORT_HEADER, GATEWAY_PROTOCOL, GATEWAY_PROTOCOL_HEADER,
    GatewayCaller, gateway_protocols_meet,
};

const OWN_HEADERS: [&str; 4] =
    [GATEWAY_HEADER, GATEWAY_PROTOCOL_HEADER, GATEWAY_CALLER_HEADER, GATEWAY_PORT_HEADER];

/// What the gateway's headers said. Put into each request that has one of them, also where they are refused.
#[derive(Clone)]
struct Said(Result<Named, Failure>);

#[derive(Clone)]
enum Named {
    /// The client is a stranger, who may hold a right that needs no token.
    Nobody,
    Caller(Actor),
    /// The holder of the token that the client's right names. The client itself is a stranger.
    HolderOf(Actor),
}

/// Takes the gateway's headers out of a request. Precondition: called once, before the request is routed.
pub fn admit(app: &App, request: &mut Request) {
    if !OWN_HEADERS.iter().any(|name| request.headers().contains_key(*name)) {
        return;
    }
    let said = read(app.options().gateway_key.as_ref(), request.headers());
    if request.headers().contains_key(GATEWAY_PORT_HEADER) {
        request.extensions_mut().insert(ForPort);
    }
    for name in OWN_HEADERS {
        request.headers_mut().remove(name);
    }
    // The gateway's socket is not its client's: what a client may do is said by the gateway, never by the connection.
    if let Some(peer) = request.extensions_mut().get_mut::<Peer>()
        && let Route::Unix { owner } = &mut peer.route
    {
        *owner = false;
    }
    let said = said.map(|caller| {
        auth::is_known(request.extensions());
        match caller {
            None => Named::Nobody,
            Some(caller) => {
                if let Some(quota) = &caller.quota {
                    app.fleet().tell_quota(&caller.tenant, quota);
                }
                let GatewayCaller { tenant, role, owner, token, derived, .. } = caller;
                let actor = Actor { tenant, role, owner, token };
                if derived { Named::HolderOf(actor) } else { Named::Caller(actor) }
            }
        }
    });
    request.extensions_mut().insert(Said(said));
}

/// Refuses a request whose gateway headers are wrong, whatever it asks.
pub async fn refuse_wrong(request: Request, next: Next) -> Result<Response, Failure> {
    if let Some(Said(Err(failure))) = request.extensions().get::<Said>() {
        return Err(failure.clone());
    }
    Ok(next.run(request).await)
}

/// True for a request that a gateway passed on, with or without a caller.
pub fn is_from_gateway(extensions: &Extensions) -> bool {
    matches!(extensions.get::<Said>(), Some(Said(Ok(_))))
}

/// Put into requests whose Host names a port inside, as the gateway says.
#[derive(Clone, Copy)]
struct ForPort;

/// True for a request whose path is for a program inside, by the gateway's word. It is never for a route of this server, also where this
/// server does not know the name.
pub fn is_for_port(extensions: &Extensions) -> bool {
    extensions.get::<ForPort>().is_some()
}

/// The caller that the gateway names. `None`: there is no gateway, or its client is a stranger.
pub fn caller(extensions: &Extensions) -> Result<Option<Actor>, Failure> {
    match extensions.get::<Said>() {
        None | Some(Said(Ok(Named::Nobody | Named::HolderOf(_)))) => Ok(None),
        Some(Said(Ok(Named::Caller(actor)))) => Ok(Some(actor.clone())),
        Some(Said(Err(failure))) => Err(failure.clone()),
    }
}

/// Whom the gateway names as the holder of a token. It counts for rights that were derived from that token.
pub fn holder(extensions: &Extensions) -> Option<&Actor> {
    match extensions.get::<Said>() {
        Some(Said(Ok(Named::Caller(actor) | Named::HolderOf(actor)))) => Some(actor),
        _ => None,
    }
}

fn read(key: Option<&GatewayKey>, headers: &HeaderMap) -> Result<Option<GatewayCaller>, Failure> {
    let Some(shown) = one(headers, GATEWAY_HEADER)? else {
        return Err(Failure::invalid(
            "the headers Paddock-Caller, Paddock-Port and Paddock-Gateway-Protocol are a gateway's, and there is no Paddock-Gateway",
        )
        .hint("Send Authorization: Bearer SECRET instead."));
    };
    // The key is looked at before all else: a stranger learns nothing from the other headers.
    if !key.is_some_and(|key| key.is(shown)) {
        return Err(Failure::unauthorized(
            "the header Paddock-Gateway is not the key of this node's gateway",
        )
        .hint("The key is the file of `paddock serve --gateway-key`."));
    }
    let protocol = one(headers, GATEWAY_PROTOCOL_HEADER)?.unwrap_or_default();
    let digits = (1..=4).contains(&protocol.len()) && protocol.bytes().all(|byte| byte.is_ascii_digit());
    let number = if digits { protocol.parse::<u32>().ok() } else { None };
    if !number.is_some_and(|number| gateway_protocols_meet(number, GATEWAY_PROTOCOL)) {
        return Err(Failure::invalid(format!(
            "the header Paddock-Gateway-Protocol: {:?} is not a version that this node speaks",
            crate::errors::shorten(protocol)
        ))
        .hint(format!(
            "This node speaks {GATEWAY_PROTOCOL}, and with gateways of one older or newer: bring both to versions of Paddock that \
             are closer."
        )));
    }
    let Some(text) = one(headers, GATEWAY_CALLER_HEADER)? else { return Ok(None) };
    let caller = GatewayCaller::decode(text)
        .map_err(|error| Failure::invalid(format!("the header Paddock-Caller is not valid: {error}")))?;
    Ok(Some(caller))
}

/// The one value of a header.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Failure> {
    let mut given = headers.get_all(name).iter();
    let Some(value) = given.next() else { return Ok(None) };
    match value.to_str() {
        Ok(text) if given.next().is_none() => Ok(Some(text)),
        _ => Err(Failure::invalid(format!("the header {name} is given twice, or is no text"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::Role;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn said(headers: &[(&'static str, &str)]) -> Result<Option<GatewayCaller>, u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a header"));
        }
        read(GatewayKey::new(KEY).as_ref(), &map).map_err(|failure| failure.status.as_u16())
    }

    fn named() -> String {
        let caller = GatewayCaller {
            tenant: "a".into(),
            role: Role::User,
            owner: false,
            token: "tk-0000000000000001".into(),
            derived: false,
            quota: None,
        };
        caller.encode().expect("a caller")
    }

    #[test]
    fn only_the_key_gives_a_word_weight() {
        let caller = named();
        let (key, version) = ((GATEWAY_HEADER, KEY), (GATEWAY_PROTOCOL_HEADER, "1"));
        let who = (GATEWAY_CALLER_HEADER, caller.as_str());
        assert_eq!(said(&[key, version, who]).expect("admitted").expect("a caller").tenant, "a");
        assert_eq!(said(&[key, version]), Ok(None));
        for wrong in ["x", "", &KEY[1..], &format!("{KEY}0"), &KEY.to_uppercase()] {
            assert_eq!(said(&[(GATEWAY_HEADER, wrong), version, who]), Err(401), "{wrong:?}");
        }
        // Without the key nothing is read, however wrong.
        assert_eq!(said(&[(GATEWAY_HEADER, "x"), (GATEWAY_CALLER_HEADER, "!")]), Err(401));
        for headers in [
            &[who][..],
            &[version],
            &[version, who],
            &[key],
            &[key, who],
            &[key, key, version, who],
            &[key, version, version, who],
            &[key, version, who, who],
            &[key, version, (GATEWAY_CALLER_HEADER, "e30")],
            &[key, version, (GATEWAY_CALLER_HEADER, "")],
        ] {
            assert_eq!(said(headers), Err(400), "{headers:?}");
        }
        for other in ["3", "", "-1", "+1", "1.0", "99999"] {
            assert_eq!(said(&[key, (GATEWAY_PROTOCOL_HEADER, other), who]), Err(400), "{other}");
        }
        assert!(said(&[key, (GATEWAY_PROTOCOL_HEADER, "2"), who]).is_ok());
    }

    #[test]
    fn a_server_without_a_key_has_no_gateway() {
        let mut headers = HeaderMap::new();
        for (name, value) in [(GATEWAY_HEADER, KEY), (GATEWAY_PROTOCOL_HEADER, "1")] {
            headers.append(name, value.parse().expect("a header"));
        }
        assert_eq!(read(None, &headers).expect_err("refused").status.as_u16(), 401);
        headers.insert(GATEWAY_HEADER, "".parse().expect("a header"));
        assert_eq!(read(None, &headers).expect_err("refused").status.as_u16(), 401);
    }

    #[test]
    fn a_refused_word_names_nobody() {
        let mut extensions = Extensions::new();
        assert!(matches!(caller(&extensions), Ok(None)) && !is_from_gateway(&extensions));
        extensions.insert(Said(Err(Failure::unauthorized("wrong"))));
        assert!(caller(&extensions).is_err() && holder(&extensions).is_none());
        assert!(!is_from_gateway(&extensions));
        extensions.insert(Said(Ok(Named::Nobody)));
        assert!(matches!(caller(&extensions), Ok(None)) && holder(&extensions).is_none());
        let actor = Actor { token: "tk-1".into(), owner: false, ..Actor::owner() };
        extensions.insert(Said(Ok(Named::HolderOf(actor.clone()))));
        assert!(matches!(caller(&extensions), Ok(None)));
        assert_eq!(holder(&extensions), Some(&actor));
        extensions.insert(Said(Ok(Named::Caller(actor.clone()))));
        assert!(matches!(caller(&extensions), Ok(Some(found)) if found == actor));
    }
}
