//! Walks a tree of any depth with one open directory, and with little memory however many names a directory has: down
//! by name, up by `..`, which must lead to where the walk came from.
//!
//! The kernel asks every directory above whether something may be opened (Landlock): the deeper, the longer. A directory is opened
//! once, for its names. The rest goes by descriptors that name a place and open nothing.

use super::shown;
use paddock_guest_system::failure::{During, Failure, Outcome};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, Stat, fstat, openat, seek, statat};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

/// So many names of a directory are held at a time.
const BATCH: usize = 256;

pub trait Visit {
    /// True if every entry that was visited is gone afterwards.
    const REREADS: bool = false;

    /// Returns true to go into it; asked of everything, heeded for directories.
    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool>;

    /// The walk has left a directory that it had gone into.
    fn left(&mut self, _parent: &OwnedFd, _name: &[u8], _path: &[u8]) -> Outcome<()> {
        Ok(())
    }

    /// A directory that cannot be gone into.
    fn closed(&mut self, path: &[u8], errno: Errno) -> Outcome<()>;
}

struct Level {
    identity: (u64, u64),
    /// How long the path was before this directory's name.
    above: usize,
    names: Vec<Vec<u8>>,
    cookie: u64,
    exhausted: bool,
}

impl Level {
    /// Reads the first of its names too.
    fn new<V: Visit>(readable: &OwnedFd, above: usize) -> rustix::io::Result<Level> {
        let found = fstat(readable)?;
        let identity = (found.st_dev, found.st_ino);
        let mut level = Level { identity, above, names: Vec::new(), cookie: 0, exhausted: false };
        level.read_names::<V>(readable)?;
        Ok(level)
    }

    fn read_names<V: Visit>(&mut self, readable: &OwnedFd) -> rustix::io::Result<()> {
        seek(readable, SeekFrom::Start(if V::REREADS { 0 } else { self.cookie }))?;
        let mut space = vec![MaybeUninit::uninit(); 16 * 1024];
        let mut entries = RawDir::new(readable, &mut space);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // The directory itself was removed.
                Err(Errno::NOENT) => break,
                Err(errno) => return Err(errno),
            };
            self.cookie = entry.next_entry_cookie();
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                self.names.push(name.to_vec());
            }
            if self.names.len() >= BATCH {
                return Ok(());
            }
        }
        self.exhausted = true;
        Ok(())
    }
}

/// Everything below `root`, which is not visited itself. `stay`: do not go into other mounts.
pub fn walk<V: Visit>(root: OwnedFd, stay: bool, visitor: &mut V) -> Outcome<()> {
    let mut current = root;
    let mut path: Vec<u8> = Vec::new();
    let mut levels = vec![Level::new::<V>(&current, 0).during(|| "look at the tree".into())?];
    while let Some(level) = levels.last_mut() {
        if level.names.is_empty() && !level.exhausted {
            let more = readable(&current).and_then(|readable| level.read_names::<V>(&readable));
            more.during(|| format!("list {}", shown(&path)))?;
        }
        let Some(name) = level.names.pop() else {
            let above = level.above;
            levels.pop();
            let Some(parent) = levels.last() else { return Ok(()) };
            current = ascend(&current, parent.identity)?;
            let start = if above == 0 { 0 } else { above + 1 };
            let name = path[start..].to_vec();
            visitor.left(&current, &name, &path)?;
            path.truncate(above);
            continue;
        };
        let found = match statat(&current, name.as_slice(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            // It vanished meanwhile.
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(errno).during(|| format!("look at {}", shown(&name))),
        };
        let above = path.len();
        if above > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(&name);
        let directory = super::node::kind(&found) == paddock_protocol::NodeType::Directory;
        if visitor.entry(&current, &name, &path, &found)? && directory {
            match descend(&current, &name, stay) {
                Ok((below, readable)) => {
                    let level = Level::new::<V>(&readable, above);
                    levels.push(level.during(|| format!("list {}", shown(&path)))?);
                    current = below;
                    continue;
                }
                Err(Errno::NOENT | Errno::XDEV) => {}
                Err(errno) => visitor.closed(&path, errno)?,
            }
        }
        path.truncate(above);
    }
    Ok(())
}

/// The directory as a place, and open for its names. To open `.` in it takes the right to search it, as the way back does.
pub fn descend(current: &OwnedFd, name: &[u8], stay: bool) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let below =
        paddock_guest_system::system::open_below(current, name, OFlags::PATH | OFlags::DIRECTORY, stay)?;
    let readable = readable(&below)?;
    Ok((below, readable))
}

fn readable(directory: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn ascend(current: &OwnedFd, expected: (u64, u64)) -> Outcome<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = openat(current, "..", flags, Mode::empty()).during(|| "go up".into())?;
    let found = fstat(&above).during(|| "go up".into())?;
    if (found.st_dev, found.st_ino) != expected {
        return Err(Failure { step: "a directory was moved meanwhile".into(), errno: Errno::STALE });
    }
    Ok(above)
}

/// Calls `each` with every name of a directory.
pub fn for_each_name(directory: &OwnedFd, mut each: impl FnMut(&[u8])) -> rustix::io::Result<()> {
    let mut space = vec![MaybeUninit::uninit(); 32 * 1024];
    let mut entries = RawDir::new(directory, &mut space);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            each(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Count {
        entries: usize,
        left: usize,
        deepest: usize,
    }

    impl Visit for Count {
        fn entry(&mut self, _: &OwnedFd, name: &[u8], path: &[u8], _: &Stat) -> Outcome<bool> {
            assert!(path.ends_with(name));
            self.entries += 1;
            self.deepest = self.deepest.max(path.iter().filter(|b| **b == b'/').count());
            Ok(true)
        }

        fn left(&mut self, parent: &OwnedFd, name: &[u8], _: &[u8]) -> Outcome<()> {
            statat(parent, name, AtFlags::empty()).during(|| "the way back".into())?;
            self.left += 1;
            Ok(())
        }

        fn closed(&mut self, _: &[u8], errno: Errno) -> Outcome<()> {
            Err(errno).during(|| "enter".into())
        }
    }

    #[test]
    fn wide_and_deep_trees_are_seen_whole() {
        let folder = std::env::temp_dir().join(format!("paddock-walk-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("a/b/c")).unwrap();
        for number in 0..1000 {
            std::fs::write(folder.join(format!("a/file{number}")), b"").unwrap();
        }
        let root: OwnedFd = std::fs::File::open(&folder).unwrap().into();
        let mut count = Count { entries: 0, left: 0, deepest: 0 };
        walk(root, true, &mut count).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((count.entries, count.left, count.deepest), (1003, 3, 2));
    }
}
