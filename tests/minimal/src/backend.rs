//! The smallest backend, as a template for the next one: a plain directory with a guest in it, and NO FENCE.
//!
//! It has the four methods that a backend must have, and the three of a fence. The guest does the rest: commands, files, ports,
//! pauses, snapshots. The guest ends processes by its PID namespace and builds its root by mounts, so it has namespaces all the
//! same. No filter, no Landlock, no limit and no id of its own keeps hostile code in them.
//!
//! A sandbox ends with its engine: the guest ends with the stream to it.

use paddock_backends::parts::{self, Child, HostStep, Identity, Launched, Passed};
use paddock_backends::{Backend, CreateError, Fence, FenceUsage, Purpose, Raised};
use paddock_model::{
    Availability, Boundary, Disk, DiskLimit, ForkKind, Guarantees, Identity as Kind, Isolation,
    LandlockLevel, LimitKind, Network, NetworkEnforcement, PauseKind, Root, SandboxId, SnapshotKind, Spec,
    Survivor,
};
use paddock_protocol::{DiskPlan, Plan, RootPlan};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

const NAME: &str = "minimal";
const NO_FENCE: &str =
    "THERE IS NO FENCE: its own mounts and process numbers alone are between the code inside and this host";
const NOT_LASTING: &str = "it ends with the engine that made it";

pub struct Minimal {
    state: PathBuf,
}

impl Minimal {
    pub fn new(state: &Path) -> Minimal {
        Minimal { state: state.to_path_buf() }
    }
}

impl Backend for Minimal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn probe(&self) -> Availability {
        Availability { backend: NAME.into(), usable: true, checks: Vec::new() }
    }

    fn guarantees(&self, spec: &Spec) -> Guarantees {
        let all = vec![Survivor::Files, Survivor::Memory, Survivor::Processes, Survivor::Connections];
        Guarantees {
            backend: NAME.into(),
            boundary: Boundary::None,
            network: NetworkEnforcement::None,
            identity: Kind::Caller,
            memory_limit: LimitKind::None,
            cpu_limit: LimitKind::None,
            pids_limit: LimitKind::None,
            disk_limit: if spec.disk == Disk::Memory { DiskLimit::None } else { DiskLimit::Kernel },
            pause: PauseKind::StopSignals,
            snapshot: SnapshotKind::FilesystemCopy,
            fork: ForkKind::Filesystem,
            survives_pause: all,
            survives_hibernate: vec![Survivor::Files],
            seccomp: Isolation::Absent,
            landlock_abi: LandlockLevel(0),
            time_namespace: Isolation::Absent,
            system_inodes: Isolation::Absent,
            device_inodes: Isolation::Absent,
            capabilities: Vec::new(),
            root_capabilities: Vec::new(),
            become_root: false,
            weaknesses: vec![NO_FENCE.into(), NOT_LASTING.into()],
        }
    }

    fn create(&self, id: &SandboxId, spec: &Spec, purpose: Purpose) -> Result<Raised, CreateError> {
        offered(spec, purpose)?;
        let (identity, mut passed) = (Identity::of_caller(spec)?, Passed::default());
        let own = self.state.join(NAME).join(id.as_str());
        let guest = parts::open_guest(&self.state).host(|| "unpack the guest".into())?;
        let Launched { pid, process, stream, mut gate } = parts::launch(&guest, true)?;
        // From here on a step that fails takes it down.
        let fence = Directory { process, own: (spec.disk == Disk::Memory).then(|| own.clone()) };
        let (disk, start) = match &spec.disk {
            Disk::Memory => (&own, &None),
            Disk::Directory { path, start } => (path, start),
        };
        let (uid, gid) = identity.work_host;
        std::fs::create_dir_all(disk).host(|| "make the disk".into())?;
        std::os::unix::fs::chown(disk, Some(uid), Some(gid)).host(|| "own the disk".into())?;

        let mut steps = parts::inside(spec, identity.ids);
        steps.extend(parts::mounts(&spec.mounts, spec.limits.memory, &identity, &mut passed)?);
        steps.push(parts::kernel(spec, 0));
        let mut of_host =
            |path: &Path| parts::user_source(path, &identity, &mut passed).map(|(tree, _)| tree);
        let (disk, start) = (of_host(disk)?, start.as_deref().map(of_host).transpose()?);
        let mounted = DiskPlan::Mounted(disk);
        let mut plan = Plan::new(spec.hostname.clone(), RootPlan::Empty, mounted, steps, identity.ids);
        plan.start = start;
        (plan.limit_pids, plan.limit_files) = (spec.limits.pids.into(), spec.limits.files.into());
        // One instruction: return "allow".
        plan.seccomp = [&6u16.to_ne_bytes()[..], &[0, 0], &0x7fff_0000u32.to_ne_bytes()].concat().into();
        plan.disk_seccomp = plan.seccomp.clone();

        identity.write_maps(pid)?;
        gate.open().host(|| "release the guest".into())?;
        parts::send(&stream, plan, Vec::new(), passed)?;
        Ok(Raised { fence: Box::new(fence), stream, network: None, notes: Vec::new() })
    }
}

/// A demand that this backend cannot meet is refused: it never makes a weaker sandbox than was asked for.
fn offered(spec: &Spec, purpose: Purpose) -> Result<(), CreateError> {
    match (purpose, &spec.root, &spec.workspace, &spec.network) {
        (Purpose::TemplateMemory | Purpose::ParentVm | Purpose::Zygote, ..) => Err(purpose.unsupported()),
        (_, Root::Directory { .. }, ..) => Err(CreateError::unsupported("begin with an image")),
        (_, _, Some(_), _) => Err(CreateError::unsupported("give a workspace")),
        (.., Network::Gate(_) | Network::Host) => Err(CreateError::unsupported("give a network")),
        (.., Network::None) => Ok(()),
    }
}

/// The guest is the first process of its PID namespace: the kernel ends all others with it.
struct Directory {
    process: Child,
    own: Option<PathBuf>,
}

impl Fence for Directory {
    fn kill(&mut self) -> std::io::Result<()> {
        self.process.kill()
    }

    fn destroy(&mut self) -> std::io::Result<FenceUsage> {
        self.process.kill()?;
        self.process.wait()?;
        self.own.take().map_or(Ok(()), std::fs::remove_dir_all)?;
        Ok(FenceUsage::default())
    }

    fn ended(&self) -> Option<BorrowedFd<'_>> {
        Some(self.process.descriptor())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // An error cannot be told here; a process that is left is killed when it is dropped.
        let _ = self.destroy();
    }
}
