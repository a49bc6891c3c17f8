//! A sandbox that nests in another one, whose interpreters are carried into it.

use super::create::{self, Begun, Composed, Role, WayIn};
use super::identity::{self, Method};
use super::within::Within;
use crate::backend::{
    Carried, CarryError, CreateError, ForkBegun, ForkComposed, ForkSite, HostStep, Interpreter, Landing,
    Raised,
};
use paddock_model::{SandboxId, Spec};
use paddock_protocol::ANCHORED;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// Namespaces nest at most 32 deep, and the host itself may be nested.
const DEEPEST: usize = 16;

/// The reason why no interpreter can be forked live on this host.
pub fn missing() -> Option<String> {
    if !cfg!(target_arch = "x86_64") {
        return Some("interpreters are carried on x86-64 only".into());
    }
    let own_ids = identity::method() == Method::Range;
    (!own_ids).then(|| {
        "this machine lets only root suspend the seccomp filter of a process that it traces; run paddock as root".into()
    })
}

/// Why nothing nests in the sandbox of this guest, where others nest it already.
pub fn too_deep(guest: u32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{guest}/status")).unwrap_or_default();
    let depth = status.lines().find_map(|line| line.strip_prefix("NSpid:")).map_or(0, |numbers| {
        // The host's own is none of ours.
        numbers.split_whitespace().count().saturating_sub(1)
    });
    (depth >= DEEPEST).then(|| format!("it is a fork of a fork, {DEEPEST} deep: namespaces nest no deeper"))
}

/// As `missing`, for the sandbox of this guest.
pub fn missing_in(guest: u32) -> Option<String> {
    let anchored = std::fs::read_link(format!("/proc/{guest}/root"));
    let anchored = anchored.is_ok_and(|root| root == Path::new("/").join(ANCHORED));
    let missing = missing().or_else(|| {
        (!anchored).then(|| {
            "its root is not below the anchor, as that of a sandbox of a pool is not: its Landlock rules would mean \
             nothing in a fork"
                .into()
        })
    });
    missing.or_else(|| too_deep(guest))
}

/// A place in the sandbox of a guest.
pub struct Site {
    state: PathBuf,
    within: Within,
}

impl Site {
    /// `guest`: of the sandbox that it nests in, by the host's number.
    ///
    /// Precondition: it is surely the one that is meant.
    pub fn of(state: &Path, guest: u32, spec: &Spec) -> Result<Site, CreateError> {
        if let Some(missing) = missing_in(guest) {
            return Err(CreateError::Unavailable { missing, remedy: None });
        }
        let owner = identity::work_of(spec)?;
        let within = Within::of_a_source(guest, owner).host(|| "open the namespaces of the source".into())?;
        Ok(Site { state: state.to_path_buf(), within })
    }
}

impl ForkSite for Site {
    fn begin(
        self: Box<Self>,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<Box<dyn ForkBegun>, CreateError> {
        let begun = create::begin(&self.state, id, spec, Role::Forked(&self.within, interpreters), None)?;
        Ok(Box::new(ProcessBegun { begun, site: *self, interpreters }))
    }
}

struct ProcessBegun {
    begun: Begun,
    site: Site,
    interpreters: usize,
}

struct ProcessComposed {
    composed: Composed,
    site: Site,
    interpreters: usize,
}

impl ForkBegun for ProcessBegun {
    fn landing(&mut self) -> Result<Box<dyn Landing>, CreateError> {
        Ok(Box::new(ProcessLanding { from: self.site.within.guest.0, way: self.begun.way_in()? }))
    }

    fn compose(self: Box<Self>, spec: &Spec) -> Result<Box<dyn ForkComposed>, CreateError> {
        let ProcessBegun { begun, site, interpreters } = *self;
        let composed = begun.compose(&site.state, spec, Role::Forked(&site.within, interpreters), None)?;
        Ok(Box::new(ProcessComposed { composed, site, interpreters }))
    }
}

impl ForkComposed for ProcessComposed {
    fn finish(self: Box<Self>, spec: &Spec) -> Result<Raised, CreateError> {
        let ProcessComposed { composed, site, interpreters } = *self;
        Ok(composed.finish(spec, Role::Forked(&site.within, interpreters), None)?.raised)
    }
}

struct ProcessLanding {
    /// The guest of the sandbox that they come from.
    from: u32,
    way: WayIn,
}

impl Landing for ProcessLanding {
    #[cfg(target_arch = "x86_64")]
    fn carry(
        self: Box<Self>,
        interpreters: &[Interpreter],
        until: Instant,
        alone: &Mutex<()>,
        ready: &Receiver<()>,
    ) -> Vec<Result<Carried, CarryError>> {
        super::carry::carry(self.from, &self.way, interpreters, (until, alone), ready)
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn carry(
        self: Box<Self>,
        interpreters: &[Interpreter],
        _: Instant,
        _: &Mutex<()>,
        _: &Receiver<()>,
    ) -> Vec<Result<Carried, CarryError>> {
        let Self { from: _, way: WayIn { guest: _, ids: _, entrances: _, streams: _ } } = *self;
        let unable = |_| Err(CarryError::Unavailable(missing().unwrap_or_default()));
        interpreters.iter().map(unable).collect()
    }
}
