//! Signed URLs of files. They name no sandbox: the signature is made with the access token of one, and that one is looked for.

use super::errors::{Refusal, Result};
use super::grants::{Grant, same};
use crate::app::App;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use paddock_fleet::{Actor, ListFilter};
use paddock_model::api::Role;
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

const PREFIX: &str = "v1_";
const PAGE: usize = 1000;
/// Each costs a few microseconds, and whoever asks has shown nothing yet.
const MOST_TRIED: usize = 50_000;
/// A search keeps a processor busy.
static SEARCHES: Semaphore = Semaphore::const_new(2);

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

/// A sandbox, and the API key with whose access token a URL was signed.
pub struct Signed {
    pub sandbox: String,
    pub key: String,
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

    /// The sandbox and the API key that the URL was signed for.
    pub async fn signed(&self, app: &App, operation: Operation) -> Result<Signed> {
        let Some(signature) = self.signature.as_deref().filter(|given| given.starts_with(PREFIX)) else {
            return Err(Refusal::unauthorized(
                "this address needs the header E2b-Sandbox-Id, or a signature",
            ));
        };
        self.check_expiration()?;
        let Ok(_turn) = SEARCHES.acquire().await else { return Err(invalid()) };
        let keys = app.fleet().tokens(&Actor::owner()).await?;
        let (mut tried, mut cursor) = (0, None);
        loop {
            let filter = ListFilter { limit: PAGE, cursor, ..ListFilter::default() };
            let page = app.fleet().list(&Actor::owner(), &filter).await?;
            for sandbox in &page.sandboxes {
                let own = |key: &&paddock_model::api::Token| {
                    key.tenant == sandbox.tenant && key.role != Role::ReadOnly
                };
                for key in keys.iter().filter(own) {
                    let token = Grant::Envd.token(app, &sandbox.id, &key.id);
                    if same(self.signature_with(operation, &token).as_bytes(), signature.as_bytes()) {
                        return Ok(Signed { sandbox: sandbox.id.clone(), key: key.id.clone() });
                    }
                    tried += 1;
                }
            }
            cursor = page.next_cursor;
            if cursor.is_none() || tried > MOST_TRIED {
                return Err(invalid());
            }
            tokio::task::yield_now().await;
        }
    }

    fn signature_with(&self, operation: Operation, token: &str) -> String {
        let operation = if operation == Operation::Read { "read" } else { "write" };
        let (path, user) =
            (self.path.as_deref().unwrap_or_default(), self.username.as_deref().unwrap_or_default());
        let signed = match &self.signature_expiration {
            Some(expiration) => format!("{path}:{operation}:{user}:{token}:{expiration}"),
            None => format!("{path}:{operation}:{user}:{token}"),
        };
        format!("{PREFIX}{}", STANDARD_NO_PAD.encode(digest(&SHA256, signed.as_bytes())))
    }

    fn check_expiration(&self) -> Result<()> {
        let Some(text) = &self.signature_expiration else { return Ok(()) };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match text.parse::<u64>() {
            Ok(expires) if expires >= now => Ok(()),
            Ok(_) => Err(Refusal::unauthorized("the signature has expired")),
            Err(_) => Err(invalid()),
        }
    }
}

fn invalid() -> Refusal {
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
        assert_eq!(wanted.signature_with(Operation::Read, "secret"), EXPECTED_WITH_TIME);
        let bare = Wanted::default();
        assert_eq!(bare.signature_with(Operation::Write, "secret"), EXPECTED_BARE);
        assert_ne!(bare.signature_with(Operation::Read, "secret"), EXPECTED_BARE);
    }

    const EXPECTED_WITH_TIME: &str = "v1_WL8uNeOrvnKqPYXrIDL02UdkG+wVbGxaJQW7DucbT/E";
    const EXPECTED_BARE: &str = "v1_JCyAJPTnXGsDlmQriXLwWd7jJjjtTfInABmuIz0+Piw";

    #[test]
    fn an_old_signature_is_refused() {
        let at = |time: &str| Wanted { signature_expiration: Some(time.into()), ..Wanted::default() };
        assert!(at("1").check_expiration().is_err());
        assert!(at("x").check_expiration().is_err());
        assert!(at("99999999999").check_expiration().is_ok());
        assert!(Wanted::default().check_expiration().is_ok());
    }
}
