//! The task that ends sandboxes without a call: time to live, idleness, guests that die. It also forgets ended sandboxes.

use super::lifecycle::Sleep;
use super::live::Live;
use super::patience::NotAdopted;
use super::{Fleet, recover};
use paddock_backends::Shortage;
use paddock_engine::Sandbox as Inside;
use paddock_model::api::{EndCause, IdleAction, SandboxState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

const TICK: Duration = Duration::from_millis(200);
/// The ticks between two looks at idleness: reading the kernel's counts costs more than reading a clock.
const LOOK: u64 = 5;
/// How long ended sandboxes are remembered.
const MEMORY_MS: u64 = 24 * 3600 * 1000;
/// The most keys of creates whose node a gateway remembers for one tenant; the newest are kept.
const MOST_CREATE_PLACES: u32 = 200_000;
/// The most records that are removed while the database is locked.
const AT_ONCE: u32 = 500;
/// The ticks between two looks for ended sandboxes that are forgotten, and for everything else that is.
const FORGET_TICKS: u64 = 300;
const SWEEP_TICKS: u64 = 10 * FORGET_TICKS;
/// The ticks between two looks for unused parent VMs.
const STEM_TICKS: u64 = 300;
/// The ticks between two log messages that the state directory was removed.
const REMINDER_TICKS: u64 = 300;
/// Processor time between two looks that still counts as idle: a sleeping shell's housekeeping.
const QUIET_US: u64 = 2_000;

pub fn start(fleet: &Fleet) {
    let weak = Arc::downgrade(&fleet.0);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut forgetting = None;
        for tick in 0_u64.. {
            ticks.tick().await;
            let Some(inner) = weak.upgrade() else { return };
            if inner.closing.load(Ordering::Relaxed) {
                return;
            }
            let fleet = Fleet(inner);
            for live in fleet.0.all() {
                look_at(&fleet, &live, tick.is_multiple_of(LOOK));
            }
            if tick.is_multiple_of(LOOK) {
                fleet.look_at_storage();
            }
            let is_over = |task: &tokio::task::JoinHandle<()>| task.is_finished();
            if tick.is_multiple_of(FORGET_TICKS) && forgetting.as_ref().is_none_or(is_over) {
                let (fleet, whole) = (fleet.clone(), tick.is_multiple_of(SWEEP_TICKS));
                forgetting = Some(tokio::task::spawn_blocking(move || forget_old(&fleet, whole)));
            }
            if tick.is_multiple_of(REMINDER_TICKS)
                && let Err(error) = fleet.0.store.check_in_place()
            {
                let hint = error.hint().unwrap_or_default();
                tracing::error!(%error, hint, "the server takes no new work");
            }
            if tick.is_multiple_of(STEM_TICKS) {
                fleet.drop_unused_parent_vms().await;
            }
        }
    });
}

fn look_at(fleet: &Fleet, live: &Arc<Live>, look_for_idleness: bool) {
    let (state, idle, persistent, sleep) = {
        let record = live.record();
        (record.state, record.idle, record.persistent, record.sleep_at_ttl)
    };
    if state == SandboxState::Creating {
        return;
    }
    if state == SandboxState::Ended {
        return fleet.store_end(live);
    }
    if live.is_over() && sleep.is_none_or(|sleep| sleep.has_begun) {
        return spawn_end(fleet, live, EndCause::TimeToLive);
    }
    // The server may have been killed in between, so that the sleep has begun and the sandbox runs.
    if live.is_over() || (live.is_to_sleep() && state == SandboxState::Running) {
        return spawn(fleet, live, async |fleet, live| fleet.sleep_at_ttl(&live).await);
    }
    // The work of a sandbox with a silent guest is not known.
    let looked_at = look_for_idleness && !persistent && state == SandboxState::Running && !live.is_silent();
    let Some(idle) = idle.filter(|_| looked_at) else {
        return;
    };
    if live.running_execs() > 0 || live.has_open_streams() || used_processor(live) {
        live.touch();
        return;
    }
    if live.quiet_for().as_secs_f64() < idle.seconds {
        return;
    }
    match idle.action {
        IdleAction::Kill => spawn_end(fleet, live, EndCause::Idle),
        IdleAction::Pause => {
            spawn(fleet, live, async |fleet, live| fleet.pause_live(&live, Sleep::Idle).await)
        }
        IdleAction::Hibernate => {
            spawn(fleet, live, async |fleet, live| fleet.hibernate_live(&live, Sleep::Idle, None).await)
        }
    }
}

fn used_processor(live: &Live) -> bool {
    let Some(inside) = live.running() else { return false };
    let now = inside.usage().cpu_ms.map_or(0, |ms| (ms * 1e3) as u64);
    let before = live.cpu_us.swap(now, Ordering::Relaxed);
    now.saturating_sub(before) > QUIET_US
}

fn spawn_end(fleet: &Fleet, live: &Arc<Live>, cause: EndCause) {
    spawn(fleet, live, async move |fleet, live| fleet.end(&live, cause).await);
}

/// One action at a time per sandbox: while its transition is locked, another task works on it.
fn spawn<F>(fleet: &Fleet, live: &Arc<Live>, action: impl FnOnce(Fleet, Arc<Live>) -> F)
where
    F: Future<Output = Result<(), super::FleetError>> + Send + 'static,
{
    if live.transition.try_lock().is_err() {
        return;
    }
    let id = live.id.clone();
    let work = action(fleet.clone(), live.clone());
    tokio::spawn(async move {
        if let Err(error) = work.await {
            tracing::warn!(sandbox = %id, %error, "could not be ended, paused or hibernated");
        }
    });
}

/// Blocks for as long as there is something to remove. `whole`: also looks through what no index finds.
fn forget_old(fleet: &Fleet, whole: bool) {
    let before = fleet.0.steady.cautious_now_ms().saturating_sub(MEMORY_MS);
    forget_sandboxes(fleet, before);
    if !whole {
        return;
    }
    super::contexts::forget_calls_before(fleet, before);
    let audit_writer = &fleet.0.audit_writer;
    audit_writer.outputs().sweep(|id| audit_writer.audit().path(id).exists());
    if let Err(error) = fleet.0.store.delete_keys_before(before) {
        tracing::warn!(%error, "old idempotency keys could not be removed");
    }
    if let Err(error) = fleet.0.store.create_places().prune(before, MOST_CREATE_PLACES) {
        tracing::warn!(%error, "old nodes of creates could not be removed");
    }
}

/// Ended sandboxes are remembered for a day, and no more of them than the owner allows.
fn forget_sandboxes(fleet: &Fleet, before: u64) {
    while !fleet.is_closing() {
        let ids = match fleet.0.store.delete_ended(before, fleet.0.options.keep_ended, AT_ONCE) {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!(%error, "old records could not be removed"),
        };
        for id in &ids {
            let _ = std::fs::remove_dir_all(fleet.0.options.state.join("sandboxes").join(id));
        }
        if ids.len() < AT_ONCE as usize {
            return;
        }
    }
}

/// Waits for the guest to go away by itself.
pub fn watch_over(fleet: &Fleet, live: &Arc<Live>, inside: Arc<Inside>) {
    let (weak, live) = (Arc::downgrade(&fleet.0), live.clone());
    let lost = inside.lost();
    let inside = Arc::downgrade(&inside);
    tokio::spawn(async move {
        let detail = lost.await;
        let Some(inner) = weak.upgrade() else { return };
        if !inner.closing.load(Ordering::Relaxed) {
            // The future is boxed only now: every idle sandbox has one of these tasks, and the rest would take 8 KiB of
            // it.
            Box::pin(after_loss(Fleet(inner), live, inside, detail)).await;
        }
    });
}

async fn after_loss(fleet: Fleet, live: Arc<Live>, inside: Weak<Inside>, detail: String) {
    let guard = live.transition.lock().await;
    // Another task ended it, or woke it again, meanwhile.
    let Some(current) = live.running().filter(|now| inside.upgrade().is_some_and(|it| Arc::ptr_eq(now, &it)))
    else {
        return;
    };
    live.set_running(None);
    let lost_to = current.usage().lost_to();
    match recover::reconnect(&fleet, &live, current).await {
        Ok(()) => {}
        // The guest lives, and is not ended for being slow.
        Err(NotAdopted { may_yet_be: true, .. }) if lost_to.is_none() => {
            fleet.wait_for_guest(&live);
        }
        Err(_) if fleet.sleeps_after_loss(&live).await => {}
        Err(NotAdopted { why, .. }) => {
            drop(guard);
            let cause = match lost_to {
                Some(Shortage::Memory) => EndCause::OutOfMemory,
                Some(Shortage::Processes) => EndCause::Limit { limit: "processes".into() },
                None => recover::cause_of_loss(&live, &format!("{detail}; {why}")),
            };
            if let Err(error) = fleet.end(&live, cause).await {
                tracing::warn!(sandbox = %live.id, %error, "a lost sandbox could not be removed");
            }
        }
    }
}
