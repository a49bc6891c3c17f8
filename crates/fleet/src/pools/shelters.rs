//! Ended sandboxes that stay for those that nest in them: sandboxes of zygotes that are not forked any more, and
//! sandboxes whose forks live on. Each goes after the last that nests in it.

use crate::live::Live;
use crate::{Fleet, FleetError, Inner};
use paddock_backends::FenceUsage;
use paddock_engine::{Sandbox as Inside, Zygote};
use paddock_model::SandboxId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Shelters(Mutex<HashMap<SandboxId, Shelter>>);

enum Shelter {
    Zygote(Arc<Zygote>),
    Sandbox(Arc<Inside>),
    /// One of an earlier server, known by its id alone.
    Earlier,
}

impl Shelters {
    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Shelter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes one in which a sandbox of an earlier server nests.
    pub fn find_again(&self, id: SandboxId) {
        self.lock().entry(id).or_insert(Shelter::Earlier);
    }
}

impl Fleet {
    /// The server ends; sandboxes that nest in one of them go on.
    pub(super) async fn leave_shelters(&self) {
        let inner = self.0.clone();
        let _ = tokio::task::spawn_blocking(move || {
            let all: Vec<SandboxId> = inner.shelters.lock().keys().cloned().collect();
            all.iter().for_each(|id| inner.end_shelter_unless_used(id));
            for held in inner.shelters.lock().values() {
                match held {
                    Shelter::Zygote(zygote) => zygote.leave(),
                    Shelter::Sandbox(inside) => inside.leave(),
                    Shelter::Earlier => {}
                }
            }
        })
        .await;
    }

    /// Keeps the sandbox of a zygote only while others nest in it. Blocks for a moment.
    pub(super) fn retire(&self, zygote: Arc<Zygote>) {
        let id = zygote.id.clone();
        self.0.shelters.lock().insert(id.clone(), Shelter::Zygote(zygote));
        self.0.end_shelter_unless_used(&id);
    }

    /// The same for a sandbox that others were copied from. Blocks for a moment.
    pub(crate) fn shelter(&self, id: SandboxId, inside: Arc<Inside>) {
        self.0.shelters.lock().insert(id.clone(), Shelter::Sandbox(inside));
        self.0.end_shelter_unless_used(&id);
    }

    /// Ends a sandbox, except the parts that its forks nest in. Returns the kernel's counts.
    pub(crate) async fn hold(&self, live: &Live, inside: Arc<Inside>) -> Result<FenceUsage, FleetError> {
        let used = inside.hold().await?;
        let id = live.record().id.clone();
        self.0.shelters.lock().insert(id, Shelter::Sandbox(inside));
        Ok(used)
    }
}

impl Inner {
    /// To be called when a sandbox that nested in it has ended. Blocks for a moment.
    pub(crate) fn end_shelter_unless_used(&self, id: &SandboxId) {
        if !self.shelters.lock().contains_key(id) || self.is_nested_in(id) {
            return;
        }
        let held = self.shelters.lock().remove(id);
        match held {
            Some(Shelter::Zygote(zygote)) => zygote.destroy(),
            Some(Shelter::Sandbox(inside)) => {
                if let Err(error) = inside.destroy() {
                    tracing::warn!(sandbox = %id, %error, "what its forks nested in could not be removed");
                }
            }
            Some(Shelter::Earlier) => self.engine.remove(id),
            None => return,
        }
        // No fork has its files mapped any more.
        if let Err(error) = self.storage.delete(id.as_str()) {
            tracing::warn!(sandbox = %id, %error, "its disk could not be removed");
        }
    }

    /// True if it has ended, and stays only for those that nest in it.
    pub(crate) fn is_held(&self, id: &SandboxId) -> bool {
        self.shelters.lock().contains_key(id)
    }

    /// True if another sandbox nests in it.
    pub(crate) fn shelters(&self, live: &Live) -> bool {
        self.live.is_nested_in(&live.record().id)
    }

    /// True if a living sandbox nests in it.
    pub(crate) fn is_nested_in(&self, id: &SandboxId) -> bool {
        self.live.is_nested_in(id)
    }
}
