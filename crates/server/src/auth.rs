//! The caller of a request: the owner through the unix socket, or the holder of a token.

use crate::app::App;
use crate::connections::Connection;
use crate::errors::Failure;
use crate::gateway;
use crate::peer::Peer;
use crate::revoked::{self, Leash};
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::Response;
use paddock_fleet::{Actor, Admitted, Revoked};
use std::sync::Arc;

/// The actor of a request that passed [`require`].
pub struct Caller(pub Actor);

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Caller, Failure> {
        parts.extensions.get::<Actor>().cloned().map(Caller).ok_or_else(|| no_token(false))
    }
}

/// Lets a request through if its caller is known and may use this method.
pub async fn require(State(app): State<App>, mut request: Request, next: Next) -> Result<Response, Failure> {
    let Known { actor, revoked } = identify_bearer(&app, request.extensions(), request.headers()).await?;
    let leash = revoked.map(|revoked| Leash::new(revoked, &request));
    let looks_only = matches!(*request.method(), Method::GET | Method::HEAD);
    if actor.only_reads() && !looks_only {
        return Err(reads_only());
    }
    tracing::Span::current().record("tenant", actor.tenant.as_str());
    is_known(request.extensions());
    request.extensions_mut().insert(actor);
    if let Some(leash) = &leash {
        request.extensions_mut().insert(leash.clone());
    }
    Ok(revoked::bounded(leash, next.run(request)).await)
}

/// The caller, and the moment at which its token is revoked.
pub struct Known {
    pub actor: Actor,
    /// `None` for the owner's socket, which cannot be revoked, and for the word of a gateway, which watches over its tokens itself.
    pub revoked: Option<Revoked>,
}

/// The caller that a gateway names, else by the header `Authorization`, else by the owner's socket.
pub async fn identify_bearer(
    app: &App,
    extensions: &Extensions,
    headers: &HeaderMap,
) -> Result<Known, Failure> {
    match gateway::caller(extensions)? {
        Some(actor) => Ok(Known { actor, revoked: None }),
        None => identify(app, extensions, bearer(headers)?).await,
    }
}

/// The caller that a gateway names. Else, if there is a token, it decides, on the owner's socket too.
pub async fn identify(app: &App, extensions: &Extensions, secret: Option<&str>) -> Result<Known, Failure> {
    if let Some(actor) = gateway::caller(extensions)? {
        return Ok(Known { actor, revoked: None });
    }
    let peer = extensions.get::<Peer>();
    match secret {
        Some(secret) => match app.fleet().authenticate(secret).await {
            Some(admitted) => Ok(Known::from(admitted)),
            None => Err(no_token(true)),
        },
        None if peer.is_some_and(Peer::is_owner) => Ok(Known { actor: Actor::owner(), revoked: None }),
        None => Err(no_token(false)),
    }
}

impl From<Admitted> for Known {
    fn from(Admitted { actor, revoked }: Admitted) -> Known {
        Known { actor, revoked: Some(revoked) }
    }
}

/// A client that has shown a right is no stranger any more, as long as the connection lasts.
pub fn is_known(extensions: &Extensions) {
    if let Some(connection) = extensions.get::<Arc<Connection>>() {
        connection.is_known();
    }
}

/// The secret of the header `Authorization: Bearer`.
pub fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Failure::unauthorized("there is more than one Authorization header"));
    }
    let text = value.to_str().unwrap_or_default();
    match text.split_once(' ') {
        Some((scheme, secret)) if scheme.eq_ignore_ascii_case("bearer") && !secret.trim().is_empty() => {
            Ok(Some(secret.trim()))
        }
        _ => Err(Failure::unauthorized("the Authorization header is not of the form Bearer SECRET")),
    }
}

pub fn reads_only() -> Failure {
    Failure::forbidden("a read-only token changes nothing")
        .hint("Use a token with the role user or admin: paddock token create --role user.")
}

fn no_token(wrong: bool) -> Failure {
    let message = if wrong { "this token is not known" } else { "there is no token" };
    Failure::unauthorized(message)
        .hint("Send Authorization: Bearer SECRET; paddock token create makes one on the server's host.")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::AUTHORIZATION, value.parse().expect("a header"));
        }
        headers
    }

    #[test]
    fn only_one_bearer_token_counts() {
        assert_eq!(bearer(&headers(&[])).expect("none"), None);
        assert_eq!(bearer(&headers(&["bearer s3"])).expect("one"), Some("s3"));
        for bad in [&["Basic eA=="][..], &["Bearer"], &["Bearer  "], &["Bearer a", "Bearer b"], &[""]] {
            assert_eq!(bearer(&headers(bad)).expect_err("refused").status.as_u16(), 401, "{bad:?}");
        }
    }
}
