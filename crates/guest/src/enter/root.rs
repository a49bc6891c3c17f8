//! The new root: the private disk, alone or as the upper layer of an overlay. The disk is a file system in memory whose
//! size is the limit, or a directory that the host gave.

use crate::enter::sources::Sources;
use crate::failure::{During, Outcome};
use crate::system::{MountLimits, limit_mount};
use crate::trees::Trees;
use paddock_protocol::{DiskPlan, Plan, RootPlan, Source};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A directory of the host that is sure to exist. The mounts over it are seen by this namespace only, and the host's
/// own /usr was opened before.
const STAGING: &str = "/usr";

/// The root, and the trees that it consists of, which a lasting sandbox keeps. With `place`, the tree that the disk was
/// cloned from is attached there, and may be mounted once more.
pub fn mount(plan: &Plan, sources: &mut Sources, place: Option<&str>) -> Outcome<(OwnedFd, Trees)> {
    if let RootPlan::Mounted { root } = &plan.root {
        let root = sources.take(root)?;
        attach(root.as_fd(), CWD, STAGING).during(|| "mount the root".into())?;
        return Ok((root, Trees::default()));
    }
    let owner = (plan.ids.root, plan.ids.root_group);
    let (disk, lasting) = match &plan.disk {
        DiskPlan::Memory { bytes, inodes } => (new_tmpfs(*bytes, *inodes, 0o755, owner, true)?, false),
        DiskPlan::Mounted(source) => (sources.take(source)?, true),
    };
    attach(disk.as_fd(), CWD, STAGING).during(|| "mount the private disk".into())?;
    let start = plan.start.as_ref().map(|start| sources.take(start)).transpose()?;
    if let (Some(start), Some(place)) = (&start, place) {
        attach(start.as_fd(), CWD, place).during(|| "mount what the disk was cloned from".into())?;
    }
    let (root, image, own) = match &plan.root {
        RootPlan::Overlay { lower } => {
            let lower = sources.take(lower)?;
            (Some(overlay(&disk, &lower, lasting)?), Some(lower), "upper")
        }
        RootPlan::Empty | RootPlan::Mounted { .. } | RootPlan::Built { .. } => (None, None, "."),
    };
    let mut trees = Trees::default();
    // A build's files are taken out of the layer at its end.
    if plan.has_lasting_disk() || plan.install {
        trees.layer = Some(match &plan.disk {
            // The host's file system may be that of its /usr, too: a mount on this disk would not be told from the disk.
            DiskPlan::Mounted(Source::Path { .. }) => open_tree_of(&alone(&disk)?, own)?,
            _ => open_tree_of(&disk, own)?,
        });
        trees.start = start.map(|start| open_tree_of(&start, own)).transpose()?;
        trees.image = image;
    }
    Ok((root.unwrap_or(disk), trees))
}

/// A mount of the tree without the mounts in it: the disk itself is looked at there.
pub fn alone(tree: &OwnedFd) -> Outcome<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(tree, "", flags).during(|| "clone the disk's mount".into())
}

fn open_tree_of(disk: &OwnedFd, name: &str) -> Outcome<OwnedFd> {
    openat(disk, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .during(|| "open the disk's own tree".into())
}

/// Relative names: the inside reads them in its mount table.
///
/// `lasting`: the disk may have been an overlay's before, and may become another's later.
fn overlay(disk: &OwnedFd, lower: &OwnedFd, lasting: bool) -> Outcome<OwnedFd> {
    for name in ["lower", "upper", "work", "root"] {
        match mkdirat(disk, name, Mode::from_raw_mode(0o755)) {
            Err(Errno::EXIST) if lasting => {}
            made => made.during(|| format!("make {name} of the overlay"))?,
        }
    }
    limit_mount(lower.as_fd(), MountLimits::host(true, true)).during(|| "make the image read-only".into())?;
    attach(lower.as_fd(), disk.as_fd(), "lower").during(|| "mount the image".into())?;
    rustix::process::fchdir(disk).during(|| "go to the private disk".into())?;

    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).during(|| "open overlayfs".into())?;
    for (key, value) in [("lowerdir", "lower"), ("upperdir", "upper"), ("workdir", "work")] {
        fsconfig_set_string(&context, key, value).during(|| format!("set {key} of the overlay"))?;
    }
    // In a user namespace the overlay may keep its notes only in user.* attributes.
    fsconfig_set_flag(&context, "userxattr").during(|| "set userxattr of the overlay".into())?;
    if lasting {
        // An index ties an upper layer to one lower for good; a snapshot's copy could not be mounted again.
        fsconfig_set_string(&context, "index", "off").during(|| "set index of the overlay".into())?;
    }
    fsconfig_create(&context).during(|| "make the overlay".into())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let root =
        fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).during(|| "mount the overlay".into())?;
    attach(root.as_fd(), disk.as_fd(), "root").during(|| "attach the overlay".into())?;
    openat(disk, "root", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .during(|| "open the overlay".into())
}

pub fn new_tmpfs(
    bytes: u64,
    inodes: u64,
    mode: u32,
    owner: (u32, u32),
    allow_exec: bool,
) -> Outcome<OwnedFd> {
    let options = [
        ("size", bytes.to_string()),
        ("nr_inodes", inodes.to_string()),
        ("mode", format!("{mode:o}")),
        ("uid", owner.0.to_string()),
        ("gid", owner.1.to_string()),
    ];
    let context = configured("tmpfs", &options)?;
    let exec = if allow_exec { MountAttrFlags::empty() } else { MountAttrFlags::MOUNT_ATTR_NOEXEC };
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV | exec;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).during(|| "mount a tmpfs".into())
}

/// A file system of the kernel's: never executable, with devices only where it consists of them.
pub fn new_filesystem(kind: &str, options: &[(&str, String)], devices: bool) -> Outcome<OwnedFd> {
    let context = configured(kind, options)?;
    let nodev = if devices { MountAttrFlags::empty() } else { MountAttrFlags::MOUNT_ATTR_NODEV };
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC | nodev;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).during(|| format!("mount {kind}"))
}

fn configured(kind: &str, options: &[(&str, String)]) -> Outcome<OwnedFd> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).during(|| format!("open {kind}"))?;
    for (key, value) in options {
        fsconfig_set_string(&context, *key, value.as_str()).during(|| format!("set {key} of {kind}"))?;
    }
    fsconfig_create(&context).during(|| format!("make {kind}"))?;
    Ok(context)
}

pub fn attach(mount: BorrowedFd<'_>, directory: BorrowedFd<'_>, name: &str) -> rustix::io::Result<()> {
    move_mount(mount, "", directory, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

/// Puts `mount` on exactly the node that `target` is, without walking a path again.
pub fn attach_onto(mount: BorrowedFd<'_>, target: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, "", target, "", flags)
}
