//! The way to the directory of the last entry of an archive. The next one is a step or two away: a way from the root for each entry
//! would take the square of the depth, and the kernel takes no path over 4,095 bytes at once.

use super::beneath;
use rustix::fs::{Mode, OFlags, fstat, mkdirat, openat};
use rustix::io::{Errno, Result};
use std::os::fd::OwnedFd;

/// Descriptors that name a place and open nothing: the kernel asks no directory above (Landlock) about those.
const PLACE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

pub struct Trail<'a> {
    root: &'a OwnedFd,
    /// `None`: at the root.
    current: Option<OwnedFd>,
    steps: Vec<Step>,
}

struct Step {
    name: Vec<u8>,
    /// Device and inode: `..` has to lead to the very directory that was left.
    identity: (u64, u64),
}

impl<'a> Trail<'a> {
    pub fn new(root: &'a OwnedFd) -> Trail<'a> {
        Trail { root, current: None, steps: Vec::new() }
    }

    /// The directory at these parts, through no link. With `make`, missing directories are made.
    pub fn directory(&mut self, parts: &[&[u8]], make: bool) -> Result<&OwnedFd> {
        let shared = self.steps.iter().zip(parts).take_while(|(step, part)| step.name == **part).count();
        let above = self.steps.len() - shared;
        // Starts at the root if that is nearer, or if a directory was moved meanwhile.
        if above > shared || self.rise(above).is_err() {
            self.begin_anew();
        }
        for part in &parts[self.steps.len()..] {
            if let Err(errno) = self.enter(part, make) {
                self.begin_anew();
                return Err(errno);
            }
        }
        Ok(self.current.as_ref().unwrap_or(self.root))
    }

    fn begin_anew(&mut self) {
        self.current = None;
        self.steps.clear();
    }

    fn rise(&mut self, levels: usize) -> Result<()> {
        for _ in 0..levels {
            self.steps.pop();
            let Some(expected) = self.steps.last().map(|step| step.identity) else {
                self.current = None;
                return Ok(());
            };
            let current = self.current.as_ref().ok_or(Errno::STALE)?;
            let above = openat(current, "..", PLACE | OFlags::CLOEXEC, Mode::empty())?;
            if identity(&above)? != expected {
                return Err(Errno::STALE);
            }
            self.current = Some(above);
        }
        Ok(())
    }

    fn enter(&mut self, name: &[u8], make: bool) -> Result<()> {
        let here = self.current.as_ref().unwrap_or(self.root);
        let below = match beneath::open(here, name, PLACE) {
            Err(Errno::NOENT) if make => {
                mkdirat(here, name, Mode::from_raw_mode(0o755))?;
                beneath::open(here, name, PLACE)?
            }
            found => found?,
        };
        self.steps.push(Step { name: name.to_vec(), identity: identity(&below)? });
        self.current = Some(below);
        Ok(())
    }
}

fn identity(directory: &OwnedFd) -> Result<(u64, u64)> {
    let found = fstat(directory)?;
    Ok((found.st_dev, found.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{AtFlags, statat};

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("paddock-trail-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn it_leads_deeper_than_a_path_can_and_back() {
        let place = folder("deep");
        let root: OwnedFd = std::fs::File::open(&place).unwrap().into();
        let mut trail = Trail::new(&root);
        // 4,800 bytes.
        let parts: Vec<&[u8]> = vec![b"deeper-down"; 400];
        for depth in 1..=parts.len() {
            trail.directory(&parts[..depth], true).unwrap();
        }
        for depth in (0..parts.len()).rev() {
            let here = trail.directory(&parts[..depth], false).unwrap();
            statat(here, "deeper-down", AtFlags::SYMLINK_NOFOLLOW).unwrap();
        }
        assert_eq!(trail.directory(&[b"none"], false).err(), Some(Errno::NOENT));
        trail.directory(&parts[..2], false).unwrap();
        assert!(std::process::Command::new("rm").arg("-rf").arg(&place).status().unwrap().success());
    }

    #[test]
    fn no_link_is_followed_and_nothing_that_was_moved() {
        let place = folder("links");
        std::fs::create_dir_all(place.join("inner/a/b/c")).unwrap();
        std::os::unix::fs::symlink("..", place.join("inner/out")).unwrap();
        let root: OwnedFd = std::fs::File::open(place.join("inner")).unwrap().into();
        let mut trail = Trail::new(&root);
        assert!(trail.directory(&[b"out"], true).is_err());
        trail.directory(&[b"a", b"b", b"c"], false).unwrap();
        std::fs::rename(place.join("inner/a/b"), place.join("moved")).unwrap();
        let found = trail.directory(&[b"a", b"x"], true).unwrap();
        mkdirat(found, "made", Mode::RWXU).unwrap();
        assert!(place.join("inner/a/x/made").is_dir());
        std::fs::remove_dir_all(&place).unwrap();
    }
}
