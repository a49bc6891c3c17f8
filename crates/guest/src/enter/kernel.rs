//! /dev and /proc of the sandbox's own, with the usual masks of a container runtime.

use crate::enter::root::{attach, attach_onto, new_filesystem, new_tmpfs};
use crate::enter::sources::Sources;
use crate::enter::steps::{clone_of, open_inside, own_directory, pin, write};
use crate::failure::{During, Failure, Outcome};
use crate::system::{MountLimits, limit_mount};
use crate::weaken::without;
use paddock_protocol::{Ids, KernelPlan, SUDO_DOOR};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, chmodat, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use std::os::fd::{AsFd, OwnedFd};

/// Terminals of one sandbox: the host has a few thousand for all.
const TERMINALS: u32 = 256;
/// inotify instances. The kernel also counts them for the user that made the sandbox, who has 128 on most hosts.
const WATCHERS: u64 = 32;

/// Callers of `sudo` for whom the guest had no time yet.
const WAITING_CALLERS: i32 = 64;

/// Room for the entries of /dev other than /dev/shm.
const DEV_BYTES: u64 = 1 << 20;
const DEV_INODES: u64 = 256;

/// Directories of one file system in memory.
struct InMemory {
    dev: OwnedFd,
    shm: OwnedFd,
    /// Hides other directories.
    empty: OwnedFd,
}

/// The socket by which the ordinary user becomes root, where the plan wants one.
pub fn mount(root: &OwnedFd, plan: &KernelPlan, ids: Ids, sources: &mut Sources) -> Outcome<Option<OwnedFd>> {
    let InMemory { dev, shm, empty } = in_memory(root, plan, ids)?;
    mount_devices(root, plan, &dev, &shm, sources)?;
    mount_proc(root, &dev, &empty, plan)?;
    let door = plan.sudo_door.then(|| open_sudo_door(&dev)).transpose()?;
    // Nothing is added after this: the tmpfs becomes read-only, the mounts on it do not.
    let limits = MountLimits { read_only: true, no_exec: true, no_devices: true, recursive: false };
    limit_mount(dev.as_fd(), limits).during(|| "make /dev read-only".into())?;
    Ok(door)
}

/// Every user may connect; the guest looks at who it is.
fn open_sudo_door(dev: &OwnedFd) -> Outcome<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
    let name = SUDO_DOOR.trim_start_matches("/dev/");
    let open = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::process::fchdir(dev)?;
        bind(&socket, &SocketAddrUnix::new(name)?)?;
        chmodat(dev, name, Mode::from_raw_mode(0o666), AtFlags::empty())?;
        listen(&socket, WAITING_CALLERS)?;
        Ok(socket)
    };
    open().during(|| format!("open {SUDO_DOOR}"))
}

/// One file system for all three. The kernel keeps 16 bytes for every pair of a file system and a memory cgroup on the host, so with
/// 10,000 sandboxes each further file system of each costs 160 KB of every other one.
fn in_memory(root: &OwnedFd, plan: &KernelPlan, ids: Ids) -> Outcome<InMemory> {
    let place = own_directory(root, "/dev")?;
    let (bytes, inodes) = (plan.shm_bytes + DEV_BYTES, plan.shm_bytes / 4096 + DEV_INODES);
    let whole = new_tmpfs(bytes, inodes, 0o755, (ids.root, ids.root_group), false)?;
    // A directory can be mounted elsewhere only while its file system is mounted somewhere.
    attach_onto(whole.as_fd(), place.as_fd()).during(|| "mount memory for /dev".into())?;
    let part = |name: &str, mode: u32| -> Outcome<OwnedFd> {
        let mode = Mode::from_raw_mode(mode);
        mkdirat(&whole, name, mode).during(|| format!("make the directory {name}"))?;
        chmodat(&whole, name, mode, AtFlags::empty()).during(|| format!("set the mode of {name}"))?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&whole, name, flags, Mode::empty()).during(|| format!("open {name}"))?;
        clone_of(&directory)
    };
    let parts =
        InMemory { dev: part("dev", 0o755)?, shm: part("shm", 0o1777)?, empty: part("empty", 0o555)? };
    rustix::process::fchdir(root).during(|| "go to the new root".into())?;
    unmount("dev", UnmountFlags::DETACH).during(|| "let go of the memory for /dev".into())?;
    Ok(parts)
}

/// Device nodes cannot be made in a user namespace, so the host's harmless ones are bound, each checked to
/// be the device it should be (a runtime once bound an attacker's file for /dev/null).
fn mount_devices(
    root: &OwnedFd,
    plan: &KernelPlan,
    dev: &OwnedFd,
    shm: &OwnedFd,
    sources: &mut Sources,
) -> Outcome<()> {
    let place = own_directory(root, "/dev")?;
    attach_onto(dev.as_fd(), place.as_fd()).during(|| "mount /dev".into())?;
    for (name, source) in &plan.devices {
        let tree = sources.take(source)?;
        check_device(name, &tree)?;
        let limits = MountLimits { read_only: false, no_exec: true, no_devices: false, recursive: false };
        limit_mount(tree.as_fd(), limits).during(|| format!("limit /dev/{name}"))?;
        write(dev, name, 0o666, b"").during(|| format!("make /dev/{name}"))?;
        attach(tree.as_fd(), dev.as_fd(), name).during(|| format!("mount /dev/{name}"))?;
    }
    let links = [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ];
    for (name, target) in links {
        symlinkat(target, dev, name).during(|| format!("link /dev/{name}"))?;
    }
    for name in ["pts", "shm"] {
        mkdirat(dev, name, Mode::from_raw_mode(0o755)).during(|| format!("make /dev/{name}"))?;
    }
    let most = if without("shared-bounds") { 1 << 16 } else { TERMINALS };
    let terminals = [("ptmxmode", "0666".into()), ("mode", "0620".into()), ("max", most.to_string())];
    let pts = new_filesystem("devpts", &terminals, true)?;
    attach(pts.as_fd(), dev.as_fd(), "pts").during(|| "mount /dev/pts".into())?;
    attach(shm.as_fd(), dev.as_fd(), "shm").during(|| "mount /dev/shm".into())
}

/// The Linux device numbers of the devices that a program may expect.
pub fn check_device(name: &str, tree: &OwnedFd) -> Outcome<()> {
    let expected = match name {
        "null" => (1, 3),
        "zero" => (1, 5),
        "full" => (1, 7),
        "random" => (1, 8),
        "urandom" => (1, 9),
        "tty" => (5, 0),
        // Only in a fence with a VM in it.
        "kvm" => (10, 232),
        _ => (0, 0),
    };
    let found = rustix::fs::fstat(tree).during(|| format!("look at /dev/{name}"))?;
    let numbers = (rustix::fs::major(found.st_rdev), rustix::fs::minor(found.st_rdev));
    let character = FileType::from_raw_mode(found.st_mode) == FileType::CharacterDevice;
    if character && numbers == expected {
        return Ok(());
    }
    Err(Failure {
        step: format!("/dev/{name} of the host is not the device it should be"),
        errno: Errno::NODEV,
    })
}

fn mount_proc(root: &OwnedFd, dev: &OwnedFd, empty: &OwnedFd, plan: &KernelPlan) -> Outcome<()> {
    let place = own_directory(root, "/proc")?;
    // A process sees only processes that it could trace: PID 1 is hidden even from a root inside.
    let hidden = if without("hidden-processes") { "off" } else { "ptraceable" };
    let proc = new_filesystem("proc", &[("hidepid", hidden.into())], false)?;
    attach_onto(proc.as_fd(), place.as_fd()).during(|| "mount /proc".into())?;

    // A second lock on a door that seccomp already keeps shut. Not every kernel has each of them.
    let mut bounds: Vec<(OwnedFd, u64)> = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .iter()
        .filter_map(|kind| Some((bound(root, &format!("{kind}_namespaces"))?, plan.namespaces.into())))
        .collect();
    // Sandboxes that nest in a zygote's count there too, so they have bounds and the zygote's has none.
    if plan.namespaces == 0 && !without("shared-bounds") {
        let watches = quarter_of_all_watches(root);
        bounds.extend(bound(root, "inotify_instances").map(|file| (file, WATCHERS)));
        bounds.extend(bound(root, "inotify_watches").zip(watches));
    }
    // The file lives on /dev's tmpfs only until it is mounted where it belongs.
    write(dev, "boot_id", 0o444, plan.boot_id.as_bytes()).during(|| "write the boot id".into())?;
    let open = |path| open_inside(root, path, OFlags::PATH).during(|| format!("open {path}"));
    cover_with(root, "/proc/sys/kernel/random/boot_id", &open("/dev/boot_id")?)?;
    unlinkat(dev, "boot_id", AtFlags::empty()).during(|| "unlink the boot id".into())?;

    let null = open("/dev/null")?;
    hide_all(root, &proc, &plan.hide_files, |path| cover_with(root, path, &null))?;
    hide_all(root, &proc, &plan.hide_directories, |path| cover_with_nothing(root, path, empty))?;
    for path in &plan.read_only {
        if existing(root, path)?.is_some() {
            pin(root, path, true)?;
        }
    }
    // Last: even a detached mount needs a mount namespace.
    for (file, most) in bounds {
        let _ = rustix::io::write(&file, most.to_string().as_bytes());
    }
    Ok(())
}

/// How many of something this user namespace may have.
fn bound(root: &OwnedFd, what: &str) -> Option<OwnedFd> {
    open_inside(root, &format!("/proc/sys/user/max_{what}"), OFlags::WRONLY).ok()
}

/// A quarter of the inotify watches that a user of this host has.
fn quarter_of_all_watches(root: &OwnedFd) -> Option<u64> {
    let file = open_inside(root, "/proc/sys/fs/inotify/max_user_watches", OFlags::RDONLY).ok()?;
    let mut digits = [0u8; 20];
    let length = rustix::io::read(&file, &mut digits).ok()?;
    let all: u64 = std::str::from_utf8(digits.get(..length)?).ok()?.trim().parse().ok()?;
    Some((all / 4).max(1))
}

/// Covers the first of `paths` that this kernel has, and the others with copies of that cover, which have its limits.
fn hide_all(
    root: &OwnedFd,
    proc: &OwnedFd,
    paths: &[String],
    cover_first: impl Fn(&str) -> Outcome<bool>,
) -> Outcome<()> {
    let mut paths = paths.iter();
    let mut first = None;
    for path in paths.by_ref() {
        if cover_first(path)? {
            first = Some(open_inside(root, path, OFlags::PATH).during(|| format!("open {path}"))?);
            break;
        }
    }
    let Some(first) = first else { return Ok(()) };
    let mut cover = None;
    for path in paths {
        let copy = match cover.take() {
            Some(unused) => unused,
            None => clone_of(&first)?,
        };
        // By name: there are no links in this part of /proc, and none would be followed at the end.
        match attach(copy.as_fd(), proc.as_fd(), path.trim_start_matches("/proc/")) {
            Ok(()) => {}
            Err(Errno::NOENT) => cover = Some(copy),
            Err(errno) => return Err(Failure { step: format!("hide {path}"), errno }),
        }
    }
    Ok(())
}

/// Mounts a read-only view of `source` on `path`, where this kernel has `path`.
fn cover_with(root: &OwnedFd, path: &str, source: &OwnedFd) -> Outcome<bool> {
    let Some(place) = existing(root, path)? else { return Ok(false) };
    let cover = clone_of(source)?;
    let limits = MountLimits { read_only: true, no_exec: true, no_devices: false, recursive: false };
    limit_mount(cover.as_fd(), limits).during(|| format!("limit the cover of {path}"))?;
    attach_onto(cover.as_fd(), place.as_fd()).during(|| format!("hide {path}"))?;
    Ok(true)
}

/// Mounts an empty, read-only directory on `path`, where this kernel has `path`.
///
/// Precondition: `empty` is attached nowhere yet.
fn cover_with_nothing(root: &OwnedFd, path: &str, empty: &OwnedFd) -> Outcome<bool> {
    let Some(place) = existing(root, path)? else { return Ok(false) };
    let limits = MountLimits { read_only: true, no_exec: true, no_devices: true, recursive: false };
    limit_mount(empty.as_fd(), limits).during(|| format!("limit the cover of {path}"))?;
    attach_onto(empty.as_fd(), place.as_fd()).during(|| format!("hide {path}"))?;
    Ok(true)
}

fn existing(root: &OwnedFd, path: &str) -> Outcome<Option<OwnedFd>> {
    match open_inside(root, path, OFlags::PATH) {
        Ok(place) => Ok(Some(place)),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(Failure { step: format!("open {path}"), errno }),
    }
}
