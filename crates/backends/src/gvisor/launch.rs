//! The launch of a sentry in a fence: from the plan of a process sandbox to that of one with a sentry: the same root, disk, mounts and ids. Another guest,
//! behind the sentry, does the outer guest's part for the work.

use super::runtime::Runtime;
use crate::gvisor::{GvisorBackend, bundle, probe, runtime};
use crate::process::create::{Between, Nesting, WATCH_INTERVAL_MS, create as create_fence};
use crate::process::passed::Passed;
use crate::process::probe as fence;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Raised;
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::fence::HostFence;
use paddock_fences::shared::{cgroups, guest_executable, identity, lasting, root_rights, run_directory};
use paddock_model::{Limits, Network, SandboxId, Spec};
use paddock_protocol::{
    DiskPlan, MemoryWatch, Plan, RootPlan, SentryPlan, Source, Step, ToGuest, encode_message,
};
use rustix::mount::{OpenTreeFlags, open_tree};
use serde_bytes::ByteBuf;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Bytes that the sentry and its gofer need themselves, beside the work.
const OWN_MEMORY: u64 = 96 << 20;
/// Threads that they have without any work, and those that each of the work's brings with it. The sentry itself holds the
/// work to its limit; this is for the host, which has a number of them for all: a bomb makes the sentry take many more.
const OWN_THREADS: u32 = 256;
const THREADS_EACH: u32 = 6;
/// The devices that runsc itself opens.
const DEVICES: [&str; 3] = ["null", "zero", "urandom"];

/// `memory`: a directory with the memory that another had, whose disk this one has.
pub fn raise(
    state: &Path,
    id: &SandboxId,
    spec: &Spec,
    purpose: Purpose,
    memory: Option<&Path>,
) -> Result<Raised<HostFence>, CreateError> {
    refuse_the_hosts_network(&spec.network)?;
    root_rights::refuse_behind_a_sentry(spec)?;
    if let Some(missing) = probe::too_few_ids() {
        return Err(CreateError::Unavailable {
            missing: missing.into(),
            remedy: Some(fence::LEND_IDS.into()),
        });
    }
    let runtime = runtime::find(state).map_err(|error| runtime::unavailable(&error))?;
    let sentry =
        Sentry { runtime, state: state.to_path_buf(), id: id.clone(), lasting: purpose.is_lasting(), memory };
    let nesting = Nesting::Alone(purpose);
    create_fence(state, id, spec, nesting, Some(Box::new(sentry))).map(|(made, _)| made.raised)
}

/// The sentry would be the only fence between the work and the services that listen on this host.
fn refuse_the_hosts_network(network: &Network) -> Result<(), CreateError> {
    match network {
        Network::None | Network::Gate(_) => Ok(()),
        Network::Host => Err(CreateError::Unavailable {
            missing: "the host's network: a sandbox of the gvisor backend reaches what network rules allow"
                .into(),
            remedy: Some("allow what it needs (`--allow-net`), or use `--backend process`".into()),
        }),
    }
}

/// The limits of the cgroups: those of the work, plus the sentry's own needs.
pub fn with_own(work: &Limits) -> Limits {
    Limits {
        memory: work.memory.saturating_add(OWN_MEMORY),
        pids: work.pids.saturating_mul(THREADS_EACH).saturating_add(OWN_THREADS),
        ..work.clone()
    }
}

struct Sentry<'a> {
    runtime: Runtime,
    state: PathBuf,
    id: SandboxId,
    lasting: bool,
    memory: Option<&'a Path>,
}

impl Between for Sentry<'_> {
    fn name(&self) -> &'static str {
        GvisorBackend::NAME
    }

    /// The gofer makes them.
    fn makes_files_as_root(&self) -> bool {
        true
    }

    fn limits(&self, work: &Limits) -> Limits {
        with_own(work)
    }

    fn take_over(
        self: Box<Self>,
        plan: &mut Plan,
        spec: &Spec,
        passed: &mut Passed,
    ) -> Result<(), CreateError> {
        if self.memory.is_some() {
            // The disk has these files already, and programs inside may hold them open.
            plan.steps
                .retain(|step| matches!(step, Step::Bind { .. } | Step::Tmpfs { .. } | Step::Protect { .. }));
        }
        let root = (plan.ids.root, plan.ids.root_group);
        let mount_points = ["/proc", "/sys", "/dev"];
        plan.steps.extend(mount_points.map(|path| Step::Directory {
            path: path.into(),
            mode: 0o755,
            uid: root.0,
            gid: root.1,
        }));
        let runtime = File::open(&self.runtime.path);
        let runtime = runtime.host(|| format!("open {}", self.runtime.path.display()))?;
        let guest = self.guest(passed)?;
        let commands = match self.lasting {
            true => Some(lasting::listen_for_commands(&run_directory::of_sandbox(&self.state, &self.id))),
            false => None,
        };
        let commands = commands.transpose().host(|| "listen for what is said to the sentry".into())?;
        let devices = DEVICES.map(|name| (name.to_string(), Source::System(format!("/dev/{name}"))));
        plan.sentry = Some(SentryPlan {
            runtime: passed.place(runtime.into())?,
            arguments: bundle::arguments(&self.runtime, &spec.network),
            id: "sandbox".into(),
            bundle: ByteBuf::from(bundle::config(spec, plan.ids)),
            guest,
            devices: devices.into(),
            inner: inner_plan(plan, &spec.limits)?,
            commands: commands.map(|commands| passed.place(commands.into())).transpose()?,
            memory: self.memory.map(|memory| kept(memory, passed)).transpose()?,
            limit_threads: (!cgroups::detect().limits_pids()).then(|| with_own(&spec.limits).pids.into()),
        });
        Ok(())
    }
}

impl Sentry<'_> {
    /// Only root can clone a mount here; the guest of an ordinary user does so with the caller's rights.
    fn guest(&self, passed: &mut Passed) -> Result<Source, CreateError> {
        let guest = guest_executable::open(&self.state).host(|| "unpack the guest".into())?;
        if identity::method() == identity::Method::Range {
            return passed.add(detached(&guest).host(|| "clone the mount of the guest".into())?);
        }
        let path = guest_executable::place(&self.state);
        let found = guest.metadata().host(|| "look at the guest".into())?;
        let path = path.to_str().ok_or_else(|| CreateError::Mount {
            path: path.display().to_string(),
            reason: "its name is not UTF-8".into(),
        })?;
        Ok(Source::Path { path: path.into(), device: found.dev(), inode: found.ino() })
    }
}

/// The part of the plan that is for the guest behind the sentry.
fn inner_plan(plan: &Plan, limits: &Limits) -> Result<ByteBuf, CreateError> {
    let watch = MemoryWatch { limit_bytes: limits.memory, interval_ms: WATCH_INTERVAL_MS, own_kernel: true };
    let inner = Plan {
        root: RootPlan::Built { uncover: bundle::UNCOVERED.map(String::from).into() },
        steps: Vec::new(),
        start: None,
        own_network: false,
        link: None,
        cgroup_descriptors: 0,
        cgroups_follow: false,
        // The kernel's limit holds the sentry too, and ends everything. The guest is to end the work before that.
        watch_memory: Some(watch),
        // Such a kernel has no Landlock; and rules of the host's would be about a root that only the sentry sees.
        landlock: None,
        // The sentry's clocks begin with it.
        time_namespace: false,
        keep: Vec::new(),
        // Only the kind of disk is looked at.
        disk: match plan.disk {
            DiskPlan::Mounted(_) => DiskPlan::Mounted(Source::Descriptor(0)),
            DiskPlan::Memory { bytes, inodes } => DiskPlan::Memory { bytes, inodes },
        },
        ..plan.clone()
    };
    let mut bytes = Vec::new();
    encode_message(&ToGuest::Enter(Box::new(inner)), &mut bytes)
        .map_err(|error| CreateError::Guest { reason: error.to_string() })?;
    Ok(ByteBuf::from(bytes))
}

fn kept(memory: &Path, passed: &mut Passed) -> Result<Source, CreateError> {
    let directory = File::open(memory).host(|| format!("open {}", memory.display()))?;
    passed.add(detached(&directory).host(|| format!("clone the mount of {}", memory.display()))?)
}

fn detached(file: &File) -> std::io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(file, "", flags)?)
}
