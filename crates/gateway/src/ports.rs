//! Ports inside, by path and by host name. A token that the home knows is taken out of the request here, as a server does it; whatever else
//! opens a port (a right that the node signed, a token of E2B's, a port that is open to everybody) the node judges.

use crate::forward::{self, ForPort, Pass};
use crate::gateway::Gateway;
use crate::resolve::{self, Kind};
use crate::who::{self, Holder, Who};
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::Response;
use paddock_server::front::{self, App, E2B_ENVD_TOKEN, E2B_TRAFFIC_TOKEN, Failure, Known, parse_cookie};

/// Which port, and how the client named it.
pub struct Place {
    pub sandbox: String,
    /// Where the host names it.
    pub port: Option<u16>,
    /// The path before the path inside; empty where the host names the port.
    pub prefix: String,
    pub rest: String,
}

impl Place {
    fn kind(&self) -> ForPort {
        if self.port.is_some() { ForPort::ByHost } else { ForPort::No }
    }
}

pub async fn through(
    gateway: &Gateway,
    app: &App,
    place: Place,
    mut request: Request,
) -> Result<Response, Failure> {
    if place.port.is_some() && speaks_e2b(request.headers()) {
        return data_plane(gateway, app, &place.sandbox, place.port, request).await;
    }
    let parameter = front::token_parameter(request.uri().query());
    if let Some(secret) = parameter.as_deref().filter(|_| *request.method() == Method::GET)
        && let Some(known) = holder_of(app, secret).await
    {
        refuse_reader(&known)?;
        return Ok(front::set_cookie_and_lead_on(&place.prefix, &place.rest, &request, secret));
    }
    let Some((known, mut secrets)) = known(app, request.headers(), request.extensions()).await? else {
        return stranger(gateway, app, &place, request).await;
    };
    refuse_reader(&known)?;
    secrets.extend(parameter);
    secrets.extend(front::tokens_shown(app, request.headers()).await);
    if front::holds(place.rest.as_bytes(), &secrets) {
        return Err(Failure::invalid("the path holds a token of this server, which does not go inside")
            .hint("Send the token by Authorization, or by the cookie paddock_token."));
    }
    front::take_cookie(request.headers_mut());
    let query = front::clean_query(request.uri().query(), &secrets);
    front::clean_headers(request.headers_mut(), &secrets);
    let target: Result<Uri, _> = format!("{}{query}", request.uri().path()).parse();
    let host = request.uri().authority().and_then(|authority| authority.as_str().parse().ok());
    if let Some(host) = host {
        // Of HTTP/2, whose target holds it.
        request.headers_mut().insert(header::HOST, host);
    }
    *request.uri_mut() = target.map_err(|_| Failure::invalid("the path is not valid"))?;
    let who = Who::known(app, known, &request)?;
    let node = resolve::node_of(&gateway.nodes, Some(&who.header), Kind::Sandbox, &place.sandbox).await?;
    Ok(forward::pass(app, &node, request, Pass { for_port: place.kind(), ..Pass::of(&who) }).await)
}

/// The caller by cookie, else by Authorization, else by the owner's socket, if the home knows one; and the secrets that were shown.
async fn known(
    app: &App,
    headers: &HeaderMap,
    extensions: &Extensions,
) -> Result<Option<(Known, Vec<String>)>, Failure> {
    if let Some(secret) = parse_cookie(headers)
        && let Some(known) = holder_of(app, &secret).await
    {
        return Ok(Some((known, vec![secret])));
    }
    // Another scheme is for the program inside, or for nobody: the node judges what else the client shows.
    match front::bearer(headers).ok().flatten().map(str::to_string) {
        Some(secret) => Ok(holder_of(app, &secret).await.map(|known| (known, vec![secret]))),
        None => {
            let owner = front::identify(app, extensions, None).await.ok();
            // The owner may have been given a right to try: the socket says enough.
            Ok(owner.map(|known| (known, Vec::new())))
        }
    }
}

async fn holder_of(app: &App, secret: &str) -> Option<Known> {
    app.fleet().authenticate(secret).await.map(Known::from)
}

fn refuse_reader(known: &Known) -> Result<(), Failure> {
    match known.actor.only_reads() {
        true => Err(front::reads_only()),
        false => Ok(()),
    }
}

/// As the client sent it. The node knows the rights that it signed.
async fn stranger(
    gateway: &Gateway,
    app: &App,
    place: &Place,
    request: Request,
) -> Result<Response, Failure> {
    let node = resolve::node_of(&gateway.nodes, None, Kind::Sandbox, &place.sandbox).await?;
    let bearer = front::bearer(request.headers()).ok().flatten().map(str::to_string);
    let shown = [front::token_parameter(request.uri().query()), parse_cookie(request.headers()), bearer];
    let token = shown.into_iter().flatten().find_map(|right| who::claim(&right).token);
    let known = who::admitted(app, token.as_deref()).await;
    let holder = known.and_then(|known| Holder::new(app, known, &request));
    Ok(forward::pass(app, &node, request, Pass { for_port: place.kind(), ..Pass::of_holder(holder) }).await)
}

/// By a token that a node sealed for E2B's clients. `X-Access-Token` is the name of a header of many programs: its value says whether it is
/// E2B's.
fn speaks_e2b(headers: &HeaderMap) -> bool {
    let is_grant = |value: &HeaderValue| value.to_str().is_ok_and(|text| who::key_of_grant(text).is_some());
    headers.contains_key(E2B_TRAFFIC_TOKEN) || headers.get_all(E2B_ENVD_TOKEN).iter().any(is_grant)
}

/// E2B's requests to one sandbox, with a token for it that the node sealed. `port`: where the host names it.
pub async fn data_plane(
    gateway: &Gateway,
    app: &App,
    sandbox: &str,
    port: Option<u16>,
    mut request: Request,
) -> Result<Response, Failure> {
    let node = match resolve::node_of(&gateway.nodes, None, Kind::Sandbox, sandbox).await {
        Ok(node) => node,
        Err(failure) if failure.code == "sandbox_not_found" => return Ok(front::e2b_gone(sandbox)),
        Err(failure) => return Err(failure),
    };
    let shown = [E2B_ENVD_TOKEN, E2B_TRAFFIC_TOKEN].map(|name| request.headers().get(name));
    let token =
        shown.into_iter().flatten().filter_map(|value| value.to_str().ok()).find_map(who::key_of_grant);
    let token = token.map(str::to_string);
    let known = who::admitted(app, token.as_deref()).await;
    let holder = known.and_then(|known| Holder::new(app, known, &request));
    let for_port = ForPort::E2b { sandbox: sandbox.to_string(), port };
    who::take_tokens(app, request.headers_mut()).await;
    Ok(forward::pass(app, &node, request, Pass { for_port, ..Pass::of_holder(holder) }).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_others_use_too_is_e2bs_only_with_a_token_of_theirs() {
        let of = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            speaks_e2b(&headers)
        };
        assert!(of(E2B_ENVD_TOKEN, "tk-0000000000000001.seal") && of(E2B_TRAFFIC_TOKEN, "x"));
        for other in ["", "abc", "eyJhbGciOi.J9.x", "tk-1"] {
            assert!(!of(E2B_ENVD_TOKEN, other), "{other}");
        }
    }
}
