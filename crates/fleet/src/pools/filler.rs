//! The task that fills a pool: it starts the interpreter that sandboxes are forked from, makes as many sandboxes as are
//! wanted, and takes down the surplus.

use super::member::Member;
use super::pool::{Blueprint, MemberOrigin, Pool, RESPITE_MS};
use crate::contexts::Language;
use crate::create::ImageName;
use crate::record::Record;
use crate::request::{self, chain};
use crate::{Actor, Fleet, FleetError, Inner};
use paddock_backends::InterpreterStart;
use paddock_engine::Zygote;
use paddock_model::api::CreateSandbox;
use paddock_model::{Requirement, Spec, User};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The most sandboxes that are made at once; more would take the processors from the rest of the host's work.
const AT_ONCE: u32 = 2;
/// Each of these starts an interpreter, while a caller may need the processors.
const BY_DEMAND_AT_ONCE: u32 = 1;
/// The time between two looks for work without a wake-up.
const TICK: Duration = Duration::from_millis(500);
/// The time between two looks for a change of the template.
const LOOK: Duration = Duration::from_secs(2);
/// The pause after a failure.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// The wait after an interpreter did not come up: the template may have been mended by then.
const ZYGOTE_PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);
const PROLONG: Duration = Duration::from_secs(60);

pub fn start(fleet: &Fleet, pool: &Arc<Pool>) {
    let filler = Filler {
        weak: Arc::downgrade(&fleet.0),
        pool: pool.clone(),
        looked: None,
        tried: Instant::now(),
        prolonged: Instant::now(),
    };
    tokio::spawn(filler.keep());
}

struct Filler {
    weak: Weak<Inner>,
    pool: Arc<Pool>,
    looked: Option<Instant>,
    tried: Instant,
    prolonged: Instant,
}

impl Filler {
    async fn keep(mut self) {
        let pool = self.pool.clone();
        loop {
            let Some(inner) = self.weak.upgrade().filter(|inner| !inner.closing.load(Ordering::Relaxed))
            else {
                return;
            };
            let fleet = Fleet(inner);
            if pool.is_stopped() {
                return empty(&fleet, &pool).await;
            }
            let pause = match self.see_to_it(&fleet).await {
                Ok(()) if pool.is_short() => Duration::from_millis(RESPITE_MS),
                Ok(()) => TICK,
                Err(error) => {
                    tracing::warn!(template = %pool.template, %error, "its pool cannot be filled");
                    pool.fail(chain(&error));
                    PAUSE_AFTER_FAILURE
                }
            };
            drop(fleet);
            let _ = tokio::time::timeout(pause, pool.wake.notified()).await;
        }
    }

    async fn see_to_it(&mut self, fleet: &Fleet) -> Result<(), FleetError> {
        let pool = self.pool.clone();
        if pool.by_demand && self.looked.is_none_or(|at| at.elapsed() > TICK / 2) {
            self.looked = Some(Instant::now());
            fleet.look_at_demand(&pool);
        }
        if !pool.by_demand && self.looked.is_none_or(|at| at.elapsed() > LOOK) {
            self.looked = Some(Instant::now());
            let now = Arc::new(fleet.blueprint(&pool.template, None).await?);
            if !pool.blueprint().is_some_and(|before| before.is(&now)) {
                let (old, zygote) = pool.set_blueprint(Some(now));
                drop(old);
                zygote.into_iter().for_each(|zygote| fleet.retire(zygote));
            }
        }
        if self.tried.elapsed() > ZYGOTE_PAUSE_AFTER_FAILURE {
            self.tried = Instant::now();
            pool.try_zygote_again();
        }
        if pool.begin_zygote() {
            tokio::select! {
                () = fleet.start_zygote(&pool) => {}
                // Its imports may take long. The unfinished zygote goes with its pool.
                () = pool.stopped() => pool.give_up_zygote(),
            }
        }
        drop(pool.surplus());
        if self.prolonged.elapsed() > PROLONG {
            self.prolonged = Instant::now();
            pool.for_each_ready(Member::prolong);
        }
        let at_once = if pool.by_demand { BY_DEMAND_AT_ONCE } else { AT_ONCE };
        for _ in 0..pool.begin_making(at_once) {
            tokio::spawn(make(fleet.clone(), pool.clone()));
        }
        Ok(())
    }
}

async fn make(fleet: Fleet, pool: Arc<Pool>) {
    let Some(blueprint) = pool.blueprint() else { return pool.give_up_making() };
    let place = if pool.by_demand { fleet.0.pools.demand.place() } else { None };
    if pool.by_demand && place.is_none() {
        return pool.give_up_making();
    }
    let origin = pool.origin();
    let made = fleet.make_member(&blueprint, &origin).await.map(|member| member.at(place));
    if let (Ok(member), MemberOrigin::Baked(_)) = (&made, &origin) {
        member.warm_up(&blueprint).await;
    }
    if let Err(error) = &made {
        tracing::warn!(template = %pool.template, %error, "a sandbox could not be made ready");
        // Others would fail in the same way.
        tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
    }
    drop(pool.made(made.map_err(|error| chain(&error)), &blueprint));
}

/// Replaces a zygote that has ended. The sandboxes that were forked from it go on.
async fn watch_over(fleet: Weak<Inner>, pool: Weak<Pool>, zygote: Arc<Zygote>) {
    zygote.lost().await;
    let (Some(inner), Some(pool)) = (fleet.upgrade(), pool.upgrade()) else { return };
    if !inner.closing.load(Ordering::Relaxed) && pool.lose_zygote(&zygote) {
        tracing::warn!(template = %pool.template, "the interpreter that is forked has ended; another one is started");
        let _ = tokio::task::spawn_blocking(move || Fleet(inner).retire(zygote)).await;
    }
}

/// Ends the ready sandboxes, and the zygote if no sandbox nests in it.
pub async fn empty(fleet: &Fleet, pool: &Pool) {
    let (members, zygote) = pool.set_blueprint(None);
    let parts: Vec<_> = members.into_iter().filter_map(Member::take).collect();
    let ending = fleet.clone();
    let _ = tokio::task::spawn_blocking(move || {
        parts.iter().for_each(|parts| ending.take_down_ready(parts));
        zygote.into_iter().for_each(|zygote| ending.retire(zygote));
    })
    .await;
}

impl Fleet {
    /// `backend`: another one than the template names.
    pub(super) async fn blueprint(
        &self,
        template: &str,
        backend: Option<String>,
    ) -> Result<Blueprint, FleetError> {
        let request = CreateSandbox { template: Some(template.into()), backend, ..CreateSandbox::default() };
        let owner = Actor::owner();
        let settings = request::resolve(&self.0.options, &owner, &request, None)?;
        let preload = settings.preload.clone();
        let (backend, record): (_, Record) =
            self.describe(&owner, settings, None, ImageName::Template).await?;
        let cwd = record.cwd.unwrap_or_else(|| paddock_settings::WORKSPACE_TARGET.into());
        let start = InterpreterStart { env: record.env, cwd };
        let spec = Spec { live_forks: false, ..record.spec };
        Ok(Blueprint { backend, spec, image: record.image, start, preload, has_interpreter: true })
    }

    async fn start_zygote(&self, pool: &Arc<Pool>) {
        let Some(blueprint) = pool.blueprint() else { return pool.give_up_zygote() };
        match self.baked(&pool.template, &blueprint).await {
            Ok(Some(baked)) => return pool.set_baked(baked),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(template = %pool.template, %error, "no memory to begin with; each sandbox starts its own");
                return pool.do_without_zygote(chain(&error));
            }
        }
        let Some(spec) = spec_of_a_zygote(&blueprint.spec) else {
            return pool
                .do_without_zygote("root that may install packages is started, and not forked".into());
        };
        let sources = Language::named(None).ok().and_then(|python| python.zygote(&blueprint.preload));
        let Some(sources) = sources else {
            return pool.do_without_zygote("no interpreter of this language is forked".into());
        };
        let (backend, engine) = (blueprint.backend.as_deref(), &self.0.engine);
        match Zygote::start(engine, backend, &spec, sources, &blueprint.start).await {
            Ok(zygote) => {
                let zygote = Arc::new(zygote);
                pool.set_zygote(zygote.clone());
                tokio::spawn(watch_over(Arc::downgrade(&self.0), Arc::downgrade(pool), zygote));
            }
            Err(error) => {
                tracing::warn!(template = %pool.template, %error, "no interpreter to fork; each sandbox starts its own");
                pool.do_without_zygote(chain(&error));
            }
        }
    }
}

/// The spec of the sandbox that others nest in: its root has no capability, which would hold in theirs too. `None`: an interpreter
/// that is forked there would lack those that its sandbox gives to its user.
fn spec_of_a_zygote(wanted: &Spec) -> Option<Spec> {
    let mut spec = Spec { root_may_install: false, become_root: false, ..wanted.clone() };
    spec.require
        .retain(|requirement| !matches!(requirement, Requirement::RootMayInstall | Requirement::BecomeRoot));
    (!wanted.root_may_install || wanted.user != User::Root).then_some(spec)
}
