//! Which server the records of a state directory belong to.
//!
//! Root's engines share a run directory, and a record in it names its state directory by path. A user may remove a
//! state directory while its server runs, and start a second server with the same path. The lock in the directory went
//! with it; this one did not. Without it the second server would find sandboxes of its path that it does not know, and
//! end them.

use super::run_directory::run_directory;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A server that ends removes the file. A lock on a file that has lost its name is tried again on a new file.
const ATTEMPTS: usize = 100;

/// Goes with the process, however it ends.
#[derive(Debug)]
pub struct StateClaim {
    /// Absent for an ordinary user, whose run directory is in the state directory.
    held: Option<(PathBuf, File)>,
}

pub enum Claim {
    Taken(StateClaim),
    /// A running process holds it.
    Held {
        pid: Option<u32>,
    },
}

impl StateClaim {
    pub fn take(state: &Path) -> Result<Claim> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Claim::Taken(StateClaim { held: None }));
        }
        let directory = run_directory(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        StateClaim::take_in(&directory, &super::run_directory::owner(state))
    }

    fn take_in(directory: &Path, state: &Path) -> Result<Claim> {
        let path = directory.join(format!("state-{:016x}.lock", name_of(state)));
        for _ in 0..ATTEMPTS {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Claim::Held { pid: holder(&mut file) }),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            if is_at(&file, &path) {
                // Only a help for people.
                let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
                return Ok(Claim::Taken(StateClaim { held: Some((path, file)) }));
            }
        }
        let busy = format!("{} is taken and let go without end", path.display());
        Err(Error::new(ErrorKind::ResourceBusy, busy))
    }
}

impl Drop for StateClaim {
    fn drop(&mut self) {
        if let Some((path, _locked)) = &self.held {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(held), Ok(named)) => identity(held) == identity(named),
        _ => false,
    }
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// FNV-1a: the same number in every build.
fn name_of(state: &Path) -> u64 {
    let bytes = state.as_os_str().as_encoded_bytes();
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(directory: &Path, state: &str) -> Option<StateClaim> {
        match StateClaim::take_in(directory, Path::new(state)).unwrap() {
            Claim::Taken(claim) => Some(claim),
            Claim::Held { pid } => {
                assert_eq!(pid, Some(std::process::id()));
                None
            }
        }
    }

    #[test]
    fn a_path_has_one_server_at_a_time_and_nothing_is_left_of_it() {
        let run = tempfile::tempdir().unwrap();
        let first = taken(run.path(), "/state").unwrap();
        assert!(taken(run.path(), "/state").is_none());
        let other = taken(run.path(), "/other").unwrap();
        drop(first);
        let again = taken(run.path(), "/state").unwrap();
        drop((again, other));
        assert_eq!(std::fs::read_dir(run.path()).unwrap().count(), 0);
    }
}
