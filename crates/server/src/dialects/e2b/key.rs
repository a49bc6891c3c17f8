//! The header `X-API-KEY` of the control plane: an ordinary token of this server.
//!
//! Older SDKs look whether a key is `e2b_` and hexadecimal digits. The secret of a token has 32 bytes, so it can be written that way
//! as well; both ways name the same token.

use super::errors::Refusal;
use crate::app::App;
use crate::auth::{self, Known};
use crate::gateway;
use crate::revoked::{self, Leash};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::borrow::Cow;

pub const HEADER: &str = "x-api-key";
const PREFIX: &str = "e2b_";
pub const OWN_PREFIX: &str = "pdk_";

/// Lets through who holds a token and may use this method.
pub async fn require(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let Known { actor, revoked } = match gateway::caller(request.extensions())? {
        Some(actor) => Known { actor, revoked: None },
        None => identify(&app, request.headers()).await?,
    };
    if actor.only_reads() && *request.method() != Method::GET {
        return Err(auth::reads_only().into());
    }
    tracing::Span::current().record("tenant", actor.tenant.as_str());
    auth::is_known(request.extensions());
    let leash = revoked.map(|revoked| Leash::new(revoked, &request));
    request.extensions_mut().insert(actor);
    Ok(revoked::bounded(leash, next.run(request)).await)
}

/// The holder of the key.
pub async fn identify(app: &App, headers: &HeaderMap) -> Result<Known, Refusal> {
    match app.fleet().authenticate(&own_form(key(headers)?)).await {
        Some(admitted) => Ok(admitted.into()),
        None => Err(Refusal::unauthorized("this API key is not known; paddock token create --e2b makes one")),
    }
}

fn key(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut given = headers.get_all(HEADER).iter();
    match (given.next().and_then(|key| key.to_str().ok()), given.next()) {
        (Some(key), None) if !key.is_empty() => Ok(key),
        (_, Some(_)) => Err(Refusal::unauthorized("there is more than one X-API-KEY header")),
        _ => Err(Refusal::unauthorized("there is no API key: set E2B_API_KEY to a token of this server")),
    }
}

/// `pdk_` and base64, as the server writes its tokens.
pub fn own_form(key: &str) -> Cow<'_, str> {
    let bytes = key.strip_prefix(PREFIX).filter(|digits| digits.len() == 64).and_then(hexadecimal);
    match bytes {
        Some(bytes) => format!("{OWN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)).into(),
        None => key.into(),
    }
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| {
            let text =
                std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u8::from_str_radix(text, 16).ok()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_hexadecimal_digits_is_the_same_token() {
        let bytes = [0xab_u8; 32];
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let own = format!("pdk_{}", URL_SAFE_NO_PAD.encode(bytes));
        assert_eq!(own_form(&format!("e2b_{digits}")), own);
        assert_eq!(own_form(&own), own);
        for other in
            ["", "e2b_", "e2b_abcd", &format!("e2b_{}", "zz".repeat(32)), &format!("e2b_{}", "+a".repeat(32))]
        {
            assert_eq!(own_form(other), other);
        }
    }

    #[test]
    fn exactly_one_key_counts() {
        let mut headers = HeaderMap::new();
        assert_eq!(key(&headers).expect_err("none").status().as_u16(), 401);
        headers.append(HEADER, "pdk_x".parse().expect("a header"));
        assert_eq!(key(&headers).expect("one"), "pdk_x");
        headers.append(HEADER, "pdk_y".parse().expect("a header"));
        assert!(key(&headers).is_err());
    }
}
