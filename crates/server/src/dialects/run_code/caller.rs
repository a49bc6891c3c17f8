//! The caller of this dialect: a token of this server, as a bearer or as the user or password of a URL.
//!
//! verl and SandboxFusion's own client take a URL and no header. `http://paddock:TOKEN@host/run_code` makes every HTTP client of
//! Python send `Authorization: Basic`, so the token is in no path and in no query: it enters no log of a server or of a proxy.

use super::errors::Refusal;
use crate::app::App;
use crate::auth::{self, Known};
use crate::errors::Failure;
use crate::gateway;
use crate::revoked::{self, Leash};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Lets through who holds a token that may run code, and the owner by the unix socket.
pub async fn require(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Refusal> {
    let secret = match gateway::caller(request.extensions())? {
        Some(_) => None,
        None => secret(request.headers())?,
    };
    let known = auth::identify(&app, request.extensions(), secret.as_deref()).await;
    let Known { actor, revoked } = known.map_err(with_url)?;
    if actor.only_reads() {
        return Err(auth::reads_only().into());
    }
    tracing::Span::current().record("tenant", actor.tenant.as_str());
    auth::is_known(request.extensions());
    let leash = revoked.map(|revoked| Leash::new(revoked, &request));
    request.extensions_mut().insert(actor);
    Ok(revoked::bounded(leash, next.run(request)).await)
}

fn with_url(failure: Failure) -> Failure {
    failure.hint(
        "Put a token of this server into the URL, http://paddock:TOKEN@HOST:PORT, or send it as Authorization: Bearer TOKEN; \
         paddock token create makes one.",
    )
}

fn secret(headers: &HeaderMap) -> Result<Option<String>, Failure> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let basic = given.next().and_then(|value| value.to_str().ok()).and_then(|value| value.split_once(' '));
    let basic = basic.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("basic"));
    match (basic, given.next()) {
        (Some((_, pair)), None) => {
            let wrong = || with_url(Failure::unauthorized("the user and password of the URL cannot be read"));
            let pair = STANDARD.decode(pair.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = pair.ok_or_else(wrong)?;
            let (user, password) = pair.split_once(':').ok_or_else(wrong)?;
            let secret = if password.is_empty() { user } else { password };
            if secret.is_empty() { Err(wrong()) } else { Ok(Some(secret.to_string())) }
        }
        _ => Ok(auth::bearer(headers)?.map(str::to_string)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<Option<String>, u16> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().expect("a header"));
        }
        secret(&headers).map_err(|failure| failure.status.as_u16())
    }

    #[test]
    fn a_url_holds_the_token_as_its_password_or_as_its_user() {
        let basic = |pair: &str| format!("Basic {}", STANDARD.encode(pair));
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&["Bearer pdk_x"]), Ok(Some("pdk_x".into())));
        assert_eq!(of(&[basic("paddock:pdk_x").as_str()]), Ok(Some("pdk_x".into())));
        assert_eq!(of(&[basic("pdk_x:").as_str()]), Ok(Some("pdk_x".into())));
        let (twice, none, empty) = (basic("paddock:pdk_x"), basic("none"), basic(":"));
        let (twice, none, empty) = (twice.as_str(), none.as_str(), empty.as_str());
        for bad in [&["Basic !"][..], &[none], &[empty], &["Digest x"], &[twice, "Bearer y"]] {
            assert_eq!(of(bad), Err(401), "{bad:?}");
        }
    }
}
