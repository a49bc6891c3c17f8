//! A fence that stands, or is just going up; dropping it takes everything down.

use super::cgroups::{Hierarchies, WorkGroup};
use super::janitor::Janitor;
use super::launch::Child;
use super::placeholder::Placeholder;
use super::slot::{Record, Slot};
use crate::backend::{CreateError, Fence, FenceUsage, HostStep};
use paddock_model::Limits;
use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub struct ProcessFence {
    state: PathBuf,
    name: String,
    slot: Slot,
    group: Option<WorkGroup>,
    guest: Option<Child>,
    placeholders: Vec<Placeholder>,
    janitor: Option<Janitor>,
    down: bool,
}

impl ProcessFence {
    pub fn new(state: &Path, name: String, slot: Slot) -> Self {
        let state = state.to_path_buf();
        ProcessFence {
            state,
            name,
            slot,
            group: None,
            guest: None,
            placeholders: Vec::new(),
            janitor: None,
            down: false,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn slot(&self) -> &Slot {
        &self.slot
    }

    pub fn remember(&self, record: &Record) -> std::result::Result<(), CreateError> {
        self.slot.remember(record).host(|| "write the sandbox's record".into())
    }

    /// Makes the work's cgroups and opens the way into them.
    pub fn limit(
        &mut self,
        hierarchies: &Hierarchies,
        limits: &Limits,
    ) -> std::result::Result<Vec<File>, CreateError> {
        let group = WorkGroup::create(hierarchies, &self.name, limits).host(|| "make the cgroups".into())?;
        let entrances = group.entrances().host(|| "open the cgroups".into())?;
        self.group = Some(group);
        Ok(entrances)
    }

    pub fn watch_over(&mut self, guest: Child) {
        self.guest = Some(guest);
    }

    pub fn start_janitor(&mut self) -> std::result::Result<(), CreateError> {
        self.janitor = Janitor::start(&self.state, self.slot.record()).host(|| "start the janitor".into())?;
        Ok(())
    }

    pub fn hold(&mut self, placeholders: Vec<Placeholder>) {
        self.placeholders = placeholders;
    }

    /// A cgroup is busy for a moment after its last process was collected.
    fn remove_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        for pause in [0, 1, 2, 5, 10, 20, 50, 100] {
            std::thread::sleep(Duration::from_millis(pause));
            if group.remove().is_ok() {
                return Ok(());
            }
        }
        group.remove()
    }
}

impl Fence for ProcessFence {
    fn why_not_started(&mut self) -> Option<CreateError> {
        let guest = self.guest.as_mut()?;
        guest.end_soon();
        guest.why_not_started()
    }

    fn destroy(&mut self) -> Result<FenceUsage> {
        if std::mem::replace(&mut self.down, true) {
            return Ok(FenceUsage::default());
        }
        let mut guest = self.guest.take();
        if let Some(guest) = &mut guest {
            guest.kill()?;
        }
        // While the kernel takes the sandbox apart.
        let usage = self.group.as_ref().map_or_else(FenceUsage::default, |group| group.usage(&self.name));
        if let Some(guest) = &mut guest {
            guest.wait()?;
        }
        self.remove_group()?;
        self.slot.release(&self.state, &self.placeholders)?;
        self.janitor = None;
        Ok(usage)
    }
}

impl Drop for ProcessFence {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}
