//! The fence that the host's kernel makes, standing or just going up: of a process sandbox, and around the kernel of any other. Dropping
//! it takes everything down.

use super::cgroups::{Hierarchies, WorkGroup};
use super::child::Child;
use super::janitor::Janitor;
use super::launch;
use super::placeholder::Placeholder;
use super::slot::{Lasting, Record, Slot};
use super::{lasting, run_directory};
use crate::error::{CreateError, HostStep, no_live_forks};
use crate::fence::{Fence, LiveForkSource, ZygoteSandbox};
use crate::fence_usage::FenceUsage;
use crate::host_limit::HostLimit;
use crate::purpose::Purpose;
use paddock_model::{Limits, SandboxId, Spec};
use std::fs::File;
use std::io::Result;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for killed processes to be collected by a parent that is not ours.
const PATIENCE_FOR_COLLECTION: Duration = Duration::from_secs(3);

/// Finds the place in the sandbox of a guest, by the host's number.
type FindForkSource = fn(&Path, u32, &Spec) -> std::result::Result<Box<dyn LiveForkSource>, CreateError>;

/// The way of interpreters out of a sandbox, of a backend that has one.
pub struct LiveForks {
    pub site: FindForkSource,
    /// The reason why none can be forked out of that one.
    pub missing_in: fn(u32) -> Option<String>,
}

/// The work's cgroups, before the guest has their entrances.
struct Later {
    hierarchies: Hierarchies,
    limits: Limits,
}

pub struct HostFence {
    live_forks: Option<&'static LiveForks>,
    /// The interpreter in it that is forked into others.
    zygote: Option<Arc<dyn ZygoteSandbox>>,
    state: PathBuf,
    id: SandboxId,
    /// The name of its cgroups.
    name: String,
    slot: Slot,
    group: Option<WorkGroup>,
    /// The cgroups that are made with the first command: an idle sandbox has none. Each costs the kernel memory and time in proportion
    /// to the mounted file systems of all sandboxes.
    later: Mutex<Option<Later>>,
    guest: Option<Child>,
    placeholders: Vec<Placeholder>,
    janitor: Option<Janitor>,
    /// The guest of the sandbox that it nests in, and when that started.
    around: Option<(u32, u64)>,
    lasting: bool,
    down: bool,
}

impl HostFence {
    pub fn new(state: &Path, id: &SandboxId, slot: Slot, lasting: bool) -> Self {
        HostFence {
            live_forks: None,
            zygote: None,
            state: state.to_path_buf(),
            id: id.clone(),
            name: format!("paddock-{id}"),
            slot,
            group: None,
            later: Mutex::new(None),
            guest: None,
            placeholders: Vec::new(),
            janitor: None,
            around: None,
            lasting,
            down: false,
        }
    }

    /// The fence of a lasting sandbox, from its engine's record. Its guest may have ended.
    pub fn found(state: &Path, record: Record, lasting: &Lasting) -> Self {
        let slot = Slot::held_by_guest(state, lasting.slot);
        let mut fence = HostFence::new(state, &lasting.id, slot, true);
        if let Some(limits) = &lasting.cgroups_follow {
            // The engine may have ended before it sent the entrances to its guest: they are sent again.
            fence.limit_later(&lasting.hierarchies, limits);
        }
        let group = WorkGroup::found(&lasting.hierarchies, &fence.name);
        // An engine that ended while it made them, or before, has sent no entrance: nothing has run in what is there.
        let is_made = lasting.cgroups_follow.is_none() || group.is_whole();
        fence.group = (is_made || group.remove().is_err()).then_some(group);
        fence.guest = record.guest.and_then(|(pid, started)| Child::found(pid, started));
        fence.placeholders = record.placeholders;
        fence.around = record.nursery;
        fence
    }

    pub fn nest(&mut self, around: Option<(u32, u64)>) {
        self.around = around;
    }

    /// A process that came from a zygote has a parent in its sandbox, which may be hostile: as long as that does not collect
    /// it, the kernel does not let our guest go. Then the zygote's sandbox ends, with all sandboxes in it: all of one template.
    fn wait_for(&self, guest: &mut Child) -> Result<()> {
        if let Some((pid, started)) = self.around
            && !guest.ends_within(PATIENCE_FOR_COLLECTION)?
            && let Some(mut around) = Child::found(pid, started)
        {
            around.kill()?;
            // The process that watches over it collects it.
            around.leave();
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

    /// Leaves the work's cgroups to [`Fence::limit_work`].
    pub fn limit_later(&mut self, hierarchies: &Hierarchies, limits: &Limits) {
        let later = Later { hierarchies: hierarchies.clone(), limits: limits.clone() };
        *self.later() = Some(later);
    }

    fn later(&self) -> MutexGuard<'_, Option<Later>> {
        self.later.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub fn with_live_forks(mut self, live_forks: &'static LiveForks) -> Self {
        self.live_forks = Some(live_forks);
        self
    }

    pub fn with_zygote(mut self, zygote: Arc<dyn ZygoteSandbox>) -> Self {
        self.zygote = Some(zygote);
        self
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

impl Fence for HostFence {
    fn why_not_started(&mut self) -> Option<CreateError> {
        let guest = self.guest.as_mut()?;
        guest.end_soon();
        launch::why_not_started(guest)
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
            run_directory::remove_of_sandbox(&run_directory::of_sandbox(&self.state, &self.id))?;
        }
        self.slot.release(self.id.as_str(), &self.placeholders)?;
        self.janitor = None;
        Ok(usage)
    }

    fn limit_work(&mut self) -> std::result::Result<Option<Vec<File>>, CreateError> {
        let Some(later) = self.later().take() else { return Ok(None) };
        let entrances = self.limit(&later.hierarchies, &later.limits);
        if entrances.is_err() {
            // The next command tries again.
            *self.later() = Some(later);
        }
        entrances.map(Some)
    }

    fn usage(&self) -> Result<FenceUsage> {
        Ok(match &self.group {
            Some(group) => group.usage(&self.name),
            // Nothing has run yet.
            None if self.later().is_some() => FenceUsage {
                cpu_ms: Some(0.0),
                memory: Some(0),
                processes: Some(0),
                peak_memory: Some(0),
                ..FenceUsage::default()
            },
            None => FenceUsage::default(),
        })
    }

    fn page_cache(&self) -> Option<u64> {
        self.group.as_ref().and_then(|group| group.page_cache(&self.name))
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
        let mut later = self.later();
        if let Some(later) = later.as_mut() {
            later.hierarchies.check_held(old, new)?;
            later.limits = new.clone();
        }
        match &self.group {
            Some(group) => group.change(&self.name, old, new),
            None if later.is_some() || held(old) == held(new) => Ok(()),
            None => Err(std::io::ErrorKind::Unsupported.into()),
        }
    }

    fn zygote(&self) -> std::result::Result<Arc<dyn ZygoteSandbox>, CreateError> {
        self.zygote.clone().ok_or_else(|| Purpose::Zygote.unsupported())
    }

    fn live_forks(&self, spec: &Spec) -> std::result::Result<Box<dyn LiveForkSource>, CreateError> {
        let live_forks = self.live_forks.ok_or_else(no_live_forks)?;
        (live_forks.site)(&self.state, self.guest_number()?, spec)
    }

    fn why_no_live_fork(&self) -> Option<String> {
        match (self.live_forks, self.guest_number()) {
            (Some(live_forks), Ok(guest)) => (live_forks.missing_in)(guest),
            (Some(_), Err(error)) => Some(error.to_string()),
            (None, _) => Some(no_live_forks().to_string()),
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
        let place = run_directory::of_sandbox(&self.state, name);
        std::fs::rename(run_directory::of_sandbox(&self.state, &self.id), &place)?;
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

impl Drop for HostFence {
    fn drop(&mut self) {
        let _ = self.destroy();
    }
}
