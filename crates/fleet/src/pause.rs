//! A sandbox is frozen where it stands, and goes on. None of it stops half way when the caller goes away: a sandbox that is frozen is
//! one that is recorded as paused.

use super::lifecycle::{Sleep, lost, told, wrong_state};
use super::live::Live;
use super::request::optional_seconds;
use super::{Actor, Fleet, FleetError, audit};
use paddock_model::api::{Pause, Resume, Sandbox, SandboxState};
use std::sync::Arc;
use std::time::Duration;

impl Fleet {
    pub async fn pause(&self, actor: &Actor, id: &str, request: Pause) -> Result<Sandbox, FleetError> {
        optional_seconds(request.ttl_seconds)?;
        let live = self.find(actor, id)?;
        audit::call(&self.0, actor, &live, "pause", told(&request));
        self.detached(async move |fleet: Fleet| {
            fleet.pause_as_asked(&live, Sleep::Asked, &request).await?;
            Ok(live.to_api())
        })
        .await
    }

    pub async fn resume(&self, actor: &Actor, id: &str, request: Resume) -> Result<Sandbox, FleetError> {
        let ttl = optional_seconds(request.ttl_seconds)?;
        let live = self.find(actor, id)?;
        audit::call(&self.0, actor, &live, "resume", told(&request));
        self.detached(async move |fleet: Fleet| {
            fleet.resume_live(&live, ttl).await?;
            Ok(live.to_api())
        })
        .await
    }

    /// Resumes or wakes it for a call that needs its processes; the caller may go away meanwhile.
    pub(super) async fn rouse(&self, live: &Arc<Live>) -> Result<(), FleetError> {
        let live = live.clone();
        self.detached(async move |fleet: Fleet| {
            let state = live.record().state;
            match state {
                SandboxState::Paused => fleet.resume_live(&live, None).await,
                _ => fleet.wake_live(&live, None).await,
            }
        })
        .await
    }

    pub(super) async fn pause_live(&self, live: &Arc<Live>, why: Sleep) -> Result<(), FleetError> {
        self.pause_as_asked(live, why, &Pause::default()).await
    }

    async fn pause_as_asked(&self, live: &Arc<Live>, why: Sleep, request: &Pause) -> Result<(), FleetError> {
        let by_fleet = why != Sleep::Asked;
        let ttl = optional_seconds(request.ttl_seconds)?;
        let _guard = live.transition.lock().await;
        match live.record().state {
            SandboxState::Running => {}
            SandboxState::Paused => return Ok(()),
            state => return Err(wrong_state(live, state, "paused")),
        }
        if why == Sleep::TtlOver && !live.is_to_sleep() {
            return Ok(());
        }
        let inside = live.running().ok_or_else(|| lost(live))?;
        // A call that comes meanwhile resumes it.
        let _alone = match by_fleet {
            true => Some(live.fall_asleep().await),
            false => None,
        };
        if why == Sleep::Idle && live.is_in_use() {
            return Ok(());
        }
        inside.freeze(true).await?;
        let lifetime = live.record().lifetime();
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Paused;
            record.paused_when_idle = by_fleet;
            if !by_fleet {
                record.sleep_as_asked(ttl, request.auto_resume);
            }
            record.clone()
        };
        if let Err(error) = self.0.save(&record) {
            {
                let mut record = live.record();
                record.state = SandboxState::Running;
                record.live_as_before(lifetime);
            }
            inside.freeze(false).await?;
            return Err(error);
        }
        live.follow_time_to_live(&record);
        self.0.announce(live, "paused");
        Ok(())
    }

    /// `ttl`: its time to live from then on.
    async fn resume_live(&self, live: &Arc<Live>, ttl: Option<Duration>) -> Result<(), FleetError> {
        let _guard = live.transition.lock().await;
        match live.record().state {
            SandboxState::Paused => {}
            SandboxState::Running => return Ok(()),
            state => return Err(wrong_state(live, state, "resumed")),
        }
        let inside = live.running().ok_or_else(|| lost(live))?;
        inside.freeze(false).await?;
        let (by_fleet, lifetime) = {
            let record = live.record();
            (record.paused_when_idle, record.lifetime())
        };
        let record = {
            let mut record = live.record();
            record.state = SandboxState::Running;
            record.paused_when_idle = false;
            record.restart_time_to_live(ttl);
            record.clone()
        };
        live.follow_time_to_live(&record);
        if let Err(error) = self.0.save(&record) {
            // The old state: a server that starts anew would pause it again.
            let before = {
                let mut record = live.record();
                (record.state, record.paused_when_idle) = (SandboxState::Paused, by_fleet);
                record.live_as_before(lifetime);
                record.clone()
            };
            live.follow_time_to_live(&before);
            inside.freeze(true).await?;
            return Err(error);
        }
        live.touch();
        self.0.announce(live, "resumed");
        Ok(())
    }
}
