//! The memory of sandboxes whose backend keeps it: kept with their files, at the same instant, and resumed later. The
//! engine's own records of the running execs are kept beside it.
//!
//! For the engine it is a lost connection: the guest closes its connection before its memory is kept, and the engine
//! that resumes the memory takes over a guest that another engine left.

use super::archives::flush_directory;
use super::clock::boot_id;
use super::contexts::{Part, last_call_of};
use super::execs::ExecRecord;
use super::live::Live;
use super::record::{Record, now_ns};
use super::request::invalid;
use super::vm_fork::Copied;
use super::{Fleet, FleetError, Kind};
use paddock_engine::{Beginning, Request, Sandbox as Inside};
use paddock_model::api::SandboxState;
use paddock_model::{Network, Spec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const IMAGE: &str = "image";
const COMMANDS: &str = "execs.json";

/// The fence of a sandbox whose memory was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptFrom {
    pub backend: String,
    pub spec: Spec,
}

impl KeptFrom {
    pub fn of(live: &Live) -> KeptFrom {
        let record = live.record();
        KeptFrom { backend: record.guarantees.backend.clone(), spec: record.spec.clone() }
    }

    /// True if a sandbox of that record has the same fence, as far as memory depends on it.
    pub fn fits(&self, record: &Record) -> bool {
        let (kept, new) = (&self.spec, &record.spec);
        self.backend == record.guarantees.backend
            && (&kept.root, &kept.mounts, &kept.workspace) == (&new.root, &new.mounts, &new.workspace)
            && (&kept.user, kept.root_may_install) == (&new.user, new.root_may_install)
            && kept.become_root == new.become_root
            && (kept.network == Network::None) == (new.network == Network::None)
    }
}

impl KeptFrom {
    /// The same for forked interpreters: a copy keeps the fence of its source, except for the parts around all
    /// processes of a sandbox.
    pub fn fits_interpreters(&self, record: &Record) -> bool {
        let new = record.spec.clone();
        let Spec { limits, disk, hostname, scan, require, .. } = new.clone();
        let kept = Spec { limits, disk, hostname, scan, require, ..self.spec.clone() };
        let same_network = (kept.network == Network::None) == (new.network == Network::None);
        let kept = Spec { network: new.network.clone(), ..kept };
        self.backend == record.guarantees.backend && same_network && kept == new
    }
}

impl Live {
    pub(super) fn keeps_memory(&self) -> bool {
        self.record().keeps_memory()
    }

    /// Refuses a demand for memory that the backend does not keep.
    pub(super) fn check_memory(&self, demanded: Option<bool>) -> Result<(), FleetError> {
        if demanded != Some(true) || self.keeps_memory() {
            return Ok(());
        }
        let backend = self.record().guarantees.backend.clone();
        Err(invalid(format!(
            "memory: the files of sandbox {} can be kept and no memory, because its backend `{backend}` keeps none",
            self.id
        ))
        .hint("make it from a template whose backend keeps memory, or leave `memory` out"))
    }
}

impl Fleet {
    fn memory_of(&self, name: &str) -> PathBuf {
        self.0.options.state.join("memory").join(name)
    }

    /// The memory that is kept under this name, if any is.
    pub(super) fn kept_memory(&self, name: &str) -> Option<PathBuf> {
        // This file is written last.
        Some(self.memory_of(name)).filter(|directory| directory.join(COMMANDS).is_file())
    }

    /// Copies the memory of a hibernated sandbox under another name.
    pub(super) fn copy_memory(&self, from: &str, to: &str) -> Result<(), FleetError> {
        let Some(kept) = self.kept_memory(from) else { return Ok(()) };
        let copied = copy_directory(&kept, &self.memory_of(to));
        copied.inspect_err(|_| self.drop_memory(to)).map_err(|error| FleetError::storage(&error))
    }

    pub(super) fn drop_memory(&self, name: &str) {
        remove(&self.memory_of(name));
    }

    /// Removes memory that no snapshot and no hibernated sandbox has.
    pub(super) fn sweep_memory(&self, keep: &BTreeSet<String>) {
        let entries = std::fs::read_dir(self.0.options.state.join("memory")).into_iter().flatten().flatten();
        let unknown =
            entries.filter(|entry| entry.file_name().to_str().is_none_or(|name| !keep.contains(name)));
        unknown.for_each(|entry| remove(&entry.path()));
    }

    /// Keeps memory and execs under `name`; while nothing runs, `copy` keeps the files. The sandbox goes on.
    ///
    /// Precondition: the sandbox's transition is locked.
    pub(super) async fn keep_with_memory(
        &self,
        live: &Arc<Live>,
        inside: &Arc<Inside>,
        name: &str,
        copy: impl FnOnce() -> Result<(), FleetError> + Send + 'static,
    ) -> Result<(), FleetError> {
        let image = self.part_with(live, inside, name).await?;
        let fence = inside.clone();
        let kept = tokio::task::spawn_blocking(move || {
            let standing = fence.keep_memory(&image).map_err(|error| FleetError::storage(&error))?;
            let copied = copy();
            standing.go_on().map_err(|error| FleetError::storage(&error))?;
            copied
        });
        let kept = kept.await.map_err(|error| FleetError::internal(&error)).and_then(|kept| kept);
        let kept = kept.and_then(|()| self.keep_commands(live, name));
        inside.leave();
        if let Err(why) = self.adopt(live).await {
            self.after_parting(live, &why);
        }
        kept.inspect_err(|_| self.drop_memory(name))
    }

    /// Keeps memory and execs of a sandbox that is to sleep; nothing runs in it any more when this returns.
    ///
    /// Precondition: the sandbox's transition is locked.
    pub(super) async fn sleep_with_memory(
        &self,
        live: &Arc<Live>,
        inside: &Arc<Inside>,
    ) -> Result<(), FleetError> {
        let image = self.part_with(live, inside, &live.id).await?;
        let (fence, fleet, sleeper) = (inside.clone(), self.clone(), live.clone());
        let kept = tokio::task::spawn_blocking(move || {
            let failed = |error: std::io::Error| FleetError::storage(&error);
            let standing = fence.keep_memory(&image).map_err(failed)?;
            let kept = fleet.keep_commands(&sleeper, &sleeper.id);
            match kept.and_then(|()| flush_directory(&fleet.memory_of(&sleeper.id)).map_err(failed)) {
                Ok(()) => standing.stay_down().map_err(failed),
                // The VM goes on from the kept memory, which is removed only then.
                Err(error) => standing.go_on().map_err(failed).and(Err(error)),
            }
        });
        let kept = kept.await.map_err(|error| FleetError::internal(&error)).and_then(|kept| kept);
        let Err(error) = kept else { return Ok(()) };
        self.drop_memory(&live.id);
        inside.leave();
        if let Err(why) = self.adopt(live).await {
            tracing::warn!(sandbox = %live.id, why = why.why, "it could not be reached again");
            if why.may_yet_be {
                self.wait_for_guest(live);
            }
        }
        Err(error)
    }

    /// Makes the guest close its connection to this engine, so that the kept memory has no connection in it.
    pub(super) async fn part_with(
        &self,
        live: &Arc<Live>,
        inside: &Arc<Inside>,
        name: &str,
    ) -> Result<PathBuf, FleetError> {
        let directory = self.memory_of(name);
        remove(&directory);
        let image = directory.join(IMAGE);
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&image);
        made.map_err(|error| FleetError::storage(&error))?;
        inside.part().await?;
        // The watcher that notices the loss waits for the transition, and then finds another connection.
        live.set_running(None);
        for tracked in live.execs() {
            // The last bytes of the connection are written first.
            drop(tracked.pumping.lock().await);
        }
        Ok(image)
    }

    /// Keeps the records of running execs, and their output.
    pub(super) fn keep_commands(&self, live: &Live, name: &str) -> Result<(), FleetError> {
        let execs = live.execs();
        let mut kept: Vec<ExecRecord> = Vec::new();
        for tracked in execs.iter().filter(|tracked| tracked.runs()) {
            // An interpreter's messages are counted up to its last call, so that call is kept too.
            let is_runner = matches!(tracked.record().part, Part::Runner(_));
            let last = is_runner.then(|| last_call_of(tracked.number(), &execs)).flatten();
            kept.extend(
                [Some(tracked.clone()), last].into_iter().flatten().map(|tracked| tracked.record().clone()),
            );
        }
        kept.sort_by_key(|record| record.number);
        kept.dedup_by_key(|record| record.number);
        let directory = self.memory_of(name);
        let write = || -> std::io::Result<()> {
            for record in &kept {
                let number = record.number.to_string();
                copy_directory(
                    &live.directory.join("execs").join(&number),
                    &directory.join("execs").join(&number),
                )?;
            }
            std::fs::write(directory.join(COMMANDS), serde_json::to_vec(&kept)?)
        };
        write().map_err(|error| FleetError::storage(&error))
    }

    /// Gives a new sandbox the execs that were kept.
    ///
    /// Precondition: the store knows the sandbox.
    pub(super) fn take_commands(&self, memory: &Path, sandbox: &str) -> Result<(), FleetError> {
        let failed = |error: std::io::Error| FleetError::storage(&error);
        let bytes = std::fs::read(memory.join(COMMANDS)).map_err(failed)?;
        let records: Vec<ExecRecord> =
            serde_json::from_slice(&bytes).map_err(|error| FleetError::internal(&error))?;
        let directory = self.0.options.state.join("sandboxes").join(sandbox).join("execs");
        for record in &records {
            let number = record.number.to_string();
            copy_directory(&memory.join("execs").join(&number), &directory.join(&number)).map_err(failed)?;
            self.0.save_exec(sandbox, record)?;
        }
        Ok(())
    }

    /// Puts a fence around the sandbox's disk in which the kept memory goes on. `copied`: a VM that goes on already.
    ///
    /// Precondition: the sandbox's transition is locked; its execs are the kept ones.
    pub(super) async fn raise_from_memory(
        &self,
        live: &Arc<Live>,
        memory: &Path,
        copied: Option<Box<Copied>>,
    ) -> Result<(), FleetError> {
        let (id, backend, mut spec, base) = {
            let record = live.record();
            (record.id.clone(), record.backend.clone(), record.spec.clone(), record.base.clone())
        };
        self.check_certificates(live).await?;
        let ready_at_ns = now_ns();
        let (fleet, image) = (self.clone(), memory.join(IMAGE));
        let begun = tokio::task::spawn_blocking(move || -> Result<_, FleetError> {
            if let Some(copied) = copied {
                return Ok(copied.into_parts());
            }
            fleet.give_disk(&id, &mut spec, base.as_deref(), true)?;
            let beginning = Beginning::FromMemory(&image);
            let request = Request::new(&id, backend.as_deref(), &spec, beginning);
            Ok((fleet.0.engine.begin(request)?, spec))
        });
        let (begun, spec) = begun.await.map_err(|error| FleetError::internal(&error))??;
        let before = live.record().state;
        let record = {
            let mut record = live.record();
            (record.spec, record.guarantees) = (spec, begun.guarantees.clone());
            record.state = SandboxState::Running;
            record.intent = None;
            record.paused_when_idle = false;
            record.boot = boot_id().into();
            record.ready_at_ns = ready_at_ns;
            record.clone()
        };
        let went_on = match self.0.save(&record) {
            Ok(()) => self.go_on(live, begun).await.map_err(|why| {
                let message = format!("sandbox {} could not go on from its memory: {why}", live.id);
                FleetError::new(Kind::Unavailable, "guest_lost", message)
            }),
            Err(error) => Err(error),
        };
        if went_on.is_err() {
            live.record().state = before;
        }
        live.touch();
        went_on
    }
}

fn remove(directory: &Path) {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "kept memory could not be removed");
        }
        _ => {}
    }
}

/// Copies files and directories of the engine's own; there are no other kinds.
fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    let entries = match std::fs::read_dir(from) {
        // The exec has printed nothing.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(to)?;
    for entry in entries {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_directory(&entry.path(), &target)?,
            false => drop(std::fs::copy(entry.path(), target)?),
        }
    }
    Ok(())
}
