//! Signed URLs of files. Without a domain they name no sandbox: the signature is made with the access token of one, and that one is
//! looked for.

use super::errors::{Refusal, Result};
use super::grants::Grant;
use crate::app::App;
use axum::http::{Method, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use paddock_fleet::{Actor, Admitted, same_secret};
use paddock_model::api::{Role, Sandbox, Token};
use ring::digest::{Context, SHA256, SHA256_OUTPUT_LEN};
use serde::Deserialize;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PREFIX: &str = "v1_";
/// As of the signed URLs of `/v1`. The client's clock may be ahead.
const LONGEST_SIGNED: Duration = Duration::from_secs(7 * 24 * 3600);
const CLOCK_SLACK: Duration = Duration::from_secs(3600);

/// The query of `/files`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    pub path: Option<String>,
    pub username: Option<String>,
    pub signature: Option<String>,
    pub signature_expiration: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Read,
    Write,
}

impl Operation {
    pub fn of(method: &Method) -> Operation {
        if *method == Method::GET { Operation::Read } else { Operation::Write }
    }
}

/// True if a request shows a signature, whether it is valid or not.
pub fn is_signed(uri: &Uri) -> bool {
    Wanted::of(uri.query()).is_ok_and(|wanted| wanted.signature.is_some())
}

/// A sandbox, and the API key with whose access token a URL was signed.
#[derive(Debug, Clone)]
pub struct Signed {
    pub sandbox: String,
    pub key: String,
}

/// A signature, and all that was signed but the token.
#[derive(Clone)]
pub struct Sought {
    before_token: Context,
    after_token: Option<String>,
    signature: String,
}

impl Sought {
    pub fn fits(&self, token: &str) -> bool {
        same_secret(&self.made_with(token), &self.signature)
    }

    fn made_with(&self, token: &str) -> String {
        let mut signed = self.before_token.clone();
        signed.update(token.as_bytes());
        signed.update(self.after_token.as_deref().unwrap_or_default().as_bytes());
        format!("{PREFIX}{}", STANDARD_NO_PAD.encode(signed.finish()))
    }
}

impl Wanted {
    pub fn of(query: Option<&str>) -> Result<Wanted> {
        serde_html_form::from_str(query.unwrap_or_default()).map_err(|error| {
            Refusal::invalid(format!(
                "the query is not valid: {}",
                crate::errors::shorten(&error.to_string())
            ))
        })
    }

    /// The holder of the API key that the URL was signed for, where the request names the sandbox: nothing is looked for then.
    pub async fn admit(&self, app: &App, operation: Operation, sandbox: &str) -> Result<Admitted> {
        let sought = self.sought(operation)?;
        let sandbox = app.fleet().get(&Actor::owner(), sandbox).await.map_err(|_| invalid())?;
        let keys = app.fleet().tokens(&Actor::owner()).await?;
        let mut own = keys.iter().filter(|key| may_sign(key, &sandbox));
        let found = own.find(|key| sought.fits(&Grant::Envd.token(app, &sandbox.id, &key.id)));
        let Some(key) = found else { return Err(invalid()) };
        app.fleet().admit_token(&key.id).await?.ok_or_else(invalid)
    }

    /// A signature that has not expired.
    fn given(&self) -> Result<&str> {
        let Some(signature) = self.signature.as_deref().filter(|given| given.starts_with(PREFIX)) else {
            return Err(Refusal::unauthorized(
                "this address needs the header E2b-Sandbox-Id, or a signature",
            ));
        };
        self.check_expiration()?;
        Ok(signature)
    }

    /// The signature, if it has not expired, to be compared with those that tokens make.
    pub fn sought(&self, operation: Operation) -> Result<Sought> {
        self.sought_for(operation, self.given()?).ok_or_else(invalid)
    }

    fn sought_for(&self, operation: Operation, signature: &str) -> Option<Sought> {
        let hash = STANDARD_NO_PAD.decode(signature.strip_prefix(PREFIX)?).ok()?;
        if hash.len() != SHA256_OUTPUT_LEN {
            return None;
        }
        let operation = if operation == Operation::Read { "read" } else { "write" };
        let (path, user) =
            (self.path.as_deref().unwrap_or_default(), self.username.as_deref().unwrap_or_default());
        let mut before_token = Context::new(&SHA256);
        before_token.update(format!("{path}:{operation}:{user}:").as_bytes());
        let after_token = self.signature_expiration.as_ref().map(|expiration| format!(":{expiration}"));
        Some(Sought { before_token, after_token, signature: signature.to_string() })
    }

    /// A client chooses the time. One that names none signs for as long as the sandbox and the API key last.
    fn check_expiration(&self) -> Result<()> {
        let Some(text) = &self.signature_expiration else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let latest = now + (LONGEST_SIGNED + CLOCK_SLACK).as_secs();
        match text.parse::<u64>() {
            Ok(expires) if expires > latest => Err(Refusal::unauthorized(
                "the signature is for more than a week; sign for a shorter time, or without one",
            )),
            Ok(expires) if expires >= now => Ok(()),
            Ok(_) => Err(Refusal::unauthorized("the signature has expired")),
            Err(_) => Err(invalid()),
        }
    }
}

pub fn may_sign(key: &Token, sandbox: &Sandbox) -> bool {
    key.tenant == sandbox.tenant && key.role != Role::ReadOnly
}

pub fn invalid() -> Refusal {
    Refusal::unauthorized("the signature is not valid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_the_one_that_the_sdks_make() {
        let wanted = Wanted::of(Some(
            "path=%2Ftmp%2Fa.txt&username=user&signature=v1_x&signature_expiration=1700000000",
        ))
        .expect("valid");
        // python: "v1_" + base64(sha256(b"/tmp/a.txt:read:user:secret:1700000000")) without "="
        let fits = |wanted: &Wanted, operation, signature| {
            wanted.sought_for(operation, signature).is_some_and(|sought| sought.fits("secret"))
        };
        assert!(fits(&wanted, Operation::Read, EXPECTED_WITH_TIME));
        let bare = Wanted::default();
        assert!(fits(&bare, Operation::Write, EXPECTED_BARE));
        assert!(!fits(&bare, Operation::Read, EXPECTED_BARE));
        // No token makes these, and none is tried.
        for made_up in ["v1_", "v1_x", &format!("{EXPECTED_BARE}="), &EXPECTED_BARE[3..]] {
            assert!(bare.sought_for(Operation::Write, made_up).is_none(), "{made_up}");
        }
    }

    const EXPECTED_WITH_TIME: &str = "v1_WL8uNeOrvnKqPYXrIDL02UdkG+wVbGxaJQW7DucbT/E";
    const EXPECTED_BARE: &str = "v1_JCyAJPTnXGsDlmQriXLwWd7jJjjtTfInABmuIz0+Piw";

    #[test]
    fn an_old_signature_is_refused() {
        let at = |time: &str| Wanted { signature_expiration: Some(time.into()), ..Wanted::default() };
        assert!(at("1").check_expiration().is_err());
        assert!(at("x").check_expiration().is_err());
        let after = |seconds: u64| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
            at(&(now + seconds).to_string()).check_expiration()
        };
        assert!(after(60).is_ok() && after(7 * 86_400).is_ok());
        assert!(after(8 * 86_400).is_err() && at(&u64::MAX.to_string()).check_expiration().is_err());
        assert!(Wanted::default().check_expiration().is_ok());
    }
}
