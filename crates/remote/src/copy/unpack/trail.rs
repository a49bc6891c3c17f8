//! The way from the root of a copy to the directory of the last entry. Archives come directory by directory: the next entry is a
//! step or two away, and a walk from the root for each would take the square of the depth.

use super::{DIRECTORY, INSIDE};
use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::Path;

pub struct Trail {
    root: OwnedFd,
    /// `None`: at the root.
    current: Option<OwnedFd>,
    steps: Vec<Step>,
}

struct Step {
    name: OsString,
    /// Device and inode: `..` has to lead to the very directory that was left.
    identity: (u64, u64),
}

impl Trail {
    pub fn new(root: OwnedFd) -> Trail {
        Trail { root, current: None, steps: Vec::new() }
    }

    /// The directory at this path below the root. Missing directories on the way are made.
    pub fn directory(&mut self, path: &Path) -> Result<&OwnedFd, Errno> {
        let shared = self.steps.iter().zip(path).take_while(|(step, part)| step.name == *part).count();
        let above = self.steps.len() - shared;
        // From the root if that is nearer, or if a directory was moved meanwhile.
        if above > shared || self.rise(above).is_err() {
            self.current = None;
            self.steps.clear();
        }
        for part in path.iter().skip(self.steps.len()) {
            let entered = self.enter(part);
            if entered.is_err() {
                self.current = None;
                self.steps.clear();
            }
            entered?;
        }
        Ok(self.current.as_ref().unwrap_or(&self.root))
    }

    fn rise(&mut self, levels: usize) -> Result<(), Errno> {
        for _ in 0..levels {
            self.steps.pop();
            let Some(expected) = self.steps.last().map(|step| step.identity) else {
                self.current = None;
                return Ok(());
            };
            let Some(current) = &self.current else { return Err(Errno::STALE) };
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let above = openat(current, "..", flags, Mode::empty())?;
            if identity(&above)? != expected {
                return Err(Errno::STALE);
            }
            self.current = Some(above);
        }
        Ok(())
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), Errno> {
        let here = self.current.as_ref().unwrap_or(&self.root);
        let below = match open_child(here, name) {
            Err(Errno::NOENT) => {
                mkdirat(here, name, Mode::from_raw_mode(0o755))?;
                open_child(here, name)?
            }
            other => other?,
        };
        self.steps.push(Step { name: name.to_os_string(), identity: identity(&below)? });
        self.current = Some(below);
        Ok(())
    }
}

pub fn open_child(directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    openat2(directory, name, DIRECTORY, Mode::empty(), INSIDE)
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64), Errno> {
    let found = fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}
