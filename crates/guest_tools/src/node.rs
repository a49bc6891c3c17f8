//! A file as it is described to the host.

use super::{shown, streams, user_attributes};
use paddock_guest_system::failure::{During, Outcome};
use paddock_protocol::{LinkEnd, Node, NodeType};
use rustix::fs::{AtFlags, CWD, FileType, Stat, readlinkat, statat};
use serde_bytes::ByteBuf;
use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The tool: a link is described, not followed.
pub fn stat(path: &[u8]) -> Outcome<()> {
    streams::answer(&look(path)?)
}

pub fn look(path: &[u8]) -> Outcome<Node> {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).during(|| format!("look at {}", shown(path)))?;
    let node = describe(CWD, path, path, &found);
    let end = (node.kind == NodeType::Link).then(|| end_of(path)).flatten();
    Ok(Node { attributes: user_attributes::of(path), end, ..node })
}

/// None where the link leads nowhere, or where the user of the work may not follow it.
pub fn end_of(link: &[u8]) -> Option<LinkEnd> {
    let path = std::fs::canonicalize(OsStr::from_bytes(link)).ok()?;
    let found = statat(CWD, &path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let path = ByteBuf::from(path.into_os_string().into_vec());
    Some(LinkEnd { path, kind: kind(&found), mode: found.st_mode & 0o7777 })
}

/// `name` is the path below `directory`; `path` is the name in the answer.
pub fn describe(directory: impl AsFd, name: &[u8], path: &[u8], found: &Stat) -> Node {
    let kind = kind(found);
    let target = (kind == NodeType::Link)
        .then(|| readlinkat(directory, name, Vec::new()).ok())
        .flatten()
        .map(|target| ByteBuf::from(target.into_bytes()));
    Node {
        path: ByteBuf::from(path),
        kind,
        size: found.st_size as u64,
        mode: found.st_mode & 0o7777,
        uid: found.st_uid,
        gid: found.st_gid,
        modified_ns: nanoseconds(found.st_mtime, found.st_mtime_nsec),
        target,
        attributes: Vec::new(),
        end: None,
    }
}

pub fn kind(found: &Stat) -> NodeType {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => NodeType::File,
        FileType::Directory => NodeType::Directory,
        FileType::Symlink => NodeType::Link,
        _ => NodeType::Other,
    }
}

pub fn nanoseconds(seconds: i64, rest: impl TryInto<i64>) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest.try_into().unwrap_or(0))
}
