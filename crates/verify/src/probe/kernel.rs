//! C: namespaces, sockets, sysctl files, devices, the fence's own layers.

use super::system::{call, check, fact, fork, text, wait};
use crate::attack::{Attack, Finding, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

const USER: i64 = libc::CLONE_NEWUSER as i64;
const MOUNT: i64 = libc::CLONE_NEWNS as i64;
const NET: i64 = libc::CLONE_NEWNET as i64;
const PID: i64 = libc::CLONE_NEWPID as i64;
const UTS: i64 = libc::CLONE_NEWUTS as i64;
const IPC: i64 = libc::CLONE_NEWIPC as i64;
const CGROUP: i64 = libc::CLONE_NEWCGROUP as i64;
const TIME: i64 = 0x80;

/// The call alone: a namespace of the caller's own.
const fn unshares(id: &'static str, flags: i64) -> Attack {
    Attack::number(id, "unshare of a namespace", unshare, flags)
}

const fn clones(id: &'static str, flags: i64) -> Attack {
    Attack::number(id, "clone into a namespace", clone, flags)
}

const fn clones3(id: &'static str, flags: i64) -> Attack {
    Attack::number(id, "clone3 into a namespace", clone3, flags)
}

const fn joins(id: &'static str, path: &'static str) -> Attack {
    Attack::text(id, "setns", setns, path)
}

const fn family(id: &'static str, number: i32) -> Attack {
    Attack::number(id, "a socket of a family that nothing inside needs", socket, number as i64)
}

const fn netlink(id: &'static str, protocol: i32) -> Attack {
    Attack::number(id, "a netlink socket other than ROUTE", netlink_socket, protocol as i64)
}

const fn rewrites(id: &'static str, path: &'static str) -> Attack {
    Attack::text(id, "a kernel setting written with its own value", rewrite, path)
}

const fn device(id: &'static str, path: &'static str) -> Attack {
    Attack::text(id, "a device of the host", open_device, path)
}

pub const ATTACKS: &[Attack] = &[
    unshares("A12-nested-namespaces", USER | MOUNT),
    unshares("C1-unshare-user", USER),
    unshares("C1-unshare-mount", MOUNT),
    unshares("C1-unshare-net", NET),
    unshares("C1-unshare-pid", PID),
    unshares("C1-unshare-uts", UTS),
    unshares("C1-unshare-ipc", IPC),
    unshares("C1-unshare-cgroup", CGROUP),
    unshares("C1-unshare-time", TIME),
    clones("C1-clone-user", USER),
    clones("C1-clone-mount", MOUNT),
    clones("C1-clone-net", NET),
    clones("C1-clone-pid", PID),
    clones("C1-clone-uts", UTS),
    clones("C1-clone-ipc", IPC),
    clones("C1-clone-cgroup", CGROUP),
    clones3("C1-clone3-user", USER),
    clones3("C1-clone3-mount", MOUNT),
    clones3("C1-clone3-net", NET),
    clones3("C1-clone3-pid", PID),
    joins("C2-setns-own-uts", "/proc/self/ns/uts"),
    joins("C2-setns-own-net", "/proc/self/ns/net"),
    joins("C2-setns-own-mount", "/proc/self/ns/mnt"),
    joins("C2-setns-init-net", "/proc/1/ns/net"),
    joins("C2-setns-init-mount", "/proc/1/ns/mnt"),
    joins("C2-setns-init-pid", "/proc/1/ns/pid"),
    Attack::plain("C3-mount-tmpfs", "a new tmpfs", mount_tmpfs),
    Attack::plain("C3-fsopen-tmpfs", "fsopen of a tmpfs", fsopen_tmpfs),
    Attack::plain("C6-own-keyring", "a key in the user keyring", add_key),
    family("C7-alg", libc::AF_ALG),
    family("C7-vsock", libc::AF_VSOCK),
    family("C7-packet", libc::AF_PACKET),
    family("C7-rxrpc", libc::AF_RXRPC),
    family("C7-xdp", libc::AF_XDP),
    family("C7-key", libc::AF_KEY),
    family("C7-tipc", libc::AF_TIPC),
    family("C7-bluetooth", libc::AF_BLUETOOTH),
    family("C7-can", libc::AF_CAN),
    family("C7-nfc", libc::AF_NFC),
    family("C7-ax25", libc::AF_AX25),
    family("C7-x25", libc::AF_X25),
    family("C7-rds", libc::AF_RDS),
    family("C7-kcm", 41),
    family("C7-qipcrtr", 42),
    family("C7-smc", 43),
    Attack::plain("C7-socketpair-alg", "socketpair of a foreign family", socketpair),
    netlink("C8-xfrm", libc::NETLINK_XFRM),
    netlink("C8-netfilter", libc::NETLINK_NETFILTER),
    netlink("C8-audit", libc::NETLINK_AUDIT),
    netlink("C8-uevent", libc::NETLINK_KOBJECT_UEVENT),
    netlink("C8-generic", libc::NETLINK_GENERIC),
    netlink("C8-sock-diag", libc::NETLINK_INET_DIAG),
    netlink("C8-connector", libc::NETLINK_CONNECTOR),
    netlink("C8-crypto", libc::NETLINK_CRYPTO),
    rewrites("C11-core-pattern", "/proc/sys/kernel/core_pattern"),
    rewrites("C11-modprobe", "/proc/sys/kernel/modprobe"),
    rewrites("C11-hostname", "/proc/sys/kernel/hostname"),
    rewrites("C11-randomize", "/proc/sys/kernel/randomize_va_space"),
    rewrites("C11-ip-forward", "/proc/sys/net/ipv4/ip_forward"),
    rewrites("C11-overcommit", "/proc/sys/vm/overcommit_memory"),
    rewrites("C11-panic-on-oom", "/proc/sys/vm/panic_on_oom"),
    Attack::text("C11-sysrq-trigger", "/proc/sysrq-trigger", open_for_write, "/proc/sysrq-trigger"),
    Attack::text("C11-uevent-helper", "uevent_helper", open_for_write, "/sys/kernel/uevent_helper"),
    Attack::text("C11-irq", "an interrupt's affinity", open_for_write, "/proc/irq/default_smp_affinity"),
    Attack::plain("C11-binfmt", "a binary format of one's own", binfmt),
    Attack::plain("C12-cgroup", "a cgroup file system to write", cgroup),
    Attack::plain("C12-cgroup-leave", "leaving the cgroup through cgroup.procs", cgroup_leave),
    Attack::call("C14-personality-exec", libc::SYS_personality, [0x0040_0000, 0, 0, 0, 0, 0]),
    Attack::call("C14-personality-no-random", libc::SYS_personality, [0x0004_0000, 0, 0, 0, 0, 0]),
    Attack::plain("C16-own-filter", "an allow-all filter, then unshare", own_filter),
    Attack::plain("C17-privileges", "any capability, no NNP or no filter", privileges),
    Attack::plain("C18-landlock", "no Landlock domain around the work", landlock),
    device("C19-mem", "/dev/mem"),
    device("C19-port", "/dev/port"),
    device("C19-kvm", "/dev/kvm"),
    device("C19-kmsg", "/dev/kmsg"),
    device("C19-fuse", "/dev/fuse"),
    device("C19-loop-control", "/dev/loop-control"),
    device("C19-loop", "/dev/loop0"),
    device("C19-tun", "/dev/net/tun"),
    device("C19-console", "/dev/tty1"),
    Attack::plain("C19-disk", "the host's own disk", disk),
    Attack::plain("C20-inotify-host", "inotify on a host path", inotify).on_host(),
];

fn unshare(flags: i64) -> Finding {
    Finding::of(call(libc::SYS_unshare, [flags, 0, 0, 0, 0, 0]), "unshare")
}

fn child_or(result: io::Result<i64>, what: &str) -> Finding {
    match result {
        // SAFETY: the child of a raw clone without shared memory is a plain copy.
        Ok(0) => unsafe { libc::_exit(0) },
        Ok(pid) => {
            let _ = wait(pid as i32);
            Finding::new(Outcome::Done, what)
        }
        Err(error) => Finding::of(Err::<(), _>(error), what),
    }
}

fn clone(flags: i64) -> Finding {
    let flags = flags | i64::from(libc::SIGCHLD);
    child_or(call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]), "clone")
}

fn clone3(flags: i64) -> Finding {
    let mut arguments = [0u64; 8];
    arguments[0] = flags as u64;
    arguments[4] = libc::SIGCHLD as u64;
    child_or(call(libc::SYS_clone3, [arguments.as_ptr() as i64, 64, 0, 0, 0, 0]), "clone3")
}

fn setns(path: &'static str) -> Finding {
    match File::open(path) {
        Ok(file) => Finding::of(call(libc::SYS_setns, [i64::from(file.as_raw_fd()), 0, 0, 0, 0, 0]), path),
        Err(error) => Finding::of(Err::<(), _>(error), path),
    }
}

fn mount_tmpfs() -> Finding {
    let (kind, target) = (text("tmpfs"), text(&fact("scratch")));
    let kind = kind.as_ptr() as i64;
    let mounted = call(libc::SYS_mount, [kind, target.as_ptr() as i64, kind, 0, 0, 0]);
    Finding::of(mounted, "mount")
}

fn fsopen_tmpfs() -> Finding {
    let kind = text("tmpfs");
    Finding::of(call(libc::SYS_fsopen, [kind.as_ptr() as i64, 0, 0, 0, 0, 0]), "fsopen")
}

fn add_key() -> Finding {
    let (kind, name) = (text("user"), text("paddock-probe"));
    let (kind, name) = (kind.as_ptr() as i64, name.as_ptr() as i64);
    // -1 is the thread's own keyring, which ends with this process.
    Finding::of(call(libc::SYS_add_key, [kind, name, name, 4, -1, 0]), "add_key")
}

fn open_socket(family: i64, kind: i32, protocol: i64) -> io::Result<i64> {
    call(libc::SYS_socket, [family, i64::from(kind), protocol, 0, 0, 0])
}

/// Each family takes some kind of socket: the first that opens is enough.
fn socket(family: i64) -> Finding {
    let kinds = [libc::SOCK_SEQPACKET, libc::SOCK_STREAM, libc::SOCK_RAW, libc::SOCK_DGRAM];
    let protocols: &[i64] = if family == i64::from(libc::AF_KEY) { &[2] } else { &[0, 1, 2, 10] };
    let mut last = io::Error::from_raw_os_error(libc::EAFNOSUPPORT);
    for kind in kinds {
        for protocol in protocols {
            match open_socket(family, kind, *protocol) {
                Ok(_) => return Finding::new(Outcome::Done, format!("family {family}")),
                Err(error) => last = error,
            }
        }
    }
    Finding::of(Err::<(), _>(last), "socket")
}

fn netlink_socket(protocol: i64) -> Finding {
    Finding::of(open_socket(i64::from(libc::AF_NETLINK), libc::SOCK_RAW, protocol), "netlink")
}

fn socketpair() -> Finding {
    let mut pair = [0i32; 2];
    let (family, kind) = (i64::from(libc::AF_ALG), i64::from(libc::SOCK_SEQPACKET));
    let made = call(libc::SYS_socketpair, [family, kind, 0, pair.as_mut_ptr() as i64, 0, 0]);
    Finding::reached(made, "socketpair")
}

/// Reads the value and writes the same back: shows the right to write, and changes nothing where it is there.
fn rewrite(path: &'static str) -> Finding {
    let mut value = Vec::new();
    if let Err(error) = File::open(path).and_then(|mut file| file.read_to_end(&mut value)) {
        return Finding::of(Err::<(), _>(error), path);
    }
    Finding::of(OpenOptions::new().write(true).open(path).and_then(|mut file| file.write_all(&value)), path)
}

fn open_for_write(path: &'static str) -> Finding {
    Finding::of(OpenOptions::new().write(true).open(path), path)
}

fn open_device(path: &'static str) -> Finding {
    Finding::of(
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path),
        path,
    )
}

/// The first block device that the host's own root stands on, found by the harness.
fn disk() -> Finding {
    let path = fact("disk");
    Finding::of(File::open(&path), &path)
}

fn binfmt() -> Finding {
    let (kind, target) = (text("binfmt_misc"), text("/proc/sys/fs/binfmt_misc"));
    let kind = kind.as_ptr() as i64;
    let _ = call(libc::SYS_mount, [kind, target.as_ptr() as i64, kind, 0, 0, 0]);
    Finding::of(OpenOptions::new().write(true).open("/proc/sys/fs/binfmt_misc/register"), "register")
}

fn cgroup_places() -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let is_cgroup = |line: &&str| line.contains(" - cgroup");
    let mounted = mounts.lines().filter(is_cgroup).filter_map(|line| line.split(' ').nth(4));
    let usual = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"];
    mounted.map(String::from).chain(usual.map(String::from)).collect()
}

fn first_writable(files: &[&str]) -> Finding {
    let mut last = io::Error::from_raw_os_error(libc::ENOENT);
    for (place, file) in cgroup_places().iter().flat_map(|place| files.iter().map(move |file| (place, file)))
    {
        match OpenOptions::new().write(true).open(format!("{place}/{file}")) {
            Ok(_) => return Finding::new(Outcome::Done, format!("{place}/{file}")),
            // A file of the other version of cgroups says nothing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => last = error,
        }
    }
    Finding::of(Err::<(), _>(last), &files.join(" "))
}

/// The file for a cgroup's end in version 1, and the file for the controllers below it in version 2.
fn cgroup() -> Finding {
    first_writable(&["notify_on_release", "cgroup.subtree_control"])
}

fn cgroup_leave() -> Finding {
    first_writable(&["cgroup.procs"])
}

fn own_filter() -> Finding {
    let mut allow = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0x7fff_0000 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut allow };
    // SAFETY: takes no memory.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    // SAFETY: the program and its one instruction outlive the call.
    let installed = check(i64::from(unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program)
    }));
    let note = installed.map_or_else(|error| format!("own filter: {error}"), |_| "own filter on".to_string());
    Finding::of(call(libc::SYS_unshare, [USER, 0, 0, 0, 0, 0]), &format!("{note}; unshare"))
}

fn privileges() -> Finding {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().nth(1).unwrap_or("absent").to_string()
    };
    let mut wrong: Vec<String> = ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:"]
        .into_iter()
        .map(|name| (name, "0000000000000000"))
        .chain([("Seccomp:", "2")])
        .filter(|(name, wanted)| field(name) != *wanted)
        .map(|(name, _)| format!("{name} {}", field(name)))
        .collect();
    // Asked for rather than read: not every kernel's status has these lines.
    // SAFETY: takes no memory.
    if unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } != 1 {
        wrong.push("no_new_privs is off".to_string());
    }
    let ambient = |capability: i32| {
        // SAFETY: takes no memory.
        unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_IS_SET, capability, 0, 0) == 1 }
    };
    wrong.extend((0..64).filter(|number| ambient(*number)).map(|number| format!("ambient {number}")));
    Finding::new(if wrong.is_empty() { Outcome::Denied } else { Outcome::Done }, format!("{wrong:?}"))
}

/// A process can stack 16 Landlock domains: fewer fit on top when one is already there. If the work may not make
/// domains, the domain shows by its scope: process 1 stands outside it and cannot be signalled.
fn landlock() -> Finding {
    const DEPTH: usize = 16;
    let handled = [1u64; 1];
    let ruleset = call(libc::SYS_landlock_create_ruleset, [handled.as_ptr() as i64, 8, 0, 0, 0, 0]);
    let Ok(ruleset) = ruleset else {
        return match call(libc::SYS_kill, [1, 0, 0, 0, 0, 0]) {
            Ok(_) => Finding::new(Outcome::Done, "no rulesets to be made, and process 1 can be signalled"),
            Err(error) => Finding::of(Err::<(), _>(error), "no rulesets to be made; kill(1, 0)"),
        };
    };
    let stacked = fork(|| {
        // SAFETY: takes no memory.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        let fits = (0..=DEPTH)
            .take_while(|_| call(libc::SYS_landlock_restrict_self, [ruleset, 0, 0, 0, 0, 0]).is_ok());
        fits.count() as i32
    });
    match stacked.and_then(wait) {
        Ok(super::system::End::Exited(16)) => Finding::new(Outcome::Done, "16 domains fit: there was none"),
        Ok(super::system::End::Exited(n)) if n > 0 => {
            Finding::new(Outcome::Denied, format!("{n} of 16 domains fit: {} were there", 16 - n))
        }
        _ => Finding::new(Outcome::Error, "could not stack domains"),
    }
}

fn inotify() -> Finding {
    let path = text(&fact("canary_public"));
    match call(libc::SYS_inotify_init1, [0; 6]) {
        Ok(fd) => {
            Finding::of(call(libc::SYS_inotify_add_watch, [fd, path.as_ptr() as i64, 2, 0, 0, 0]), "inotify")
        }
        Err(error) => Finding::of(Err::<(), _>(error), "inotify_init"),
    }
}
