//! Renames a file or directory.

use super::write::{Unfinished, split};
use super::{node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, fchmod, fstat, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;
use std::fs::File;

pub fn relocate(from: &[u8], to: &[u8], overwrite: bool) -> Outcome<()> {
    match rename(from, to, overwrite) {
        Err(Errno::XDEV) => copy_over(from, to, overwrite)?,
        moved => moved.during(|| format!("move {} to {}", shown(from), shown(to)))?,
    }
    streams::answer(&node::look(to)?)
}

fn rename(from: &[u8], to: &[u8], overwrite: bool) -> rustix::io::Result<()> {
    if overwrite {
        return renameat(CWD, from, CWD, to);
    }
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // Not every kernel and file system can refuse by itself: then the target is looked at before.
        Err(Errno::INVAL | Errno::NOSYS) => match statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Err(Errno::EXIST),
            Err(_) => renameat(CWD, from, CWD, to),
        },
        renamed => renamed,
    }
}

/// Between two file systems, for regular files only: a tree would be half moved for a while.
fn copy_over(from: &[u8], to: &[u8], overwrite: bool) -> Outcome<()> {
    let step = || format!("move {} to another file system", shown(from));
    if !overwrite && statat(CWD, to, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Err(Failure { step: step(), errno: Errno::EXIST });
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = openat(CWD, from, flags, Mode::empty()).during(step)?;
    let found = fstat(&source).during(step)?;
    if node::kind(&found) != NodeType::File {
        return Err(Failure { step: step(), errno: Errno::XDEV });
    }
    let (parent, name) = split(to)?;
    let folder = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .during(|| format!("open {}", shown(parent)))?;
    let (mut file, unfinished) = Unfinished::create(folder)?;
    std::io::copy(&mut File::from(source), &mut file).during(step)?;
    fchmod(&file, Mode::from_raw_mode(found.st_mode & 0o7777)).during(step)?;
    unfinished.finish(name).during(step)?;
    unlinkat(CWD, from, AtFlags::empty()).during(step)
}
