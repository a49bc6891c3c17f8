//! A running VM is copied as it is: the QEMU process that runs it is forked into another fence, with its memory, its
//! threads and all the code it has translated. Nothing is started, read or translated again, and pages without writes
//! exist once.
//!
//! The fence of the copy nests in that of its original, as an interpreter's fork does
//! (docs/decisions/0042-a-running-machine-is-copied.md).

use super::launch::{Content, Resumption, VmBetween, VmProcess, VmSandbox, around, failed};
use super::monitor::{Acceleration, Shape};
use super::parts::Parts;
use super::{bake, disk, guest_plan, image, memory};
use crate::process::create::{IdsOfCopy, Nesting, begin};
use paddock_fences::error::{CreateError, HostStep, LiveForkError};
use paddock_fences::fence::Raised;
use paddock_fences::live_fork::availability;
#[cfg(target_arch = "x86_64")]
use paddock_fences::live_fork::{VmCopy, VmFiles, let_be_copied};
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::adopt::reach;
use paddock_fences::shared::fence::HostFence;
use paddock_fences::shared::nested_launch::Within;
use paddock_fences::shared::way_in::WayIn;
use paddock_fences::shared::{identity, lasting, run_directory};
use paddock_model::{Disk, SandboxId, Spec};
use paddock_protocol::{GO_ON, SHELTER};
use rustix::fs::{Stat, fstat};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long the guest around a VM may take to build the inside of its fence.
const FENCE_TIMEOUT: Duration = Duration::from_secs(20);

/// The reason why no running VM of this shape can be copied for a sandbox of this spec.
pub fn missing(shape: Shape, spec: &Spec) -> Option<String> {
    if std::env::var_os("PADDOCK_VM_COPIES").is_some_and(|value| value == "off") {
        return Some("PADDOCK_VM_COPIES is off".into());
    }
    if shape.acceleration == Acceleration::Kvm {
        return Some("what runs on the processor itself belongs to one process".into());
    }
    if guest_plan::shares(spec) {
        return Some("directories of the caller's are shared with it".into());
    }
    availability::missing()
}

/// A paused VM. It goes on when this is dropped, unless it was made to be copied.
pub struct PausedForCopies {
    state: PathBuf,
    place: PathBuf,
    shape: Shape,
    within: Within,
    ids: IdsOfCopy,
    runner: UnixStream,
    disk: File,
    /// The parts that a VM made to be copied was made of. When they have changed it is not copied any more.
    made_of: Option<MadeOf>,
    /// A process is traced by one thread at a time.
    alone: Mutex<()>,
}

#[derive(Debug, PartialEq, Eq)]
struct MadeOf {
    base: u64,
    image: Option<(u64, u64)>,
}

impl MadeOf {
    fn now(state: &Path, spec: &Spec) -> Result<MadeOf, CreateError> {
        let image = match image::open(state, &spec.root)? {
            Some(image) => {
                let found = fstat(&image).host(|| "look at an image".into())?;
                Some((found.st_dev, found.st_ino))
            }
            None => None,
        };
        Ok(MadeOf { base: bake::base(&Parts::find(state, spec)?), image })
    }
}

impl PausedForCopies {
    /// `own_disk`: where it is known.
    pub fn pause(
        state: &Path,
        id: &SandboxId,
        shape: Shape,
        spec: &Spec,
        own_disk: Option<&File>,
    ) -> Result<PausedForCopies, CreateError> {
        if let Some(missing) = missing(shape, spec) {
            return Err(CreateError::unavailable(missing));
        }
        let place = run_directory::of_sandbox(state, id);
        let (record, _) = lasting::read(state, id).map_err(|error| gone(&error.to_string()))?;
        let (guest, started) = record.guest.ok_or_else(|| gone("its guest has ended"))?;
        if let Some(missing) = availability::too_deep(guest) {
            return Err(CreateError::unavailable(missing));
        }
        let owner = identity::work_of(&around(Some(spec), shape))?;
        let within = Within::of_a_source(guest, owner).host(|| "open the namespaces of the VM".into())?;
        if within.guest.1 != started {
            return Err(gone("its guest has ended"));
        }
        let ids = match identity::has_those_of_others(guest).host(|| "look at its ids".into())? {
            true => IdsOfCopy::Own,
            false => IdsOfCopy::Source,
        };
        let disk = match (own_disk, &spec.disk) {
            (Some(disk), _) => disk.try_clone().host(|| "copy a descriptor".into())?,
            (None, Disk::Directory { .. }) => disk::open(state, spec, None)?,
            (None, Disk::Memory) => return Err(gone("its disk has no name")),
        };
        let made_of = match ids {
            IdsOfCopy::Own => Some(MadeOf::now(state, spec)?),
            // An ordinary sandbox is never stale.
            IdsOfCopy::Source => None,
        };
        let runner = memory::silence(&place).host(|| "silence the VM".into())?;
        // From here on the VM goes on when this is dropped.
        let paused = PausedForCopies {
            state: state.to_path_buf(),
            place,
            shape,
            within,
            ids,
            runner,
            disk,
            made_of,
            alone: Mutex::new(()),
        };
        memory::monitor(&paused.place)
            .and_then(|mut monitor| monitor.pause())
            .host(|| "have the VM stand still".into())?;
        // Sandboxes that nest in its fence go on when its own VM has ended.
        memory::tell(&paused.runner, SHELTER).host(|| "tell the VM runner to stay".into())?;
        let_be_copied(guest).map_err(not_copied)?;
        Ok(paused)
    }

    #[cfg(target_arch = "x86_64")]
    fn bring(&self, way: &WayIn, monitor: OwnedFd, disk: &File) -> Result<(), LiveForkError> {
        let host = |step: &str, source| LiveForkError::Host { step: step.into(), source };
        let streams = way.streams.first().ok_or_else(|| LiveForkError::Unable("nobody awaits it".into()))?;
        let copy =
            |descriptor: &OwnedFd| descriptor.try_clone().map_err(|source| host("copy a descriptor", source));
        let own = disk.try_clone().map_err(|source| host("copy a descriptor", source))?;
        let vm_files = VmFiles {
            disk: (self.stat()?, own.into()),
            monitor,
            port: copy(&streams.control)?,
            stdout: copy(&streams.stdout)?,
            stderr: copy(&streams.stderr)?,
        };
        let copied = {
            let _turn = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
            VmCopy::depart(self.within.guest.0, way, streams)?
        };
        copied.arrive(&vm_files)
    }

    fn stat(&self) -> Result<Stat, LiveForkError> {
        fstat(&self.disk)
            .map_err(|errno| LiveForkError::Host { step: "look at a disk".into(), source: errno.into() })
    }
}

/// Elsewhere registers were never tried; [`missing`] says so before anything is begun.
#[cfg(not(target_arch = "x86_64"))]
impl PausedForCopies {
    fn bring(&self, _: &WayIn, _: OwnedFd, _: &File) -> Result<(), LiveForkError> {
        let _ = (self.alone.lock().unwrap_or_else(PoisonError::into_inner), self.stat()?);
        Err(LiveForkError::Unavailable(availability::missing().unwrap_or_default()))
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn let_be_copied(_: u32) -> Result<(), LiveForkError> {
    Err(LiveForkError::Unavailable(availability::missing().unwrap_or_default()))
}

impl PausedForCopies {
    /// As [`paddock_fences::fence::PausedVm::copy`].
    pub fn copy(&self, id: &SandboxId, spec: &Spec, renamed: bool) -> Result<Raised<HostFence>, CreateError> {
        let state = &self.state;
        if let Some(made_of) = &self.made_of
            && MadeOf::now(state, spec)? != *made_of
        {
            return Err(gone("what it was made of has changed"));
        }
        let disk = disk::open(state, spec, Some(&self.disk))?;
        let own_disk = disk.try_clone().host(|| "copy a descriptor".into())?;
        let resumption = Some(Resumption { connection: memory::random()?, renamed });
        let content =
            Content::Sandbox(VmSandbox { spec, purpose: Purpose::Lasting, disk, resumption, template: None });
        let process = VmProcess::Copied;
        let vm = VmBetween { state: state.clone(), id: id.clone(), content, shape: self.shape, process };
        let jail = around(Some(spec), self.shape);
        let nesting = Nesting::InVm(&self.within, self.ids);
        let (begun, way) = begin(state, id, &jail, nesting, Some(Box::new(vm)))?;
        let made = begun.compose()?.finish(&jail.disk)?;
        let raised = made.raised;
        let place = run_directory::of_sandbox(state, id);
        memory::write_shape(&place, self.shape).host(|| "write what the next engine has to know".into())?;
        memory::wait_until_ready(&raised.stream, FENCE_TIMEOUT)?;
        let monitor = lasting::listen_for_monitor(&place).host(|| "listen for the VM's monitor".into())?;
        self.bring(&way, monitor.into(), &own_disk).map_err(not_copied)?;
        drop(way);
        memory::monitor(&place)
            .and_then(|mut monitor| monitor.go_on())
            .map_err(|error| failed(&raised.stream, error))?;
        reach(state, id, raised)
    }

    /// The state directory of the engine, and the shape of every copy.
    pub fn state_and_shape(&self) -> (&Path, Shape) {
        (&self.state, self.shape)
    }
}

impl Drop for PausedForCopies {
    fn drop(&mut self) {
        // A parent VM has nothing to do but to be there.
        if self.ids == IdsOfCopy::Source {
            let _ = memory::monitor(&self.place).and_then(|mut monitor| monitor.go_on());
            let _ = self.runner.write_all(&[GO_ON]);
        }
    }
}

fn not_copied(error: LiveForkError) -> CreateError {
    match error {
        LiveForkError::Host { step, source } => CreateError::Host { step, source },
        other => gone(&other.to_string()),
    }
}

fn gone(why: &str) -> CreateError {
    CreateError::unavailable(format!("a VM that could be copied: {why}"))
}
