//! Those who use something without a token: all of them are sent off together.

use super::Revoked;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

#[derive(Default)]
pub struct Visitors(Mutex<watch::Sender<bool>>);

impl Visitors {
    /// Ready when the visitors of now are sent off.
    pub fn watch(&self) -> Revoked {
        Revoked::told_by(self.0.lock().unwrap_or_else(PoisonError::into_inner).subscribe())
    }

    /// Ends everything that those opened who came until now.
    pub fn send_off(&self) {
        let mut present = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *present).send_replace(true);
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
    async fn who_comes_after_it_is_not_sent_off() {
        let visitors = Visitors::default();
        let before = visitors.watch();
        assert!(!is_told(&before).await);
        visitors.send_off();
        assert!(is_told(&before).await);
        let after = visitors.watch();
        assert!(!is_told(&after).await);
        drop(visitors);
        assert!(!is_told(&after).await, "the end of the sandbox ends them in its own way");
    }
}
