//! The process backend's fence with a VM in it. When the fence ends, everything inside ends: the VM is one of its
//! processes.

use super::copy::PausedForCopies;
use super::launch::{Launched, TemplateFiles};
use super::memory;
use super::monitor::Shape;
use super::shape::with_own;
use super::template_bake;
use paddock_fences::error::CreateError;
use paddock_fences::fence::{Fence, Kept, PausedVm, Raised};
use paddock_fences::fence_usage::FenceUsage;
use paddock_fences::shared::fence::HostFence;
use paddock_model::{Limits, SandboxId, Spec};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

struct MicrovmFence {
    state: PathBuf,
    id: SandboxId,
    outer: Box<HostFence>,
    shape: Shape,
    /// Its memory is kept for others to begin with.
    template: Option<TemplateFiles>,
    /// The disk of a VM that this engine has made.
    disk: Option<File>,
}

const IN_COMMON: &str = "what runs its VM has its addresses in common with other sandboxes that were copied from the same one \
     (PADDOCK_VM_COPIES=off makes each anew)";

/// The fence that an engine gets, of a VM that it has made.
pub fn engine_fence(state: &Path, id: &SandboxId, launched: Launched) -> Raised {
    let Launched { raised, shape, template, disk, .. } = launched;
    around(state, id, raised, shape, template, Some(disk))
}

/// As [`engine_fence`], of a VM that an earlier engine has made, or that was copied.
pub fn engine_fence_of_another(
    state: &Path,
    id: &SandboxId,
    raised: Raised<HostFence>,
    shape: Shape,
) -> Raised {
    around(state, id, raised, shape, None, None)
}

fn around(
    state: &Path,
    id: &SandboxId,
    raised: Raised<HostFence>,
    shape: Shape,
    template: Option<TemplateFiles>,
    disk: Option<File>,
) -> Raised {
    raised.with_fence(|outer| {
        let (state, id, outer) = (state.to_path_buf(), id.clone(), Box::new(outer));
        Box::new(MicrovmFence { state, id, outer, shape, template, disk }) as Box<dyn Fence>
    })
}

impl PausedVm for PausedForCopies {
    fn copy(&self, id: &SandboxId, spec: &Spec, renamed: bool) -> std::result::Result<Raised, CreateError> {
        let raised = PausedForCopies::copy(self, id, spec, renamed)?;
        let (state, shape) = self.state_and_shape();
        Ok(engine_fence_of_another(state, id, raised, shape))
    }

    fn weakness(&self) -> &'static str {
        IN_COMMON
    }
}

impl Fence for MicrovmFence {
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

    // There is no `freeze`: it would stop the whole VM, with the guest in it. The guest stops the work by signals.

    /// The memory of a VM is fixed when it begins.
    fn change_limits(&self, old: &Limits, new: &Limits) -> Result<()> {
        if (old.memory, old.pids) != (new.memory, new.pids) {
            let why =
                "memory and processes of a VM are limited by its own kernel, as they were when it began";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        self.outer.change_limits(&with_own(old, self.shape), &with_own(new, self.shape))
    }

    fn keep_memory(&self, directory: &Path) -> Result<Box<dyn Kept>> {
        match &self.template {
            Some(template) => template_bake::keep(&self.state, &self.id, self.shape, template, directory),
            None => memory::keep(&self.state, &self.id, self.shape, directory, false),
        }
    }

    fn pause_for_copies(&self, spec: &Spec) -> std::result::Result<Box<dyn PausedVm>, CreateError> {
        let disk = self.disk.as_ref();
        Ok(Box::new(PausedForCopies::pause(&self.state, &self.id, self.shape, spec, disk)?))
    }

    /// The guest around the VM was told when the VM paused, before any sandbox could nest.
    fn hold(&self) -> Result<FenceUsage> {
        self.outer.hold().map(of_all)
    }

    fn become_shell(&mut self, name: &SandboxId) -> Result<FenceUsage> {
        let usage = self.outer.become_shell(name)?;
        self.id = name.clone();
        Ok(of_all(usage))
    }

    fn leave(self: Box<Self>) {
        self.outer.leave();
    }

    fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.outer.ended()
    }
}

/// The VM's threads are not the work's processes, and the guest counts against the same limits.
fn of_all(usage: FenceUsage) -> FenceUsage {
    FenceUsage { processes: None, guest_counted: true, ..usage }
}
