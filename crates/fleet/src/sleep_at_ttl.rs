//! Sandboxes that do not end with their time to live: they are paused or hibernated, kept for a month, and live anew when
//! they are used again.

use super::clock::BootInstant;
use super::lifecycle::Sleep;
use super::live::Live;
use super::record::{Record, now_ms};
use super::request::invalid;
use super::{Fleet, FleetError};
use paddock_model::api::{SandboxState, TtlAction};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A sandbox that sleeps since its time to live was over ends after this time.
const MOST_SLEEP: Duration = Duration::from_secs(30 * 86_400);
/// The time to the next attempt if it could not be put to sleep.
const RETRY: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SleepAtTtl {
    pub action: TtlAction,
    /// The length of its time to live, which begins anew when it is awake again.
    pub seconds: f64,
    /// True from the end of its time to live until it is awake again.
    pub has_begun: bool,
}

/// A sandbox sleeps because a call asked for that.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct AskedSleep {
    /// Its time to live when it is awake again, if the call gave it another one for its sleep.
    pub seconds_awake: Option<f64>,
    /// True if the next call that needs its processes resumes it.
    pub auto_resume: bool,
}

/// How long a sandbox lives, for a change that fails to give it back.
pub struct Lifetime {
    expires_at_ms: Option<u64>,
    expires_boot: Option<BootInstant>,
    sleep_at_ttl: Option<SleepAtTtl>,
    asked_sleep: Option<AskedSleep>,
}

impl SleepAtTtl {
    /// `None`: the sandbox ends at that time, or never.
    pub fn of(
        wanted: Option<TtlAction>,
        expires_at_ms: Option<u64>,
    ) -> Result<Option<SleepAtTtl>, FleetError> {
        match (wanted.unwrap_or_default(), expires_at_ms) {
            (TtlAction::Kill, _) => Ok(None),
            (action, Some(at)) => {
                let seconds = at.saturating_sub(now_ms()) as f64 / 1e3;
                Ok(Some(SleepAtTtl { action, seconds, has_begun: false }))
            }
            (_, None) => {
                Err(invalid("`ttl_action` is for a sandbox with a time to live, and this one has none")
                    .hint("give `ttl_seconds`, or leave `ttl_action` out"))
            }
        }
    }
}

impl Record {
    /// The time after which the guest ends the sandbox by itself. Only a server can put a sandbox to sleep; until one
    /// does, it has as long as it would have asleep.
    pub fn guest_deadline(&self) -> Option<Duration> {
        let awaits_sleep = self.sleep_at_ttl.is_some_and(|sleep| !sleep.has_begun);
        let extra = if awaits_sleep { MOST_SLEEP } else { Duration::ZERO };
        self.time_to_live().map(|left| left + extra)
    }

    /// It is awake again. A sandbox that ends with its time to live keeps the one that it has, or had before it was put to sleep.
    /// `wanted`: its time to live from now on, whatever it was.
    pub fn restart_time_to_live(&mut self, wanted: Option<Duration>) {
        let mut seconds = self.asked_sleep.take().and_then(|sleep| sleep.seconds_awake);
        if let Some(sleep) = &mut self.sleep_at_ttl {
            sleep.has_begun = false;
            seconds = Some(sleep.seconds);
        }
        if let Some(ttl) = wanted.or(seconds.map(Duration::from_secs_f64)) {
            self.set_time_to_live(Some(ttl));
        }
    }

    /// A call puts it to sleep. `ttl`: its time to live until it is awake again. A sandbox that lives for ever goes on to.
    pub fn sleep_as_asked(&mut self, ttl: Option<Duration>, auto_resume: bool) {
        let mut seconds_awake = self.asked_sleep.and_then(|sleep| sleep.seconds_awake);
        if let (Some(ttl), Some(left)) = (ttl, self.time_to_live()) {
            seconds_awake.get_or_insert(left.as_secs_f64());
            self.set_time_to_live(Some(ttl));
        }
        self.asked_sleep = Some(AskedSleep { seconds_awake, auto_resume });
    }

    /// Its state, and whether a call that needs its processes resumes it if it is paused: the fleet paused it, or its pause asked for that.
    pub fn awaits_use(&self) -> (SandboxState, bool) {
        (self.state, self.paused_when_idle || self.asked_sleep.is_some_and(|sleep| sleep.auto_resume))
    }

    pub fn lifetime(&self) -> Lifetime {
        Lifetime {
            expires_at_ms: self.expires_at_ms,
            expires_boot: self.expires_boot.clone(),
            sleep_at_ttl: self.sleep_at_ttl,
            asked_sleep: self.asked_sleep,
        }
    }

    pub fn live_as_before(&mut self, lifetime: Lifetime) {
        (self.expires_at_ms, self.expires_boot) = (lifetime.expires_at_ms, lifetime.expires_boot);
        (self.sleep_at_ttl, self.asked_sleep) = (lifetime.sleep_at_ttl, lifetime.asked_sleep);
    }
}

impl Live {
    /// True if its time to live was over, and it was not used since.
    pub fn is_to_sleep(&self) -> bool {
        self.record().sleep_at_ttl.is_some_and(|sleep| sleep.has_begun)
    }
}

impl Fleet {
    /// Precondition: its time to live is over.
    pub(super) async fn sleep_at_ttl(&self, live: &Arc<Live>) -> Result<(), FleetError> {
        let Some(action) = self.begin_sleep(live).await? else { return Ok(()) };
        let slept = match action {
            TtlAction::Hibernate => match self.hibernate_live(live, Sleep::TtlOver, None).await {
                // Forks live in its namespaces, so that it cannot leave them.
                Err(error) if error.code == "forks_live" => self.pause_live(live, Sleep::TtlOver).await,
                slept => slept,
            },
            TtlAction::Pause | TtlAction::Kill => self.pause_live(live, Sleep::TtlOver).await,
        };
        if slept.is_err() {
            let _guard = live.transition.lock().await;
            self.prolong(live, RETRY)?;
        }
        slept
    }

    /// Records that it is to sleep, before it does: it is not ended if the server is killed in between. `None`: there is
    /// nothing to do.
    async fn begin_sleep(&self, live: &Arc<Live>) -> Result<Option<TtlAction>, FleetError> {
        let _guard = live.transition.lock().await;
        let mut record = live.record().clone();
        let Some(sleep) = &mut record.sleep_at_ttl else { return Ok(None) };
        let action = sleep.action;
        if !sleep.has_begun {
            if !live.is_over() {
                return Ok(None);
            }
            sleep.has_begun = true;
            record.set_time_to_live(Some(MOST_SLEEP));
            self.0.save(&record)?;
            live.follow_time_to_live(&record);
            let mut current = live.record();
            current.sleep_at_ttl = record.sleep_at_ttl;
            (current.expires_at_ms, current.expires_boot) = (record.expires_at_ms, record.expires_boot);
        }
        Ok((record.state == SandboxState::Running).then_some(action))
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::record;
    use super::*;

    #[test]
    fn a_sandbox_without_an_end_cannot_sleep_at_it() {
        assert_eq!(SleepAtTtl::of(None, None).expect("none"), None);
        assert_eq!(SleepAtTtl::of(Some(TtlAction::Kill), None).expect("none"), None);
        let refused = SleepAtTtl::of(Some(TtlAction::Pause), None).expect_err("there is no end");
        assert!(refused.message.contains("ttl_action"), "{}", refused.message);
        let sleep = SleepAtTtl::of(Some(TtlAction::Hibernate), Some(now_ms() + 60_000)).expect("valid");
        let sleep = sleep.expect("it sleeps");
        assert!(!sleep.has_begun && (59.0..=60.0).contains(&sleep.seconds), "{sleep:?}");
    }

    #[test]
    fn the_guest_leaves_it_to_the_server_until_the_sandbox_sleeps() {
        let mut record = record(Some(Duration::from_secs(60)));
        assert!(record.guest_deadline() <= Some(Duration::from_secs(60)));
        let sleep = SleepAtTtl { action: TtlAction::Pause, seconds: 60.0, has_begun: false };
        record.sleep_at_ttl = Some(sleep);
        assert!(record.guest_deadline() > Some(MOST_SLEEP));
        record.sleep_at_ttl = Some(SleepAtTtl { has_begun: true, ..sleep });
        record.set_time_to_live(Some(MOST_SLEEP));
        assert!(record.guest_deadline() <= Some(MOST_SLEEP));
        record.restart_time_to_live(None);
        assert_eq!(record.sleep_at_ttl, Some(sleep));
        assert!(record.time_to_live() <= Some(Duration::from_secs(60)));
    }
}
