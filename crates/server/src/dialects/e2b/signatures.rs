//! Signed URLs of files. Without a domain they name no sandbox: the signature is made with the access token of one, and that one is
//! looked for.
//!
//! First among the tokens that this server gave out: one hash for each. An earlier server's are looked for among all sandboxes, which
//! costs a hundred times as much, so that callers whose signature fits nothing have a small share of a processor for it together.

use super::errors::{Refusal, Result};
use super::grants::Grant;
use crate::app::App;
use axum::http::{Method, StatusCode, Uri};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

use paddock_fleet::{Actor, Admitted, ListFilter, same_secret};
use paddock_model::api::{Role, Sandbox, Token};
use ring::digest::{SHA256, digest};
use serde::Deserialize;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Semaphore;

const PREFIX: &str = "v1_";
const PAGE: usize = 1000;
/// Each costs up to ten microseconds, and the caller has shown nothing yet.
const MOST_TRIED: usize = 50_000;
/// Tokens that are remembered; the oldest are forgotten first.
const MOST_ISSUED: usize = 50_000;
/// As of the signed URLs of `/v1`. The client's clock may be ahead.
const LONGEST_SIGNED: Duration = Duration::from_secs(7 * 24 * 3600);
const CLOCK_SLACK: Duration = Duration::from_secs(3600);
/// A search keeps a processor busy.
static SEARCHES: Semaphore = Semaphore::const_new(1);
/// The share of a processor for searches that find nothing, and how much of it is saved up while there are none.
const SHARE_OF_FAILURES: f64 = 0.05;
const MOST_SAVED: Duration = Duration::from_secs(2);

/// The tokens of sandboxes that this server gave out, and the time that is left for searches that find nothing.
pub struct Issued {
    tokens: RwLock<Tokens>,
    left: Mutex<(Duration, Instant)>,
}

#[derive(Default)]
struct Tokens {
    /// The sandbox and the API key of each token.
    of: HashMap<String, (String, String)>,
    oldest_first: VecDeque<String>,
}

impl Default for Issued {
    fn default() -> Issued {
        Issued { tokens: RwLock::default(), left: Mutex::new((MOST_SAVED, Instant::now())) }
    }
}

impl Issued {
    pub fn note(&self, token: &str, sandbox: &str, key: &str) {
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.of.insert(token.to_string(), (sandbox.to_string(), key.to_string())).is_none() {
            tokens.oldest_first.push_back(token.to_string());
        }
        while tokens.oldest_first.len() > MOST_ISSUED {
            let oldest = tokens.oldest_first.pop_front().unwrap_or_default();
            tokens.of.remove(&oldest);
        }
    }

    fn find(&self, fits: impl Fn(&str) -> bool) -> Option<Signed> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.of.iter().find(|(token, _)| fits(token));
        found.map(|(_, (sandbox, key))| Signed { sandbox: sandbox.clone(), key: key.clone() })
    }

    /// The time until a search may begin, if searches that found nothing have used up theirs.
    fn wait(&self) -> Option<Duration> {
        let left = self.left(Duration::ZERO);
        left.is_zero().then(|| Duration::from_secs(1))
    }

    /// Takes the time of a search that found nothing, and returns what is left.
    fn left(&self, spent: Duration) -> Duration {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let saved = left.0 + left.1.elapsed().mul_f64(SHARE_OF_FAILURES);
        *left = (saved.min(MOST_SAVED).saturating_sub(spent), Instant::now());
        left.0
    }
}

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

    /// The holder of the API key that the URL was signed for, where the request names the sandbox: nothing is looked for then.
    pub async fn admit(&self, app: &App, operation: Operation, sandbox: &str) -> Result<Admitted> {
        let signature = self.given()?;
        let sandbox = app.fleet().get(&Actor::owner(), sandbox).await.map_err(|_| invalid())?;
        let keys = app.fleet().tokens(&Actor::owner()).await?;
        let mut own = keys.iter().filter(|key| may_sign(key, &sandbox));
        let found = own.find(|key| self.is_signed_with(app, operation, &sandbox.id, &key.id, signature));
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

    /// The sandbox and the API key that the URL was signed for.
    pub async fn signed(&self, app: &App, operation: Operation) -> Result<Signed> {
        let signature = self.given()?;
        let issued = &app.e2b().issued;
        let known = issued.find(|token| same_secret(&self.signature_with(operation, token), signature));
        if let Some(known) = known {
            return Ok(known);
        }
        let Ok(_turn) = SEARCHES.acquire().await else { return Err(invalid()) };
        if let Some(wait) = issued.wait() {
            let mut busy = Refusal::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_signatures",
                "too many signatures that fit no sandbox were looked for; name the sandbox with the header E2b-Sandbox-Id, or ask again",
            );
            busy.failure.retry_after_seconds = Some(wait.as_secs() as u32);
            return Err(busy);
        }
        let began = Instant::now();
        let found = self.search(app, operation, signature).await;
        match &found {
            Ok(found) => {
                issued.note(&Grant::Envd.token(app, &found.sandbox, &found.key), &found.sandbox, &found.key)
            }
            Err(_) => drop(issued.left(began.elapsed())),
        }
        found
    }

    async fn search(&self, app: &App, operation: Operation, signature: &str) -> Result<Signed> {
        let keys = app.fleet().tokens(&Actor::owner()).await?;
        let (mut tried, mut cursor) = (0, None);
        loop {
            let filter = ListFilter { limit: PAGE, cursor, ..ListFilter::default() };
            let page = app.fleet().list(&Actor::owner(), &filter).await?;
            for sandbox in &page.sandboxes {
                for key in keys.iter().filter(|key| may_sign(key, sandbox)) {
                    if self.is_signed_with(app, operation, &sandbox.id, &key.id, signature) {
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

    fn is_signed_with(
        &self,
        app: &App,
        operation: Operation,
        sandbox: &str,
        key: &str,
        signature: &str,
    ) -> bool {
        let token = Grant::Envd.token(app, sandbox, key);
        same_secret(&self.signature_with(operation, &token), signature)
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

fn may_sign(key: &Token, sandbox: &Sandbox) -> bool {
    key.tenant == sandbox.tenant && key.role != Role::ReadOnly
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

    #[test]
    fn tokens_that_were_given_out_are_found_and_the_oldest_forgotten() {
        let issued = Issued::default();
        for number in 0..=MOST_ISSUED {
            issued.note(&format!("token-{number}"), &format!("sb-{number}"), "tk-1");
        }
        issued.note("token-5", "sb-5", "tk-1");
        let find = |wanted: &str| issued.find(|token| token == wanted).map(|found| found.sandbox);
        assert_eq!(find("token-1"), Some("sb-1".into()));
        assert_eq!(find("token-0"), None);
        assert_eq!(issued.tokens.read().expect("not poisoned").of.len(), MOST_ISSUED);
    }

    #[test]
    fn searches_that_find_nothing_have_little_time_together() {
        let issued = Issued::default();
        assert_eq!(issued.wait(), None);
        assert!(issued.left(MOST_SAVED * 2).is_zero());
        *issued.left.lock().expect("not poisoned") =
            (Duration::ZERO, Instant::now() + Duration::from_secs(3600));
        assert!(issued.wait().is_some());
        let hour_ago =
            Instant::now().checked_sub(Duration::from_secs(3600)).expect("a clock that ran for an hour");
        *issued.left.lock().expect("not poisoned") = (Duration::ZERO, hour_ago);
        assert_eq!((issued.wait(), issued.left(Duration::ZERO)), (None, MOST_SAVED));
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
