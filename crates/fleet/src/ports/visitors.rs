//! The connections of those who came to a public port of one sandbox: they end when it is closed.

use paddock_records::access::Revoked;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

#[derive(Default)]
pub struct Visitors(Mutex<watch::Sender<bool>>);

impl Visitors {
    /// Ready when the visitors of now are sent off.
    pub fn watch(&self) -> Revoked {
        Revoked::told_by(self.0.lock().unwrap_or_else(PoisonError::into_inner).subscribe())
    }

    /// Ends the connections of all who came until now.
    pub fn send_off(&self) {
        let mut present = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *present).send_replace(true);
    }
}
