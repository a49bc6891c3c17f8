//! The process backend's fence with a sentry in it. Its end is the end of everything inside, the sentry's processes included:
//! all of them are in its pid namespace.

use super::launch::with_own;
use super::memory;
use paddock_fences::error::CreateError;
use paddock_fences::fence::{Fence, Kept, Raised};
use paddock_fences::fence_usage::FenceUsage;
use paddock_fences::shared::fence::HostFence;
use paddock_model::{Limits, SandboxId};
use std::io::Result;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

struct GvisorFence {
    state: PathBuf,
    id: SandboxId,
    outer: Box<HostFence>,
}

/// The fence that an engine gets.
pub fn engine_fence(state: &Path, id: &SandboxId, raised: Raised<HostFence>) -> Raised {
    raised.with_fence(|outer| {
        let (state, id, outer) = (state.to_path_buf(), id.clone(), Box::new(outer));
        Box::new(GvisorFence { state, id, outer }) as Box<dyn Fence>
    })
}

impl Fence for GvisorFence {
    fn why_not_started(&mut self) -> Option<CreateError> {
        self.outer.why_not_started()
    }

    fn kill(&mut self) -> Result<()> {
        self.outer.kill()
    }

    fn destroy(&mut self) -> Result<FenceUsage> {
        self.outer.destroy().map(of_all)
    }

    fn usage(&self) -> Result<FenceUsage> {
        self.outer.usage().map(of_all)
    }

    fn page_cache(&self) -> Option<u64> {
        self.outer.page_cache()
    }

    fn memory_kills(&self) -> u64 {
        self.outer.memory_kills()
    }

    // There is no `freeze`: the sentry would stand still with the guest in it. The guest stops the work by signals.

    fn change_limits(&self, old: &Limits, new: &Limits) -> Result<()> {
        self.outer.change_limits(&with_own(old), &with_own(new))
    }

    fn keep_memory(&self, directory: &Path) -> Result<Box<dyn Kept>> {
        memory::keep(&self.state, &self.id, directory)
    }

    fn leave(self: Box<Self>) {
        self.outer.leave();
    }

    fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.outer.ended()
    }
}

/// The sentry's threads are not the work's processes, and the guest counts against the same limits.
fn of_all(usage: FenceUsage) -> FenceUsage {
    FenceUsage { processes: None, guest_counted: true, ..usage }
}
