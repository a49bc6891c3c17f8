//! A ready sandbox: its fence is up, and an interpreter in it waits for its first call.

use super::baked::{Woken, start_python};
use super::pool::{Blueprint, MemberOrigin};
use super::waiting_interpreter::{NUMBER, WaitingInterpreter};
use crate::contexts::Position;
use crate::record::now_ns;
use crate::{Fleet, FleetError, Inner};
use paddock_backends::Purpose;
use paddock_engine::{Beginning, Command, ExecEvent, Request, Sandbox as Inside};
use paddock_model::{SandboxId, Spec};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::sync::OwnedSemaphorePermit;

/// A ready sandbox that no caller takes ends by itself this long after the server that made it.
const WITHOUT_A_SERVER: Duration = Duration::from_secs(300);

/// After this time its interpreter has started, and its memory no longer grows.
const STARTING: Duration = Duration::from_secs(1);
/// Assumed until the kernel was asked: more than an idle Python interpreter and its guest hold.
pub const UNMEASURED_BYTES: u64 = 16 << 20;

/// The number of the warming exec, which no caller asked for: the last number that exists, which no other exec reaches.
const WARMING: u32 = (1 << 29) - 1;
const WARM: Duration = Duration::from_secs(10);

/// Taken down if no caller takes it.
pub struct Member {
    fleet: Weak<Inner>,
    id: SandboxId,
    parts: Option<Parts>,
    made_at: Instant,
    /// Its memory; 0 before it was measured.
    bytes: AtomicU64,
    /// Held if the number of ready sandboxes is limited.
    place: Option<OwnedSemaphorePermit>,
}

pub struct Parts {
    pub id: SandboxId,
    pub inside: Inside,
    /// The spec, with the disk that was made for it.
    pub spec: Spec,
    /// The interpreter that waits in it, if there is one.
    pub waiting: Option<WaitingInterpreter>,
    /// The sandbox that it nests in: of a zygote, or a parent VM.
    pub within: Option<SandboxId>,
    /// The time in which its content was built, from and to.
    pub built_ns: (i64, i64),
}

impl Member {
    pub fn lives(&self) -> bool {
        let lives = |parts: &Parts| match &parts.waiting {
            Some(waiting) => waiting.lives(),
            None => !parts.inside.is_lost(),
        };
        self.parts.as_ref().is_some_and(lives)
    }

    /// Its memory, once its interpreter has started; an assumed size before that, and if the kernel does not count.
    pub fn bytes(&self) -> u64 {
        match self.bytes.load(Ordering::Relaxed) {
            0 if self.made_at.elapsed() > STARTING => self.measure(),
            0 => UNMEASURED_BYTES,
            bytes => bytes,
        }
    }

    fn measure(&self) -> u64 {
        let counted = self.parts.as_ref().and_then(|parts| parts.inside.usage().memory);
        let bytes = counted.unwrap_or(UNMEASURED_BYTES).max(1);
        self.bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub fn at(mut self, place: Option<OwnedSemaphorePermit>) -> Member {
        self.place = place;
        self
    }

    pub fn take(mut self) -> Option<Parts> {
        self.parts.take()
    }

    /// Does the work that a VM does only once, so that its caller does not wait for it.
    pub async fn warm_up(&self, blueprint: &Blueprint) {
        if let Some(parts) = &self.parts {
            warm_up(&parts.inside, blueprint, &["true"]).await;
        }
    }

    pub fn prolong(&self) {
        if let Some(parts) = &self.parts {
            parts.inside.set_deadline(Some(WITHOUT_A_SERVER));
        }
    }
}

/// Runs an exec that no caller asked for: an emulated VM translates each piece of code when it runs for the first time.
/// A sandbox that cannot run this command is as good.
pub async fn warm_up(inside: &Inside, blueprint: &Blueprint, argv: &[&str]) {
    let command = Command {
        argv: argv.iter().map(ToString::to_string).collect(),
        env: blueprint.start.env.clone(),
        cwd: Some(blueprint.start.cwd.clone()),
        user: blueprint.spec.user.clone(),
        deadline: Some(WARM),
        ..Command::default()
    };
    let ran = async {
        let Ok(mut exec) = inside.exec_numbered(WARMING, command).await else { return };
        while let ExecEvent::Started | ExecEvent::Output { .. } = exec.next().await {}
    };
    let _ = tokio::time::timeout(WARM, ran).await;
    inside.forget(WARMING);
}

impl Drop for Member {
    fn drop(&mut self) {
        let (Some(parts), Some(inner)) = (self.parts.take(), self.fleet.upgrade()) else { return };
        let fleet = Fleet(inner);
        fleet.discard(parts);
    }
}

impl Fleet {
    /// Takes down a ready sandbox.
    pub(super) fn discard(&self, parts: Parts) {
        let fleet = self.clone();
        let work = move || fleet.take_down_ready(&parts);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(work)),
            Err(_) => work(),
        }
    }

    /// Blocks for a moment.
    pub(super) fn take_down_ready(&self, parts: &Parts) {
        let id = parts.id.as_str();
        if let Err(error) = parts.inside.destroy() {
            tracing::warn!(sandbox = %id, %error, "something of a sandbox could not be removed");
        }
        if let Err(error) = self.0.storage.delete(id) {
            tracing::warn!(sandbox = %id, %error, "its disk could not be removed");
        }
        self.0.audit_writer.forget(&parts.id);
    }

    pub(super) async fn make_member(
        &self,
        blueprint: &Blueprint,
        origin: &MemberOrigin,
    ) -> Result<Member, FleetError> {
        // If a parent VM exists, the kept memory need not be read.
        let parent = match origin {
            MemberOrigin::Baked(_) => self.parent_vm_of(blueprint).map(MemberOrigin::ParentVm),
            _ => None,
        };
        if let Some(parent) = parent {
            match self.make_from(blueprint, &parent).await {
                Err(error) => {
                    tracing::warn!(%error, "a sandbox could not be copied from one that stands; it is made anew");
                }
                made => return made,
            }
        }
        self.make_from(blueprint, origin).await
    }

    async fn make_from(&self, blueprint: &Blueprint, origin: &MemberOrigin) -> Result<Member, FleetError> {
        let id = self.new_id()?;
        let made = self.make_parts(id.clone(), blueprint, origin).await;
        let parts = made.inspect_err(|_| self.free_disk(id.as_str()))?;
        Ok(self.member(id, parts))
    }

    fn member(&self, id: SandboxId, parts: Parts) -> Member {
        self.0.audit_writer.prepare(&id);
        let member = Member {
            fleet: Arc::downgrade(&self.0),
            id,
            parts: Some(parts),
            made_at: Instant::now(),
            bytes: AtomicU64::new(0),
            place: None,
        };
        member.prolong();
        member
    }

    async fn make_parts(
        &self,
        id: SandboxId,
        blueprint: &Blueprint,
        origin: &MemberOrigin,
    ) -> Result<Parts, FleetError> {
        let began_ns = now_ns();
        let (fleet, disk_id, mut spec) = (self.clone(), id.clone(), blueprint.spec.clone());
        let given = tokio::task::spawn_blocking(move || {
            fleet.give_disk(&disk_id, &mut spec, None, false).map(|()| spec)
        });
        let spec = given.await.map_err(|error| FleetError::internal(&error))??;
        let start = &blueprint.start;
        let built_now = |inside: &Inside| (began_ns, i64::try_from(inside.ready_at()).unwrap_or(i64::MAX));
        let Woken { inside, exec, sent, said, built_ns } = match origin {
            MemberOrigin::Zygote(zygote) => {
                let forked = zygote.fork(&self.0.engine, id.clone(), &spec, start, NUMBER).await?;
                let built_ns = built_now(&forked.sandbox);
                let said = Position::default();
                Woken { inside: forked.sandbox, exec: Some(forked.exec), sent: 0, said, built_ns }
            }
            MemberOrigin::Baked(baked) => {
                baked.wake(&self.0.engine, id.clone(), blueprint.backend.clone(), &spec).await?
            }
            MemberOrigin::ParentVm(parent) => match parent.wake(&self.0.engine, id.clone(), &spec).await {
                Ok(woken) => woken,
                Err(error) => {
                    // After any failure the next one is made anew.
                    self.lose_parent_vm(&parent.id).await;
                    return Err(error);
                }
            },
            MemberOrigin::None => {
                let (inside, started) = self.start_alone(id.clone(), blueprint, &spec).await?;
                let built_ns = built_now(&inside);
                let (exec, sent) = started.map_or((None, 0), |(exec, sent)| (Some(exec), sent));
                Woken { inside, exec, sent, said: Position::default(), built_ns }
            }
        };
        let (env, cwd) = (start.env.clone(), start.cwd.clone());
        let waiting = exec.map(|exec| WaitingInterpreter { exec, env, cwd, sent, said });
        let within = match origin {
            MemberOrigin::Zygote(zygote) => Some(zygote.id.clone()),
            MemberOrigin::ParentVm(parent) => Some(parent.id.clone()),
            MemberOrigin::Baked(_) | MemberOrigin::None => None,
        };
        Ok(Parts { id, inside, spec, waiting, within, built_ns })
    }

    /// Makes a sandbox into which nothing can be forked: with an interpreter of its own, started before it is needed,
    /// if it will be.
    async fn start_alone(
        &self,
        id: SandboxId,
        blueprint: &Blueprint,
        spec: &Spec,
    ) -> Result<(Inside, Option<(paddock_engine::Exec, u64)>), FleetError> {
        let (engine, backend) = (self.0.engine.clone(), blueprint.backend.clone());
        let (raised_id, raised_spec) = (id.clone(), spec.clone());
        let raised = tokio::task::spawn_blocking(move || {
            let beginning = Beginning::Fresh(Purpose::Lasting);
            engine.begin(Request::new(&raised_id, backend.as_deref(), &raised_spec, beginning))
        });
        let raised = raised.await.map_err(|error| FleetError::internal(&error))??;
        let mut inside = Inside::start(id, raised)?;
        inside.ready().await?;
        if !blueprint.has_interpreter {
            return Ok((inside, None));
        }
        let started = start_python(&inside, blueprint, spec.user.clone(), false).await?;
        Ok((inside, Some(started)))
    }
}
