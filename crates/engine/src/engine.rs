//! The backends of one state directory, and the images: all that a sandbox is made of. [`begin`](crate::begin) makes one.

use crate::error::EngineError;
use paddock_backends::{AdoptError, Backend, FindBackends, KeepsCgroups};
use paddock_images::{ImageStore, NoProgress, Progress, RegistryReach, ResolvedImage};
use paddock_model::{
    Availability, Disk, Guarantees, Limits, Network, Requirement, Root, SandboxId, ScanRules, Spec, User,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub struct Engine {
    state: PathBuf,
    find_backends: FindBackends,
    _keeps: KeepsCgroups,
}

impl Engine {
    /// An engine over the backends of this build.
    pub fn new(state: &Path) -> Engine {
        Engine::with_backends(state, paddock_backends::all)
    }

    /// An engine over these backends.
    pub fn with_backends(state: &Path, find_backends: FindBackends) -> Engine {
        Engine { state: state.to_path_buf(), find_backends, _keeps: KeepsCgroups::begin() }
    }

    /// The names of the backends whose parts this host has. Nothing is started for it, unlike for [`Engine::probe`].
    pub fn installed(&self) -> Vec<String> {
        let all = self.backends(None);
        all.iter()
            .filter(|backend| backend.missing().is_none())
            .map(|backend| backend.name().to_string())
            .collect()
    }

    /// For each of those backends, the names of the guarantees that a sandbox could have, by whatever description.
    pub fn could_give(&self) -> BTreeMap<String, Vec<String>> {
        let plain = Spec {
            root: Root::HostUsr,
            workspace: None,
            mounts: Vec::new(),
            limits: Limits::default(),
            disk: Disk::Memory,
            network: Network::None,
            user: User::Agent,
            hostname: "sandbox".into(),
            require: Vec::new(),
            scan: ScanRules::default(),
            live_forks: true,
            root_may_install: false,
            become_root: false,
        };
        let specs = [
            Spec { root_may_install: true, ..plain.clone() },
            Spec { become_root: true, ..plain.clone() },
            plain,
        ];
        let all = self.backends(None);
        let installed = all.iter().filter(|backend| backend.missing().is_none());
        let given = installed.map(|backend| {
            let all: Vec<Guarantees> = specs.iter().map(|spec| backend.guarantees(spec)).collect();
            let could = |requirement: &Requirement| all.iter().any(|one| requirement.met_by(one).is_ok());
            let names = Requirement::ALL.into_iter().filter(could).map(|one| one.name().to_string());
            (backend.name().to_string(), names.collect())
        });
        given.collect()
    }

    pub fn probe(&self) -> Vec<Availability> {
        self.backends(None).iter().map(|backend| backend.probe()).collect()
    }

    /// The guarantees of a sandbox of this spec; the spec's demands are ignored.
    pub fn guarantees(&self, backend: Option<&str>, spec: &Spec) -> Result<Guarantees, EngineError> {
        let undemanding = Spec { require: Vec::new(), ..spec.clone() };
        Ok(self.select(backend, &undemanding)?.guarantees(spec))
    }

    /// Checks that a backend gives the required guarantees, before anything is made. The limit of a disk is checked
    /// later, when there is a disk.
    pub fn check_required(&self, backend: Option<&str>, spec: &Spec) -> Result<(), EngineError> {
        let mut known = spec.clone();
        known.require.retain(|requirement| *requirement != Requirement::DiskLimit);
        self.select(backend, &known).map(drop)
    }

    /// The root file system that `reference` names, fetched and unpacked if necessary.
    pub async fn image(
        &self,
        reference: &str,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, EngineError> {
        let named = |source| EngineError::Image { reference: reference.chars().take(200).collect(), source };
        let store = ImageStore::open(&self.state.join("images")).map_err(named)?;
        store.resolve(reference, progress).await.map_err(named)
    }

    /// As `image` for an absolute path and for an image that was built here. Any other reference is one of a registry,
    /// even if a file of that name exists in the current directory of this process.
    pub async fn image_for_others(
        &self,
        reference: &str,
        reach: &RegistryReach,
    ) -> Result<ResolvedImage, EngineError> {
        if reference.starts_with('/') || reference.starts_with(paddock_images::BUILT) {
            return self.image(reference, &NoProgress).await;
        }
        let named = |source| EngineError::Image { reference: reference.chars().take(200).collect(), source };
        let store = ImageStore::open(&self.state.join("images")).map_err(named)?;
        store.resolve_from_registry(reference, reach, &NoProgress).await.map_err(named)
    }

    /// The directory with memory that sandboxes of this spec, in which `started` was started, can begin with. Blocks
    /// for a moment.
    pub fn template_memory(
        &self,
        backend: Option<&str>,
        spec: &Spec,
        started: &[u8],
    ) -> Result<Option<PathBuf>, EngineError> {
        Ok(self.select(backend, spec)?.template_memory(spec, started)?)
    }

    /// Ends every lasting sandbox that is not in `keep`; returns their ids.
    pub fn sweep(&self, keep: &BTreeSet<SandboxId>) -> Vec<SandboxId> {
        let swept = self.backends(None).into_iter().map(|backend| (backend.name(), backend.sweep(keep)));
        let mut all = Vec::new();
        for (backend, swept) in swept {
            match swept {
                Ok(ids) => all.extend(ids),
                Err(error) => tracing::warn!(backend, %error, "what was left behind could not be removed"),
            }
        }
        all
    }

    /// True if the guest of a lasting sandbox runs, and is not just being ended.
    pub fn stands(&self, id: &SandboxId) -> bool {
        self.backends(None).into_iter().any(|backend| backend.stands(id))
    }

    /// Removes the remains of one sandbox that has ended by itself.
    pub fn remove(&self, id: &SandboxId) {
        for backend in self.backends(None) {
            match backend.remove(id) {
                Ok(()) => return,
                Err(AdoptError::Foreign { .. }) => {}
                Err(error) => tracing::debug!(%error, "nothing was left"),
            }
        }
    }

    pub(crate) fn state(&self) -> &Path {
        &self.state
    }

    pub(crate) fn select(&self, name: Option<&str>, spec: &Spec) -> Result<Box<dyn Backend>, EngineError> {
        Ok(paddock_backends::select(self.backends(None), name, spec)?)
    }

    pub(crate) fn backends(&self, name: Option<&str>) -> Vec<Box<dyn Backend>> {
        let all = (self.find_backends)(&self.state).into_iter();
        all.filter(|backend| name.is_none_or(|name| name == backend.name())).collect()
    }
}
