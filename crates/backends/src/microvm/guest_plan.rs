//! The plan of the guest in a VM. It is that of a process sandbox, with the VM's devices in place of the host's files.

use super::MicrovmBackend;
use crate::process::create::{landlock, work_seccomp};
use crate::process::{link, root, seccomp};
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::shared::identity::Identity;
use paddock_fences::shared::root_rights;
use paddock_model::{Access, Mount, Network, Root, Spec, User};
use paddock_protocol::{
    DiskPlan, Ids, Names, NodeKind, Plan, Renewal, RootPlan, Source, Step, ToGuest, VM_SHARE, VmOrders,
    encode_message,
};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_bytes::ByteBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Twice the bytes of the kernel's pool.
const ENTROPY: usize = 64;

/// `git`: the steps that hide stand-ins from git, for a sandbox with a workspace.
pub fn compose(spec: &Spec, lasting: bool, git: Vec<Step>) -> Result<VmOrders, CreateError> {
    root_rights::refuse_in_a_vm(spec)?;
    let ids = Identity::choose(0, spec)?.ids;
    let (steps, system) = steps(spec, ids, git)?;
    Ok(VmOrders {
        renewal: renewal(false)?,
        image: spec.root != Root::HostUsr,
        system,
        share: shares(spec),
        network: matches!(spec.network, Network::Gate(_)),
        memory: spec.limits.memory,
        pids: spec.limits.pids.into(),
        plan: encoded(plan(spec, ids, steps, lasting))?,
    })
}

/// `renamed`: it begins with memory that others begin with too, names and all.
pub fn renewal(renamed: bool) -> Result<Renewal, CreateError> {
    let mut entropy = vec![0; ENTROPY];
    getrandom(&mut entropy, GetRandomFlags::empty()).host(|| "take random bytes".into())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Renewal {
        entropy: ByteBuf::from(entropy),
        realtime_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        names: renamed.then(|| {
            let (machine_id, boot_id) = root::names();
            Names {
                machine_id: ByteBuf::from(machine_id.into_bytes()),
                boot_id: ByteBuf::from(boot_id.into_bytes()),
            }
        }),
    })
}

/// True if directories of the caller are shared with the VM.
pub fn shares(spec: &Spec) -> bool {
    spec.workspace.is_some() || shared_mounts(spec).next().is_some()
}

/// The mounts that are directories or files of the host, with the name that each has among the shared ones.
pub fn shared_mounts(spec: &Spec) -> impl Iterator<Item = (&Mount, String)> {
    let shared = spec.mounts.iter().filter(|mount| mount.access != Access::Tmpfs && mount.source.is_some());
    shared.enumerate().map(|(number, mount)| (mount, format!("{VM_SHARE}/{number}")))
}

fn steps(spec: &Spec, ids: Ids, git: Vec<Step>) -> Result<(Vec<Step>, Vec<String>), CreateError> {
    let mut steps = if spec.root == Root::HostUsr { root::host_system() } else { Vec::new() };
    let system = steps.iter().filter_map(|step| match step {
        Step::Bind { source: Source::System(path), .. } => Some(path.clone()),
        _ => None,
    });
    let system = system.collect();
    steps.extend(root::own_files(spec, ids));
    if spec.workspace.is_some() {
        let place = format!("{VM_SHARE}{}", root::WORKSPACE);
        steps.push(bind(place, root::WORKSPACE.into(), NodeKind::Directory, false));
    }
    steps.extend(git);
    let mut shared = shared_mounts(spec);
    for mount in &spec.mounts {
        let target = mount.target.display().to_string();
        let Some(source) = mount.source.as_ref().filter(|_| mount.access != Access::Tmpfs) else {
            let (uid, gid, bytes) = (ids.work, ids.work_group, spec.limits.memory);
            steps.push(Step::Tmpfs { target, bytes, mode: 0o755, uid, gid, allow_exec: true });
            continue;
        };
        let found = std::fs::metadata(source).host(|| format!("look at {}", source.display()))?;
        let kind = if found.is_dir() { NodeKind::Directory } else { NodeKind::File };
        let place = shared.next().map(|(_, place)| place).unwrap_or_default();
        steps.push(bind(place, target, kind, mount.access == Access::Read));
    }
    steps.push(root::own_kernel(spec));
    Ok((steps, system))
}

fn bind(from: String, target: String, kind: NodeKind, read_only: bool) -> Step {
    Step::Bind { source: Source::System(from), target, kind, read_only, allow_exec: true }
}

fn plan(spec: &Spec, ids: Ids, steps: Vec<Step>, lasting: bool) -> Plan {
    Plan {
        hostname: spec.hostname.clone(),
        root: match spec.root {
            Root::HostUsr => RootPlan::Empty,
            Root::Directory { .. } => RootPlan::Overlay { lower: Source::Descriptor(VmOrders::IMAGE) },
        },
        disk: DiskPlan::Mounted(Source::Descriptor(VmOrders::DISK)),
        start: None,
        steps,
        ids,
        install: spec.user == User::Installer,
        become_root: None,
        own_network: true,
        link: matches!(spec.network, Network::Gate(_)).then(|| link::link(VmOrders::HANDOVER)),
        cgroup_descriptors: 1,
        cgroups_follow: false,
        seccomp: ByteBuf::from(seccomp::filter().to_vec()),
        work_seccomp: work_seccomp(spec),
        disk_seccomp: ByteBuf::from(seccomp::filter_for_the_disk().to_vec()),
        landlock: Some(landlock(spec)),
        limit_pids: spec.limits.pids.into(),
        has_nested_forks: false,
        limit_files: spec.limits.files.into(),
        // The VM's own kernel holds the limit.
        watch_memory: None,
        // The clocks of a VM begin with those of the VM that it is a copy of.
        time_namespace: true,
        listener: lasting.then_some(VmOrders::LISTENER),
        keep: Vec::new(),
        awaited: Vec::new(),
        anchor: None,
        zygote: None,
        sentry: None,
        vm: None,
        memory_events: Some(VmOrders::EVENTS),
    }
}

fn encoded(plan: Plan) -> Result<ByteBuf, CreateError> {
    let mut bytes = Vec::new();
    encode_message(&ToGuest::Enter(Box::new(plan)), &mut bytes)
        .map_err(|error| CreateError::Guest { reason: error.to_string() })?;
    Ok(ByteBuf::from(bytes))
}

/// The fence around the VM would be the only fence between the work and the services that listen on this host.
pub fn refuse_the_hosts_network(network: &Network) -> Result<(), CreateError> {
    match network {
        Network::None | Network::Gate(_) => Ok(()),
        Network::Host => Err(CreateError::Unavailable {
            missing: format!(
                "the host's network: a sandbox of the {} backend reaches what network rules allow",
                MicrovmBackend::NAME
            ),
            remedy: Some("allow what it needs (`--allow-net`), or use `--backend process`".into()),
        }),
    }
}
