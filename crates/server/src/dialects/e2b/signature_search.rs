//! The sandbox whose access token made a signature that names none.
//!
//! A signature is a hash over the token, so that no index finds it: tokens are tried. The newest that this server gave out cost less than
//! reading the request. Everything beyond, older tokens and those of an earlier server, is one search at a time, away from the threads
//! that serve requests, and searches that find nothing have a small share of a processor together.

use super::errors::{Refusal, Result};
use super::grants::Grant;
use super::signatures::{Signed, Sought, invalid, may_sign};
use crate::app::App;
use axum::http::StatusCode;
use paddock_fleet::{Actor, ListFilter};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;

const PAGE: usize = 1000;
/// Sandboxes of an earlier server. Each costs up to ten microseconds, and the caller has shown nothing yet.
const MOST_TRIED: usize = 50_000;
/// Tokens that are remembered; the oldest are forgotten first.
const MOST_ISSUED: usize = 50_000;
/// Tokens that every request may try: a quarter of a millisecond.
const NEWEST: usize = 1000;
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
    of: HashMap<Arc<str>, Signed>,
    oldest_first: VecDeque<Arc<str>>,
}

impl Default for Issued {
    fn default() -> Issued {
        Issued { tokens: RwLock::default(), left: Mutex::new((MOST_SAVED, Instant::now())) }
    }
}

impl Issued {
    /// A token that is known already keeps its place.
    pub fn note(&self, token: &str, sandbox: &str, key: &str) {
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        if tokens.of.contains_key(token) {
            return;
        }
        let token: Arc<str> = token.into();
        tokens.of.insert(token.clone(), Signed { sandbox: sandbox.to_string(), key: key.to_string() });
        tokens.oldest_first.push_back(token);
        while tokens.oldest_first.len() > MOST_ISSUED {
            let oldest = tokens.oldest_first.pop_front().unwrap_or_default();
            tokens.of.remove(&oldest);
        }
    }

    fn among_newest(&self, fits: impl Fn(&str) -> bool) -> Option<Signed> {
        self.among(0, NEWEST, fits)
    }

    /// Blocks for some milliseconds. What is found is among the newest from then on.
    fn among_older(&self, fits: impl Fn(&str) -> bool) -> Option<Signed> {
        let mut parts = (NEWEST..MOST_ISSUED).step_by(NEWEST);
        // In parts, so that creates do not wait for the whole.
        let found = parts.find_map(|newer| self.among(newer, NEWEST, &fits))?;
        let mut tokens = self.tokens.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = tokens.oldest_first.iter().position(|token| fits(token))
            && let Some(token) = tokens.oldest_first.remove(at)
        {
            tokens.oldest_first.push_back(token);
        }
        Some(found)
    }

    /// Tries `count` tokens, the newest first, after passing over some.
    fn among(&self, newer: usize, count: usize, fits: impl Fn(&str) -> bool) -> Option<Signed> {
        let tokens = self.tokens.read().unwrap_or_else(PoisonError::into_inner);
        let found = tokens.oldest_first.iter().rev().skip(newer).take(count).find(|token| fits(token))?;
        tokens.of.get(found).cloned()
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

/// The sandbox and the API key whose token made the signature.
pub async fn find(app: &App, sought: Sought) -> Result<Signed> {
    let issued = &app.e2b().issued;
    if let Some(known) = issued.among_newest(|token| sought.fits(token)) {
        return Ok(known);
    }
    let Ok(turn) = SEARCHES.acquire().await else { return Err(invalid()) };
    if let Some(wait) = issued.wait() {
        let mut busy = Refusal::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too_many_signatures",
            "too many signatures that fit no sandbox were looked for; name the sandbox with the header E2b-Sandbox-Id, or ask again",
        );
        busy.failure.retry_after_seconds = Some(wait.as_secs() as u32);
        return Err(busy);
    }
    // A stranger that goes away has used its time all the same, and the next search waits for the end of this one.
    let searched = tokio::spawn(search(app.clone(), sought, turn)).await;
    searched.unwrap_or_else(|_| Err(invalid()))
}

async fn search(app: App, sought: Sought, _turn: SemaphorePermit<'static>) -> Result<Signed> {
    let began = Instant::now();
    let found = search_all(&app, &Arc::new(sought)).await;
    let issued = &app.e2b().issued;
    match &found {
        Ok(found) => {
            issued.note(&Grant::Envd.token(&app, &found.sandbox, &found.key), &found.sandbox, &found.key)
        }
        Err(_) => drop(issued.left(began.elapsed())),
    }
    found
}

async fn search_all(app: &App, sought: &Arc<Sought>) -> Result<Signed> {
    let (of, wanted) = (app.clone(), sought.clone());
    let older = spawn_blocking(move || of.e2b().issued.among_older(|token| wanted.fits(token)));
    if let Some(known) = older.await.ok().flatten() {
        return Ok(known);
    }
    let keys = Arc::new(app.fleet().tokens(&Actor::owner()).await?);
    let (mut left, mut cursor) = (MOST_TRIED, None);
    loop {
        let filter = ListFilter { limit: PAGE, cursor, ..ListFilter::default() };
        let page = app.fleet().list(&Actor::owner(), &filter).await?;
        let (of, wanted, keys, sandboxes) = (app.clone(), sought.clone(), keys.clone(), page.sandboxes);
        let tried = spawn_blocking(move || {
            let pairs = sandboxes.iter().flat_map(|sandbox| keys.iter().map(move |key| (sandbox, key)));
            let mut left = left;
            for (sandbox, key) in pairs.filter(|(sandbox, key)| may_sign(key, sandbox)) {
                if wanted.fits(&Grant::Envd.token(&of, &sandbox.id, &key.id)) {
                    return (Some(Signed { sandbox: sandbox.id.clone(), key: key.id.clone() }), left);
                }
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            (None, left)
        });
        let found;
        (found, left) = tried.await.map_err(|_| invalid())?;
        if let Some(found) = found {
            return Ok(found);
        }
        cursor = page.next_cursor;
        if cursor.is_none() || left == 0 {
            return Err(invalid());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn tokens_that_were_given_out_are_found_and_the_oldest_forgotten() {
        let issued = Issued::default();
        for number in 0..=MOST_ISSUED {
            issued.note(&format!("token-{number}"), &format!("sb-{number}"), "tk-1");
        }
        issued.note("token-5", "sb-5", "tk-1");
        let older = |wanted: &str| issued.among_older(|token| token == wanted).map(|found| found.sandbox);
        assert_eq!(older("token-0"), None);
        assert_eq!(issued.tokens.read().expect("not poisoned").of.len(), MOST_ISSUED);
        let newest = |wanted: &str| issued.among_newest(|token| token == wanted).map(|found| found.sandbox);
        assert_eq!(newest(&format!("token-{MOST_ISSUED}")), Some(format!("sb-{MOST_ISSUED}")));
        // One that was found is tried first the next time.
        assert_eq!((newest("token-1"), older("token-1")), (None, Some("sb-1".into())));
        assert_eq!(newest("token-1"), Some("sb-1".into()));
    }

    #[test]
    fn a_stranger_tries_few_tokens_before_the_share_of_failures() {
        let issued = Issued::default();
        for number in 0..MOST_ISSUED {
            issued.note(&format!("token-{number}"), "sb", "tk-1");
        }
        let tried = Cell::new(0);
        let count = |_: &str| {
            tried.set(tried.get() + 1);
            false
        };
        assert!(issued.among_newest(count).is_none());
        assert_eq!(tried.replace(0), NEWEST);
        assert!(issued.among_older(count).is_none());
        assert_eq!(tried.get(), MOST_ISSUED - NEWEST, "all others, once");
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
}
