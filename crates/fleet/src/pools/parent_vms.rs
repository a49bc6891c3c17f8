//! Parent VMs: sandboxes that others are copied from while they stand still, if the backend can. The process of a VM is
//! forked, so that its started programs, loaded files and translated code need not be made again.
//!
//! A parent VM is made in the background after two requests for the same sandbox. It never does anything for a caller,
//! and stays while copies of it live. If anything fails with it, a sandbox is made as if there were no parent.

use super::baked::{Interpreter, Woken, hear_settled, start_python};
use super::member::{Member, warm_up};
use super::pool::{Blueprint, MemberOrigin};
use crate::record::{Record, now_ns};
use crate::{Fleet, FleetError, blocking};
use paddock_backends::{InterpreterStart, PausedVm, Purpose};
use paddock_engine::{Beginning, Engine, Request, Sandbox as Inside};
use paddock_model::net::NetRules;
use paddock_model::{Capability, Disk, Network, SandboxId, Spec};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most parent VMs; each holds the memory that its VM has touched.
const MOST_PARENT_VMS: usize = 4;
/// Two requests within ten minutes predict a third.
const REQUESTS_BEFORE_PARENT_VM: usize = 2;
const REQUESTS_WITHIN: Duration = Duration::from_secs(600);
/// A parent VM that was not used for this time goes.
const UNUSED_STAYS: Duration = Duration::from_secs(900);
/// The wait after a failure, before another attempt.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(60);
const IMPORTS_WITHIN: Duration = Duration::from_secs(600);

/// Everything that tells one parent VM from another.
pub type Key = Vec<u8>;

#[derive(Default)]
pub struct ParentVms(Mutex<State>);

#[derive(Default)]
struct State {
    /// In the order of use; the one used last is the last.
    ready: Vec<(Key, Instant, Arc<ParentVm>)>,
    asked: VecDeque<(Key, Instant)>,
    /// One is made at a time.
    making: bool,
    failed: BTreeMap<Key, Instant>,
    closed: bool,
}

pub struct ParentVm {
    pub id: SandboxId,
    inside: Arc<Inside>,
    paused: Box<dyn PausedVm>,
    /// The interpreter that waits for its first call, if there is one.
    interpreter: Option<Interpreter>,
    began_ns: i64,
}

impl ParentVms {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The parent VM for sandboxes of this key; the error is true if it is time to make it.
    fn find(&self, key: &Key) -> Result<Arc<ParentVm>, bool> {
        let mut state = self.lock();
        let now = Instant::now();
        if let Some(at) = state.ready.iter().position(|(known, ..)| known == key) {
            let (key, _, parent) = state.ready.remove(at);
            state.ready.push((key, now, parent.clone()));
            return Ok(parent);
        }
        state.asked.retain(|(_, at)| now.duration_since(*at) < REQUESTS_WITHIN);
        state.asked.push_back((key.clone(), now));
        state.failed.retain(|_, at| now.duration_since(*at) < PAUSE_AFTER_FAILURE);
        let often = state.asked.iter().filter(|(known, _)| known == key).count() >= REQUESTS_BEFORE_PARENT_VM;
        let due = often && !state.making && !state.closed && !state.failed.contains_key(key);
        state.making |= due;
        Err(due)
    }

    /// Adds a made one. Returns the surplus ones.
    fn put(&self, key: Key, made: Result<Arc<ParentVm>, FleetError>) -> Vec<Arc<ParentVm>> {
        let mut state = self.lock();
        state.making = false;
        match made {
            Ok(parent) if state.closed => vec![parent],
            Ok(parent) => {
                state.ready.push((key, Instant::now(), parent));
                let surplus = state.ready.len().saturating_sub(MOST_PARENT_VMS);
                state.ready.drain(..surplus).map(|(.., parent)| parent).collect()
            }
            Err(error) => {
                tracing::info!(%error, "no sandbox to copy others from could be made");
                state.failed.insert(key, Instant::now());
                Vec::new()
            }
        }
    }

    fn take(&self, id: &SandboxId) -> Option<Arc<ParentVm>> {
        let mut state = self.lock();
        let at = state.ready.iter().position(|(.., parent)| parent.id == *id)?;
        Some(state.ready.remove(at).2)
    }

    /// Takes out those that were not used for a while.
    fn unused(&self) -> Vec<Arc<ParentVm>> {
        let mut state = self.lock();
        let (kept, unused): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.ready).into_iter().partition(|(_, at, _)| at.elapsed() < UNUSED_STAYS);
        state.ready = kept;
        unused.into_iter().map(|(.., parent)| parent).collect()
    }

    /// Takes out all of them; more are made when they are asked for again.
    fn give_back(&self) -> Vec<Arc<ParentVm>> {
        let mut state = self.lock();
        state.asked.clear();
        std::mem::take(&mut state.ready).into_iter().map(|(.., parent)| parent).collect()
    }

    /// No more are made.
    fn close(&self) -> Vec<Arc<ParentVm>> {
        let mut state = self.lock();
        state.closed = true;
        std::mem::take(&mut state.ready).into_iter().map(|(.., parent)| parent).collect()
    }

    async fn idle(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while self.lock().making && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Fleet {
    /// The number of parent VMs.
    pub fn parent_vms(&self) -> usize {
        self.0.pools.parent_vms.lock().ready.len()
    }

    /// A sandbox as it is wanted, copied from a parent VM. `None` if there is none.
    pub(crate) async fn copied(&self, record: &Record, preload: &[String]) -> Option<Member> {
        // Preloaded imports belong to the template: its sandboxes get them from kept memory.
        if !preload.is_empty() {
            return None;
        }
        let plain = Blueprint::as_wanted(record)?;
        let is_python = key(&plain).is_some_and(|key| self.0.pools.first_use.is_python(&key));
        let with_one = is_python.then(|| Blueprint { has_interpreter: true, ..plain.clone() });
        let waits = with_one.and_then(|blueprint| Some((self.parent_vm_of(&blueprint)?, blueprint)));
        let (parent, blueprint) = match waits {
            Some(found) => found,
            None => (self.parent_vm_of(&plain)?, plain),
        };
        match self.make_member(&blueprint, &MemberOrigin::ParentVm(parent)).await {
            Ok(member) => Some(member),
            Err(error) => {
                tracing::warn!(%error, "a sandbox could not be copied from one that stands; it is made anew");
                None
            }
        }
    }

    /// The parent VM of this blueprint. If there is none, it is made for later requests.
    pub(super) fn parent_vm_of(&self, blueprint: &Blueprint) -> Option<Arc<ParentVm>> {
        let key = key(blueprint)?;
        if self.0.pressure.holds() {
            return None;
        }
        match self.0.pools.parent_vms.find(&key) {
            Ok(parent) => Some(parent),
            Err(due) => {
                if due {
                    let (fleet, blueprint) = (self.clone(), blueprint.clone());
                    tokio::spawn(async move { fleet.make_parent_vm(key, &blueprint).await });
                }
                None
            }
        }
    }

    async fn make_parent_vm(&self, key: Key, blueprint: &Blueprint) {
        let made = ParentVm::make(self, blueprint).await.map(Arc::new);
        let surplus = self.0.pools.parent_vms.put(key, made);
        self.retire_parent_vms(surplus).await;
    }

    /// Removes a parent VM that cannot be copied any more, or is stale.
    pub(super) async fn lose_parent_vm(&self, id: &SandboxId) {
        self.retire_parent_vms(self.0.pools.parent_vms.take(id).into_iter().collect()).await;
    }

    pub(crate) async fn drop_unused_parent_vms(&self) {
        self.retire_parent_vms(self.0.pools.parent_vms.unused()).await;
    }

    /// Returns how many went.
    pub(super) async fn give_back_parent_vms(&self) -> usize {
        let all = self.0.pools.parent_vms.give_back();
        let count = all.len();
        self.retire_parent_vms(all).await;
        count
    }

    /// The server ends.
    pub(super) async fn close_parent_vms(&self, patience: Duration) {
        let all = self.0.pools.parent_vms.close();
        self.0.pools.parent_vms.idle(patience).await;
        self.retire_parent_vms(all).await;
    }

    async fn retire_parent_vms(&self, parent_vms: Vec<Arc<ParentVm>>) {
        let fleet = self.clone();
        let _ = tokio::task::spawn_blocking(move || {
            for parent in parent_vms {
                fleet.shelter(parent.id.clone(), parent.inside.clone());
                if fleet.0.is_held(&parent.id)
                    && let Err(error) = parent.inside.hold_parted()
                {
                    tracing::warn!(parent = %parent.id, %error, "a VM that is not copied any more stays");
                }
            }
        })
        .await;
    }
}

impl ParentVm {
    async fn make(fleet: &Fleet, blueprint: &Blueprint) -> Result<ParentVm, FleetError> {
        let began_ns = now_ns();
        let id = fleet.new_id()?;
        let spec = Spec { disk: Disk::Memory, ..blueprint.spec.clone() };
        let (engine, backend) = (fleet.0.engine.clone(), blueprint.backend.clone());
        let (raised_id, raised_spec) = (id.clone(), spec.clone());
        let begun = blocking(move || {
            let beginning = Beginning::Fresh(Purpose::ParentVm);
            Ok(engine.begin(Request::new(&raised_id, backend.as_deref(), &raised_spec, beginning))?)
        });
        let mut inside = Inside::start(id.clone(), begun.await?)?;
        let made = async {
            inside.ready().await?;
            let interpreter = match blueprint.has_interpreter {
                true => {
                    let (mut exec, sent) = start_python(&inside, blueprint, spec.user.clone(), true).await?;
                    let said = tokio::time::timeout(IMPORTS_WITHIN, hear_settled(&mut exec)).await;
                    let said = said.unwrap_or_else(|_| Err("its imports did not end in time".into()));
                    let said = said.map_err(super::baked::not_made)?;
                    Some(Interpreter { sent, said, began_ns })
                }
                false => None,
            };
            // Code that the parent has translated need not be translated by its copies. If an interpreter waits
            // already, the start of one is left out: it would displace other translated code.
            for argv in WARMING.iter().filter(|argv| interpreter.is_none() || argv[0] != PYTHON) {
                warm_up(&inside, blueprint, argv).await;
            }
            inside.part().await?;
            Ok(interpreter)
        };
        let made: Result<Option<Interpreter>, FleetError> = made.await;
        let inside = Arc::new(inside);
        let (vm, own_spec) = (inside.clone(), spec.clone());
        let paused = match made {
            Ok(interpreter) => {
                blocking(move || Ok(vm.pause_for_copies(&own_spec)?)).await.map(|it| (it, interpreter))
            }
            Err(error) => Err(error),
        };
        match paused {
            Ok((paused, interpreter)) => Ok(ParentVm { id, inside, paused, interpreter, began_ns }),
            Err(error) => {
                let _ = tokio::task::spawn_blocking(move || inside.destroy()).await;
                Err(error)
            }
        }
    }

    /// A sandbox that is a copy of it, and has a disk of its own.
    pub async fn wake(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        id: SandboxId,
        spec: &Spec,
    ) -> Result<Woken, FleetError> {
        // Everything inside was written before this time, by the clock that the VM is given.
        let ready_at_ns = now_ns();
        let mut guarantees = self.inside.guarantees.clone();
        guarantees.weaknesses.push(self.paused.weakness().into());
        if self.interpreter.is_some() {
            guarantees.weaknesses.push(INTERPRETER_IN_COMMON.into());
        }
        let (parent, engine) = (self.clone(), engine.clone());
        let (copied_id, copied_spec) = (id.clone(), spec.clone());
        let begun = blocking(move || {
            let beginning = Beginning::CopyOfVm { vm: parent.paused.as_ref(), renamed: true, guarantees };
            Ok(engine.begin(Request::new(&copied_id, None, &copied_spec, beginning))?)
        });
        let begun = begun.await?;
        let built_ns = (self.began_ns, ready_at_ns);
        Woken::go_on(id, begun, self.interpreter.as_ref(), built_ns).await
    }
}

/// Programs that are often run; a root may lack some of them.
const WARMING: [&[&str]; 4] =
    [&["true"], &["sh", "-c", "true; cat /dev/null"], &[PYTHON, "-c", "import json"], &["true"]];
const PYTHON: &str = "python3";

const INTERPRETER_IN_COMMON: &str =
    "the interpreter that waits in it has its addresses and the seed of hash() in common with theirs";

impl Blueprint {
    /// The blueprint of a wanted sandbox in which nothing runs yet. `None` if it cannot be a copy.
    fn as_wanted(record: &Record) -> Option<Blueprint> {
        if !record.guarantees.can(Capability::RunningCopies) || shares(&record.spec) {
            return None;
        }
        Some(Blueprint {
            backend: record.backend.clone(),
            spec: Spec { live_forks: false, ..record.spec.clone() },
            image: record.image.clone(),
            start: InterpreterStart { env: paddock_settings::default_environment(), cwd: "/".into() },
            preload: Vec::new(),
            has_interpreter: false,
        })
    }
}

/// The key of a wanted sandbox.
pub fn key_of(record: &Record) -> Option<Key> {
    key(&Blueprint::as_wanted(record)?)
}

/// The key leaves out facts that its backend checks itself, and settings that only the engine uses.
fn key(blueprint: &Blueprint) -> Option<Key> {
    let network = match &blueprint.spec.network {
        Network::Gate(_) => Network::Gate(NetRules::default()),
        other => other.clone(),
    };
    let spec = Spec {
        disk: Disk::Memory,
        network,
        scan: Default::default(),
        require: Vec::new(),
        ..blueprint.spec.clone()
    };
    let interpreter = blueprint.has_interpreter.then_some((&blueprint.start.env, &blueprint.start.cwd));
    serde_json::to_vec(&(&blueprint.backend, spec, &blueprint.preload, interpreter)).ok()
}

/// True if directories of the host are shared with it.
pub(super) fn shares(spec: &Spec) -> bool {
    spec.workspace.is_some() || spec.mounts.iter().any(|mount| mount.source.is_some())
}
