//! Moving things to their place and out of the way, such that it can be taken back.

use super::ready::Finish;
use crate::walk::{Visit, walk};
use crate::{beneath, node, remove, shown};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};

/// Directories where the sandbox may write, on the mount of its own root. The first usable one is taken.
const PLACES: [&str; 5] = [".", "var/tmp", "tmp", "home", "root"];

/// A directory that only the guest can enter, on the disk that everything goes to.
pub struct Staging {
    place: OwnedFd,
    name: String,
    pub directory: OwnedFd,
    next: Cell<u64>,
}

impl Staging {
    pub fn make(root: &OwnedFd) -> Outcome<Staging> {
        let device = fstat(root).during(|| "look at /".into())?.st_dev;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let name = format!(".paddock-merge-{:x}-{:x}{:x}", std::process::id(), now.tv_sec, now.tv_nsec);
        let mut refused = Errno::ACCESS;
        for place in PLACES {
            let parts: Vec<&[u8]> = place.split('/').map(str::as_bytes).collect();
            let made = beneath::open_directory(root, &parts, false).and_then(|place| {
                if fstat(&place)?.st_dev != device {
                    return Err(Errno::XDEV);
                }
                mkdirat(&place, name.as_str(), Mode::from_raw_mode(0o700))?;
                let directory = beneath::open(&place, name.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY)?;
                Ok((place, directory))
            });
            match made {
                Ok((place, directory)) => return Ok(Staging { place, name, directory, next: Cell::new(0) }),
                Err(errno @ (Errno::NOSPC | Errno::DQUOT)) => refused = errno,
                Err(_) => {}
            }
        }
        Err(Failure { step: "find a place to prepare a merge in".into(), errno: refused })
    }

    /// A name that is free.
    pub fn number(&self) -> u64 {
        self.next.replace(self.next.get() + 1)
    }

    pub fn remove(self) -> Outcome<()> {
        let step = || "remove what a merge left".into();
        let again = beneath::open(&self.directory, b".", OFlags::RDONLY | OFlags::DIRECTORY).during(step)?;
        walk(again, true, &mut remove::Removal::default())?;
        unlinkat(&self.place, self.name.as_str(), AtFlags::REMOVEDIR).during(step)
    }
}

enum Done {
    /// A new name for a file in the staging directory.
    Put(Vec<u8>, u64),
    TakenAway(Vec<u8>, u64),
    Made(Vec<u8>),
    /// With the properties to make it again.
    Removed(Vec<u8>, Box<Finish>),
}

pub struct Journal<'a> {
    root: &'a OwnedFd,
    staging: &'a Staging,
    done: Vec<Done>,
}

impl<'a> Journal<'a> {
    pub fn new(root: &'a OwnedFd, staging: &'a Staging) -> Journal<'a> {
        Journal { root, staging, done: Vec::new() }
    }

    pub fn put(&mut self, folder: &OwnedFd, name: &[u8], path: &[u8], number: u64) -> Outcome<()> {
        renameat(&self.staging.directory, number.to_string(), folder, name)
            .during(|| format!("put {} in its place", shown(path)))?;
        self.done.push(Done::Put(path.to_vec(), number));
        Ok(())
    }

    pub fn make_directory(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        path: &[u8],
        made: &Finish,
    ) -> Outcome<()> {
        let step = || format!("make {}", shown(path));
        mkdirat(folder, name, Mode::from_raw_mode(0o700)).during(step)?;
        self.done.push(Done::Made(path.to_vec()));
        let directory = beneath::open(folder, name, OFlags::RDONLY | OFlags::DIRECTORY).during(step)?;
        made.put_on(&directory).during(step)
    }

    /// Moves away the file at `path`, or the tree; nothing at the path is no error.
    pub fn take_away(&mut self, path: &[u8]) -> Outcome<()> {
        let step = || format!("take {} away", shown(path));
        let parts = beneath::parts(path)?;
        let Some((name, above)) = parts.split_last() else { return Ok(()) };
        let folder = match beneath::open_directory(self.root, above, false) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.during(step)?,
        };
        let found = match statat(&folder, *name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            found => found.during(step)?,
        };
        if node::kind(&found) != NodeType::Directory {
            return self.move_away(&folder, name, path);
        }
        // Name by name: a directory of the image cannot be moved.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = beneath::open(&folder, name, flags).during(step)?;
        let mut emptying = Emptying { journal: self, above: path.to_vec() };
        walk(directory, true, &mut emptying)?;
        self.remove_directory(&folder, name, path)
    }

    fn move_away(&mut self, folder: impl AsFd, name: &[u8], path: &[u8]) -> Outcome<()> {
        let number = self.staging.number();
        renameat(folder, name, &self.staging.directory, number.to_string())
            .during(|| format!("take {} away", shown(path)))?;
        self.done.push(Done::TakenAway(path.to_vec(), number));
        Ok(())
    }

    fn remove_directory(&mut self, folder: impl AsFd, name: &[u8], path: &[u8]) -> Outcome<()> {
        let step = || format!("remove {}", shown(path));
        let directory = beneath::open(&folder, name, OFlags::RDONLY | OFlags::DIRECTORY).during(step)?;
        let was = Finish::of(&directory).during(step)?;
        unlinkat(&folder, name, AtFlags::REMOVEDIR).during(step)?;
        self.done.push(Done::Removed(path.to_vec(), Box::new(was)));
        Ok(())
    }

    /// The last first. Goes on after a failure, and tells the first one.
    pub fn undo(mut self) -> Outcome<()> {
        let mut result = Ok(());
        while let Some(done) = self.done.pop() {
            let undone = self.undo_one(&done);
            if result.is_ok() {
                result = undone;
            }
        }
        result
    }

    fn undo_one(&self, done: &Done) -> Outcome<()> {
        let (Done::Put(path, _) | Done::TakenAway(path, _) | Done::Made(path) | Done::Removed(path, _)) =
            done;
        let step = || format!("take back what was done to {}", shown(path));
        let parts = beneath::parts(path)?;
        let Some((name, above)) = parts.split_last() else { return Ok(()) };
        let folder = beneath::open_directory(self.root, above, false).during(step)?;
        let staging = &self.staging.directory;
        match done {
            Done::Put(_, number) => renameat(&folder, *name, staging, number.to_string()).during(step),
            Done::TakenAway(_, number) => renameat(staging, number.to_string(), &folder, *name).during(step),
            Done::Made(_) => unlinkat(&folder, *name, AtFlags::REMOVEDIR).during(step),
            Done::Removed(_, was) => {
                mkdirat(&folder, *name, Mode::from_raw_mode(0o700)).during(step)?;
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let directory = openat(&folder, *name, flags, Mode::empty()).during(step)?;
                was.put_on(&directory).during(step)
            }
        }
    }
}

struct Emptying<'a, 'b> {
    journal: &'a mut Journal<'b>,
    above: Vec<u8>,
}

impl Visit for Emptying<'_, '_> {
    /// A visited entry is gone afterwards: the rest is always at the beginning.
    const REREADS: bool = true;

    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        if node::kind(found) == NodeType::Directory {
            return Ok(true);
        }
        let path = [self.above.as_slice(), b"/", path].concat();
        self.journal.move_away(directory, name, &path)?;
        Ok(false)
    }

    fn left(&mut self, parent: &OwnedFd, name: &[u8], path: &[u8]) -> Outcome<()> {
        let path = [self.above.as_slice(), b"/", path].concat();
        self.journal.remove_directory(parent, name, &path)
    }

    fn closed(&mut self, path: &[u8], errno: Errno) -> Outcome<()> {
        Err(errno).during(|| format!("enter {}", shown(path)))
    }
}
