//! Ends the requests of a token when the token is revoked. Every request of a token holds a [`Revoked`], which is ready
//! as soon as the token is not valid any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

#[derive(Default)]
pub struct Revocations {
    /// The tokens that were used since the server started: never more than there are tokens.
    used: Mutex<HashMap<String, watch::Sender<bool>>>,
    /// The number of revocations.
    count: AtomicU64,
}

/// Tells when one token is revoked, or is valid no more.
#[derive(Debug, Clone)]
pub struct Revoked {
    watched: watch::Receiver<bool>,
    /// Ends it as well.
    also: Option<watch::Receiver<bool>>,
    expires: Option<Instant>,
}

impl Revocations {
    /// Called before a token is looked up; [`Revocations::watch`] takes the count.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// `None` if a token was revoked since `count`: this one may be it, and has to be looked up again.
    pub fn watch(&self, token: &str, count: u64) -> Option<Revoked> {
        let mut used = self.lock();
        // Under the lock: a watcher is told of every revocation from here on.
        if self.count() != count {
            return None;
        }
        if let Some(sender) = used.get(token) {
            return Some(Revoked::new(sender.subscribe()));
        }
        let (sender, receiver) = watch::channel(false);
        used.insert(token.to_string(), sender);
        Some(Revoked::new(receiver))
    }

    /// Precondition: the store does not know the token any more, or knows it with fewer rights.
    pub fn revoke(&self, token: &str) {
        let mut used = self.lock();
        self.count.fetch_add(1, Ordering::SeqCst);
        if let Some(sender) = used.remove(token) {
            sender.send_replace(true);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<bool>>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Revoked {
    fn new(watched: watch::Receiver<bool>) -> Revoked {
        Revoked { watched, also: None, expires: None }
    }

    /// Of a right that somebody else than the tokens ends: ready when the other end says true.
    pub(super) fn told_by(watched: watch::Receiver<bool>) -> Revoked {
        Revoked::new(watched)
    }

    /// Of a right that no token can end: one of the owner's socket.
    pub fn never() -> Revoked {
        Revoked::new(watch::channel(false).1)
    }

    /// The token ends by itself after so long.
    #[must_use]
    pub fn expiring_in(mut self, left: Duration) -> Revoked {
        self.expires = Instant::now().checked_add(left);
        self
    }

    /// For a right that was derived from the token: it ends after so long, or with the token if that is earlier.
    #[must_use]
    pub fn expiring_within(mut self, left: Duration) -> Revoked {
        let own = Instant::now().checked_add(left);
        self.expires = match (self.expires, own) {
            (Some(first), Some(second)) => Some(first.min(second)),
            (first, second) => first.or(second),
        };
        self
    }

    /// Ready when one of the two is. Precondition: `other` ends by being told.
    #[must_use]
    pub fn ending_with(mut self, other: Revoked) -> Revoked {
        self.also = Some(other.watched);
        self
    }

    /// Ready when the token is revoked or has expired, and never before.
    pub async fn revoked(self) {
        let (watched, also) = (self.watched, self.also);
        let told = async {
            tokio::select! {
                () = told(watched) => {}
                () = async { match also { Some(also) => told(also).await, None => std::future::pending().await } } => {}
            }
        };
        match self.expires {
            None => told.await,
            Some(end) => {
                let _ = tokio::time::timeout_at(end, told).await;
            }
        }
    }
}

async fn told(mut watched: watch::Receiver<bool>) {
    if watched.wait_for(|revoked| *revoked).await.is_err() {
        // The server ends, which ends everything by itself.
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_told(revoked: &Revoked) -> bool {
        tokio::select! {
            biased;
            () = revoked.clone().revoked() => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn everybody_who_watches_is_told_once_it_is_revoked() {
        let revocations = Revocations::default();
        let count = revocations.count();
        let [one, again, other] =
            ["tk-1", "tk-1", "tk-2"].map(|token| revocations.watch(token, count).unwrap());
        assert!(!is_told(&one).await);
        revocations.revoke("tk-1");
        assert!(is_told(&one).await && is_told(&again).await);
        assert!(!is_told(&other).await);
        assert_eq!(revocations.lock().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_expires_ends_by_itself() {
        let revocations = Revocations::default();
        let watched = revocations.watch("tk-1", revocations.count()).unwrap();
        let expiring = watched.clone().expiring_in(Duration::from_secs(60));
        assert!(!is_told(&expiring).await);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(is_told(&expiring).await);
        assert!(!is_told(&watched).await);
        revocations.revoke("tk-1");
        assert!(is_told(&watched).await);
        let of_the_socket = Revoked::never();
        assert!(!is_told(&of_the_socket).await);
        let of_the_socket = of_the_socket.expiring_within(Duration::from_secs(60));
        assert!(!is_told(&of_the_socket).await);
        tokio::time::advance(Duration::from_secs(61)).await;
        assert!(is_told(&of_the_socket).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_derived_right_ends_with_its_own_time_and_with_that_of_its_token() {
        let revocations = Revocations::default();
        let watched = revocations.watch("tk-1", revocations.count()).unwrap();
        let token = watched.expiring_in(Duration::from_secs(60));
        let (shorter, longer) = (
            token.clone().expiring_within(Duration::from_secs(30)),
            token.clone().expiring_within(Duration::from_secs(90)),
        );
        tokio::time::advance(Duration::from_secs(31)).await;
        assert!(is_told(&shorter).await);
        assert!(!is_told(&longer).await && !is_told(&token).await);
        tokio::time::advance(Duration::from_secs(30)).await;
        assert!(is_told(&longer).await);
    }

    #[tokio::test]
    async fn one_that_ends_with_another_is_ready_with_the_first_of_both() {
        let revocations = Revocations::default();
        for other_first in [true, false] {
            let token = revocations.watch("tk-1", revocations.count()).unwrap();
            let (other, watched) = watch::channel(false);
            let both = token.ending_with(Revoked::told_by(watched));
            assert!(!is_told(&both).await);
            match other_first {
                true => drop(other.send_replace(true)),
                false => revocations.revoke("tk-1"),
            }
            assert!(is_told(&both).await, "{other_first}");
        }
        let (other, watched) = watch::channel(false);
        let alone = Revoked::never().ending_with(Revoked::told_by(watched));
        drop(other);
        assert!(!is_told(&alone).await, "one that is gone ends nothing");
    }

    #[test]
    fn one_that_was_looked_up_before_a_revocation_is_looked_up_again() {
        let revocations = Revocations::default();
        let count = revocations.count();
        revocations.revoke("tk-1");
        assert!(revocations.watch("tk-1", count).is_none());
        assert!(revocations.watch("tk-1", revocations.count()).is_some());
    }
}
