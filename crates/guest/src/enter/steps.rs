//! The steps of a plan. Every path is resolved below the new root: a link that an image planted leads to
//! somewhere in that image, never to the host.

use crate::enter::root::{attach_onto, new_tmpfs};
use crate::enter::sources::Sources;
use crate::enter::{kernel, place, system_files, users};
use crate::failure::{During, Failure, Outcome};
use crate::system::{MountLimits, limit_mount};
use crate::trees::Trees;
use paddock_protocol::{Ids, NodeKind, ProtectedPath, Step};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, ResolveFlags, Uid, chmodat, chownat, mkdirat, openat, openat2, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Notes the files that it wrote itself in `trees`.
pub fn perform(
    step: &Step,
    root: &OwnedFd,
    ids: Ids,
    sources: &mut Sources,
    trees: &mut Trees,
) -> Outcome<()> {
    match step {
        Step::Directory { path, mode, uid, gid } => {
            make_directory(root, path, Some((*mode, *uid, *gid))).during(|| format!("make {path}"))
        }
        Step::Link { path, target } => {
            trees.links.insert(path.trim_start_matches('/').as_bytes().to_vec());
            replacing(root, path, |parent, name| symlinkat(target.as_str(), parent, name))
        }
        Step::File { path, mode, content } => {
            trees.built(path, *mode, content);
            let mut content = content.to_vec();
            users::keep_added(root, path, &mut content);
            replacing(root, path, |parent, name| create(parent, name, *mode, &content))
        }
        Step::User { passwd_line, group_line, uid, gid } => {
            for (path, table) in users::add(root, passwd_line, group_line, *uid, *gid)? {
                trees.built(path, 0o644, table.as_bytes());
            }
            Ok(())
        }
        Step::Bind { source, target, kind, read_only, allow_exec } => {
            let tree = sources.take(source)?;
            limit_mount(tree.as_fd(), MountLimits::host(*read_only, *allow_exec))
                .during(|| format!("restrict {target}"))?;
            let place = match place::found(root, target, *kind, trees)? {
                Some(place) => place,
                None => mount_point(root, target, *kind)?,
            };
            attach_onto(tree.as_fd(), place.as_fd()).during(|| format!("mount {target}"))
        }
        Step::System { source, path, names, shared, over } => {
            let tree = sources.take(source)?;
            let over = over.as_ref().map(|over| Ok((sources.take(&over.source)?, &over.names[..])));
            let own = system_files::mount(root, (tree, path), names, *shared, over.transpose()?)?;
            trees.shares_system |= !own;
            Ok(())
        }
        Step::Tmpfs { target, bytes, mode, uid, gid, allow_exec } => {
            let tree = new_tmpfs(*bytes, bytes / 4096 + 64, *mode, (*uid, *gid), *allow_exec)?;
            let place = mount_point(root, target, NodeKind::Directory)?;
            attach_onto(tree.as_fd(), place.as_fd()).during(|| format!("mount {target}"))
        }
        Step::Kernel(plan) => {
            trees.sudo_door = kernel::mount(root, plan, ids, sources)?;
            Ok(())
        }
        Step::Protect { base, paths } => protect(root, base, paths),
    }
}

/// Resolves below `root` as if it were `/`.
pub fn open_inside(root: &OwnedFd, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), how)
}

/// Overwrites a file, where the last part of its path is no link.
pub fn write(root: &OwnedFd, path: &str, mode: u32, content: &[u8]) -> rustix::io::Result<()> {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = openat2(root, path, flags, Mode::from_raw_mode(mode), how)?;
    fill(&file, content)
}

fn create(parent: BorrowedFd<'_>, name: &str, mode: u32, content: &[u8]) -> rustix::io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    fill(&openat(parent, name, flags, Mode::from_raw_mode(mode))?, content)
}

fn fill(file: &OwnedFd, content: &[u8]) -> rustix::io::Result<()> {
    let mut rest = content;
    while !rest.is_empty() {
        let count = rustix::io::write(file, rest)?;
        rest = &rest[count..];
    }
    Ok(())
}

/// Makes something at `path`, with its parents where missing, in place of an image's file of that name
/// (/etc/resolv.conf often is a link).
fn replacing(
    root: &OwnedFd,
    path: &str,
    make: impl Fn(BorrowedFd<'_>, &str) -> rustix::io::Result<()>,
) -> Outcome<()> {
    let attempt = || -> rustix::io::Result<()> {
        let (parent, name) = match open_parent(root, path) {
            Err(Errno::NOENT) => {
                let (parent, _) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
                make_directory(root, parent, None)?;
                open_parent(root, path)?
            }
            found => found?,
        };
        match make(parent.as_fd(), name) {
            Err(Errno::EXIST) => {
                unlinkat(&parent, name, AtFlags::empty())?;
                make(parent.as_fd(), name)
            }
            made => made,
        }
    };
    attempt().during(|| format!("make {path}"))
}

/// A place to mount on, made where the root has none.
pub fn mount_point(root: &OwnedFd, path: &str, kind: NodeKind) -> Outcome<OwnedFd> {
    let flags = match kind {
        NodeKind::Directory => OFlags::PATH | OFlags::DIRECTORY,
        NodeKind::File => OFlags::PATH,
    };
    match kind {
        // Made without a look first: mostly it is not there.
        NodeKind::Directory => make_directory(root, path, None).during(|| format!("make {path}"))?,
        NodeKind::File => match open_inside(root, path, flags) {
            Err(Errno::NOENT) => replacing(root, path, |parent, name| create(parent, name, 0o644, b""))?,
            found => return found.during(|| format!("open {path}")),
        },
    }
    open_inside(root, path, flags).during(|| format!("open {path}"))
}

/// A directory at the root on which the kernel's own file systems are mounted. An image that has a link there would say where
/// they go: such an image is refused.
pub fn own_directory(root: &OwnedFd, path: &str) -> Outcome<OwnedFd> {
    let name = path.trim_start_matches('/');
    match mkdirat(root, name, Mode::from_raw_mode(0o755)) {
        Ok(()) | Err(Errno::EXIST) => {}
        made => made.during(|| format!("make {path}"))?,
    }
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(root, name, flags, Mode::empty(), how).map_err(|errno| {
        let step = match errno {
            Errno::LOOP => format!(
                "mount {path}: in this image it is a symbolic link, and has to be a directory or absent"
            ),
            Errno::NOTDIR => {
                format!("mount {path}: in this image it is a file, and has to be a directory or absent")
            }
            _ => format!("open {path}"),
        };
        Failure { step, errno }
    })
}

/// Makes the parents too. An existing directory gets the owner and mode too, if any are given.
fn make_directory(root: &OwnedFd, path: &str, owned: Option<(u32, u32, u32)>) -> rustix::io::Result<()> {
    let (parent, name) = match open_parent(root, path) {
        Err(Errno::NOENT) => {
            let (above, _) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
            make_directory(root, above, None)?;
            open_parent(root, path)?
        }
        found => found?,
    };
    match mkdirat(&parent, name, Mode::from_raw_mode(0o755)) {
        // The existing name may be a link to a directory of the image.
        Err(Errno::EXIST) => {
            let directory = open_inside(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            if let Some((mode, uid, gid)) = owned {
                rustix::fs::fchown(&directory, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
                rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?;
            }
            Ok(())
        }
        Err(errno) => Err(errno),
        Ok(()) => {
            if let Some((mode, uid, gid)) = owned {
                let owner = (Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)));
                chownat(&parent, name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)?;
                chmodat(&parent, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
            }
            Ok(())
        }
    }
}

/// The directory that something is made in; the root itself need not be opened again.
enum Parent<'a> {
    Root(&'a OwnedFd),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Parent::Root(root) => root.as_fd(),
            Parent::Below(directory) => directory.as_fd(),
        }
    }
}

fn open_parent<'a>(root: &'a OwnedFd, path: &'a str) -> rustix::io::Result<(Parent<'a>, &'a str)> {
    let (parent, name) = path.rsplit_once('/').ok_or(Errno::INVAL)?;
    if parent.is_empty() {
        return Ok((Parent::Root(root), name));
    }
    Ok((Parent::Below(open_inside(root, parent, OFlags::PATH | OFlags::DIRECTORY)?), name))
}

/// Covers each name with itself, read-only, and pins every directory above it up to `base`, because a
/// read-only `a/.git` falls to `mv a b` and a new `a/.git`.
fn protect(root: &OwnedFd, base: &str, paths: &[ProtectedPath]) -> Outcome<()> {
    let mut pinned = BTreeSet::new();
    for protected in paths {
        let mut so_far = base.to_string();
        let mut parts = protected.path.split('/').peekable();
        while let Some(part) = parts.next() {
            so_far.push('/');
            so_far.push_str(part);
            if pinned.insert(so_far.clone()) {
                pin(root, &so_far, parts.peek().is_none())?;
            }
        }
    }
    Ok(())
}

pub fn pin(root: &OwnedFd, path: &str, read_only: bool) -> Outcome<()> {
    // Strangers chose the names in the workspace: no link is followed.
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let place = openat2(root, path, flags, Mode::empty(), how).during(|| format!("open {path}"))?;
    let cover = clone_of(&place)?;
    if read_only {
        limit_mount(cover.as_fd(), MountLimits::host(true, true))
            .during(|| format!("make {path} read-only"))?;
    }
    attach_onto(cover.as_fd(), place.as_fd()).during(|| format!("pin {path}"))
}

pub fn clone_of(place: &OwnedFd) -> Outcome<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, "", flags).during(|| "clone a mount".into())
}
