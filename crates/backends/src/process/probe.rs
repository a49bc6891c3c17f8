//! The parts of each layer that this host has, and how to get the rest.

use paddock_fences::shared::cgroups::{self, Hierarchies};
use paddock_fences::shared::identity::{self, Method};
use paddock_fences::shared::kernel::has_time_namespace;
use paddock_fences::shared::root_rights;
use paddock_fences::shared::user_namespace::{Line, user_namespace, why_no_user_namespaces};
use paddock_model::{
    Availability, Boundary, Capability, Check, CheckState, Disk, DiskLimit, ForkKind, Guarantees,
    Identity as Kind, Isolation, LandlockLevel, LimitKind, Network, NetworkEnforcement, PauseKind, Root,
    SnapshotKind, Spec, Survivor,
};
use std::path::Path;

/// The remedy for an ordinary user with one host id.
pub const LEND_IDS: &str = "run as root: apt-get install uidmap && usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER";

pub fn guarantees(spec: &Spec) -> Guarantees {
    let hierarchies = cgroups::detect();
    let method = identity::method();
    let mut guarantees = Guarantees {
        backend: "process".into(),
        boundary: Boundary::SharedKernel,
        network: match &spec.network {
            Network::None => NetworkEnforcement::None,
            Network::Gate(_) => NetworkEnforcement::Gate,
            Network::Host => NetworkEnforcement::Host,
        },
        identity: identity::kind(method, spec),
        memory_limit: if hierarchies.limits_memory() { LimitKind::Kernel } else { LimitKind::Watched },
        cpu_limit: if hierarchies.limits_cpu() { LimitKind::Kernel } else { LimitKind::None },
        // Without a cgroup the kernel counts processes per user of the sandbox's own user namespace. A root that may become
        // every user has as many counts as there are ids.
        pids_limit: match spec.root_may_install && !hierarchies.limits_pids() {
            true => LimitKind::None,
            false => LimitKind::Kernel,
        },
        disk_limit: match spec.disk {
            Disk::Memory => DiskLimit::KernelInMemory,
            Disk::Directory { .. } => DiskLimit::Kernel,
        },
        pause: if hierarchies.can_freeze() { PauseKind::KernelFreezer } else { PauseKind::StopSignals },
        snapshot: match spec.disk {
            Disk::Memory => SnapshotKind::FilesystemCopy,
            Disk::Directory { .. } => SnapshotKind::FilesystemInstant,
        },
        fork: match paddock_fences::live_fork::availability::missing() {
            None if spec.live_forks && !root_rights::wants_a_range(spec) => ForkKind::Interpreter,
            _ => ForkKind::Filesystem,
        },
        survives_pause: vec![Survivor::Files, Survivor::Memory, Survivor::Processes, Survivor::Connections],
        survives_hibernate: vec![Survivor::Files],
        seccomp: if has_seccomp() { Isolation::On } else { Isolation::Absent },
        landlock_abi: LandlockLevel(landlock_abi()),
        time_namespace: if has_time_namespace() { Isolation::On } else { Isolation::Absent },
        // The guest says where it cannot make them.
        system_inodes: Isolation::On,
        device_inodes: if super::devices::can_be_own() { Isolation::On } else { Isolation::Absent },
        capabilities: vec![Capability::MadeAhead],
        root_capabilities: root_rights::capabilities(spec),
        become_root: root_rights::becomes_root(spec),
        weaknesses: Vec::new(),
    };
    guarantees.weaknesses = weaknesses(&guarantees);
    // Above an image it never said more than the mounts do.
    if guarantees.fork == ForkKind::Interpreter && spec.root == Root::HostUsr && guarantees.landlock_abi.0 > 0
    {
        guarantees.weaknesses.push(FORKED.into());
    }
    guarantees
}

/// The price of live forks.
const FORKED: &str = "so that its interpreters can be forked, Landlock does not say where the work may write: read-only mounts and \
                      the owners of files do; `live_forks` set to false has both";

pub fn weaknesses(g: &Guarantees) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |holds: bool, text: &str| {
        if holds {
            found.push(text.to_string());
        }
    };
    note(
        g.network == NetworkEnforcement::Host,
        "THE NETWORK IS THE HOST'S: the code inside reaches everything this host reaches, loopback services included",
    );
    note(
        g.memory_limit == LimitKind::Watched,
        "memory is watched every 50 ms, not limited by the kernel: a fast program can pass the limit for a moment, and one that hides memory on purpose (in descriptors under way between processes, or in shared memory that it has unmapped in part) for longer",
    );
    note(g.cpu_limit == LimitKind::None, "processor time is not limited");
    note(
        g.identity == Kind::Caller,
        "the code inside has the caller's host id: namespaces alone separate it from the caller's other processes",
    );
    // Landlock guards a root that the host's kernel serves; behind another kernel it has nothing to do.
    let shared = g.boundary == Boundary::SharedKernel;
    note(shared && g.landlock_abi.0 == 0, "this kernel has no Landlock");
    note(
        !g.root_capabilities.is_empty(),
        "root inside may install packages: it reads and writes every file of the sandbox, gives files away and becomes any of its \
         users, so that users inside are no fence against code that runs as root",
    );
    note(
        !g.root_capabilities.is_empty(),
        "bounds that the kernel counts for each user (watchers of files, queued signals, message queues) hold for all sandboxes \
         together and not for this one: its root can become many users",
    );
    note(
        g.become_root,
        "the user inside becomes root by `sudo`, without a password: code that runs as it has all that root of this sandbox has. Its \
         commands of root show in the timeline under the exec that ran `sudo`, and have no entry of their own",
    );
    note(
        g.device_inodes == Isolation::Absent,
        "devices (/dev/null, /dev/urandom and their like) have the host's own inodes here, since only root of the host can make others: inotify \
         tells the code inside when anybody opens one, and locks on them are shared with the host and with other sandboxes; a server of \
         root has neither",
    );
    note(g.pids_limit == LimitKind::None, "the number of processes is not limited");
    note(g.seccomp == Isolation::Absent, "this kernel cannot filter system calls");
    // A VM has a disk of its own, whose file system holds nothing else.
    note(
        g.disk_limit == DiskLimit::Kernel && !g.can(Capability::DiskImage),
        "`df` tells how full the storage of all sandboxes is, not this one's disk alone; the limit of the disk holds all the same",
    );
    note(
        g.time_namespace == Isolation::Absent,
        "the host's uptime can be seen: this kernel has no time namespaces",
    );
    found
}

fn has_seccomp() -> bool {
    Path::new("/proc/sys/kernel/seccomp/actions_avail").exists()
}

pub fn landlock_abi() -> u32 {
    const VERSION_FLAG: u32 = 1;
    // SAFETY: with a null attribute, size 0 and the version flag the call only answers a number.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0usize,
            VERSION_FLAG,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// Looks closer than a run does: it also tries.
pub fn availability(state: &Path) -> Availability {
    let swept = paddock_fences::shared::slot::sweep_all(state);
    let mut checks = vec![user_namespaces(), ids()];
    checks.extend(limits(cgroups::detect()));
    checks.push(landlock());
    checks.push(seccomp());
    checks.push(time_namespace());
    checks.push(file_system("overlay", "images need overlayfs", "modprobe overlay"));
    checks.push(state_directory(state));
    checks.push(Check {
        name: "leftovers".into(),
        state: CheckState::Good,
        detail: match swept {
            0 => "none".into(),
            count => format!("{count} of engines that were killed, removed now"),
        },
        remedy: None,
    });
    let usable = checks.iter().all(|check| check.state != CheckState::Missing);
    Availability { backend: "process".into(), usable, checks }
}

pub fn check(name: &str, state: CheckState, detail: impl Into<String>, remedy: Option<&str>) -> Check {
    Check { name: name.into(), state, detail: detail.into(), remedy: remedy.map(str::to_string) }
}

/// The check for a backend that stands inside this one's fence.
pub fn around(state: &Path) -> Check {
    let missing = availability(state).checks.into_iter().find(|check| check.state == CheckState::Missing);
    match missing {
        None => check("fence around it", CheckState::Good, "that of the process backend", None),
        Some(lack) => {
            let detail = format!("{}: {}", lack.name, lack.detail);
            check("fence around it", CheckState::Missing, detail, lack.remedy.as_deref())
        }
    }
}

fn user_namespaces() -> Check {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let tried = match identity::method() {
        Method::Range => user_namespace(&[Line(0, uid, 1)], &[Line(0, gid, 1)]).map(drop),
        _ => user_namespace(&[Line(0, uid, 1)], &[]).map(drop),
    };
    match tried {
        Ok(()) => check("user namespaces", CheckState::Good, "can be made", None),
        Err(error) => {
            let (why, remedy) = why_no_user_namespaces();
            check("user namespaces", CheckState::Missing, format!("{error}: {why}"), Some(remedy))
        }
    }
}

fn ids() -> Check {
    match identity::method() {
        Method::Range => check("identities", CheckState::Good, "a range of host ids for each sandbox", None),
        Method::Helpers => check("identities", CheckState::Good, "subordinate ids through newuidmap", None),
        Method::Single => check(
            "identities",
            CheckState::Degraded,
            "one id: sandboxes share the caller's host id",
            Some(LEND_IDS),
        ),
    }
}

fn limits(hierarchies: &Hierarchies) -> Vec<Check> {
    let version = if hierarchies.is_unified() { "cgroup v2" } else { "cgroup v1" };
    let remedy = if Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
        "systemd-run --user --scope -p Delegate=yes paddock ... (or run as root)"
    } else {
        "run as root: cgroup v1 cannot be delegated safely"
    };
    let one = |name: &str, held: bool, otherwise: &str| {
        if held {
            check(name, CheckState::Good, format!("held by the kernel ({version})"), None)
        } else {
            check(name, CheckState::Degraded, otherwise, Some(remedy))
        }
    };
    vec![
        one("memory limit", hierarchies.limits_memory(), "watched by the guest every 50 ms"),
        one("cpu limit", hierarchies.limits_cpu(), "none"),
        if hierarchies.limits_pids() {
            one("process limit", true, "")
        } else {
            check("process limit", CheckState::Good, "held by the kernel (per user namespace)", None)
        },
    ]
}

fn landlock() -> Check {
    match landlock_abi() {
        0 => check(
            "Landlock",
            CheckState::Degraded,
            "absent",
            Some("needs Linux 5.13 or later with `landlock` in the kernel's lsm= list"),
        ),
        abi => check("Landlock", CheckState::Good, format!("ABI {abi}"), None),
    }
}

fn seccomp() -> Check {
    match has_seccomp() {
        true => check("seccomp", CheckState::Good, "filters are available", None),
        false => {
            check("seccomp", CheckState::Missing, "absent", Some("needs a kernel with CONFIG_SECCOMP_FILTER"))
        }
    }
}

fn time_namespace() -> Check {
    match has_time_namespace() {
        true => check("time namespace", CheckState::Good, "available", None),
        false => check("time namespace", CheckState::Degraded, "absent", Some("needs Linux 5.6 or later")),
    }
}

fn file_system(name: &str, need: &str, remedy: &str) -> Check {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let found = known.lines().any(|line| line.split('\t').nth(1) == Some(name));
    match found {
        true => check(name, CheckState::Good, "available", None),
        false => check(
            name,
            CheckState::Degraded,
            format!("not loaded: {need}"),
            Some(&format!("run as root: {remedy}")),
        ),
    }
}

fn state_directory(state: &Path) -> Check {
    match paddock_fences::shared::guest_executable::open(state) {
        Ok(_) => check("state directory", CheckState::Good, state.display().to_string(), None),
        Err(error) => check(
            "state directory",
            CheckState::Missing,
            format!("{}: {error}", state.display()),
            Some("set PADDOCK_STATE_DIR to a directory of yours"),
        ),
    }
}
