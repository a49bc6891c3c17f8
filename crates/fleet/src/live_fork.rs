//! The code contexts of a sandbox go along into its forks, with their state.
//!
//! An idle context is copied as it stands; the messages of the copy go to the fork. A context that cannot be copied
//! begins anew in the fork, and the answer says why. No context is copied in part.

use super::contexts::{Context, Frame, Language};
use super::live::Live;
use super::record::Record;
use super::{Actor, Fleet, FleetError, Kind};
use paddock_backends::{CopiedInterpreter, ForkComposed, Interpreter, Landing, LiveForkError};
use paddock_engine::{Exec, ExecEvent, HalfFork, Newcomer, Sandbox as Inside};
use paddock_model::ForkKind;
use paddock_model::api::{ForkedContext, LeftBehind, SandboxState};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// The longest wait for a busy context.
const UNTIL_IDLE: Duration = Duration::from_secs(10);
/// A context whose turn we hold waits for its next call within this time.
const UNTIL_WAITING: Duration = Duration::from_secs(2);
const TAKEN_IN: Duration = Duration::from_secs(10);
/// Why contexts do not go along if the caller does not ask for them.
pub const OF_ANOTHER: &str = "another token made the sandbox that they come from, whose code would have rights over the new one; \
                              ask for `live` to have them all the same";
/// Why requested contexts do not go along.
pub const ASLEEP: &str = "it fell asleep or ended before they could be copied";
/// The seccomp filters of a copy: the source's own one.
const FILTERS: u32 = 1;

/// The interpreters of one sandbox on their way to its forks.
pub struct Passage {
    pub source: Arc<Inside>,
    pub passengers: Vec<Passenger>,
    actor: Actor,
    /// True if it is an error that an interpreter cannot be copied.
    required: bool,
    /// True for so few forks that they may get ready for their first call at once; with many, the others would wait for
    /// that.
    pub few: bool,
    fates: Mutex<Vec<ForkedContext>>,
    /// One process is traced by one thread at a time.
    copying: Mutex<()>,
    way: watch::Sender<Way>,
}

/// The way of the interpreters into one fork: its fence is begun, and they are copied into it as soon as they may set
/// out. If this is dropped, the fence is taken down.
pub struct Crossing(JoinHandle<Result<Box<Departed>, FleetError>>);

/// Interpreters that are copied into a fork while it is made, and stand still in it until its guest is ready. If this
/// is dropped, they are ended.
pub struct UnderWay {
    passage: Arc<Passage>,
    ready: Sender<()>,
    carried: oneshot::Receiver<Vec<Result<CopiedInterpreter, LiveForkError>>>,
}

/// The copied interpreters and the fence that was begun for them, which waits for its disk.
pub struct Departed {
    // Dropped before the fence, which cannot be taken down while they stand in it.
    pub under_way: UnderWay,
    pub fence: HalfFork<Box<dyn ForkComposed>>,
}

/// Tells if interpreters may set out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Their sandbox may be frozen, and they could not follow orders.
    Barred,
    Free,
    CalledOff,
}

impl Crossing {
    pub async fn departed(self) -> Result<Box<Departed>, FleetError> {
        self.0.await.map_err(|error| FleetError::internal(&error))?
    }

    /// No interpreter goes this way: takes down everything that was begun.
    pub async fn take_down(self) {
        drop(self.0.await);
    }
}

/// A waiting context, which is not called meanwhile.
pub struct Passenger {
    context: Arc<Context>,
    interpreter: Interpreter,
    _turn: tokio::sync::OwnedMutexGuard<()>,
}

/// An interpreter that the guest of a fork has taken in.
pub struct Arrived {
    pub context: Arc<Context>,
    pub exec: Exec,
    pub actor: Actor,
    is_of_few: bool,
}

impl Passage {
    /// The fates of the contexts, in the order of the children.
    pub fn fates(&self, children: &[&str]) -> Vec<ForkedContext> {
        let mut fates = self.fates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        fates.sort_by_key(|fate| children.iter().position(|child| *child == fate.sandbox));
        fates
    }

    /// True if the sandbox still has the processes that they are among.
    ///
    /// Precondition: the sandbox's transition is locked.
    pub fn begins_in(&self, live: &Live) -> bool {
        live.running().is_some_and(|now| Arc::ptr_eq(&now, &self.source))
    }

    /// Lets them set out: their sandbox is not frozen, and will not be before all of them are copied.
    pub fn set_out(&self) {
        self.way.send_replace(Way::Free);
    }

    /// True if it is an error that an interpreter cannot be copied.
    pub fn is_required(&self) -> bool {
        self.required
    }

    pub fn call_off(&self) {
        self.way.send_replace(Way::CalledOff);
    }

    /// Copies all of them, while the rest of the fork is made.
    ///
    /// Precondition: their sandbox is not frozen.
    fn depart(self: Arc<Passage>, landing: Box<dyn Landing>) -> Result<UnderWay, FleetError> {
        let interpreters: Vec<Interpreter> =
            self.passengers.iter().map(|passenger| passenger.interpreter).collect();
        let ((ready, is_ready), (tell, carried)) = (std::sync::mpsc::channel(), oneshot::channel());
        let (from, runtime) = (self.clone(), tokio::runtime::Handle::current());
        // Not one of the runtime's threads: this one waits for other tasks, which may need one of those.
        let thread = std::thread::Builder::new().name("live-fork".into()).spawn(move || {
            let _runtime = runtime.enter();
            let until = Instant::now() + UNTIL_WAITING;
            let carried = landing.copy_interpreters(&interpreters, until, &from.copying, &is_ready);
            drop(from);
            let _ = tell.send(carried);
        });
        thread.map_err(|error| FleetError::internal(&error))?;
        Ok(UnderWay { passage: self, ready, carried })
    }

    fn note(&self, fate: ForkedContext) {
        self.fates.lock().unwrap_or_else(PoisonError::into_inner).push(fate);
    }
}

/// The contexts that go along, and the reasons of those that do not.
pub enum Boarding {
    Ready(Passage, Vec<(String, String)>),
    Nobody(String),
}

impl Fleet {
    /// Waits until its contexts are idle, and keeps them so.
    pub(super) async fn board(
        &self,
        actor: &Actor,
        live: &Arc<Live>,
        required: bool,
    ) -> Result<Boarding, FleetError> {
        let nobody = |why: &str| Ok(Boarding::Nobody(why.to_string()));
        if live.record().state != SandboxState::Running {
            return nobody("the sandbox is not running");
        }
        if !live.record().spec.live_forks {
            return nobody("`live_forks` was off when it was made");
        }
        let Some(awake) = live.stay_awake() else { return nobody(ASLEEP) };
        let source = awake.clone();
        if let Some(missing) = source.why_no_live_fork().await {
            return Ok(Boarding::Nobody(missing));
        }
        let (mut passengers, mut others) = (Vec::new(), Vec::new());
        for context in live.contexts.all() {
            let Some(runner) = context.living_runner() else { continue };
            if !Language::named(Some(&context.language)).is_ok_and(|language| language.is_forked_live()) {
                others.push((
                    context.id.clone(),
                    format!("interpreters of {} are not carried", context.language),
                ));
                continue;
            }
            let turn = tokio::time::timeout(UNTIL_IDLE, context.turn.clone().lock_owned()).await;
            let Ok(turn) = turn else {
                others.push((context.id.clone(), "it was busy for too long".to_string()));
                continue;
            };
            let interpreter = match context.described(&runner) {
                Some(known) => known,
                None => {
                    let described = source.describe(runner.number()).await?;
                    context.describe(&runner, described);
                    described
                }
            };
            passengers.push(Passenger { context, interpreter, _turn: turn });
        }
        if passengers.is_empty() && others.is_empty() {
            return nobody("it has no code context");
        }
        if required && let Some((context, why)) = others.first() {
            return Err(not_carried(context, why));
        }
        if passengers.is_empty() {
            let (context, why) = &others[0];
            return Ok(Boarding::Nobody(format!("context {context}: {why}")));
        }
        source.shelter();
        let passage = Passage {
            source,
            passengers,
            actor: actor.clone(),
            required,
            few: false,
            fates: Mutex::default(),
            copying: Mutex::default(),
            way: watch::Sender::new(Way::Barred),
        };
        Ok(Boarding::Ready(passage, others))
    }

    /// Begins the fence of a fork, which needs its files only later, and the copies that go into it.
    ///
    /// Precondition: the transition of the source is locked until the fork exists or is taken down.
    pub(super) fn begin_crossing(&self, passage: &Arc<Passage>, record: &Record) -> Crossing {
        let (fleet, passage) = (self.clone(), passage.clone());
        let (id, spec) = (record.id.clone(), record.spec.clone());
        let mut way = passage.way.subscribe();
        Crossing(tokio::spawn(async move {
            let from = passage.clone();
            let (tell, begun) = oneshot::channel();
            let composed = tokio::task::spawn_blocking(move || -> Result<_, FleetError> {
                let engine = &fleet.0.engine;
                let (landing, fence) =
                    engine.prepare_live_fork(&from.source, &id, &spec, from.passengers.len())?;
                // The interpreters need not wait for the rest.
                let _ = tell.send(landing);
                Ok(fence.compose()?)
            });
            let under_way = match begun.await {
                Ok(landing) => match way.wait_for(|way| *way != Way::Barred).await.map(|way| *way) {
                    Ok(Way::Free) => passage.depart(landing),
                    _ => Err(not_live("the fork was called off")),
                },
                Err(_) => Err(not_live("its fence could not be begun")),
            };
            let fence = composed.await.map_err(|error| FleetError::internal(&error))??;
            Ok(Box::new(Departed { under_way: under_way?, fence }))
        }))
    }

    /// Lets the interpreters run in a fork whose guest is ready, and makes the guest take them in.
    pub(super) async fn land(
        &self,
        inside: &Inside,
        live: &Arc<Live>,
        under_way: UnderWay,
    ) -> Result<Vec<Arrived>, FleetError> {
        let UnderWay { passage, ready, carried } = under_way;
        // If the receiver is gone, its result says why.
        let _ = ready.send(());
        let carried = carried.await.map_err(|error| FleetError::internal(&error))?;
        let mut arrived = Vec::new();
        for (place, (passenger, carried)) in passage.passengers.iter().zip(carried).enumerate() {
            let context = &passenger.context;
            let (taken, closed, stood_still) = match carried {
                Ok(carried) => {
                    tracing::debug!(sandbox = %live.id, context = %context.id, stood_still = ?carried.stood_still, "carried");
                    let newcomer = Newcomer { pid: carried.pid, place, filters: FILTERS, is_limited: true };
                    (
                        take_in(inside, live.take_exec_number(), newcomer).await,
                        carried.closed,
                        Some(carried.stood_still),
                    )
                }
                Err(error) => (Err(told(&error)), Vec::new(), None),
            };
            let fate = |carried: bool, reason: Option<String>| ForkedContext {
                sandbox: live.id.clone(),
                context: context.id.clone(),
                carried,
                reason,
                stood_still_us: stood_still.map(|time| time.as_micros() as u64),
                closed: closed.clone(),
            };
            match taken {
                Ok(exec) => {
                    passage.note(fate(true, None));
                    let (context, actor) = (context.clone(), passage.actor.clone());
                    arrived.push(Arrived { context, exec, actor, is_of_few: passage.few });
                }
                Err(why) if passage.required => return Err(not_carried(&context.id, &why)),
                Err(why) => passage.note(fate(false, Some(why))),
            }
        }
        Ok(arrived)
    }

    /// Makes it a context of the fork.
    pub(super) async fn go_on_with(&self, live: &Arc<Live>, arrived: Arrived) -> Result<(), FleetError> {
        let Arrived { context: of, exec, actor, is_of_few } = arrived;
        let context = Context::new(&of.id, &of.language, of.default, of.cwd.clone(), of.env.clone());
        let seed = (paddock_engine::random()? as u32 & 0x7fff).to_string();
        let first = Frame::new("carried").with("seed", seed);
        let first = if is_of_few { first.with("rehearse", "") } else { first };
        self.adopt_runner(&actor, live, &context, exec, first.encode()).await
    }
}

async fn take_in(inside: &Inside, number: u32, newcomer: Newcomer) -> Result<Exec, String> {
    let mut exec = inside.take_in(number, newcomer).map_err(|error| error.to_string())?;
    match tokio::time::timeout(TAKEN_IN, exec.next()).await {
        Ok(ExecEvent::Started) => Ok(exec),
        Ok(ExecEvent::StartFailed { step, errno }) => {
            let error = std::io::Error::from_raw_os_error(errno);
            Err(format!("the guest of the fork refused it: {}: {error}", step.escape_debug()))
        }
        Ok(other) => Err(format!("the guest of the fork says: {other:?}")),
        Err(_) => Err("the guest of the fork does not answer".into()),
    }
}

impl Live {
    /// The kind of this fork: the state that it began with.
    pub(super) fn forked_as(&self) -> ForkKind {
        match self.keeps_memory() {
            true => ForkKind::Memory,
            false if self.record().around.is_empty() => ForkKind::Filesystem,
            false => ForkKind::Interpreter,
        }
    }
}

/// Execs that run in a sandbox, and not in its forks.
pub fn left_behind(live: &Live) -> Vec<LeftBehind> {
    use super::contexts::Part;
    let execs = live.execs().into_iter().filter(|tracked| tracked.runs());
    let commands = execs.filter(|tracked| matches!(tracked.record().part, Part::Command));
    commands
        .map(|tracked| LeftBehind { exec: tracked.number(), command: tracked.record().command.clone() })
        .collect()
}

fn told(error: &LiveForkError) -> String {
    error.to_string()
}

pub fn not_carried(context: &str, why: &str) -> FleetError {
    FleetError::new(
        Kind::Conflict,
        "not_carried",
        format!("context {context} cannot be forked as it stands: {why}"),
    )
    .hint("leave `live` out, and it begins anew in the fork; or end what keeps it from being carried")
}

pub fn not_live(why: &str) -> FleetError {
    FleetError::new(Kind::Conflict, "not_carried", format!("no context can be forked as it stands: {why}"))
        .hint("leave `live` out: the files go along without them")
}
