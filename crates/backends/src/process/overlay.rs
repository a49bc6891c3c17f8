//! The root over an image, made by the engine for kernels whose memory file system has no `user.*` attributes
//! (before Linux 6.6). An overlay notes in an attribute that a directory was replaced: without one, a directory
//! of the image cannot be removed (EIO). `trusted.*` works everywhere, but only for the host's root.

use rustix::fs::{CWD, Mode, XattrFlags, fsetxattr, mkdirat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount_change, move_mount,
};
use std::io::{Error, Result};
use std::os::fd::OwnedFd;

/// A directory that is sure to exist: the mounts there are seen by one thread only.
const STAGING: &str = "/usr";

pub struct Disk {
    pub bytes: u64,
    pub inodes: u64,
    /// The host ids of the sandbox's root.
    pub owner: (u32, u32),
}

/// True if a guest can make its overlay by itself.
pub fn guests_can() -> Result<bool> {
    let probe = memory(&[("size", "4096".into())])?;
    Ok(fsetxattr(&probe, "user.overlay.opaque", b"0", XattrFlags::empty()).is_ok())
}

/// A detached mount: `lower`, never written, below a private layer.
pub fn mount(lower: OwnedFd, disk: Disk) -> Result<OwnedFd> {
    // A mount namespace belongs to a thread: this one's goes when it ends, and the overlay keeps its layers.
    let made = std::thread::spawn(move || in_own_namespace(&lower, &disk)).join();
    made.unwrap_or_else(|_| Err(Error::other("the thread that makes the overlay panicked")))
}

fn in_own_namespace(lower: &OwnedFd, disk: &Disk) -> Result<OwnedFd> {
    use rustix::thread::{UnshareFlags, unshare_unsafe};
    // SAFETY: this thread is new and ends here; nobody else relies on its namespaces or its directory.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS) }?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;

    let (uid, gid) = disk.owner;
    let layers = memory(&[
        ("size", disk.bytes.to_string()),
        ("nr_inodes", disk.inodes.to_string()),
        ("mode", "755".into()),
        ("uid", uid.to_string()),
        ("gid", gid.to_string()),
    ])?;
    move_mount(&layers, "", CWD, STAGING, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    for name in ["lower", "upper", "work"] {
        mkdirat(&layers, name, Mode::from_raw_mode(0o755))?;
    }
    std::os::unix::fs::chown(format!("{STAGING}/upper"), Some(uid), Some(gid))?;
    move_mount(lower, "", &layers, "lower", MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;

    // Relative names: the inside reads them in its mount table.
    rustix::process::fchdir(&layers)?;
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")] {
        fsconfig_set_string(&context, key, value)?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, private())?)
}

fn memory(options: &[(&str, String)]) -> Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, value.as_str())?;
    }
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, private())?)
}

fn private() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV
}
