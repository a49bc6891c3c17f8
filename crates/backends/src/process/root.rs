//! The root that the sandbox sees: a small one around the host's /usr, or an image.

use super::mounts::image_root;
use super::passed::Passed;
use paddock_fences::error::CreateError;
use paddock_fences::shared::identity::Identity;
use paddock_model::net::place::GATE_4;
use paddock_model::{Network, Root, Spec, User};
use paddock_protocol::{Ids, KernelPlan, NodeKind, RootPlan, Source, Step};
use serde_bytes::ByteBuf;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

pub const HOME: &str = "/home/agent";
pub const WORKSPACE: &str = paddock_model::WORKSPACE_TARGET;
const HOME_OF_E2B: &str = "/home/user";

/// Parts of /etc that the host's programs cannot do without, and that hold no secret.
const HOST_ETC: [&str; 10] = [
    "alternatives",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki/tls/certs",
    "pki/ca-trust/extracted",
    "crypto-policies",
    "matplotlibrc",
];

pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Files about the host that every user can read. Files that only the host's root can read need no cover: no process
/// inside is that root.
const HIDDEN_FILES: [&str; 15] = [
    "/proc/keys",
    "/proc/key-users",
    "/proc/kallsyms",
    "/proc/interrupts",
    "/proc/softirqs",
    "/proc/config.gz",
    "/proc/cmdline",
    "/proc/modules",
    "/proc/diskstats",
    "/proc/partitions",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/latency_stats",
    "/proc/iomem",
    "/proc/ioports",
];
const HIDDEN_DIRECTORIES: [&str; 4] = ["/proc/acpi", "/proc/scsi", "/proc/asound", "/proc/driver"];
const READ_ONLY: [&str; 1] = ["/proc/sys"];

/// Files that only root can read or write. With a kernel of the sandbox's own, root inside is that root.
const HIDDEN_FROM_ROOT: [&str; 9] = [
    "/proc/kcore",
    "/proc/kmsg",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/kpagecgroup",
    "/proc/pagetypeinfo",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/vmallocinfo",
];
/// Not covered by a device: a device can be opened for writing even on a read-only mount.
const READ_ONLY_FOR_ROOT: [&str; 5] =
    ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/mtrr", "/proc/sysrq-trigger"];

/// Root's programs that manage users ask nobody. No program inside gains rights by asking: setuid means nothing there.
const PAM: &str = "auth sufficient pam_rootok.so\nauth required pam_unix.so\naccount required pam_permit.so\n\
                   password required pam_unix.so sha512\nsession required pam_permit.so\n";

pub fn plan(
    spec: &Spec,
    identity: &Identity,
    passed: &mut Passed,
) -> Result<(RootPlan, Vec<Step>), CreateError> {
    let (root, mut steps) = match &spec.root {
        Root::HostUsr => (RootPlan::Empty, host_system()),
        Root::Directory { path, .. } => (image_root(path, spec, identity, passed)?, Vec::new()),
    };
    steps.extend(own_files(spec, identity.ids));
    Ok((root, steps))
}

/// The inside of a sandbox without an image, for a backend that has a directory for it: the host's programs, read-only, and
/// files of the sandbox's own. [`kernel`] comes last.
pub fn inside(spec: &Spec, ids: Ids) -> Vec<Step> {
    let mut steps = host_system();
    steps.extend(own_files(spec, ids));
    steps
}

/// /usr and the links into it, read-only.
pub fn host_system() -> Vec<Step> {
    let bind = |path: &str, kind| Step::Bind {
        source: Source::System(path.into()),
        target: path.into(),
        kind,
        read_only: true,
        allow_exec: true,
    };
    let mut steps = vec![bind("/usr", NodeKind::Directory)];
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = format!("/{name}");
        match std::fs::read_link(&path) {
            Ok(target) => steps.push(Step::Link { path, target: target.display().to_string() }),
            Err(_) if Path::new(&path).is_dir() => steps.push(bind(&path, NodeKind::Directory)),
            Err(_) => {}
        }
    }
    // Debian's JDKs keep their settings in /etc and do not start without them.
    let java = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.rsplit_once('-').map(|(version, _processor)| version.to_string())
    });
    for name in HOST_ETC.iter().map(|n| n.to_string()).chain(java).collect::<BTreeSet<_>>() {
        let path = format!("/etc/{name}");
        if let Ok(found) = std::fs::metadata(&path) {
            let kind = if found.is_dir() { NodeKind::Directory } else { NodeKind::File };
            steps.push(bind(&path, kind));
        }
    }
    steps
}

/// The same with inodes of the sandbox's own, for a sandbox on the host's kernel: the files in /etc become parts of one
/// directory.
pub fn with_own_inodes(steps: Vec<Step>) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for step in steps {
        let Step::Bind { source: Source::System(path), kind, read_only: true, .. } = &step else {
            found.push(step);
            continue;
        };
        let (directory, name) = match path[1..].split_once('/') {
            Some((first, rest)) => (format!("/{first}"), rest.to_string()),
            None => (path.clone(), String::new()),
        };
        let same = |step: &&mut Step| matches!(step, Step::System { path, .. } if *path == directory);
        match found.iter_mut().find(same) {
            Some(Step::System { names, .. }) => names.push((name, *kind)),
            _ => found.push(Step::System {
                source: Source::System(directory.clone()),
                shared: has_mounts_below(&directory),
                over: None,
                path: directory,
                names: vec![(name, *kind)],
            }),
        }
    }
    found
}

/// The kernel makes no overlay over a directory with other mounts below it, as a host with a GPU has for its driver's libraries.
///
/// Read once: a mount that comes later is noticed by the guest, whose overlay is then refused.
fn has_mounts_below(directory: &str) -> bool {
    static MOUNTS: OnceLock<String> = OnceLock::new();
    let table = MOUNTS.get_or_init(|| std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default());
    mounts_below(table, directory)
}

fn mounts_below(table: &str, directory: &str) -> bool {
    let mut places = table.lines().filter_map(|line| line.split(' ').nth(4));
    places.any(|place| place.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/')))
}

/// The own files of the sandbox about users, host name and addresses, in place of the files of the host. The time zone
/// is that of the host; with the network of the host, so are the resolvers.
pub fn own_files(spec: &Spec, ids: Ids) -> Vec<Step> {
    let root = (ids.root, ids.root_group);
    let work = (ids.work, ids.work_group);
    let directory = |path: &str, mode, owner: (u32, u32)| Step::Directory {
        path: path.into(),
        mode,
        uid: owner.0,
        gid: owner.1,
    };
    let file = |path: &str, content: String| Step::File {
        path: path.into(),
        mode: 0o644,
        content: ByteBuf::from(content.into_bytes()),
    };
    let host = spec.hostname.as_str();
    let mut steps = vec![
        directory("/tmp", 0o1777, root),
        directory("/var/tmp", 0o1777, root),
        directory("/run", 0o755, root),
        directory("/root", 0o700, root),
        directory(HOME, 0o755, work),
        directory(WORKSPACE, 0o755, work),
        file("/etc/hostname", format!("{host}\n")),
        file("/etc/hosts", format!("127.0.0.1 localhost {host}\n::1 localhost {host}\n")),
        file("/etc/resolv.conf", resolvers(&spec.network)),
        file("/etc/machine-id", format!("{}\n", random_hex())),
    ];
    if spec.root == Root::HostUsr {
        steps.push(file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n".into()));
        // Programs that were written for E2B name their files by the home directory of its user.
        steps.push(Step::Link { path: HOME_OF_E2B.into(), target: HOME.into() });
        if let Ok(zone) = std::fs::read_link("/etc/localtime") {
            steps.push(Step::Link { path: "/etc/localtime".into(), target: zone.display().to_string() });
        }
        if spec.root_may_install {
            // Without these the host's adduser and chpasswd end half way.
            steps.push(directory("/etc/skel", 0o755, root));
            steps.push(file("/etc/pam.d/other", PAM.into()));
        }
    }
    let (name, home, uid, gid) = match spec.user {
        User::Root | User::Installer => ("root", "/root", 0, 0),
        User::Ids { uid, gid } => ("agent", HOME, uid, gid),
        User::Agent | User::Name(_) => ("agent", HOME, 1000, 1000),
    };
    let passwd_line = format!("{name}:x:{uid}:{gid}:{name}:{home}:/bin/sh");
    let group_line = format!("{name}:x:{gid}:");
    if spec.root == Root::HostUsr {
        let table = |first: &str, line: &str, id: u32| match id {
            0 => format!("{first}\n"),
            _ => format!("{first}\n{line}\n"),
        };
        steps.push(file("/etc/passwd", table("root:x:0:0:root:/root:/bin/bash", &passwd_line, uid)));
        steps.push(file("/etc/group", table("root:x:0:", &group_line, gid)));
    }
    steps.push(Step::User { passwd_line, group_line, uid, gid });
    steps
}

/// Without a network there is no resolver.
fn resolvers(network: &Network) -> String {
    match network {
        Network::None => String::new(),
        Network::Gate(_) => format!("nameserver {GATE_4}\n"),
        Network::Host => std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default(),
    }
}

/// /proc and /dev. The last step of every plan: nothing can be mounted after it.
/// `namespaces`: how many more of each kind there may be below.
pub fn kernel(spec: &Spec, namespaces: u32) -> Step {
    let strings = |names: &[&str]| names.iter().map(|n| n.to_string()).collect::<Vec<_>>();
    let devices =
        DEVICES.iter().map(|name| (name.to_string(), Source::System(format!("/dev/{name}")))).collect();
    Step::Kernel(KernelPlan {
        devices,
        shm_bytes: (spec.limits.memory / 2).max(1 << 20),
        boot_id: boot_id(),
        hide_files: strings(&HIDDEN_FILES),
        hide_directories: strings(&HIDDEN_DIRECTORIES),
        read_only: strings(&READ_ONLY),
        namespaces,
        sudo_door: spec.become_root,
    })
}

/// The same behind a kernel of the sandbox's own, whose root is that of the sandbox.
pub fn own_kernel(spec: &Spec) -> Step {
    let mut step = kernel(spec, 0);
    if let Step::Kernel(plan) = &mut step {
        plan.hide_files.extend(HIDDEN_FROM_ROOT.map(String::from));
        plan.read_only.extend(READ_ONLY_FOR_ROOT.map(String::from));
    }
    step
}

/// The names that a sandbox has by files: the content of /etc/machine-id, and of the kernel's own file of its boot.
pub fn names() -> (String, String) {
    (format!("{}\n", random_hex()), boot_id())
}

fn random_hex() -> String {
    let mut bytes = [0u8; 16];
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn boot_id() -> String {
    let hex = random_hex();
    format!("{}-{}-{}-{}-{}\n", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_below_a_directory_is_told_from_one_beside_it() {
        let table = "30 1 254:0 / / rw - ext4 /dev/vda rw\n\
                     31 30 0:30 / /usr/lib/firmware ro - overlay overlay ro\n\
                     32 30 0:31 / /etcetera rw - tmpfs tmpfs rw\n";
        assert!(mounts_below(table, "/usr"));
        assert!(!mounts_below(table, "/etc"), "the name only begins in the same way");
        assert!(!mounts_below("31 30 0:30 / /usr ro - ext4 /dev/vdb ro\n", "/usr"), "a mount of its own");
    }
}
