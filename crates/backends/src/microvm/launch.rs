//! The launch of a VM in a fence: turns the plan of a process sandbox into that of one with a VM: the fence holds QEMU, and the work is in QEMU's VM.

use super::monitor::{Acceleration, Command, Files, MemorySource, Monitor, Shape, Vmm};
use super::parts::Parts;
use super::shape::with_own;
use super::{MicrovmBackend, guest_plan, image, kvm_device, sparse};
use crate::process::create::{Between, Nesting, create as create_fence};
use crate::process::passed::Passed;
use crate::process::{link, root};
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::fence::HostFence;
use paddock_fences::shared::{lasting, run_directory};
use paddock_model::{Disk, Limits, Mount, Root, SandboxId, Spec};
use paddock_protocol::{
    LandlockPlan, Plan, Source, Step, VM_SHARE, VM_SYSTEM, VmBeginning, VmPlan, encode_record,
};
use serde_bytes::ByteBuf;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

const NOTHING: &str = "/nothing";

/// The content of the VM in the fence.
pub enum Content<'a> {
    /// Nothing yet: its memory is kept before it has any orders.
    Nothing,
    Sandbox(VmSandbox<'a>),
}

pub struct VmSandbox<'a> {
    pub spec: &'a Spec,
    pub purpose: Purpose,
    pub disk: File,
    /// It goes on from memory that has its orders already.
    pub resumption: Option<Resumption>,
    /// Its own memory is to be kept for others to begin with.
    pub template: Option<TemplateFiles>,
}

/// The files that are copied when a VM is kept for others to begin with: its memory, which it shares, and its disk.
pub struct TemplateFiles {
    pub memory: File,
    pub disk: File,
}

#[derive(Clone, Copy)]
pub struct Resumption {
    /// The number of the next connection to its guest.
    pub connection: u32,
    /// Others go on from the same memory, and it gets names of its own.
    pub renamed: bool,
}

/// A VM in its fence.
pub struct Launched {
    pub raised: Raised<HostFence>,
    pub shape: Shape,
    /// Its memory is kept for others to begin with.
    pub template: Option<TemplateFiles>,
    /// Its disk.
    pub disk: File,
    pub monitor: Box<dyn Monitor>,
}

/// Makes the fence and the VM in it. The VM's monitor waits to be told where the VM goes on from.
pub fn raise(
    state: &Path,
    id: &SandboxId,
    mut content: Content<'_>,
    parts: &Parts,
    shape: Shape,
    memory: MemorySource,
) -> Result<Launched, CreateError> {
    let (jail, purpose, files, template) = match &mut content {
        Content::Nothing => {
            let files = (placeholder(image::LARGEST)?.0, placeholder(image::LARGEST)?.1);
            (around(None, shape), Purpose::Passing, files, None)
        }
        Content::Sandbox(work) => {
            let image = match image::open(state, &work.spec.root)? {
                Some(image) => image,
                None => placeholder(1 << 20)?.0,
            };
            let disk = work.disk.try_clone().host(|| "copy a descriptor".into())?;
            (around(Some(work.spec), shape), work.purpose, (image, disk), work.template.take())
        }
    };
    let lasting = purpose.is_lasting();
    let own_disk = files.1.try_clone().host(|| "copy a descriptor".into())?;
    let (monitor, theirs) = match lasting {
        true => (None, None),
        false => {
            let (ours, theirs) = UnixStream::pair().host(|| "make a socket pair".into())?;
            (Some(ours), Some(OwnedFd::from(theirs)))
        }
    };
    let files = StartedFrom { memory, image: files.0, disk: files.1, monitor: theirs };
    let process = VmProcess::Started(parts, files);
    let vm = VmBetween { state: state.to_path_buf(), id: id.clone(), content, shape, process };
    let raised = create_fence(state, id, &jail, Nesting::Alone(purpose), Some(Box::new(vm)))?.0.raised;
    if lasting {
        let written = super::memory::write_shape(&run_directory::of_sandbox(state, id), shape);
        written.host(|| "write what the next engine has to know".into())?;
    }
    let monitor = match monitor {
        Some(monitor) => Ok(monitor),
        None => lasting::connect_for_monitor(&run_directory::of_sandbox(state, id)),
    };
    let monitor = monitor.and_then(|monitor| parts.vmm.monitor(monitor));
    match monitor {
        Ok(monitor) => Ok(Launched { raised, shape, template, disk: own_disk, monitor }),
        Err(error) => Err(failed(&raised.stream, error)),
    }
}

/// In place of a disk, to be read and to be written.
fn placeholder(bytes: u64) -> Result<(File, File), CreateError> {
    let made = sparse::in_memory("placeholder", bytes).and_then(|file| Ok((sparse::read_only(&file)?, file)));
    made.host(|| "make a placeholder".into())
}

/// The guest around the VM says why the VM ended, if it did.
pub fn failed(stream: &UnixStream, error: std::io::Error) -> CreateError {
    match super::memory::said(stream) {
        Some(said) => said,
        None => CreateError::Host { step: "start the VM".into(), source: error },
    }
}

/// The spec of the fence around a VM: the shared directories, and the VM's memory.
pub fn around(spec: Option<&Spec>, shape: Shape) -> Spec {
    let limits = spec.map(|spec| spec.limits.clone()).unwrap_or_default();
    let mounts = spec.map(|spec| {
        let shared = guest_plan::shared_mounts(spec);
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
        root_may_install: false,
        become_root: false,
    }
}

/// The VM between a fence and its guest.
pub struct VmBetween<'a> {
    pub state: PathBuf,
    pub id: SandboxId,
    pub content: Content<'a>,
    pub shape: Shape,
    pub process: VmProcess<'a>,
}

/// The process of a VM.
pub enum VmProcess<'a> {
    /// Started with these files.
    Started(&'a Parts, StartedFrom),
    /// Copied from a running one.
    Copied,
}

pub struct StartedFrom {
    memory: MemorySource,
    image: File,
    disk: File,
    monitor: Option<OwnedFd>,
}

impl Between for VmBetween<'_> {
    fn name(&self) -> &'static str {
        MicrovmBackend::NAME
    }

    fn makes_files_as_root(&self) -> bool {
        false
    }

    fn limits(&self, jail: &Limits) -> Limits {
        jail.clone()
    }

    fn take_over(
        self: Box<Self>,
        plan: &mut Plan,
        jail: &Spec,
        passed: &mut Passed,
    ) -> Result<(), CreateError> {
        let (shares_system, shares, lasting) = match &self.content {
            Content::Nothing => (false, false, false),
            Content::Sandbox(work) => {
                let lasting = work.purpose.is_lasting();
                (work.spec.root == Root::HostUsr, guest_plan::shares(work.spec), lasting)
            }
        };
        if let Some(link) = &mut plan.link {
            link::for_a_vm(link);
        }
        let git = arrange(plan, shares_system);
        let mut kernel = root::kernel(jail, 0);
        if let (Step::Kernel(kernel), Acceleration::Kvm) = (&mut kernel, self.shape.acceleration) {
            kernel.devices.push((kvm_device::NAME.into(), passed.add(kvm_device::node()?)?));
        }
        plan.steps.push(kernel);
        plan.landlock = Some(LandlockPlan {
            writable: [VM_SHARE, "/dev", "/proc"].map(String::from).into(),
            scope_abstract_sockets: false,
        });
        let directory = run_directory::of_sandbox(&self.state, &self.id);
        let command = match self.process {
            VmProcess::Copied => Command { words: Vec::new(), files: Vec::new() },
            VmProcess::Started(parts, files) => {
                let monitor = match files.monitor {
                    Some(monitor) => monitor,
                    None => lasting::listen_for_monitor(&directory)
                        .host(|| "listen for the VM's monitor".into())?
                        .into(),
                };
                let files = Files {
                    memory: files.memory,
                    image: files.image.into(),
                    disk: files.disk.into(),
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
                Some(keep(listener.host(|| "listen for commands to the VM runner".into())?.into(), plan)?)
            }
            false => None,
        };
        let connection = match &self.content {
            Content::Sandbox(VmSandbox { resumption: Some(resumption), .. }) => resumption.connection,
            _ => 1,
        };
        let env = vec!["PATH=/usr/bin".to_string()];
        plan.vm = Some(VmPlan {
            command: command.words,
            env,
            files,
            commands,
            beginning: self.content.beginning(git)?,
            connection,
        });
        Ok(())
    }
}

impl Content<'_> {
    fn beginning(&self, git: Vec<Step>) -> Result<VmBeginning, CreateError> {
        match self {
            Content::Nothing => Ok(VmBeginning::Wait),
            Content::Sandbox(VmSandbox { resumption: Some(resumption), .. }) => {
                Ok(VmBeginning::Renewal(encoded(&guest_plan::renewal(resumption.renamed)?)?))
            }
            Content::Sandbox(work) => Ok(VmBeginning::Orders(encoded(&guest_plan::compose(
                work.spec,
                work.purpose.is_lasting(),
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
    plan.steps = [VM_SHARE, VM_SYSTEM, NOTHING].map(directory).into();
    let mut git = Vec::new();
    for step in steps {
        match step {
            Step::Bind { source: Source::System(path), target, kind, read_only, allow_exec }
                if shares_system =>
            {
                let place = format!("{VM_SYSTEM}{target}");
                if target.matches('/').count() == 1 {
                    plan.steps.push(Step::Link { path: target, target: place.clone() });
                }
                let source = Source::System(path);
                plan.steps.push(Step::Bind { source, target: place, kind, read_only, allow_exec });
            }
            Step::Bind { source, target, kind, read_only, allow_exec } if is_of_the_workspace(&target) => {
                let target = format!("{VM_SHARE}{target}");
                plan.steps.push(Step::Bind { source, target, kind, read_only, allow_exec });
            }
            Step::Protect { base, paths } if is_of_the_workspace(&base) => {
                plan.steps.push(Step::Protect { base: format!("{VM_SHARE}{base}"), paths });
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
