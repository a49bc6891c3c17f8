//! Programs and settings of the host, with inodes of the sandbox's own.
//!
//! A file that is mounted from the host has the host's inode. A process that has it can watch it (inotify tells when
//! the host or another sandbox opens it, and by which name) and lock it (flock is seen by all who have it). An overlay
//! that consists of nothing but the host's directory has inodes of its own above the same pages, so neither passes. It
//! costs some 25 microseconds.

use crate::enter::root::attach_onto;
use crate::enter::steps::{clone_of, mount_point, open_inside, own_directory};
use crate::failure::{During, Outcome};
use crate::system::{MountLimits, limit_mount};
use crate::weaken::without;
use paddock_protocol::NodeKind;
use rustix::fs::OFlags;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, unmount,
};
use std::os::fd::{AsFd, OwnedFd};

/// The place of the host's directory for as long as this takes. /dev is mounted on it later.
const PLACE: &str = "/dev";
/// An overlay without an upper layer has two lower ones. This one is empty, and nothing inside ever comes to it: /proc is
/// mounted on it later.
const EMPTY: &str = "/proc";

/// `false` where the inodes are the host's: the kernel has no overlays for us, or other mounts lie below the directory.
/// `shared`: it is known that they will be. `over`: a directory that is laid over it, and the names of its files. Until then its place
/// is `path` itself: something was mounted there in every earlier life of the disk, so that the work cannot have put a link there.
pub fn mount(
    root: &OwnedFd,
    (tree, path): (OwnedFd, &str),
    names: &[(String, NodeKind)],
    shared: bool,
    over: Option<(OwnedFd, &[String])>,
) -> Outcome<bool> {
    let restrict = |tree: &OwnedFd| limit_mount(tree.as_fd(), MountLimits::host(true, true));
    restrict(&tree).during(|| format!("restrict {path}"))?;
    own_directory(root, EMPTY)?;
    let place = own_directory(root, PLACE)?;
    attach_onto(tree.as_fd(), place.as_fd()).during(|| format!("mount the host's {path}"))?;
    rustix::process::fchdir(root).during(|| "go to the new root".into())?;
    if let Some((tree, _)) = &over {
        restrict(tree).during(|| "restrict what is laid over".into())?;
        attach_onto(tree.as_fd(), own_directory(root, path)?.as_fd())
            .during(|| "mount what is laid over".into())?;
    }
    let layers: &[&str] = if over.is_some() { &[EMPTY, path, PLACE] } else { &[EMPTY, PLACE] };
    let own = !shared && !without("own-inodes") && cover(root, layers).is_ok();
    let over = over.map(|(_, files)| lift(root, path, if own { &[] } else { files })).transpose()?;
    for (name, kind) in names {
        let (from, to) = (below(PLACE, name), below(path, name));
        let from = open_inside(root, &from, OFlags::PATH).during(|| format!("open the host's {to}"))?;
        let tree = clone_of(&from)?;
        restrict(&tree).during(|| format!("restrict {to}"))?;
        let place = mount_point(root, &to, *kind)?;
        attach_onto(tree.as_fd(), place.as_fd()).during(|| format!("mount {to}"))?;
    }
    for (to, file) in over.into_iter().flatten() {
        // A read-only directory of the host has a place for it only if the host has such a file.
        let place = mount_point(root, &to, NodeKind::File)?;
        attach_onto(file.as_fd(), place.as_fd()).during(|| format!("mount {to}"))?;
    }
    // Mounts that were made from it stay.
    for _ in 0..1 + usize::from(own) {
        unmount(PLACE.trim_start_matches('/'), UnmountFlags::DETACH)
            .during(|| format!("let go of the host's {path}"))?;
    }
    // A test that takes the layer away is not to be told so.
    Ok(own || without("own-inodes"))
}

/// Takes the directory that was laid over away from its place. The overlay shows its files already; each of `files` is kept for the
/// place of the host's.
fn lift(root: &OwnedFd, path: &str, files: &[String]) -> Outcome<Vec<(String, OwnedFd)>> {
    let mut kept = Vec::new();
    for name in files {
        let file = below(path, name);
        let found = open_inside(root, &file, OFlags::PATH).during(|| format!("open {file}"))?;
        kept.push((file, clone_of(&found)?));
    }
    unmount(path.trim_start_matches('/'), UnmountFlags::DETACH)
        .during(|| "let go of what is laid over".into())?;
    Ok(kept)
}

fn below(directory: &str, name: &str) -> String {
    if name.is_empty() { directory.to_string() } else { format!("{directory}/{name}") }
}

/// Puts the overlay on top of its layers. Precondition: the root is the working directory, because the names that the
/// inside reads in its mount table are relative.
fn cover(root: &OwnedFd, layers: &[&str]) -> rustix::io::Result<()> {
    let context = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // The empty layer is on top, because it answers for the whole when a program asks how full the file system is. So
    // `df` shows the sandbox's own disk and not the host's.
    let layers = layers.iter().map(|path| path.trim_start_matches('/')).collect::<Vec<_>>().join(":");
    fsconfig_set_string(&context, "lowerdir", layers.as_str())?;
    fsconfig_set_flag(&context, "userxattr")?;
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV;
    let overlay = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let place = open_inside(root, PLACE, OFlags::PATH | OFlags::DIRECTORY)?;
    attach_onto(overlay.as_fd(), place.as_fd())
}
