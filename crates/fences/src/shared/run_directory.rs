//! Where records and sockets of running sandboxes lie: for root in memory, since a boot of the host ends the sandboxes
//! too; for other users in their state directory.

use paddock_model::SandboxId;
use std::io::{ErrorKind, Result};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directory of root's engines, which share their slots.
const USUAL: &str = "/run/paddock";
/// Used if `/run` is on a disk, as in containers. A file system with a journal keeps the names of deleted files from
/// being used again for half a minute, and looks through all of them for each new file: a burst of sandboxes slows
/// itself down.
const IN_MEMORY: &str = "/dev/shm/paddock";

pub fn run_directory(state: &Path) -> PathBuf {
    static ROOTS: OnceLock<PathBuf> = OnceLock::new();
    match rustix::process::geteuid().is_root() {
        true => ROOTS.get_or_init(|| choose(Path::new(USUAL), Path::new(IN_MEMORY))).clone(),
        false => state.join("run"),
    }
}

/// One name for a state directory, however its engine was told of it.
pub fn owner(state: &Path) -> PathBuf {
    state.canonicalize().unwrap_or_else(|_| state.to_path_buf())
}

/// The directory of the parts of a lasting sandbox that have a name in the file system.
pub fn of_sandbox(state: &Path, id: &SandboxId) -> PathBuf {
    run_directory(state).join(id.as_str())
}

/// Precondition: nothing runs in the sandbox any more.
pub fn remove_of_sandbox(directory: &Path) -> Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The same answer for every caller: a directory of another user is never used, and no other user can take root's away.
fn choose(usual: &Path, in_memory: &Path) -> PathBuf {
    let above = |path: &Path| path.parent().is_some_and(is_memory);
    let other = !above(usual) && above(in_memory) && is_private(in_memory);
    if other { in_memory.into() } else { usual.into() }
}

fn is_memory(path: &Path) -> bool {
    const RAMFS_MAGIC: i64 = 0x8584_58f6;
    rustix::fs::statfs(path).is_ok_and(|found| [libc::TMPFS_MAGIC, RAMFS_MAGIC].contains(&found.f_type))
}

/// Any user may make a name there first: a directory that is not this user's own, and closed to others, is not used.
fn is_private(path: &Path) -> bool {
    let _ = std::fs::DirBuilder::new().mode(0o700).create(path);
    let own = rustix::process::geteuid().as_raw();
    path.symlink_metadata()
        .is_ok_and(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn memory_is_used_where_the_usual_place_is_on_a_disk_and_nobody_was_there_first() {
        let memory = tempfile::tempdir_in("/dev/shm").unwrap();
        assert!(is_memory(memory.path()) && !is_memory(Path::new("/proc")));
        let (on_disk, free) = (Path::new("/proc/paddock"), memory.path().join("free"));
        assert_eq!(choose(on_disk, &free), free);
        assert_eq!(choose(on_disk, &free), free, "the second finds it");
        assert_eq!(choose(&memory.path().join("usual"), &free), memory.path().join("usual"));
        assert_eq!(choose(on_disk, Path::new("/proc/other")), on_disk);
        let open = memory.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        let link = memory.path().join("link");
        std::os::unix::fs::symlink(&free, &link).unwrap();
        for taken in [open, link] {
            assert_eq!(choose(on_disk, &taken), on_disk);
        }
    }
}
