//! One template's pool: the ready sandboxes, and the wanted number.

use super::baked::Baked;
use super::member::Member;
use super::parent_vms::ParentVm;
use crate::clock::boot_ms;
use crate::record::Record;
use paddock_backends::InterpreterStart;
use paddock_engine::Zygote;
use paddock_model::Spec;
use paddock_model::api::{self, PoolSize};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, watch};

/// As many as were asked for within this time are kept ready, so that as many can be asked for again.
const DEMAND_MS: u64 = 2000;

/// For this time after one was given away, others are made only if few are left.
pub const RESPITE_MS: u64 = 15;
/// The same if each takes a processor for itself while its VM begins.
const RESPITE_OF_MACHINES_MS: u64 = 200;

pub struct Pool {
    pub template: String,
    state: Mutex<State>,
    /// Notified when there is work.
    pub wake: Notify,
    /// Set once, when the pool ends.
    ended: watch::Sender<bool>,
    /// True if demand made it, and no person set it.
    pub by_demand: bool,
}

/// The model of its sandboxes.
#[derive(Clone)]
pub struct Blueprint {
    pub backend: Option<String>,
    pub spec: Spec,
    pub image: Option<String>,
    pub start: InterpreterStart,
    pub preload: Vec<String>,
    /// True if an interpreter waits in them.
    pub has_interpreter: bool,
}

impl Blueprint {
    /// True if a sandbox of this blueprint can become the wanted one: a variable can be given another value, but not
    /// removed. Sandboxes of a pool that was set are not prepared for live forks; a caller that does not insist gets
    /// one all the same.
    pub fn serves(&self, wanted: &Record, preload: &[String]) -> bool {
        let live_forks = self.spec.live_forks && wanted.spec.live_forks;
        self.spec == Spec { live_forks, ..wanted.spec.clone() }
            && self.image == wanted.image
            && self.backend == wanted.backend
            && self.preload == preload
            && self.start.env.keys().all(|name| wanted.env.contains_key(name))
    }

    pub fn is(&self, other: &Blueprint) -> bool {
        let of = |it: &Blueprint| (it.backend.clone(), it.image.clone(), it.preload.clone());
        of(self) == of(other)
            && self.spec == other.spec
            && (&self.start.env, &self.start.cwd) == (&other.start.env, &other.start.cwd)
    }
}

#[derive(Default)]
struct State {
    size: PoolSize,
    stopped: bool,
    blueprint: Option<Arc<Blueprint>>,
    ready: VecDeque<Member>,
    making: u32,
    /// The times at which sandboxes were asked for, by the boot clock, which cannot be set.
    asked: VecDeque<u64>,
    last_asked: u64,
    /// The number for which there is memory.
    ceiling: Option<u32>,
    /// True while the host is short of memory: none is kept.
    is_held_back: bool,
    zygote: ZygoteState,
    hits: u64,
    misses: u64,
    error: Option<String>,
}

#[derive(Default)]
enum ZygoteState {
    #[default]
    None,
    /// It does its imports.
    Starting,
    Ready(Arc<Zygote>),
    /// Kept memory with an interpreter, instead of a zygote.
    Baked(Arc<Baked>),
    /// Its sandboxes start interpreters of their own; the text says why.
    Unavailable(String),
    /// Its sandboxes start interpreters of their own in any case.
    Unwanted,
}

/// A ready sandbox, or the blueprint to make one.
pub enum Taken {
    Ready(Box<Member>),
    Blueprint(Arc<Blueprint>, MemberOrigin),
}

/// The origin of a new sandbox's interpreter.
#[derive(Clone)]
pub enum MemberOrigin {
    Zygote(Arc<Zygote>),
    Baked(Arc<Baked>),
    /// It stands in a parent VM that is copied.
    ParentVm(Arc<ParentVm>),
    /// It is started.
    None,
}

/// The name has a slash, which no template's name has.
pub fn name_by_demand(template: &str) -> String {
    format!("demand/{template}")
}

impl Pool {
    pub fn new(template: &str, size: PoolSize) -> Pool {
        let state = State { size, ..State::default() };
        let (ended, _) = watch::channel(false);
        let (state, wake) = (Mutex::new(state), Notify::new());
        Pool { template: template.into(), state, wake, ended, by_demand: false }
    }

    /// A pool for sandboxes of one fixed kind. It keeps none before there is known to be room.
    pub fn by_demand(template: &str, size: PoolSize, blueprint: Blueprint) -> Pool {
        let pool = Pool { by_demand: true, ..Pool::new(template, size) };
        let mut state = pool.state();
        state.blueprint = Some(Arc::new(blueprint));
        state.zygote = ZygoteState::Unwanted;
        (state.ceiling, state.last_asked) = (Some(0), boot_ms());
        drop(state);
        pool
    }

    /// The name under which sandboxes that it gave away are counted: those that demand made for one template have one
    /// count.
    pub fn name(&self) -> String {
        if self.by_demand { name_by_demand(&self.template) } else { self.template.clone() }
    }

    pub fn size(&self) -> PoolSize {
        self.state().size
    }

    pub fn resize(&self, size: PoolSize) {
        self.state().size = size;
        self.wake.notify_one();
    }

    pub fn stop(&self) {
        self.state().stopped = true;
        self.ended.send_replace(true);
        self.wake.notify_one();
    }

    /// Returns when the pool ends.
    pub async fn stopped(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// Waits until nothing is being made, at most for this time.
    pub async fn idle(&self, patience: Duration) {
        let until = tokio::time::Instant::now() + patience;
        while self.state().makes() && tokio::time::Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// A sandbox for this request. `None` if the pool's sandboxes are different.
    pub fn take(&self, wanted: &Record, preload: &[String]) -> Option<Taken> {
        let mut state = self.state();
        let blueprint = state.blueprint.clone()?;
        if !blueprint.serves(wanted, preload) || state.stopped {
            return None;
        }
        state.last_asked = boot_ms();
        let asked = state.last_asked;
        state.asked.push_back(asked);
        self.wake.notify_one();
        while let Some(member) = state.ready.pop_front() {
            if member.lives() {
                state.hits += 1;
                return Some(Taken::Ready(Box::new(member)));
            }
        }
        state.misses += 1;
        Some(Taken::Blueprint(blueprint, state.zygote.origin()))
    }

    /// The number to make now, so that at most `at_once` are made at the same time.
    pub fn begin_making(&self, at_once: u32) -> u32 {
        let mut state = self.state();
        if state.stopped || state.blueprint.is_none() {
            return 0;
        }
        let wanted = state.wanted();
        let there = state.ready.len() as u32 + state.making;
        if state.was_just_asked() && there * state.enough_for_now() >= wanted {
            return 0;
        }
        let more = wanted.saturating_sub(there).min(at_once.saturating_sub(state.making));
        state.making += more;
        more
    }

    /// True if fewer are ready or being made than wanted.
    pub fn is_short(&self) -> bool {
        let mut state = self.state();
        let there = state.ready.len() as u32 + state.making;
        !state.stopped && state.blueprint.is_some() && there < state.wanted()
    }

    /// Takes in a made sandbox. Returns it if it is not wanted any more.
    pub fn made(&self, made: Result<Member, String>, after: &Arc<Blueprint>) -> Option<Member> {
        let mut state = self.state();
        state.making = state.making.saturating_sub(1);
        let left = match made {
            Ok(member) => {
                state.error = None;
                let current = state.blueprint.as_ref().is_some_and(|now| Arc::ptr_eq(now, after));
                if current && !state.stopped {
                    state.ready.push_back(member);
                    None
                } else {
                    Some(member)
                }
            }
            Err(error) => {
                state.error = Some(error);
                None
            }
        };
        drop(state);
        self.wake.notify_one();
        left
    }

    /// The pool ended before the sandbox was begun.
    pub fn give_up_making(&self) {
        let mut state = self.state();
        state.making = state.making.saturating_sub(1);
    }

    /// Takes out the surplus ones, and those that have died.
    pub fn surplus(&self) -> Vec<Member> {
        let mut state = self.state();
        let wanted = if state.stopped { 0 } else { state.wanted() as usize };
        let ready = std::mem::take(&mut state.ready).into_iter();
        let (living, mut surplus): (Vec<Member>, Vec<Member>) = ready.partition(Member::lives);
        state.ready = living.into();
        while state.ready.len() > wanted {
            surplus.extend(state.ready.pop_front());
        }
        surplus
    }

    /// The number of ready ones, and their memory.
    pub fn ready_bytes(&self) -> (u32, u64) {
        let state = self.state();
        (state.ready.len() as u32, state.ready.iter().map(Member::bytes).sum())
    }

    /// The time since the last create that it could have served.
    pub fn unused_for(&self) -> Duration {
        Duration::from_millis(boot_ms().saturating_sub(self.state().last_asked))
    }

    pub fn set_ceiling(&self, most: u32) {
        self.state().ceiling = Some(most);
    }

    /// Sets if an interpreter waits in those that are made from now on. The others are as good.
    pub fn expect_python(&self, has_interpreter: bool) {
        let mut state = self.state();
        if let Some(before) = state.blueprint.clone() {
            state.blueprint = Some(Arc::new(Blueprint { has_interpreter, ..(*before).clone() }));
        }
    }

    /// Makes none until [`Pool::fill_again`]. Returns those that were ready.
    pub fn hold_back(&self) -> Vec<Member> {
        let mut state = self.state();
        state.is_held_back = true;
        std::mem::take(&mut state.ready).into()
    }

    pub fn fill_again(&self) {
        self.state().is_held_back = false;
        self.wake.notify_one();
    }

    pub fn for_each_ready(&self, action: impl FnMut(&Member)) {
        self.state().ready.iter().for_each(action);
    }

    pub fn blueprint(&self) -> Option<Arc<Blueprint>> {
        self.state().blueprint.clone()
    }

    /// Sets another blueprint. Returns the ready sandboxes of the old one, and its zygote, which are not wanted any
    /// more.
    pub fn set_blueprint(&self, blueprint: Option<Arc<Blueprint>>) -> (Vec<Member>, Option<Arc<Zygote>>) {
        let mut state = self.state();
        state.blueprint = blueprint;
        let zygote = state.zygote.take();
        (std::mem::take(&mut state.ready).into(), zygote)
    }

    /// Returns true if a zygote is to be started; then it counts as being started.
    pub fn begin_zygote(&self) -> bool {
        let mut state = self.state();
        let wanted = !state.stopped && state.blueprint.is_some() && matches!(state.zygote, ZygoteState::None);
        if wanted {
            state.zygote = ZygoteState::Starting;
        }
        wanted
    }

    /// The pool ended before its zygote was started.
    pub fn give_up_zygote(&self) {
        self.state().zygote = ZygoteState::None;
    }

    pub fn origin(&self) -> MemberOrigin {
        self.state().zygote.origin()
    }

    pub fn set_baked(&self, baked: Arc<Baked>) {
        self.state().zygote = ZygoteState::Baked(baked);
    }

    pub fn set_zygote(&self, zygote: Arc<Zygote>) {
        self.state().zygote = ZygoteState::Ready(zygote);
    }

    /// The pool does without a zygote until the blueprint changes, or another attempt is made.
    pub fn do_without_zygote(&self, why: String) {
        self.state().zygote = ZygoteState::Unavailable(why);
    }

    pub fn try_zygote_again(&self) {
        let mut state = self.state();
        if matches!(state.zygote, ZygoteState::Unavailable(_)) {
            state.zygote = ZygoteState::None;
        }
    }

    /// The zygote has ended by itself. Returns true if it was still this pool's.
    pub fn lose_zygote(&self, lost: &Arc<Zygote>) -> bool {
        let mut state = self.state();
        let ours = matches!(&state.zygote, ZygoteState::Ready(zygote) if Arc::ptr_eq(zygote, lost));
        if ours {
            state.zygote = ZygoteState::None;
        }
        drop(state);
        self.wake.notify_one();
        ours
    }

    pub fn fail(&self, error: String) {
        self.state().error = Some(error);
    }

    /// `in_use`: the number of living sandboxes that it gave away.
    pub fn to_api(&self, in_use: u32) -> api::Pool {
        let mut state = self.state();
        api::Pool {
            template: self.template.clone(),
            min: state.size.min,
            max: state.size.max,
            ready: state.ready.len() as u32,
            making: state.making,
            in_use,
            wanted: if state.stopped { 0 } else { state.wanted() },
            hits: state.hits,
            misses: state.misses,
            zygote: match state.zygote {
                ZygoteState::None | ZygoteState::Starting => api::ZygoteState::Starting,
                ZygoteState::Ready(_) | ZygoteState::Baked(_) => api::ZygoteState::Ready,
                ZygoteState::Unavailable(_) | ZygoteState::Unwanted => api::ZygoteState::Unavailable,
            },
            preload: state.blueprint.as_ref().map_or_else(Vec::new, |blueprint| blueprint.preload.clone()),
            made_by: if self.by_demand { api::PoolMaker::Demand } else { api::PoolMaker::Owner },
            error: state.error.clone().or_else(|| state.zygote.missing().map(str::to_string)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn makes(&self) -> bool {
        self.making > 0 || matches!(self.zygote, ZygoteState::Starting)
    }

    /// The caller that was just given one needs the processors now. For that time, half of the wanted number is enough;
    /// a quarter, if each takes a processor for itself.
    fn enough_for_now(&self) -> u32 {
        if self.makes_machines() { 4 } else { 2 }
    }

    fn makes_machines(&self) -> bool {
        matches!(self.zygote, ZygoteState::Baked(_))
    }

    fn was_just_asked(&self) -> bool {
        let respite = if self.makes_machines() { RESPITE_OF_MACHINES_MS } else { RESPITE_MS };
        self.asked.back().is_some_and(|at| boot_ms().saturating_sub(*at) < respite)
    }

    fn wanted(&mut self) -> u32 {
        let since = boot_ms().saturating_sub(DEMAND_MS);
        while self.asked.front().is_some_and(|at| *at < since) {
            self.asked.pop_front();
        }
        if self.is_held_back {
            return 0;
        }
        let wanted = (self.asked.len() as u32).clamp(self.size.min, self.size.max);
        self.ceiling.map_or(wanted, |ceiling| wanted.min(ceiling))
    }
}

impl ZygoteState {
    fn take(&mut self) -> Option<Arc<Zygote>> {
        match std::mem::take(self) {
            ZygoteState::Ready(zygote) => Some(zygote),
            _ => None,
        }
    }

    fn origin(&self) -> MemberOrigin {
        match self {
            ZygoteState::Ready(zygote) => MemberOrigin::Zygote(zygote.clone()),
            ZygoteState::Baked(baked) => MemberOrigin::Baked(baked.clone()),
            _ => MemberOrigin::None,
        }
    }

    /// Why there is no zygote.
    fn missing(&self) -> Option<&str> {
        match self {
            ZygoteState::Unavailable(why) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_wanted_as_were_asked_for_lately_within_bounds() {
        let mut state = State { size: PoolSize { min: 2, max: 5 }, ..State::default() };
        assert_eq!(state.wanted(), 2);
        state.asked.extend([boot_ms(); 3]);
        assert_eq!(state.wanted(), 3);
        state.asked.extend([boot_ms(); 30]);
        assert_eq!(state.wanted(), 5);
        state.asked = [boot_ms().saturating_sub(DEMAND_MS + 1000); 30].into();
        assert_eq!(state.wanted(), 2);
        assert!(state.asked.is_empty());
    }

    #[test]
    fn a_pool_that_is_held_back_wants_none_until_it_is_filled_again() {
        let pool = Pool::new("t", PoolSize { min: 2, max: 5 });
        assert!(pool.hold_back().is_empty());
        assert_eq!(pool.to_api(0).wanted, 0);
        pool.fill_again();
        assert_eq!(pool.to_api(0).wanted, 2);
    }

    #[test]
    fn a_pool_without_a_blueprint_makes_and_gives_nothing() {
        let pool = Pool::new("t", PoolSize { min: 2, max: 5 });
        assert_eq!(pool.begin_making(2), 0);
        assert!(!pool.begin_zygote());
        pool.stop();
        assert_eq!(pool.to_api(0).wanted, 0);
    }
}
