//! A VM's first process prepares these once it has its orders: the host's shared directories, the disks, and the limits
//! that the VM's own kernel holds. The guest gets them as descriptors, as a backend gives them on the host.

use super::boot::{make, put};
use crate::failure::{During, Failure, Outcome};
use paddock_protocol::{HANDED_OVER, VM_SHARE, VM_SHARE_TAG, VM_SYSTEM, VM_SYSTEM_TAG, VmOrders};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount_bind, open_tree};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with, socketpair,
};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

const IMAGE_DEVICE: &str = "/dev/vda";
const DISK_DEVICE: &str = "/dev/vdb";
const GROUP: &str = "/sys/fs/cgroup/work";
/// Below the root of the disk, whose own has a directory of the file system's.
const TREE: &str = "/disk/tree";
/// Each request of a shared file system takes a trip out of the VM.
const SHARE_OPTIONS: &str = "trans=virtio,version=9p2000.L,msize=262144,cache=none";
/// The host's system does not change meanwhile, so the data that was read is cached.
const SYSTEM_OPTIONS: &str = "trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro";
/// The socket of the VM's init, in a network namespace that no work is in.
const DOOR: &[u8] = b"paddock-vm-init";

/// The descriptors of the plan, in the places that [`VmOrders`] names; the entrance of the cgroup comes first.
pub struct Prepared {
    pub descriptors: Vec<OwnedFd>,
    /// The socket over which the guest hands over the network link.
    pub handover: OwnedFd,
}

pub fn prepare(orders: &VmOrders) -> Outcome<Prepared> {
    if !orders.system.is_empty() {
        take_system(&orders.system)?;
    }
    if orders.share {
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        put(VM_SHARE_TAG, "9p", VM_SHARE, flags, SHARE_OPTIONS)?;
    }
    forget_blocks(DISK_DEVICE)?;
    put(DISK_DEVICE, "ext4", "/disk", MountFlags::NOSUID | MountFlags::NODEV, "discard")?;
    make(TREE.trim_start_matches('/'))?;
    let entrance = limit(orders)?;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .during(|| "make a socket pair".into())?;
    let mut descriptors = vec![entrance, tree(TREE)?, events()?, door()?, theirs];
    if orders.image {
        let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
        put(IMAGE_DEVICE, "ext4", "/image", flags, "")?;
        descriptors.push(tree("/image")?);
    }
    Ok(Prepared { descriptors, handover: ours })
}

/// Another host's connection to the guest.
pub fn connect() -> Outcome<OwnedFd> {
    let connect = || -> rustix::io::Result<OwnedFd> {
        let stream = stream()?;
        rustix::net::connect(&stream, &SocketAddrUnix::new_abstract_name(DOOR)?)?;
        Ok(stream)
    };
    connect().during(|| "reach the guest".into())
}

/// The link and the proxy's socket, as the guest hands them over in a sandbox with network rules.
///
/// Precondition: the guest hands them over, or has ended.
pub fn handed_over(socket: &OwnedFd) -> Outcome<(OwnedFd, OwnedFd)> {
    let (mut byte, mut handed) = ([0], Vec::new());
    crate::system::receive_with_descriptors(socket, &mut byte, &mut handed)
        .during(|| "wait for the link".into())?;
    match (handed.pop(), handed.pop()) {
        (Some(proxy), Some(link)) if byte == [HANDED_OVER] => Ok((link, proxy)),
        _ => Err(Failure { step: "the guest made no link".into(), errno: Errno::PROTO }),
    }
}

/// Writes all data to the disk, so that it can be looked at from outside.
pub fn flush_disk() {
    let Ok(disk) = openat(CWD, "/disk", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        return;
    };
    let _ = rustix::fs::syncfs(&disk);
}

/// Parts of the host's system, each under its own name.
fn take_system(parts: &[String]) -> Outcome<()> {
    make(VM_SYSTEM.trim_start_matches('/'))?;
    put(VM_SYSTEM_TAG, "9p", VM_SYSTEM, MountFlags::NOSUID | MountFlags::NODEV, SYSTEM_OPTIONS)?;
    for path in parts {
        let from = format!("{VM_SYSTEM}{path}");
        let found = std::fs::metadata(&from).during(|| format!("look at {from}"))?;
        let place = Path::new(path);
        let made = match (found.is_dir(), place.parent()) {
            (true, _) => std::fs::create_dir_all(place),
            (false, Some(parent)) => {
                std::fs::create_dir_all(parent).and_then(|()| std::fs::File::create(place).map(drop))
            }
            (false, None) => Ok(()),
        };
        made.during(|| format!("make {path}"))?;
        mount_bind(from.as_str(), place).during(|| format!("mount {path}"))?;
    }
    Ok(())
}

/// A VM whose memory was kept may have cached blocks of another disk.
fn forget_blocks(device: &str) -> Outcome<()> {
    const FLUSH: libc::Ioctl = 0x1261;
    let opened = openat(CWD, device, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .during(|| format!("open {device}"))?;
    // SAFETY: takes no argument, on a descriptor that lives across the call.
    match unsafe { libc::ioctl(opened.as_raw_fd(), FLUSH, 0) } {
        0 => Ok(()),
        _ => Err(crate::work::last_errno()).during(|| format!("forget blocks of {device}")),
    }
}

fn limit(orders: &VmOrders) -> Outcome<OwnedFd> {
    let write = |path: String, value: String| std::fs::write(&path, value).during(|| format!("write {path}"));
    write("/sys/fs/cgroup/cgroup.subtree_control".into(), "+memory +pids".into())?;
    match std::fs::create_dir(GROUP) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(error).during(|| format!("make {GROUP}"));
        }
        _ => {}
    }
    write(format!("{GROUP}/memory.max"), orders.memory.to_string())?;
    write(format!("{GROUP}/memory.oom.group"), "1".into())?;
    write(format!("{GROUP}/pids.max"), orders.pids.to_string())?;
    let path = format!("{GROUP}/cgroup.procs");
    openat(CWD, path.as_str(), OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
        .during(|| format!("open {path}"))
}

fn events() -> Outcome<OwnedFd> {
    let path = format!("{GROUP}/memory.events");
    openat(CWD, path.as_str(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .during(|| format!("open {path}"))
}

fn tree(path: &str) -> Outcome<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(CWD, path, flags).during(|| format!("open {path}"))
}

fn door() -> Outcome<OwnedFd> {
    let open = || -> rustix::io::Result<OwnedFd> {
        let socket = stream()?;
        bind(&socket, &SocketAddrUnix::new_abstract_name(DOOR)?)?;
        listen(&socket, 16)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    };
    open().map_err(|errno| Failure { step: "listen for the next host".into(), errno })
}

fn stream() -> Result<OwnedFd, Errno> {
    socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}
