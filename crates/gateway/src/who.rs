//! The caller of a request, and how a node is told of it.
//!
//! A credential that the home knows (a token, an API key of E2B's, the owner's socket) is taken out of the request; in its place goes the header
//! `Paddock-Caller`. A right that only the node can check (a signed URL, a token of E2B's for one sandbox) stays where it is. It names the
//! token that it was derived from, which only the home knows. If that token is valid, the header names its holder as one of a derived right.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use paddock_fleet::Actor;
use paddock_model::api::{GatewayCaller, Quota};
use paddock_server::front::{self, App, E2B_KEY, Failure, Known, Leash};

/// A caller that the home knows.
pub struct Who {
    pub actor: Actor,
    pub header: HeaderValue,
    pub leash: Option<Leash>,
}

/// By `Authorization: Bearer`, or the owner's socket; as on every server.
pub async fn of_api(app: &App, request: &mut Request) -> Result<Who, Failure> {
    let known = front::identify(app, request.extensions(), front::bearer(request.headers())?).await?;
    let who = Who::new(app, known, request)?;
    request.headers_mut().remove(header::AUTHORIZATION);
    take_tokens(app, request.headers_mut()).await;
    Ok(who)
}

/// By the key that E2B's clients show to the control plane.
pub async fn of_e2b(app: &App, request: &mut Request) -> Result<Who, Failure> {
    let known = front::e2b_identify(app, request.headers()).await?;
    let who = Who::new(app, known, request)?;
    for name in [header::AUTHORIZATION.as_str(), E2B_KEY] {
        request.headers_mut().remove(name);
    }
    Ok(who)
}

/// Takes tokens of the home out of a request, also those that it was not admitted by.
pub async fn take_tokens(app: &App, headers: &mut HeaderMap) {
    let shown = front::tokens_shown(app, headers).await;
    if !shown.is_empty() {
        front::clean_headers(headers, &shown);
    }
}

impl Who {
    pub fn new(app: &App, known: Known, request: &Request) -> Result<Who, Failure> {
        let looks_only = matches!(*request.method(), Method::GET | Method::HEAD);
        if known.actor.only_reads() && !looks_only {
            return Err(front::reads_only());
        }
        Who::known(app, known, request)
    }

    /// For a caller whose right was checked already.
    pub fn known(app: &App, known: Known, request: &Request) -> Result<Who, Failure> {
        let Known { actor, revoked } = known;
        front::is_known(request.extensions());
        tracing::Span::current().record("tenant", actor.tenant.as_str());
        // With every request: a GET wakes a sandbox too, and a node that starts anew remembers none. A tenant that nothing was set for
        // has no limits.
        let quota = Some(app.fleet().quota_of(&actor.tenant)?);
        let leash = revoked.map(|revoked| Leash::new(revoked, request));
        Ok(Who { header: header_of(&actor, false, quota)?, actor, leash })
    }
}

fn header_of(actor: &Actor, derived: bool, quota: Option<Quota>) -> Result<HeaderValue, Failure> {
    let caller = GatewayCaller {
        tenant: actor.tenant.clone(),
        role: actor.role,
        owner: actor.owner,
        token: actor.token.clone(),
        derived,
        quota,
    };
    let text = caller.encode().map_err(|error| {
        tracing::error!(%error, tenant = actor.tenant, "a caller cannot be told to a node");
        Failure::internal()
    })?;
    let mut value = HeaderValue::from_str(&text).map_err(|_| Failure::internal())?;
    value.set_sensitive(true);
    Ok(value)
}

/// For the gateway's own questions about a node: it is the owner of itself. Never for a request of a client's.
pub fn gateway_itself() -> Option<HeaderValue> {
    header_of(&Actor::owner(), false, None).ok()
}

/// A valid token that a right says it comes from. Says nothing of the right itself, which the node checks.
pub struct Holder {
    pub header: HeaderValue,
    pub leash: Option<Leash>,
}

/// The holder of the token with this id, if it is valid.
pub async fn admitted(app: &App, token: Option<&str>) -> Option<Known> {
    app.fleet().admit_token(token?).await.ok()?.map(Known::from)
}

impl Holder {
    pub fn new(app: &App, known: Known, request: &Request) -> Option<Holder> {
        let Known { actor, revoked } = known;
        let leash = revoked.map(|revoked| Leash::new(revoked, request));
        let quota = app.fleet().quota_of(&actor.tenant).ok()?;
        Some(Holder { header: header_of(&actor, true, Some(quota)).ok()?, leash })
    }
}

/// The words of a sealed right about itself, before anybody has checked the seal: a sandbox, and the token behind it.
#[derive(Debug, Default, PartialEq, Eq, serde::Deserialize)]
pub struct Claim {
    #[serde(default)]
    pub sandbox: Option<String>,
    #[serde(default)]
    pub token: Option<String>,
}

const LONGEST_RIGHT: usize = 64 << 10;
/// Rights to ports begin so.
const PORT_RIGHT: &str = "pdp_";

/// Of a signed URL, or of a right to a port: JSON in base64, a point, a seal.
pub fn claim(right: &str) -> Claim {
    let right = right.strip_prefix(PORT_RIGHT).unwrap_or(right);
    let json = right.split_once('.').filter(|_| right.len() <= LONGEST_RIGHT);
    let json = json.and_then(|(claim, _)| URL_SAFE_NO_PAD.decode(claim).ok());
    json.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// Of a token that E2B's clients show for one sandbox: the id of the API key, a point, a seal.
pub fn key_of_grant(token: &str) -> Option<&str> {
    token.split_once('.').map(|(key, _)| key).filter(|key| key.starts_with("tk-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_right_claims_is_read_without_believing_it() {
        let json = r#"{"sandbox":"sb-0030000000000000","path":"/x","token":"tk-1","later":[1]}"#;
        let right = format!("{}.seal", URL_SAFE_NO_PAD.encode(json));
        let found = claim(&right);
        assert_eq!(
            (found.sandbox.as_deref(), found.token.as_deref()),
            (Some("sb-0030000000000000"), Some("tk-1"))
        );
        assert_eq!(claim(&format!("pdp_{right}")), found);
        for garbage in ["", ".", "a.b", "%.x", "e30", &format!("{}.x", URL_SAFE_NO_PAD.encode("[1]"))] {
            assert_eq!(claim(garbage), Claim::default(), "{garbage}");
        }
        assert_eq!(key_of_grant("tk-1.abc"), Some("tk-1"));
        assert_eq!((key_of_grant("abc.def"), key_of_grant("tk-1")), (None, None));
    }

    #[test]
    fn a_caller_is_told_as_the_home_knows_it() {
        let header = header_of(&Actor::owner(), false, None).expect("a header");
        assert!(header.is_sensitive());
        let caller = GatewayCaller::decode(header.to_str().expect("text")).expect("a caller");
        assert!(caller.owner && caller.tenant == "owner");
    }
}
