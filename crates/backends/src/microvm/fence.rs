//! The process backend's fence with a VM in it. When the fence ends, everything inside ends: the VM is one of its
//! processes.

use super::above::{self, Baking};
use super::copy::Standing;
use super::create::with_own;
use super::machine::Shape;
use super::memory;
use crate::backend::{CreateError, Fence, FenceUsage, Kept, Stem};
use paddock_model::{Limits, SandboxId, Spec};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

pub struct MicrovmFence {
    state: PathBuf,
    id: SandboxId,
    outer: Box<dyn Fence>,
    shape: Shape,
    /// Its memory is kept for others to begin with.
    baking: Option<Baking>,
    /// The disk of a VM that this engine has made.
    disk: Option<File>,
}

impl MicrovmFence {
    pub fn new(state: &Path, id: &SandboxId, outer: Box<dyn Fence>, shape: Shape) -> Self {
        MicrovmFence { state: state.to_path_buf(), id: id.clone(), outer, shape, baking: None, disk: None }
    }

    pub fn with(self, baking: Option<Baking>, disk: File) -> Self {
        MicrovmFence { baking, disk: Some(disk), ..self }
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

    fn memory_kills(&self) -> u64 {
        self.outer.memory_kills()
    }

    /// The guest stops the work by signals. Freezing from outside would stop the whole VM, with the guest in it.
    fn freeze(&self) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn thaw(&self) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    /// The memory of a VM is fixed when it begins.
    fn change_limits(&self, old: &Limits, new: &Limits) -> Result<()> {
        if (old.memory, old.pids) != (new.memory, new.pids) {
            let why =
                "memory and processes of a machine are limited by its own kernel, as they were when it began";
            return Err(Error::new(ErrorKind::Unsupported, why));
        }
        self.outer.change_limits(&with_own(old, self.shape), &with_own(new, self.shape))
    }

    fn keep_memory(&self, directory: &Path) -> Result<Box<dyn Kept>> {
        match &self.baking {
            Some(baking) => above::keep(&self.state, &self.id, self.shape, baking, directory),
            None => memory::keep(&self.state, &self.id, self.shape, directory, false),
        }
    }

    fn stand(&self, spec: &Spec) -> std::result::Result<Box<dyn Stem>, CreateError> {
        Ok(Box::new(Standing::stand(&self.state, &self.id, self.shape, spec, self.disk.as_ref())?))
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
