//! Turns the plan of a process sandbox into that of one with a VM: the fence holds QEMU, and the work is in QEMU's VM.

use super::above::Baking;
use super::fence::MicrovmFence;
use super::kernel::Kernel;
use super::machine::{Acceleration, Command, Files, Monitor, Origin, Shape, Vmm};
use super::qemu::{Qemu, TRANSLATED};
use super::{MicrovmBackend, bake, copy, disk, image, kernel, kvm, orders, probe, runtime, sparse};
use crate::backend::{CreateError, HostStep, Raised};
use crate::process::create::{Between, Role, create as create_fence};
use crate::process::mounts::Passed;
use crate::process::{lasting, link, root};
use paddock_model::{Disk, Limits, Mount, Network, Root, SandboxId, Spec};
use paddock_protocol::{
    LandlockPlan, MACHINE_SHARE, MACHINE_SYSTEM, MachineBeginning, MachinePlan, Plan, Source, Step,
    encode_record,
};
use serde_bytes::ByteBuf;
use std::cell::RefCell;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Bytes that the VM's kernel needs besides the work.
const OWN_KERNEL: u64 = 128 << 20;
/// Bytes that QEMU needs besides the VM's memory.
const OWN_MEMORY: u64 = 160 << 20;
/// QEMU's threads, including those that serve shared files.
const OWN_THREADS: u32 = 256;
const OWN_FILES: u32 = 16_384;
/// The fence's own files.
const OWN_DISK: u64 = 16 << 20;
const MOST_PROCESSORS: u32 = 16;
const NOTHING: &str = "/nothing";

pub fn create(state: &Path, id: &SandboxId, spec: &Spec, life: Life) -> Result<Raised, CreateError> {
    let parts = Parts::find(state, spec)?;
    let shape = shape(&spec.limits, kvm::decide(state, &parts).acceleration);
    if let Some(missing) = copy::missing(shape, spec).filter(|_| life == Life::Stem) {
        return Err(CreateError::Unavailable { missing, remedy: None });
    }
    let baked = bake::get(state, &parts, shape)?;
    let memory = baked.memory.try_clone().host(|| "copy a descriptor".into())?;
    let origin = Origin::Copy { memory: memory.into(), shared: false };
    let disk = disk::open(state, spec, None)?;
    let kind = Kind::Sandbox(Work { spec, life, disk, recalled: None, baking: None });
    let (raised, mut monitor) = raise(state, id, kind, &parts, shape, origin)?;
    baked.recall(&mut *monitor).map_err(|error| failed(&raised, error))?;
    Ok(raised)
}

/// A lasting sandbox whose memory is to be kept for others to begin with, and that is to end then.
pub fn create_to_bake(state: &Path, id: &SandboxId, spec: &Spec) -> Result<Raised, CreateError> {
    let parts = Parts::find(state, spec)?;
    let shape = shape(&spec.limits, kvm::decide(state, &parts).acceleration);
    let baked = bake::get(state, &parts, shape)?;
    let copied = sparse::in_memory("machine", shape.memory)
        .and_then(|memory| sparse::copy(&baked.memory, &memory).map(|()| memory));
    let memory = copied.host(|| "copy the memory of a machine".into())?;
    let disk = disk::open(state, spec, None)?;
    let copy = |file: &File| file.try_clone().host(|| "copy a descriptor".into());
    let origin = Origin::Copy { memory: copy(&memory)?.into(), shared: true };
    let work = Work {
        spec,
        life: Life::Lasting,
        disk: copy(&disk)?,
        recalled: None,
        baking: Some(Baking { memory, disk }),
    };
    let (raised, mut monitor) = raise(state, id, Kind::Sandbox(work), &parts, shape, origin)?;
    baked.recall(&mut *monitor).map_err(|error| failed(&raised, error))?;
    Ok(raised)
}

/// The parts that this host has for a VM.
pub struct Parts {
    pub vmm: Qemu,
    pub kernel: Kernel,
}

impl Parts {
    pub fn find(state: &Path, spec: &Spec) -> Result<Parts, CreateError> {
        orders::refuse_the_hosts_network(&spec.network)?;
        if let Some((missing, remedy)) = probe::not_for_this_user() {
            return Err(CreateError::Unavailable { missing: missing.into(), remedy: Some(remedy.into()) });
        }
        refuse_more_than(memory_of_the_host(), &spec.limits)?;
        let parts = Parts::look(state)?;
        let kernel = &parts.kernel;
        if !kernel.shares && (spec.root == Root::HostUsr || orders::shares(spec)) {
            return Err(CreateError::Unavailable {
                missing: format!(
                    "directories of the host in a machine: the kernel {} has no modules `9p` and `9pnet_virtio` (Debian's cloud \
                     kernel has none)",
                    kernel.version
                ),
                remedy: Some(format!(
                    "{}; or give an image (`--image`), and no workspace or mounts",
                    kernel::REMEDY
                )),
            });
        }
        if !kernel.networks && spec.network != Network::None {
            return Err(CreateError::Unavailable {
                missing: format!("network rules: the kernel {} has no module `veth`", kernel.version),
                remedy: Some(kernel::REMEDY.into()),
            });
        }
        Ok(parts)
    }

    /// Finds the parts for any VM.
    pub fn look(state: &Path) -> Result<Parts, CreateError> {
        let runtime = runtime::find().map_err(|error| runtime::unavailable(&error))?;
        let kernel = kernel::find(state).map_err(|error| kernel::unavailable(&error))?;
        Ok(Parts { vmm: Qemu { runtime }, kernel })
    }
}

/// Memory of the whole VM, for a sandbox with these limits.
fn memory(limits: &Limits) -> u64 {
    limits.memory.saturating_add(limits.memory / 32 + OWN_KERNEL).next_multiple_of(64 << 20)
}

/// A VM cannot have more memory than the host: such a VM would boot, in minutes, but no copy of it would ever begin.
fn refuse_more_than(host: u64, limits: &Limits) -> Result<(), CreateError> {
    let machine = memory(limits);
    if machine <= host {
        return Ok(());
    }
    Err(CreateError::Unavailable {
        missing: format!(
            "memory: its machine would have {} MiB, and this host has {}",
            machine >> 20,
            host >> 20
        ),
        remedy: Some(
            "ask for less (`--memory`, `limits.memory_bytes`); what is not used is not taken".into(),
        ),
    })
}

/// The host's memory, with its swap.
fn memory_of_the_host() -> u64 {
    let host = rustix::system::sysinfo();
    (host.totalram as u64).saturating_add(host.totalswap as u64).saturating_mul(host.mem_unit.into())
}

/// The shape of a sandbox's VM, however it began.
pub fn shape(limits: &Limits, acceleration: Acceleration) -> Shape {
    let memory = memory(limits);
    let here = std::thread::available_parallelism().map_or(1, |number| number.get() as u32);
    let processors = (limits.cpus.ceil() as u32).clamp(1, here.min(MOST_PROCESSORS));
    let fixed_addresses = acceleration == Acceleration::Emulated && super::qemu::wants_fixed_addresses();
    Shape { memory, processors, acceleration, fixed_addresses }
}

/// The kind of VM in the fence.
pub enum Kind<'a> {
    /// A VM whose memory is to be kept before it has any orders.
    Bake,
    Sandbox(Work<'a>),
}

/// How long a sandbox goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It ends with its engine.
    Passing,
    Lasting,
    /// It stays for the sake of its copies.
    Stem,
}

pub struct Work<'a> {
    pub spec: &'a Spec,
    pub life: Life,
    pub disk: File,
    /// It goes on from kept memory, and has its orders already.
    pub recalled: Option<Recalled>,
    /// Its own memory is to be kept for others to begin with.
    pub baking: Option<Baking>,
}

#[derive(Clone, Copy)]
pub struct Recalled {
    /// The number of the next connection to its guest.
    pub connection: u32,
    /// Others go on from the same memory, and it gets names of its own.
    pub renamed: bool,
}

/// Makes the fence and the VM in it. The VM's monitor waits to be told where the VM goes on from.
pub fn raise(
    state: &Path,
    id: &SandboxId,
    mut kind: Kind<'_>,
    parts: &Parts,
    shape: Shape,
    origin: Origin,
) -> Result<(Raised, Box<dyn Monitor>), CreateError> {
    let (jail, life, files, baking) = match &mut kind {
        Kind::Bake => {
            let files = (placeholder(image::LARGEST)?.0, placeholder(image::LARGEST)?.1);
            (around(None, shape), Life::Passing, files, None)
        }
        Kind::Sandbox(work) => {
            let image = match image::open(state, &work.spec.root)? {
                Some(image) => image,
                None => placeholder(1 << 20)?.0,
            };
            let disk = work.disk.try_clone().host(|| "copy a descriptor".into())?;
            (around(Some(work.spec), shape), work.life, (image, disk), work.baking.take())
        }
    };
    let lasting = life != Life::Passing;
    let own_disk = files.1.try_clone().host(|| "copy a descriptor".into())?;
    let (monitor, theirs) = match lasting {
        true => (None, None),
        false => {
            let (ours, theirs) = UnixStream::pair().host(|| "make a socket pair".into())?;
            (Some(ours), Some(OwnedFd::from(theirs)))
        }
    };
    let held = Held { origin, image: files.0, disk: files.1, monitor: theirs };
    let held = Beginning::Started(RefCell::new(Some((parts, held))));
    let machine = Machine { state: state.to_path_buf(), id: id.clone(), kind, shape, held };
    let role = match life {
        Life::Passing => Role::Passing,
        Life::Lasting => Role::Lasting,
        Life::Stem => Role::Nursery,
    };
    let raised = create_fence(state, id, &jail, role, Some(&machine))?.raised;
    if lasting {
        let written = super::memory::write_shape(&lasting::directory(state, id), shape);
        written.host(|| "write what the next engine has to know".into())?;
    }
    let monitor = match monitor {
        Some(monitor) => Ok(monitor),
        None => lasting::connect_for_monitor(&lasting::directory(state, id)),
    };
    let fence = MicrovmFence::new(state, id, raised.fence, shape).with(baking, own_disk);
    let raised = Raised { fence: Box::new(fence), ..raised };
    let monitor = monitor.and_then(|monitor| parts.vmm.monitor(monitor));
    match monitor {
        Ok(monitor) => Ok((raised, monitor)),
        Err(error) => Err(failed(&raised, error)),
    }
}

/// In place of a disk, to be read and to be written.
fn placeholder(bytes: u64) -> Result<(File, File), CreateError> {
    let made = sparse::in_memory("placeholder", bytes).and_then(|file| Ok((sparse::read_only(&file)?, file)));
    made.host(|| "make a placeholder".into())
}

/// The guest around the VM says why the VM ended, if it did.
pub fn failed(raised: &Raised, error: std::io::Error) -> CreateError {
    match super::memory::said(&raised.stream) {
        Some(said) => said,
        None => CreateError::Host { step: "start the machine".into(), source: error },
    }
}

/// The spec of the fence around a VM: the shared directories, and the VM's memory.
pub fn around(spec: Option<&Spec>, shape: Shape) -> Spec {
    let limits = spec.map(|spec| spec.limits.clone()).unwrap_or_default();
    let mounts = spec.map(|spec| {
        let shared = orders::shared_mounts(spec);
        shared.map(|(mount, place)| Mount { target: PathBuf::from(place), ..mount.clone() }).collect()
    });
    Spec {
        root: Root::HostUsr,
        workspace: spec.and_then(|spec| spec.workspace.clone()),
        mounts: mounts.unwrap_or_default(),
        limits: with_own(&limits, shape),
        disk: Disk::Memory,
        network: spec.map(|spec| spec.network.clone()).unwrap_or_default(),
        user: spec.map(|spec| spec.user.clone()).unwrap_or_default(),
        hostname: "machine".into(),
        require: Vec::new(),
        scan: Default::default(),
        live_forks: false,
    }
}

/// The limits of the cgroups: those of the work, plus the needs of QEMU and the VM's kernel.
pub fn with_own(work: &Limits, shape: Shape) -> Limits {
    Limits {
        memory: shape.memory.saturating_add(OWN_MEMORY + (TRANSLATED << 20) + OWN_DISK),
        pids: OWN_THREADS,
        files: OWN_FILES,
        disk: OWN_DISK,
        ..work.clone()
    }
}

pub struct Machine<'a> {
    pub state: PathBuf,
    pub id: SandboxId,
    pub kind: Kind<'a>,
    pub shape: Shape,
    pub held: Beginning<'a>,
}

/// How the process of a VM begins.
pub enum Beginning<'a> {
    /// Started with these files, once.
    Started(RefCell<Option<(&'a Parts, Held)>>),
    /// Copied from a running one.
    Copied,
}

pub struct Held {
    origin: Origin,
    image: File,
    disk: File,
    monitor: Option<OwnedFd>,
}

impl Between for Machine<'_> {
    fn name(&self) -> &'static str {
        MicrovmBackend::NAME
    }

    fn makes_files_as_root(&self) -> bool {
        false
    }

    fn limits(&self, jail: &Limits) -> Limits {
        jail.clone()
    }

    fn take_over(&self, plan: &mut Plan, jail: &Spec, passed: &mut Passed) -> Result<(), CreateError> {
        let (shares_system, shares, lasting) = match &self.kind {
            Kind::Bake => (false, false, false),
            Kind::Sandbox(work) => {
                let lasting = work.life != Life::Passing;
                (work.spec.root == Root::HostUsr, orders::shares(work.spec), lasting)
            }
        };
        if let Some(link) = &mut plan.link {
            link::for_a_machine(link);
        }
        let git = arrange(plan, shares_system);
        let mut kernel = root::kernel(jail, 0);
        if let (Step::Kernel(kernel), Acceleration::Kvm) = (&mut kernel, self.shape.acceleration) {
            kernel.devices.push((kvm::NAME.into(), passed.add(kvm::node()?)?));
        }
        plan.steps.push(kernel);
        plan.landlock = Some(LandlockPlan {
            writable: [MACHINE_SHARE, "/dev", "/proc"].map(String::from).into(),
            scope_abstract_sockets: false,
        });
        let directory = lasting::directory(&self.state, &self.id);
        let command = match &self.held {
            Beginning::Copied => Command { words: Vec::new(), files: Vec::new() },
            Beginning::Started(held) => {
                let twice = || CreateError::Guest { reason: "a machine was begun twice".into() };
                let (parts, held) = held.take().ok_or_else(twice)?;
                let monitor = match held.monitor {
                    Some(monitor) => monitor,
                    None => lasting::listen_for_monitor(&directory)
                        .host(|| "listen for the machine's monitor".into())?
                        .into(),
                };
                let files = Files {
                    origin: held.origin,
                    image: held.image.into(),
                    disk: held.disk.into(),
                    monitor,
                    listens: lasting,
                    shares_system,
                    shares,
                };
                parts.vmm.command(self.shape, files)
            }
        };
        let mut keep = |file: OwnedFd, plan: &mut Plan| {
            plan.keep.push(passed.place(file)?);
            Ok::<usize, CreateError>(plan.keep.len() - 1)
        };
        let files = command.files.into_iter().map(|file| keep(file, plan)).collect::<Result<_, _>>()?;
        let commands = match lasting {
            true => {
                let listener = lasting::listen_for_commands(&directory);
                Some(keep(listener.host(|| "listen for what is said to the keeper".into())?.into(), plan)?)
            }
            false => None,
        };
        let connection = match &self.kind {
            Kind::Sandbox(Work { recalled: Some(recalled), .. }) => recalled.connection,
            _ => 1,
        };
        let env = vec!["PATH=/usr/bin".to_string()];
        plan.machine = Some(MachinePlan {
            command: command.words,
            env,
            files,
            commands,
            beginning: self.beginning(git)?,
            connection,
        });
        Ok(())
    }
}

impl Machine<'_> {
    fn beginning(&self, git: Vec<Step>) -> Result<MachineBeginning, CreateError> {
        match &self.kind {
            Kind::Bake => Ok(MachineBeginning::Wait),
            Kind::Sandbox(Work { recalled: Some(recalled), .. }) => {
                Ok(MachineBeginning::Renewal(encoded(&orders::renewal(recalled.renamed)?)?))
            }
            Kind::Sandbox(work) => Ok(MachineBeginning::Orders(encoded(&orders::compose(
                work.spec,
                work.life != Life::Passing,
                git,
            )?)?)),
        }
    }
}

/// Without its length: the frame that it travels in has one.
fn encoded<T: serde::Serialize>(what: &T) -> Result<ByteBuf, CreateError> {
    let mut bytes = Vec::new();
    encode_record(what, &mut bytes).map_err(|error| CreateError::Guest { reason: error.to_string() })?;
    Ok(ByteBuf::from(bytes.split_off(paddock_protocol::RECORD_HEADER)))
}

/// Puts the shared directories where the VM's process shares them from, and takes the steps for the guest in the VM out
/// of the plan.
fn arrange(plan: &mut Plan, shares_system: bool) -> Vec<Step> {
    let owner = (plan.ids.root, plan.ids.root_group);
    let directory =
        |path: &str| Step::Directory { path: path.into(), mode: 0o755, uid: owner.0, gid: owner.1 };
    let steps = std::mem::take(&mut plan.steps);
    plan.steps = [MACHINE_SHARE, MACHINE_SYSTEM, NOTHING].map(directory).into();
    let mut git = Vec::new();
    for step in steps {
        match step {
            Step::Bind { source: Source::System(path), target, kind, read_only, allow_exec }
                if shares_system =>
            {
                let place = format!("{MACHINE_SYSTEM}{target}");
                if target.matches('/').count() == 1 {
                    plan.steps.push(Step::Link { path: target, target: place.clone() });
                }
                let source = Source::System(path);
                plan.steps.push(Step::Bind { source, target: place, kind, read_only, allow_exec });
            }
            Step::Bind { source, target, kind, read_only, allow_exec } if is_of_the_workspace(&target) => {
                let target = format!("{MACHINE_SHARE}{target}");
                plan.steps.push(Step::Bind { source, target, kind, read_only, allow_exec });
            }
            Step::Protect { base, paths } if is_of_the_workspace(&base) => {
                plan.steps.push(Step::Protect { base: format!("{MACHINE_SHARE}{base}"), paths });
            }
            Step::File { ref path, .. } if path == "/etc/gitignore" || path == "/etc/gitconfig" => {
                git.push(step)
            }
            other => plan.steps.push(other),
        }
    }
    git
}

fn is_of_the_workspace(path: &str) -> bool {
    path.strip_prefix(root::WORKSPACE).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_memory_than_the_host_has_is_refused() {
        let limits = Limits { memory: 256 << 20, ..Limits::default() };
        refuse_more_than(memory(&limits), &limits).unwrap();
        let refused = refuse_more_than(memory(&limits) - 1, &limits).unwrap_err();
        assert!(refused.to_string().contains("its machine would have 448 MiB"), "{refused}");
        assert!(refused.hint().is_some());
        let absurd = Limits { memory: 1 << 50, ..Limits::default() };
        assert!(refuse_more_than(memory_of_the_host(), &absurd).is_err());
    }
}
