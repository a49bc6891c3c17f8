//! The host's files that go inside, opened so that none can be swapped between the look and the mount.

use super::overlay;
use super::passed::Passed;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::shared::identity::{Identity, NEUTRAL_ID};
use paddock_fences::shared::user_namespace::{Line, user_namespace_to};
use paddock_model::{Access, Disk, Mount, Spec, User};
use paddock_protocol::{NodeKind, RootPlan, Source, Step};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::io::Error;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// Opens exactly the file that `path` names; a link anywhere in it means that it was changed since it was resolved.
pub fn open_exactly(path: &Path) -> Result<(OwnedFd, Stat), CreateError> {
    let refuse = |reason: String| CreateError::Mount { path: path.display().to_string(), reason };
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = openat2(CWD, path, flags, Mode::empty(), resolve).map_err(|errno| match errno {
        rustix::io::Errno::LOOP => refuse("it became a symbolic link meanwhile".into()),
        errno => refuse(Error::from(errno).to_string()),
    })?;
    let found = fstat(&file).host(|| format!("look at {}", path.display()))?;
    Ok((file, found))
}

pub fn node_kind(path: &Path, found: &Stat) -> Result<NodeKind, CreateError> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => Ok(NodeKind::Directory),
        FileType::RegularFile => Ok(NodeKind::File),
        _ => Err(CreateError::Mount {
            path: path.display().to_string(),
            reason: "only files and directories can be mounted, not sockets, devices or pipes".into(),
        }),
    }
}

/// As root: a detached mount on which the file's owner appears as the work's user, and every other owner as `nobody`.
/// As an ordinary user: the path, to be opened by the guest with the same rights.
pub fn user_source(
    path: &Path,
    identity: &Identity,
    passed: &mut Passed,
) -> Result<(Source, NodeKind), CreateError> {
    let (file, found) = open_exactly(path)?;
    let kind = node_kind(path, &found)?;
    if !rustix::process::geteuid().is_root() || identity.ids.single {
        let path = path.to_str().ok_or_else(|| CreateError::Mount {
            path: path.display().to_string(),
            reason: "its name is not UTF-8".into(),
        })?;
        return Ok((Source::Path { path: path.into(), device: found.st_dev, inode: found.st_ino }, kind));
    }
    let mut users = vec![Line(found.st_uid, identity.work_host.0, 1)];
    let mut groups = vec![Line(found.st_gid, identity.work_host.1, 1)];
    if passed.made_by_root {
        // For a moment a new file has an owner id that no user has.
        let root = identity.root_host();
        if root.0 != identity.work_host.0 {
            users.push(Line(NEUTRAL_ID, root.0, 1));
        }
        if root.1 != identity.work_host.1 {
            groups.push(Line(NEUTRAL_ID, root.1, 1));
        }
    }
    let tree = detached(&file, path)?;
    let namespace = user_namespace_to("make a user namespace for a mount", &users, &groups)?;
    map_ids(&tree, &namespace, 0, path)?;
    Ok((passed.add(tree)?, kind))
}

/// Where file systems of the kernel are mounted, for every kind of kernel. A link there would let an image say where
/// they go.
const OF_THE_KERNEL: [&str; 3] = ["dev", "proc", "sys"];

fn refuse_links(image: &Path) -> Result<(), CreateError> {
    for name in OF_THE_KERNEL {
        if std::fs::symlink_metadata(image.join(name)).is_ok_and(|found| !found.is_dir()) {
            return Err(CreateError::Mount {
                path: image.display().to_string(),
                reason: format!(
                    "its /{name} is no directory, but a link or a file; such an image is refused: make /{name} a directory, or \
                     leave it out"
                ),
            });
        }
    }
    Ok(())
}

/// The root file system of an image, its ids shifted into the sandbox's range, under a private layer.
pub fn image_root(
    path: &Path,
    spec: &Spec,
    identity: &Identity,
    passed: &mut Passed,
) -> Result<RootPlan, CreateError> {
    let (file, found) = open_exactly(path)?;
    if node_kind(path, &found)? != NodeKind::Directory {
        return Err(CreateError::Mount {
            path: path.display().to_string(),
            reason: "an image is a directory".into(),
        });
    }
    refuse_links(path)?;
    let caller = rustix::process::geteuid();
    if !caller.is_root() || identity.ids.single {
        // Our own files go to its /etc, and no mapping makes another user's directory writable.
        let etc = std::fs::metadata(path.join("etc"))
            .map_or(found.st_uid, |etc| std::os::unix::fs::MetadataExt::uid(&etc));
        if found.st_uid != caller.as_raw() || etc != caller.as_raw() {
            return Err(CreateError::Mount {
                path: path.display().to_string(),
                reason:
                    "as an ordinary user, an image directory and all in it has to be yours; pack it with \
                         `tar -C DIR -cf image.tar .` and give the archive, or run paddock as root"
                        .into(),
            });
        }
        return user_source(path, identity, passed).map(|(lower, _)| RootPlan::Overlay { lower });
    }
    let tree = detached(&file, path)?;
    let namespace = identity.own_namespace()?;
    map_ids(&tree, &namespace, 0, path)?;
    let in_memory = spec.disk == Disk::Memory;
    // The files that a build writes are read from the layer itself, and only an overlay of the guest's own has such a
    // layer.
    let own_overlay = spec.user == User::Installer;
    if !in_memory || own_overlay || overlay::guests_can().host(|| "look at the memory file system".into())? {
        return Ok(RootPlan::Overlay { lower: passed.add(tree)? });
    }
    let disk = overlay::Disk { bytes: spec.limits.disk, inodes: inodes(spec), owner: identity.root_host() };
    let root = overlay::mount(tree, disk).host(|| "make the overlay".into())?;
    Ok(RootPlan::Mounted { root: passed.add(root)? })
}

fn detached(file: &OwnedFd, path: &Path) -> Result<OwnedFd, CreateError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(file, "", flags).host(|| format!("clone the mount of {}", path.display()))
}

/// `more` are further attributes of the mount.
pub fn map_ids(tree: &OwnedFd, namespace: &OwnedFd, more: u64, path: &Path) -> Result<(), CreateError> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_IDMAP | more,
        attr_clr: 0,
        propagation: 0,
        userns_fd: namespace.as_raw_fd() as u64,
    };
    // SAFETY: the path is an empty C string, the structure lives across the call and its size is given.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 {
        return Ok(());
    }
    let error = Error::last_os_error();
    let reason = match error.raw_os_error() {
        Some(libc::EINVAL) => "its file system cannot map ids, so its owner could not be kept; \
                               copy it to a local disk, or run paddock as its owner instead of as root"
            .into(),
        _ => format!("its ids could not be mapped: {error}"),
    };
    Err(CreateError::Mount { path: path.display().to_string(), reason })
}

/// The caller's own mounts, in the order they were asked for.
pub fn steps(
    mounts: &[Mount],
    memory: u64,
    identity: &Identity,
    passed: &mut Passed,
) -> Result<Vec<Step>, CreateError> {
    mounts.iter().map(|mount| step(mount, memory, identity, passed)).collect()
}

fn step(mount: &Mount, memory: u64, identity: &Identity, passed: &mut Passed) -> Result<Step, CreateError> {
    let target = mount.target.display().to_string();
    let Some(source) = mount.source.as_ref().filter(|_| mount.access != Access::Tmpfs) else {
        return Ok(Step::Tmpfs {
            target,
            bytes: memory,
            mode: 0o755,
            uid: identity.ids.work,
            gid: identity.ids.work_group,
            allow_exec: true,
        });
    };
    let (source, kind) = user_source(source, identity, passed)?;
    Ok(Step::Bind { source, target, kind, read_only: mount.access == Access::Read, allow_exec: true })
}

/// One inode for so many bytes of disk, as mkfs would.
const BYTES_PER_INODE: u64 = 8192;

pub fn inodes(spec: &Spec) -> u64 {
    (spec.limits.disk / BYTES_PER_INODE).max(4096)
}
