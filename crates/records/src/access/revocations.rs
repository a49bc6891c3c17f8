//! Ends the requests of a token when the token is revoked. Every request of a token holds a [`Revoked`], which is ready
//! as soon as the token is not valid any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

#[derive(Default)]
pub struct Revocations {
    /// The tokens that were used since the server started: never more than there are tokens.
    used: Mutex<HashMap<String, watch::Sender<bool>>>,
    /// The number of revocations.
    count: AtomicU64,
}

/// Tells when one token is revoked.
#[derive(Debug, Clone)]
pub struct Revoked(watch::Receiver<bool>);

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
            return Some(Revoked(sender.subscribe()));
        }
        let (sender, receiver) = watch::channel(false);
        used.insert(token.to_string(), sender);
        Some(Revoked(receiver))
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
    /// Ready when the token is revoked, and never before.
    pub async fn revoked(mut self) {
        if self.0.wait_for(|revoked| *revoked).await.is_err() {
            // The server ends, which ends everything by itself.
            std::future::pending::<()>().await;
        }
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

    #[test]
    fn one_that_was_looked_up_before_a_revocation_is_looked_up_again() {
        let revocations = Revocations::default();
        let count = revocations.count();
        revocations.revoke("tk-1");
        assert!(revocations.watch("tk-1", count).is_none());
        assert!(revocations.watch("tk-1", revocations.count()).is_some());
    }
}
