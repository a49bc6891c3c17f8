//! A running VM is copied as it is: the QEMU process that runs it is forked into another fence, with its memory, its
//! threads and all the code it has translated. Nothing is started, read or translated again, and pages without writes
//! exist once.
//!
//! The fence of the copy nests in that of its original, as an interpreter's fork does
//! (docs/decisions/0042-a-running-machine-is-copied.md).

use super::create::{Beginning, Kind, Life, Machine, Parts, Recalled, Work, around};
use super::machine::{Acceleration, Shape};
use super::{bake, disk, image, memory, orders};
use crate::backend::{CarryError, CreateError, HostStep, Raised, Stem};
#[cfg(target_arch = "x86_64")]
use crate::process::carry::{MachineCopy, Outfit, let_be_copied};
use crate::process::create::{Role, WayIn, Whose, begin};
use crate::process::within::Within;
use crate::process::{identity, landing, lasting};
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
const PATIENCE: Duration = Duration::from_secs(20);

/// The reason why no running VM of this shape can be copied for a sandbox of this spec.
pub fn missing(shape: Shape, spec: &Spec) -> Option<String> {
    if std::env::var_os("PADDOCK_MACHINE_COPIES").is_some_and(|value| value == "off") {
        return Some("PADDOCK_MACHINE_COPIES is off".into());
    }
    if shape.acceleration == Acceleration::Kvm {
        return Some("what runs on the processor itself belongs to one process".into());
    }
    if orders::shares(spec) {
        return Some("directories of the caller's are shared with it".into());
    }
    landing::missing()
}

/// A paused VM. It goes on when this is dropped, unless it was made to be copied.
pub struct Standing {
    state: PathBuf,
    place: PathBuf,
    shape: Shape,
    within: Within,
    whose: Whose,
    keeper: UnixStream,
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

impl Standing {
    /// `own_disk`: where it is known.
    pub fn stand(
        state: &Path,
        id: &SandboxId,
        shape: Shape,
        spec: &Spec,
        own_disk: Option<&File>,
    ) -> Result<Standing, CreateError> {
        if let Some(missing) = missing(shape, spec) {
            return Err(CreateError::Unavailable { missing, remedy: None });
        }
        let place = lasting::directory(state, id);
        let (record, _) = lasting::read(state, id).map_err(|error| gone(&error.to_string()))?;
        let (guest, started) = record.guest.ok_or_else(|| gone("its guest has ended"))?;
        if let Some(missing) = landing::too_deep(guest) {
            return Err(CreateError::Unavailable { missing, remedy: None });
        }
        let owner = identity::work_of(&around(Some(spec), shape))?;
        let within =
            Within::of_a_source(guest, owner).host(|| "open the namespaces of the machine".into())?;
        if within.guest.1 != started {
            return Err(gone("its guest has ended"));
        }
        let whose = match identity::has_those_of_others(guest).host(|| "look at its ids".into())? {
            true => Whose::Own,
            false => Whose::Source,
        };
        let disk = match (own_disk, &spec.disk) {
            (Some(disk), _) => disk.try_clone().host(|| "copy a descriptor".into())?,
            (None, Disk::Directory { .. }) => disk::open(state, spec, None)?,
            (None, Disk::Memory) => return Err(gone("its disk has no name")),
        };
        let made_of = match whose {
            Whose::Own => Some(MadeOf::now(state, spec)?),
            // An ordinary sandbox is never stale.
            Whose::Source => None,
        };
        let keeper = memory::silence(&place).host(|| "silence the machine".into())?;
        // From here on the VM goes on when this is dropped.
        let standing = Standing {
            state: state.to_path_buf(),
            place,
            shape,
            within,
            whose,
            keeper,
            disk,
            made_of,
            alone: Mutex::new(()),
        };
        memory::monitor(&standing.place)
            .and_then(|mut monitor| monitor.pause())
            .host(|| "have the machine stand still".into())?;
        // Sandboxes that nest in its fence go on when its own VM has ended.
        memory::tell(&standing.keeper, SHELTER).host(|| "speak to who runs the machine".into())?;
        let_be_copied(guest).map_err(not_copied)?;
        Ok(standing)
    }

    #[cfg(target_arch = "x86_64")]
    fn bring(&self, way: &WayIn, monitor: OwnedFd, disk: &File) -> Result<(), CarryError> {
        let host = |step: &str, source| CarryError::Host { step: step.into(), source };
        let streams = way.streams.first().ok_or_else(|| CarryError::Unable("nobody awaits it".into()))?;
        let copy =
            |descriptor: &OwnedFd| descriptor.try_clone().map_err(|source| host("copy a descriptor", source));
        let own = disk.try_clone().map_err(|source| host("copy a descriptor", source))?;
        let outfit = Outfit {
            disk: (self.stat()?, own.into()),
            monitor,
            port: copy(&streams.control)?,
            stdout: copy(&streams.stdout)?,
            stderr: copy(&streams.stderr)?,
        };
        let copied = {
            let _turn = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
            MachineCopy::depart(self.within.guest.0, way, streams)?
        };
        copied.arrive(&outfit)
    }

    fn stat(&self) -> Result<Stat, CarryError> {
        fstat(&self.disk)
            .map_err(|errno| CarryError::Host { step: "look at a disk".into(), source: errno.into() })
    }
}

/// Elsewhere registers were never tried; [`missing`] says so before anything is begun.
#[cfg(not(target_arch = "x86_64"))]
impl Standing {
    fn bring(&self, _: &WayIn, _: OwnedFd, _: &File) -> Result<(), CarryError> {
        let _ = (self.alone.lock().unwrap_or_else(PoisonError::into_inner), self.stat()?);
        Err(CarryError::Unavailable(landing::missing().unwrap_or_default()))
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn let_be_copied(_: u32) -> Result<(), CarryError> {
    Err(CarryError::Unavailable(landing::missing().unwrap_or_default()))
}

impl Stem for Standing {
    fn copy(&self, id: &SandboxId, spec: &Spec, renamed: bool) -> Result<Raised, CreateError> {
        let state = &self.state;
        if let Some(made_of) = &self.made_of
            && MadeOf::now(state, spec)? != *made_of
        {
            return Err(gone("what it was made of has changed"));
        }
        let disk = disk::open(state, spec, Some(&self.disk))?;
        let own_disk = disk.try_clone().host(|| "copy a descriptor".into())?;
        let recalled = Some(Recalled { connection: memory::random()?, renamed });
        let work = Work { spec, life: Life::Lasting, disk, recalled, baking: None };
        let kind = Kind::Sandbox(work);
        let held = Beginning::Copied;
        let machine = Machine { state: state.clone(), id: id.clone(), kind, shape: self.shape, held };
        let jail = around(Some(spec), self.shape);
        let role = Role::Copied(&self.within, self.whose);
        let mut begun = begin(state, id, &jail, role, Some(&machine))?;
        let way = begun.way_in()?;
        let made = begun.compose(state, &jail, role, Some(&machine))?.finish(&jail, role, Some(&machine))?;
        let raised = made.raised;
        let place = lasting::directory(state, id);
        memory::write_shape(&place, self.shape).host(|| "write what the next engine has to know".into())?;
        memory::wait_until_ready(&raised.stream, PATIENCE)?;
        let monitor =
            lasting::listen_for_monitor(&place).host(|| "listen for the machine's monitor".into())?;
        self.bring(&way, monitor.into(), &own_disk).map_err(not_copied)?;
        drop(way);
        memory::monitor(&place)
            .and_then(|mut monitor| monitor.go_on())
            .map_err(|error| super::create::failed(&raised, error))?;
        let fence = super::fence::MicrovmFence::new(state, id, raised.fence, self.shape);
        let raised = Raised { fence: Box::new(fence), ..raised };
        memory::reach(state, id, raised)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        // A nursery's has nothing to do but to be there.
        if self.whose == Whose::Source {
            let _ = memory::monitor(&self.place).and_then(|mut monitor| monitor.go_on());
            let _ = self.keeper.write_all(&[GO_ON]);
        }
    }
}

fn not_copied(error: CarryError) -> CreateError {
    match error {
        CarryError::Host { step, source } => CreateError::Host { step, source },
        other => gone(&other.to_string()),
    }
}

fn gone(why: &str) -> CreateError {
    CreateError::Unavailable { missing: format!("a machine that could be copied: {why}"), remedy: None }
}
