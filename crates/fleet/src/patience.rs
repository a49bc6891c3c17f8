//! Guests that do not answer: slow, stopped, or short of memory. They are not ended for it. They are asked again in the
//! background until they answer, have gone, or a caller ends the sandbox.

use super::live::Live;
use super::record::Intent;
use super::{Fleet, FleetError, Kind};
use paddock_backends::AdoptError;
use paddock_engine::EngineError;
use paddock_model::api::SandboxState;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The pause between two attempts to reach a silent guest.
const PAUSE_BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);
/// The time between two checks that an attempt is still wanted.
const LOOK: Duration = Duration::from_millis(50);
/// The longest wait of a call for a silent guest.
const CALL_WAITS: Duration = Duration::from_secs(5);

/// Why a sandbox could not be taken over.
#[derive(Debug, Clone)]
pub struct NotAdopted {
    pub why: String,
    /// True if another attempt may succeed: the guest is there and silent, or the host had no means to ask it.
    pub may_yet_be: bool,
}

impl NotAdopted {
    pub fn for_good(why: String) -> NotAdopted {
        NotAdopted { why, may_yet_be: false }
    }
}

impl From<io::Error> for NotAdopted {
    fn from(error: io::Error) -> NotAdopted {
        NotAdopted { why: error.to_string(), may_yet_be: is_passing(&error) }
    }
}

impl From<EngineError> for NotAdopted {
    fn from(error: EngineError) -> NotAdopted {
        let may_yet_be = match &error {
            EngineError::Silent { .. } => true,
            EngineError::Adopt(AdoptError::Connect { source, .. }) => is_passing(source),
            _ => false,
        };
        NotAdopted { why: super::request::chain(&error), may_yet_be }
    }
}

fn is_passing(error: &io::Error) -> bool {
    let no_means = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN];
    matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
        || error.raw_os_error().is_some_and(|number| no_means.contains(&number))
}

impl Fleet {
    /// Takes over the guest of a sandbox, however long that takes. The task ends when the guest was taken over, has
    /// gone, or is not wanted any more.
    pub(super) fn wait_for_guest(&self, live: &Arc<Live>) -> JoinHandle<()> {
        live.set_silent(true);
        let (fleet, live) = (self.clone(), live.clone());
        tokio::spawn(async move { fleet.ask_until_it_answers(&live).await })
    }

    async fn ask_until_it_answers(self, live: &Arc<Live>) {
        let mut told = false;
        while let Some(why) = self.ask_once(live).await {
            if !told {
                told = true;
                tracing::warn!(sandbox = %live.id, why, "its guest does not answer; it is waited for");
            }
            tokio::select! {
                () = self.is_unwanted(live) => return,
                () = tokio::time::sleep(PAUSE_BETWEEN_ATTEMPTS) => {}
            }
        }
        if told && live.running().is_some() {
            tracing::info!(sandbox = %live.id, "its guest answers again");
        }
    }

    /// `Some`: another attempt makes sense; the text says why this one failed.
    async fn ask_once(&self, live: &Arc<Live>) -> Option<String> {
        let turn = self.0.adoptions.acquire().await;
        let transition = live.transition.clone();
        let _guard = transition.lock().await;
        if live.record().state == SandboxState::Ended || live.running().is_some() {
            live.set_silent(false);
            return None;
        }
        let hibernating = matches!(live.record().intent, Some(Intent::Hibernate));
        let adopted = tokio::select! {
            adopted = self.adopt(live) => adopted,
            () = self.is_unwanted(live) => return None,
        };
        drop(turn);
        match adopted {
            Ok(()) => {
                live.set_silent(false);
                self.has_guest_again(live, hibernating);
                None
            }
            Err(NotAdopted { why, may_yet_be: true }) => Some(why),
            Err(NotAdopted { why, .. }) => {
                live.set_silent(false);
                self.give_up_guest(live, &why).await;
                None
            }
        }
    }

    /// Ready when the server closes or a caller is about to end the sandbox.
    async fn is_unwanted(&self, live: &Live) {
        while !self.0.closing.load(Ordering::Relaxed) && !live.is_unwanted() {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Called when a guest that this server parted from on purpose could not be taken back.
    ///
    /// Precondition: the caller holds the sandbox's transition.
    pub(super) fn after_parting(&self, live: &Arc<Live>, why: &NotAdopted) {
        if why.may_yet_be {
            self.wait_for_guest(live);
            return;
        }
        let cause = super::recover::cause_of_loss(live, &why.why);
        let (fleet, lost) = (self.clone(), live.clone());
        tokio::spawn(async move { fleet.end(&lost, cause).await });
    }

    /// For calls that need the inside of a sandbox with a silent guest: waits a while for it.
    pub(super) async fn until_it_answers(&self, live: &Live) -> Result<(), FleetError> {
        let began = tokio::time::Instant::now();
        while live.is_silent() {
            if began.elapsed() >= CALL_WAITS {
                let message = format!("the guest of sandbox {} does not answer", live.id);
                return Err(FleetError::new(Kind::Unavailable, "guest_silent", message).hint(
                    "it is asked again until it answers, and keeps what it has; try again later, or end it",
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_is_tried_again() {
        for (errno, passing) in
            [(libc::ETIMEDOUT, true), (libc::EAGAIN, true), (libc::EMFILE, true), (libc::ECONNREFUSED, false)]
        {
            let error = NotAdopted::from(io::Error::from_raw_os_error(errno));
            assert_eq!(error.may_yet_be, passing, "{errno}");
        }
        assert!(NotAdopted::from(EngineError::Silent { seconds: 10 }).may_yet_be);
        assert!(!NotAdopted::from(EngineError::Lost { detail: "gone".into() }).may_yet_be);
    }
}
