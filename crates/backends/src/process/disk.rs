//! The private disk: memory, or a directory of the engine's storage.
//!
//! In the storage all disks have the same owners, a neutral range that no sandbox runs with: so a copy of a disk
//! serves a sandbox in any slot. The mount translates them to the slot's range.

use super::mounts::{inodes, map_ids, node_kind, open_exactly};
use super::passed::Passed;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::shared::identity::{Identity, NEUTRAL_ID};
use paddock_fences::shared::user_namespace::{Line, user_namespace_to};
use paddock_model::{Disk, Spec};
use paddock_protocol::{DiskPlan, NodeKind, Source};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The disk, and the tree that it was cloned from.
pub fn plan(
    spec: &Spec,
    identity: &Identity,
    translation: Option<OwnedFd>,
    passed: &mut Passed,
) -> Result<(DiskPlan, Option<Source>), CreateError> {
    let (path, start) = match &spec.disk {
        Disk::Memory => {
            return Ok((DiskPlan::Memory { bytes: spec.limits.disk, inodes: inodes(spec) }, None));
        }
        Disk::Directory { path, start } => (path, start),
    };
    let namespace = translation.map_or_else(|| neutral(path, identity), Ok)?;
    let disk = DiskPlan::Mounted(passed.add(mounted(path, &namespace, 0)?)?);
    let start =
        start.as_ref().map(|start| mounted(start, &namespace, libc::MOUNT_ATTR_RDONLY)).transpose()?;
    Ok((disk, start.map(|start| passed.add(start)).transpose()?))
}

/// The user namespace that [`plan`] needs where the disk is in storage. It takes a moment, and does not depend on the
/// disk.
pub fn translation(spec: &Spec, identity: &Identity) -> Result<Option<OwnedFd>, CreateError> {
    match &spec.disk {
        Disk::Memory => Ok(None),
        Disk::Directory { path, .. } => neutral(path, identity).map(Some),
    }
}

/// A namespace that translates the neutral ids to the sandbox's.
fn neutral(path: &Path, identity: &Identity) -> Result<OwnedFd, CreateError> {
    let Some((users, groups)) = identity.whole_range() else {
        return Err(CreateError::Mount {
            path: path.display().to_string(),
            reason: "only root can give a sandbox a disk in storage; an ordinary user's is in memory".into(),
        });
    };
    let line = |line: Line| [Line(NEUTRAL_ID + line.0, line.1, line.2)];
    user_namespace_to("make a user namespace for the disk", &line(users), &line(groups))
}

/// A detached mount on which the neutral ids appear as the sandbox's.
fn mounted(path: &Path, namespace: &OwnedFd, attributes: u64) -> Result<OwnedFd, CreateError> {
    let refuse =
        |reason: &str| CreateError::Mount { path: path.display().to_string(), reason: reason.into() };
    let (file, found) = open_exactly(path)?;
    if node_kind(path, &found)? != NodeKind::Directory {
        return Err(refuse("a disk is a directory"));
    }
    if (found.st_uid, found.st_gid) != (NEUTRAL_ID, NEUTRAL_ID) {
        return Err(refuse("it is not a disk of the engine's storage: its owner is another"));
    }
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    let tree = open_tree(&file, "", flags).host(|| format!("clone the mount of {}", path.display()))?;
    let attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV | attributes;
    map_ids(&tree, namespace, attributes, path)?;
    Ok(tree)
}
