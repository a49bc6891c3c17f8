//! A page of a directory, or of the tree below it: sorted by path, part by part, and never more in memory than a page.

use super::walk::{descend, for_each_name};
use super::{node, shown, streams, user_attributes};
use paddock_guest_system::failure::{During, Outcome};
use paddock_protocol::{Attribute, ListRecord, NodeType};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

const MOST_ENTRIES: usize = 10_000;
/// A page ends early when its paths are long.
const MOST_BYTES: usize = 1 << 20;
/// Below a path that long nothing is listed.
const LONGEST_PATH: usize = 64 * 1024;

pub fn list(path: &[u8], recursive: bool, after: Option<&[u8]>, limit: usize) -> Outcome<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, path, flags, Mode::empty()).during(|| format!("open {}", shown(path)))?;
    let answers = streams::Answers::open()?;
    let mut page = Page { base: path.to_vec(), left: limit.clamp(1, MOST_ENTRIES), bytes: 0, answers };
    let after: Vec<&[u8]> = after.map_or(Vec::new(), |a| a.split(|b| *b == b'/').collect());
    let more = page.fill(root, recursive, &after).during(|| format!("list {}", shown(path)))??;
    page.answers.put(&ListRecord::End { more })?;
    page.answers.flush()
}

struct Page {
    base: Vec<u8>,
    left: usize,
    bytes: usize,
    answers: streams::Answers,
}

/// A directory on the way: its remaining names, first name last.
struct Level {
    identity: (u64, u64),
    above: usize,
    names: Vec<Vec<u8>>,
    /// True if names were left out because the page has no room for them.
    cut: bool,
}

impl Page {
    /// Returns true if there is more than the page holds. The outer result is the walk's, the inner one the answers'.
    fn fill(&mut self, root: OwnedFd, recursive: bool, after: &[&[u8]]) -> rustix::io::Result<Outcome<bool>> {
        let mut current = root;
        let mut path = Vec::new();
        let mut levels = vec![Level::read(&current, 0, after.first().copied(), recursive, self.left + 1)?];
        // Names of all levels that are still to come.
        let mut waiting = levels[0].names.len();
        // How many parts of `after` lead to the directory that the walk is in.
        let mut on_the_way = usize::from(!after.is_empty());
        while let Some(level) = levels.last_mut() {
            let Some(name) = level.names.pop() else {
                if level.cut {
                    return Ok(Ok(true));
                }
                let above = level.above;
                levels.pop();
                let Some(parent) = levels.last() else { return Ok(Ok(false)) };
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
                current = openat(&current, "..", flags, Mode::empty())?;
                let found = fstat(&current)?;
                if (found.st_dev, found.st_ino) != parent.identity {
                    return Err(Errno::STALE);
                }
                path.truncate(above);
                continue;
            };
            waiting -= 1;
            let above = path.len();
            if above > 0 {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            // A directory that `after` leads through was listed before; only its inside may be to come.
            let passed = on_the_way > 0
                && on_the_way == levels.len()
                && after.get(on_the_way - 1).is_some_and(|part| *part == name.as_slice());
            let directory = match statat(&current, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(_) => false,
                Ok(found) => {
                    if !passed {
                        if self.left == 0 || self.bytes >= MOST_BYTES {
                            return Ok(Ok(true));
                        }
                        let mut node = node::describe(&current, &name, &path, &found);
                        node.attributes = user_attributes::of_entry(&current, &name);
                        if node.kind == NodeType::Link {
                            node.end = node::end_of(&[&self.base, &b"/"[..], &path].concat());
                        }
                        self.left -= 1;
                        let told = |one: &Attribute| one.name.len() + one.value.len();
                        let end = node.end.as_ref().map_or(0, |end| end.path.len());
                        self.bytes += path.len() + end + 64 + node.attributes.iter().map(told).sum::<usize>();
                        if let Err(failure) = self.answers.put(&ListRecord::Entry(node)) {
                            return Ok(Err(failure));
                        }
                    }
                    node::kind(&found) == NodeType::Directory
                }
            };
            if recursive
                && directory
                && path.len() < LONGEST_PATH
                && let Ok((below, readable)) = descend(&current, &name, false)
            {
                let deeper = if passed { after.get(on_the_way).copied() } else { None };
                on_the_way = if deeper.is_some() { on_the_way + 1 } else { 0 };
                let level = Level::read(&readable, above, deeper, true, self.left + 1)?;
                let room = (self.left + 1).saturating_sub(level.names.len());
                if waiting > room {
                    waiting = make_room(&mut levels, room);
                }
                waiting += level.names.len();
                levels.push(level);
                current = below;
                continue;
            }
            path.truncate(above);
        }
        Ok(Ok(false))
    }
}

/// Everything below comes first, so only this many of the later names can be needed. Returns how many are left.
fn make_room(levels: &mut [Level], room: usize) -> usize {
    let mut left = room;
    for level in levels.iter_mut().rev() {
        if level.names.len() > left {
            level.names.drain(..level.names.len() - left);
            level.cut = true;
        }
        left -= level.names.len();
    }
    room - left
}

impl Level {
    /// The first `most` names that come after `after`; with it, if the walk leads through it.
    fn read(
        directory: &OwnedFd,
        above: usize,
        after: Option<&[u8]>,
        leads_through: bool,
        most: usize,
    ) -> rustix::io::Result<Level> {
        let found = fstat(directory)?;
        let mut names: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut cut = false;
        for_each_name(directory, |name| {
            let comes_later = after.is_none_or(|after| name > after || (leads_through && name == after));
            if !comes_later {
                return;
            }
            if names.len() < most {
                names.insert(name.to_vec());
            } else if names.last().is_some_and(|last| name < last.as_slice()) {
                names.insert(name.to_vec());
                names.pop_last();
                cut = true;
            } else {
                cut = true;
            }
        })?;
        let names = names.into_iter().rev().collect();
        Ok(Level { identity: (found.st_dev, found.st_ino), above, names, cut })
    }
}
