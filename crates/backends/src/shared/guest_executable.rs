//! The guest that this build carries, as a file that can be executed.
//!
//! A file rather than a copy in memory: all sandboxes share its pages. It is never inside a sandbox, its
//! owner is the engine's user, and the guest hides its own /proc entries, so that nothing inside can reach it
//! (the way of CVE-2019-5736).

use rustix::fs::{AtFlags, CWD, linkat};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

static GUEST: &[u8] = include_bytes!(env!("PADDOCK_GUEST_EXECUTABLE"));

/// Unpacked on first use, below the state directory.
pub fn open(state: &Path) -> Result<File> {
    let path = place(state);
    match open_checked(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            unpack(&path)?;
            open_checked(&path)
        }
        found => found,
    }
}

/// The bytes of the guest, for a VM that boots from it.
pub fn bytes() -> &'static [u8] {
    GUEST
}

/// Tells the guest of one build from that of another.
pub fn digest() -> &'static str {
    env!("PADDOCK_GUEST_DIGEST")
}

/// One file per build: an engine of another version keeps its own.
pub fn place(state: &Path) -> PathBuf {
    state.join("guest").join(env!("PADDOCK_GUEST_DIGEST"))
}

/// A directory with a copy of the guest as `bin/sudo`, for sandboxes whose user may become root. It is another file than the one that
/// this engine executes.
pub fn place_of_sudo(state: &Path) -> Result<PathBuf> {
    let place = state.join("guest").join(concat!(env!("PADDOCK_GUEST_DIGEST"), ".sudo"));
    if place.is_dir() {
        return Ok(place);
    }
    let directory = state.join("guest");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let unfinished = new_directory(&directory)?;
    let bin = unfinished.join("bin");
    std::fs::DirBuilder::new().mode(0o755).create(&bin)?;
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(bin.join("sudo"))?;
    file.write_all(GUEST)?;
    // The mode of a new file is subject to the umask.
    file.set_permissions(Permissions::from_mode(0o555))?;
    for made in [&bin, &unfinished] {
        std::fs::set_permissions(made, Permissions::from_mode(0o755))?;
    }
    let reader = File::open(bin.join("sudo"))?;
    drop(file);
    wait_for_writers(&reader);
    let renamed = std::fs::rename(&unfinished, &place);
    if renamed.is_err() {
        let _ = std::fs::remove_dir_all(&unfinished);
    }
    // Another engine may have been faster.
    if place.is_dir() { Ok(place) } else { renamed.map(|()| place) }
}

/// A directory that no other process makes at the same time. One that a killed engine left unfinished is never used.
fn new_directory(directory: &Path) -> Result<PathBuf> {
    static MADE: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = MADE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = directory.join(format!(".sudo-{}-{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir(&path)?;
    Ok(path)
}

fn open_checked(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    let found = file.metadata()?;
    let ours = found.uid() == rustix::process::geteuid().as_raw();
    if !ours || found.mode() & 0o022 != 0 || found.len() != GUEST.len() as u64 || !found.is_file() {
        let reason = format!("{} is not the file that Paddock wrote; remove it", path.display());
        return Err(Error::new(ErrorKind::PermissionDenied, reason));
    }
    Ok(file)
}

/// The file has no name until it is whole, so that nothing of a killed engine is left.
fn unpack(path: &Path) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mut file =
        OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(0o500).open(directory)?;
    file.write_all(GUEST)?;
    // A guest may begin with other ids than the engine's; no other process can reach the file through the directory.
    file.set_permissions(Permissions::from_mode(0o555))?;
    let reader = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    drop(file);
    wait_for_writers(&reader);
    let unnamed = format!("/proc/self/fd/{}", reader.as_raw_fd());
    match linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW) {
        // Another engine was faster.
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// The kernel executes no file that is open for writing anywhere, and a process that another thread is just starting
/// holds all our open files. A lease for reading is given only when no writer is left; where the file system gives
/// none, there is nothing to ask.
fn wait_for_writers(file: &File) {
    let lease = |kind: i32| {
        // SAFETY: the descriptor is open, and the argument is a number.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }
    };
    for pause in [1, 2, 5, 10, 20, 50, 100, 200, 500] {
        if lease(libc::F_RDLCK) == 0 {
            lease(libc::F_UNLCK);
            return;
        }
        if Error::last_os_error().kind() != ErrorKind::WouldBlock {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn unpacked_once_and_refused_when_changed() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(open(state.path()).unwrap().metadata().unwrap().len(), GUEST.len() as u64);
        open(state.path()).unwrap();
        std::fs::set_permissions(place(state.path()), PermissionsExt::from_mode(0o777)).unwrap();
        assert_eq!(open(state.path()).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }
}
