//! A fence that stands, or is just going up; dropping it takes everything down.

use super::cgroups::{Hierarchies, WorkGroup};
use super::janitor::Janitor;
use super::landing;
use super::lasting::{self, Lasting};
use super::launch::Child;
use super::placeholder::Placeholder;
use super::slot::{Record, Slot};
use crate::backend::{CreateError, Fence, FenceUsage, ForkSite, HostStep};
use crate::host_limit::HostLimit;
use paddock_model::{Limits, SandboxId, Spec};
use std::fs::File;
use std::io::Result;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for killed processes to be collected by a parent that is not ours.
const PATIENCE: Duration = Duration::from_secs(3);

pub struct ProcessFence {
    state: PathBuf,
    id: SandboxId,
    /// The name of its cgroups.
    name: String,
    slot: Slot,
    group: Option<WorkGroup>,
    guest: Option<Child>,
    placeholders: Vec<Placeholder>,
    janitor: Option<Janitor>,
    /// The guest of the nursery that it nests in, and when that started.
    nursery: Option<(u32, u64)>,
    lasting: bool,
    down: bool,
}

impl ProcessFence {
    pub fn new(state: &Path, id: &SandboxId, slot: Slot, lasting: bool) -> Self {
        ProcessFence {
            state: state.to_path_buf(),
            id: id.clone(),
            name: format!("paddock-{id}"),
            slot,
            group: None,
            guest: None,
            placeholders: Vec::new(),
            janitor: None,
            nursery: None,
            lasting,
            down: false,
        }
    }

    /// The fence of a lasting sandbox, from its engine's record. Its guest may have ended.
    pub fn found(state: &Path, record: Record, lasting: &Lasting) -> Self {
        let slot = Slot::held_by_guest(state, lasting.slot);
        let mut fence = ProcessFence::new(state, &lasting.id, slot, true);
        fence.group = Some(WorkGroup::found(&lasting.hierarchies, &fence.name));
        fence.guest = record.guest.and_then(|(pid, started)| Child::found(pid, started));
        fence.placeholders = record.placeholders;
        fence.nursery = record.nursery;
        fence
    }

    pub fn nest(&mut self, nursery: Option<(u32, u64)>) {
        self.nursery = nursery;
    }

    /// A process that came from a nursery has a parent there, which may be hostile: as long as that does not collect
    /// it, the kernel does not let our guest go. Then the nursery ends, with all sandboxes in it: all of one template.
    fn wait_for(&self, guest: &mut Child) -> Result<()> {
        if let Some((pid, started)) = self.nursery
            && !guest.ends_within(PATIENCE)?
            && let Some(mut nursery) = Child::found(pid, started)
        {
            nursery.kill()?;
            // The process that watches over the nursery collects it.
            nursery.leave();
        }
        guest.wait()
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
        let group = match WorkGroup::create(hierarchies, &self.name, limits) {
            Ok(group) => group,
            Err(source) => {
                return Err(match HostLimit::of_a_cgroup(&source) {
                    Some(limit) => limit.refused(source),
                    None => CreateError::Host { step: "make the cgroups".into(), source },
                });
            }
        };
        let entrances = group.entrances().host(|| "open the cgroups".into())?;
        self.group = Some(group);
        Ok(entrances)
    }

    pub fn watch_over(&mut self, guest: Child) {
        self.guest = Some(guest);
    }

    /// A lasting sandbox keeps its stand-ins when the engine ends.
    pub fn start_janitor(&mut self) -> std::result::Result<(), CreateError> {
        if !self.lasting {
            self.janitor = Janitor::start(&self.state, &self.slot).host(|| "start the janitor".into())?;
        }
        Ok(())
    }

    pub fn hold(&mut self, placeholders: Vec<Placeholder>) {
        self.placeholders = placeholders;
    }

    /// From now on the fence stands without us.
    ///
    /// Precondition: the guest has been sent its share of the slot.
    pub fn stand_alone(&mut self, executed: bool) {
        self.slot.hand_over();
        if let Some(guest) = self.guest.as_mut().filter(|_| executed) {
            guest.has_executed();
        }
    }

    /// The guest's pid on the host. The descriptor is held, so that no other process gets that number.
    fn guest_number(&self) -> std::result::Result<u32, CreateError> {
        let gone = || CreateError::Guest { reason: "it has ended".into() };
        let guest = self.guest.as_ref().ok_or_else(gone)?;
        guest.number().ok_or_else(gone)
    }

    /// A cgroup is busy for a moment after its last process was collected.
    fn remove_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        for pause in [0, 1, 2, 5, 10, 20, 50, 100] {
            std::thread::sleep(Duration::from_millis(pause));
            if group.give_back(&self.name).is_ok() {
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

    fn kill(&mut self) -> Result<()> {
        self.guest.as_mut().map_or(Ok(()), Child::kill)
    }

    fn destroy(&mut self) -> Result<FenceUsage> {
        if std::mem::replace(&mut self.down, true) {
            return Ok(FenceUsage::default());
        }
        self.kill()?;
        // While the kernel takes the sandbox apart.
        let usage = self.usage()?;
        if let Some(group) = self.group.as_ref().filter(|_| self.lasting) {
            group.let_die(&self.name);
        }
        if let Some(mut guest) = self.guest.take() {
            self.wait_for(&mut guest)?;
        }
        self.remove_group()?;
        if self.lasting {
            lasting::remove(&lasting::directory(&self.state, &self.id))?;
        }
        self.slot.release(self.id.as_str(), &self.placeholders)?;
        self.janitor = None;
        Ok(usage)
    }

    fn usage(&self) -> Result<FenceUsage> {
        Ok(self.group.as_ref().map_or_else(FenceUsage::default, |group| group.usage(&self.name)))
    }

    fn memory_kills(&self) -> u64 {
        self.group.as_ref().map_or(0, |group| group.memory_kills(&self.name))
    }

    fn freeze(&self) -> Result<()> {
        self.group.as_ref().map_or(Ok(()), |group| group.freeze(&self.name))
    }

    fn thaw(&self) -> Result<()> {
        self.group.as_ref().map_or(Ok(()), |group| group.thaw(&self.name))
    }

    fn change_limits(&self, old: &Limits, new: &Limits) -> Result<()> {
        let held = |limits: &Limits| (limits.memory, limits.cpus, limits.pids);
        match &self.group {
            Some(group) => group.change(&self.name, old, new),
            None if held(old) == held(new) => Ok(()),
            None => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    fn fork_site(&self, spec: &Spec) -> std::result::Result<Box<dyn ForkSite>, CreateError> {
        let site = landing::Site::of(&self.state, self.guest_number()?, spec)?;
        Ok(Box::new(site))
    }

    fn carries_nothing(&self) -> Option<String> {
        match self.guest_number() {
            Ok(guest) => landing::missing_in(guest),
            Err(error) => Some(error.to_string()),
        }
    }

    fn hold(&self) -> Result<FenceUsage> {
        let usage = self.usage()?;
        if let Some(group) = &self.group {
            group.end_all(&self.name)?;
            // Busy for a moment after its last process was collected.
            for pause in [0, 1, 2, 5, 10, 20, 50, 100] {
                std::thread::sleep(Duration::from_millis(pause));
                if group.remove().is_ok() {
                    return Ok(usage);
                }
            }
            group.remove()?;
        }
        Ok(usage)
    }

    fn become_shell(&mut self, name: &SandboxId) -> Result<FenceUsage> {
        let usage = Fence::hold(self)?;
        self.group = None;
        let (mut record, kept) = lasting::read(&self.state, &self.id).map_err(std::io::Error::other)?;
        record.lasting = Some(Lasting { id: name.clone(), ..kept });
        record.cgroups = Vec::new();
        let place = lasting::directory(&self.state, name);
        std::fs::rename(lasting::directory(&self.state, &self.id), &place)?;
        lasting::write(&place, &record)?;
        self.slot.remember(&record)?;
        (self.id, self.name) = (name.clone(), format!("paddock-{name}"));
        Ok(usage)
    }

    fn leave(mut self: Box<Self>) {
        if let Some(guest) = self.guest.take_if(|_| self.lasting && !self.down) {
            guest.leave();
            self.down = true;
        }
    }

    fn ended(&self) -> Option<BorrowedFd<'_>> {
        self.guest.as_ref().map(Child::descriptor)
    }
}

impl Drop for ProcessFence {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}
