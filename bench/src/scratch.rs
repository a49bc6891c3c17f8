//! The bench's own directory, gone at the end.

use anyhow::{Context, Result, bail};
use rustix::mount::{UnmountFlags, unmount};
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> Result<Scratch> {
        let parent = std::env::temp_dir().canonicalize()?;
        for attempt in 0..100 {
            let path = parent.join(format!("paddock-bench-{}-{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error).with_context(|| path.display().to_string()),
            }
        }
        bail!("no free name in {}", parent.display())
    }

    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(&path).with_context(|| path.display().to_string())?;
        Ok(path)
    }
}

impl Drop for Scratch {
    /// A peer binds the host's /usr below this directory: nothing is deleted through a mount that is still there.
    fn drop(&mut self) {
        for mount in mounts_below(&self.path).iter().rev() {
            let _ = unmount(mount, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
        }
        if !mounts_below(&self.path).is_empty() {
            eprintln!("left behind, because something is still mounted in it: {}", self.path.display());
        } else if let Err(error) = std::fs::remove_dir_all(&self.path) {
            eprintln!("left behind: {}: {error}", self.path.display());
        }
    }
}

/// Mount points at or below a directory, in the order in which they were mounted.
pub fn mounts_below(directory: &Path) -> Vec<PathBuf> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    points.filter(|point| point.starts_with(directory)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_all_that_is_in_it() {
        let scratch = Scratch::new().unwrap();
        let inside = scratch.directory("a/b").unwrap();
        std::fs::write(inside.join("file"), "x").unwrap();
        let path = scratch.path.clone();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn the_root_is_a_mount_below_itself() {
        assert!(!mounts_below(Path::new("/")).is_empty());
    }
}
