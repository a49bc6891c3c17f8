//! A VM stands still for a moment, and its forks are copied from it as it stands, memory included. Its memory is not
//! written to files for that. If that is impossible, or a step fails, nothing has changed, and its memory is kept in
//! the usual way.

use super::archives::Lasts;
use super::fork_results::Results;
use super::forks::Child;
use super::live::Live;
use super::{Fleet, FleetError, Kind, blocking};
use paddock_backends::PausedVm;
use paddock_engine::{Beginning, Begun, Request, Sandbox as Inside};
use paddock_model::api::SandboxState;
use paddock_model::{SandboxId, Spec};
use std::sync::Arc;

/// The forks that are copied at a time: each waits mostly for its own fence.
const AT_ONCE: usize = 4;

/// A fork that goes on already, and has had no message yet.
pub struct Copied {
    begun: Begun,
    /// The spec, with the disk that was cloned for it.
    spec: Spec,
}

impl Copied {
    pub fn into_parts(self) -> (Begun, Spec) {
        (self.begun, self.spec)
    }
}

/// All of the forks, in their order.
pub struct CopiedForks {
    forks: Vec<Copied>,
    /// The name of the list of paths that they begin with.
    baseline: String,
    source: Arc<Inside>,
}

impl Fleet {
    /// Keeps the files of the source under the name of the moment, and copies forks of it. The source has no connection
    /// then, until [`Fleet::raise_copied`].
    ///
    /// Precondition: the source's transition is locked.
    pub(super) async fn copy_forks(
        &self,
        live: &Arc<Live>,
        moment: &str,
        forks: &[Child],
    ) -> Result<Option<CopiedForks>, FleetError> {
        let state = live.record().state;
        let stands = matches!(state, SandboxState::Running | SandboxState::Paused)
            && live.keeps_memory()
            && self.0.storage.keeps_disks();
        let Some(inside) = live.running().filter(|_| stands) else { return Ok(None) };
        let frozen = match state {
            SandboxState::Running => inside.hold_still(0).await?,
            _ => false,
        };
        let parted = async {
            let manifest = inside.disk().manifest().await?;
            self.part_with(live, &inside, moment).await?;
            Ok(manifest)
        };
        let manifest = match parted.await {
            Ok(manifest) => manifest,
            Err(error) => {
                if state == SandboxState::Running {
                    inside.go_on(frozen).await?;
                }
                return Err(error);
            }
        };
        let copied = self.copy_all(live, &inside, moment, forks).await;
        let copied = copied.and_then(|copied| {
            self.keep_commands(live, moment)?;
            Ok((copied, self.keep_baseline(moment, &manifest, Lasts::UntilPowerIsLost)?))
        });
        match copied {
            Ok((forks, baseline)) => Ok(Some(CopiedForks { forks, baseline, source: inside })),
            Err(error) => {
                tracing::info!(sandbox = %live.id, why = error.message, "its forks are not copied as it stands");
                let (fleet, name) = (self.clone(), moment.to_string());
                let ids: Vec<SandboxId> = forks.iter().map(|fork| fork.record.id.clone()).collect();
                // They are removed before they are made in another way.
                blocking(move || {
                    ids.iter().for_each(|id| fleet.free_disk_now(id.as_str(), None));
                    fleet.drop_files(&name);
                    Ok(())
                })
                .await?;
                self.take_back(live, &inside).await.map(|()| None)
            }
        }
    }

    /// Goes on with the source, and with each of the forks that were copied from it.
    pub(super) async fn raise_copied(
        &self,
        moment: &str,
        live: &Arc<Live>,
        mut children: Vec<Child>,
        copied: CopiedForks,
    ) -> Results<Arc<Live>> {
        let CopiedForks { forks, baseline, source } = copied;
        for (child, fork) in children.iter_mut().zip(forks) {
            child.record.nest_in(&live.record());
            child.copied = Some(Box::new(fork));
        }
        let raised = self.raise_children(moment, Some(baseline), children, None);
        let (raised, back) = tokio::join!(raised, self.take_back(live, &source));
        // If the source is lost, its forks go on all the same.
        if let Err(error) = back {
            tracing::warn!(sandbox = %live.id, why = error.message, "the source of forks was lost");
        }
        raised
    }

    async fn take_back(&self, live: &Arc<Live>, inside: &Inside) -> Result<(), FleetError> {
        inside.leave();
        let Err(why) = self.adopt(live).await else { return Ok(()) };
        self.after_parting(live, &why);
        let message = format!("sandbox {} could not be reached again: {}", live.id, why.why);
        Err(FleetError::new(Kind::Unavailable, "guest_lost", message))
    }

    /// Takes down a VM whose memory was kept, except the shell that its forks nest in: the shell gets another name, so
    /// that the sandbox can wake under its own.
    ///
    /// Precondition: the sandbox's transition is locked, and nothing runs in it any more.
    pub(super) async fn leave_shell(&self, live: &Live, inside: Arc<Inside>) -> Result<(), FleetError> {
        let (id, shell) = (live.record().id.clone(), self.new_id()?);
        // Both names are recorded first: a server that is killed in between finds nested sandboxes under either name.
        self.nest_anew(&id, |around, at| around.insert(at, shell.clone()))?;
        let (fence, name) = (inside.clone(), shell.clone());
        blocking(move || fence.become_shell(&name).map_err(|error| FleetError::storage(&error))).await?;
        self.nest_anew(&id, |around, at| drop(around.remove(at)))?;
        let fleet = self.clone();
        blocking(move || {
            fleet.shelter(shell, inside);
            Ok(())
        })
        .await
    }

    /// Changes the list of surroundings in the record of each sandbox that nests in this one.
    fn nest_anew(
        &self,
        id: &SandboxId,
        change: impl Fn(&mut Vec<SandboxId>, usize),
    ) -> Result<(), FleetError> {
        for nested in self.0.all() {
            let record = {
                let mut record = nested.record();
                let Some(at) = record.around.iter().position(|around| around == id) else { continue };
                change(&mut record.around, at);
                record.clone()
            };
            self.0.save(&record)?;
        }
        Ok(())
    }

    /// The VM stands still while they are copied, and goes on whatever the result is.
    async fn copy_all(
        &self,
        live: &Arc<Live>,
        inside: &Arc<Inside>,
        moment: &str,
        forks: &[Child],
    ) -> Result<Vec<Copied>, FleetError> {
        let (fleet, source_vm, spec) = (self.clone(), inside.clone(), live.record().spec.clone());
        let (source, name) = (live.id.clone(), moment.to_string());
        let paused = blocking(move || {
            let paused: Arc<dyn PausedVm> = Arc::from(source_vm.pause_for_copies(&spec)?);
            let kept = fleet.0.storage.freeze_copy(&source, &name);
            kept.map_err(|error| FleetError::storage(&error))?;
            Ok(paused)
        });
        let paused = paused.await?;
        let mut guarantees = inside.guarantees.clone();
        guarantees.weaknesses.retain(|known| known != NESTED);
        guarantees.weaknesses.push(NESTED.into());
        let mut copied = Vec::new();
        let mut failed = None;
        for some in forks.chunks(AT_ONCE) {
            let begun: Vec<_> = some
                .iter()
                .map(|fork| {
                    let (fleet, paused, name) = (self.clone(), paused.clone(), moment.to_string());
                    let (id, mut spec, guarantees) =
                        (fork.record.id.clone(), fork.record.spec.clone(), guarantees.clone());
                    let copy = blocking(move || {
                        let cloned = fleet.0.storage.clone_disk(&name, id.as_str(), spec.limits.disk);
                        cloned.map_err(|error| FleetError::storage(&error))?;
                        fleet.give_disk(&id, &mut spec, Some(&name), true)?;
                        let beginning =
                            Beginning::CopyOfVm { vm: paused.as_ref(), renamed: false, guarantees };
                        let begun = fleet.0.engine.begin(Request::new(&id, None, &spec, beginning))?;
                        Ok(Copied { begun, spec })
                    });
                    tokio::spawn(copy)
                })
                .collect();
            for copy in begun {
                match copy.await.map_err(|error| FleetError::internal(&error)).and_then(|copy| copy) {
                    Ok(fork) => copied.push(fork),
                    Err(error) => failed = Some(error),
                }
            }
            if failed.is_some() {
                break;
            }
        }
        blocking(move || {
            // The VM goes on.
            drop(paused);
            match failed {
                None => Ok(copied),
                // Each of the copies is taken down.
                Some(error) => Err(error),
            }
        })
        .await
    }
}

const NESTED: &str = "it nests in the fence of the VM that it was forked from, has its host ids and its addresses in common with \
     that, and whoever breaks out of that VM can send it signals";
