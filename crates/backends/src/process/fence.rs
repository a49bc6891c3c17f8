//! The standing fence of a process sandbox: the host's, and the place in it for forks, into which its interpreters are copied as they
//! stand.

use super::create::{self, Begun, Composed, Nesting};
use paddock_fences::error::{CreateError, HostStep, LiveForkError};
use paddock_fences::fence::{
    CopiedInterpreter, Fence, ForkBegun, ForkComposed, Interpreter, Landing, LiveForkSource, Raised,
};
use paddock_fences::live_fork::availability;
use paddock_fences::shared::fence::{HostFence, LiveForks};
use paddock_fences::shared::identity;
use paddock_fences::shared::nested_launch::Within;
use paddock_fences::shared::way_in::WayIn;
use paddock_model::{Disk, SandboxId, Spec};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::Instant;

/// The fence that an engine gets: the host's, with a place for live forks.
pub fn engine_fence(raised: Raised<HostFence>) -> Raised {
    raised.with_fence(|fence| Box::new(fence.with_live_forks(&LIVE_FORKS)) as Box<dyn Fence>)
}

static LIVE_FORKS: LiveForks = LiveForks {
    site: |state, guest, spec| Ok(Box::new(Site::of(state, guest, spec)?)),
    missing_in: availability::missing_in,
};

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
        if let Some(missing) = availability::missing_in(guest) {
            return Err(CreateError::unavailable(missing));
        }
        let owner = identity::work_of(spec)?;
        let within = Within::of_a_source(guest, owner).host(|| "open the namespaces of the source".into())?;
        Ok(Site { state: state.to_path_buf(), within })
    }
}

impl LiveForkSource for Site {
    fn begin(
        self: Box<Self>,
        id: &SandboxId,
        spec: &Spec,
        interpreters: usize,
    ) -> Result<(Box<dyn Landing>, Box<dyn ForkBegun>), CreateError> {
        let nesting = Nesting::InSource(&self.within, interpreters);
        let (begun, way) = create::begin(&self.state, id, spec, nesting, None)?;
        let landing = ProcessLanding { from: self.within.guest.0, way };
        Ok((Box::new(landing), Box::new(ProcessBegun { begun, site: *self })))
    }
}

/// The site keeps the namespaces of the source open for as long as the fork is made.
struct ProcessBegun {
    begun: Begun<'static>,
    site: Site,
}

struct ProcessComposed {
    composed: Composed<'static>,
    _site: Site,
}

impl ForkBegun for ProcessBegun {
    fn compose(self: Box<Self>) -> Result<Box<dyn ForkComposed>, CreateError> {
        let ProcessBegun { begun, site } = *self;
        Ok(Box::new(ProcessComposed { composed: begun.compose()?, _site: site }))
    }
}

impl ForkComposed for ProcessComposed {
    fn finish(self: Box<Self>, disk: &Disk) -> Result<Raised, CreateError> {
        Ok(engine_fence(self.composed.finish(disk)?.raised))
    }
}

struct ProcessLanding {
    /// The guest of the sandbox that they come from.
    from: u32,
    way: WayIn,
}

impl Landing for ProcessLanding {
    #[cfg(target_arch = "x86_64")]
    fn copy_interpreters(
        self: Box<Self>,
        interpreters: &[Interpreter],
        until: Instant,
        alone: &Mutex<()>,
        ready: &Receiver<()>,
    ) -> Vec<Result<CopiedInterpreter, LiveForkError>> {
        paddock_fences::live_fork::copy_interpreters(
            self.from,
            &self.way,
            interpreters,
            (until, alone),
            ready,
        )
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn copy_interpreters(
        self: Box<Self>,
        interpreters: &[Interpreter],
        _: Instant,
        _: &Mutex<()>,
        _: &Receiver<()>,
    ) -> Vec<Result<CopiedInterpreter, LiveForkError>> {
        let Self { from: _, way: WayIn { guest: _, ids: _, entrances: _, streams: _ } } = *self;
        let unable = |_| Err(LiveForkError::Unavailable(availability::missing().unwrap_or_default()));
        interpreters.iter().map(unable).collect()
    }
}
