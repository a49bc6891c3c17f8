//! A sandbox that is ready: its fence stands, and an interpreter in it waits for its first call.

use super::newborn::{NUMBER, Newborn};
use super::pool::Blueprint;
use crate::exec::{Command, ExecEvent};
use crate::fleet::contexts::{Frame, Language};
use crate::fleet::record::now_ns;
use crate::fleet::{Fleet, FleetError, Inner};
use crate::sandbox::Sandbox as Inside;
use crate::zygote::Zygote;
use paddock_model::{SandboxId, Spec};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// One that nobody takes ends by itself so long after the server that made it.
const WITHOUT_A_SERVER: Duration = Duration::from_secs(300);

/// Taken down where nobody takes it.
pub struct Member {
    fleet: Weak<Inner>,
    id: SandboxId,
    parts: Option<Parts>,
}

pub struct Parts {
    pub id: SandboxId,
    pub inside: Inside,
    /// With the disk that was made for it.
    pub spec: Spec,
    pub newborn: Newborn,
    /// The nursery that it nests in.
    pub within: Option<SandboxId>,
    pub began_ns: i64,
}

impl Member {
    pub fn lives(&self) -> bool {
        self.parts.as_ref().is_some_and(|parts| parts.newborn.lives())
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub fn take(mut self) -> Option<Parts> {
        self.parts.take()
    }

    pub fn prolong(&self) {
        if let Some(parts) = &self.parts {
            parts.inside.set_deadline(Some(WITHOUT_A_SERVER));
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let (Some(parts), Some(inner)) = (self.parts.take(), self.fleet.upgrade()) else { return };
        let fleet = Fleet(inner);
        fleet.discard(parts);
    }
}

impl Fleet {
    /// Takes down what was made ready.
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
        self.0.scribe.forget(&parts.id);
    }

    pub(super) async fn make_member(
        &self,
        blueprint: &Blueprint,
        zygote: Option<Arc<Zygote>>,
    ) -> Result<Member, FleetError> {
        let id = crate::engine::new_id()?;
        let began_ns = now_ns();
        let made = self.make_parts(id.clone(), blueprint, zygote, began_ns).await;
        let parts = made.inspect_err(|_| self.free_disk(id.as_str()))?;
        self.0.scribe.prepare(&id);
        let member = Member { fleet: Arc::downgrade(&self.0), id, parts: Some(parts) };
        member.prolong();
        Ok(member)
    }

    async fn make_parts(
        &self,
        id: SandboxId,
        blueprint: &Blueprint,
        zygote: Option<Arc<Zygote>>,
        began_ns: i64,
    ) -> Result<Parts, FleetError> {
        let (fleet, disk_id, mut spec) = (self.clone(), id.clone(), blueprint.spec.clone());
        let given = tokio::task::spawn_blocking(move || {
            fleet.give_disk(&disk_id, &mut spec, None, false).map(|()| spec)
        });
        let spec = given.await.map_err(|error| FleetError::internal(&error))??;
        let (inside, exec, sent) = match &zygote {
            Some(zygote) => {
                let born = zygote.bear(&self.0.engine, id.clone(), &spec, &blueprint.birth, NUMBER).await?;
                (born.sandbox, born.exec, 0)
            }
            None => self.start_alone(id.clone(), blueprint, &spec).await?,
        };
        let birth = &blueprint.birth;
        let newborn = Newborn { exec, env: birth.env.clone(), cwd: birth.cwd.clone(), sent };
        let within = zygote.map(|zygote| zygote.id.clone());
        Ok(Parts { id, inside, spec, newborn, within, began_ns })
    }

    /// Where nothing can be forked into it: an interpreter of its own, started before it is needed.
    async fn start_alone(
        &self,
        id: SandboxId,
        blueprint: &Blueprint,
        spec: &Spec,
    ) -> Result<(Inside, crate::exec::Exec, u64), FleetError> {
        let (engine, backend) = (self.0.engine.clone(), blueprint.backend.clone());
        let (raised_id, raised_spec) = (id.clone(), spec.clone());
        let raised =
            tokio::task::spawn_blocking(move || engine.raise(&raised_id, backend.as_deref(), &raised_spec));
        let raised = raised.await.map_err(|error| FleetError::internal(&error))??;
        let mut inside = Inside::start(id, raised)?;
        inside.ready().await?;
        let python = Language::named(None)?;
        let command = Command {
            argv: python.argv(),
            env: blueprint.birth.env.clone(),
            cwd: Some(blueprint.birth.cwd.clone()),
            user: spec.user.clone(),
            control: true,
            ..Command::default()
        };
        let mut exec = inside.exec_numbered(NUMBER, command).await?;
        let mut bytes = python.source();
        if !blueprint.preload.is_empty() {
            let preload = |frame: Frame, name: &String| frame.with("preload", name.as_str());
            bytes.extend(blueprint.preload.iter().fold(Frame::new("setup"), preload).encode());
        }
        exec.input().write(&bytes).await;
        match exec.next().await {
            ExecEvent::Started => Ok((inside, exec, bytes.len() as u64)),
            other => {
                let detail = format!("its interpreter does not start: {other:?}");
                Err(crate::error::EngineError::Zygote { detail }.into())
            }
        }
    }
}
