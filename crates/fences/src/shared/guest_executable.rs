//! The guest that this build carries, as a file that can be executed.
//!
//! A file rather than a copy in memory: all sandboxes share its pages. It is never inside a sandbox, its
//! owner is the engine's user, and the guest hides its own /proc entries, so that nothing inside can reach it
//! (the way of CVE-2019-5736).

use rustix::fs::{AtFlags, CWD, RenameFlags, linkat, renameat_with};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// How the names of directories begin that have not got their last name, or have lost it.
const UNFINISHED: &str = ".sudo-";

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
/// this engine executes. One that is not as it was written takes another's place.
pub fn place_of_sudo(state: &Path) -> Result<PathBuf> {
    let directory = state.join("guest");
    let place = directory.join(concat!(env!("PADDOCK_GUEST_DIGEST"), ".sudo"));
    if is_whole(&place) {
        return Ok(place);
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let mut options = OpenOptions::new();
    let lock = options.write(true).create(true).truncate(false).mode(0o600);
    let lock = lock.open(directory.join("sudo.lock"))?;
    lock.lock()?;
    // Another engine may have been faster.
    if is_whole(&place) {
        return Ok(place);
    }
    let unfinished = new_directory(&directory)?;
    write_sudo(&unfinished)?;
    match std::fs::symlink_metadata(&place) {
        Ok(_) => renameat_with(CWD, &unfinished, CWD, &place, RenameFlags::EXCHANGE)?,
        Err(_) => std::fs::rename(&unfinished, &place)?,
    }
    File::open(&directory)?.sync_all()?;
    remove_unfinished(&directory)?;
    Ok(place)
}

/// As [`open_checked`], with the directories above the file.
fn is_whole(place: &Path) -> bool {
    let is_ours = |path: &Path| {
        std::fs::symlink_metadata(path).is_ok_and(|found| {
            let ours = found.uid() == rustix::process::geteuid().as_raw();
            ours && found.is_dir() && found.mode() & 0o777 == 0o755
        })
    };
    let file = || open_checked(&place.join("bin/sudo"))?.metadata();
    is_ours(place) && is_ours(&place.join("bin")) && file().is_ok_and(|found| found.mode() & 0o777 == 0o555)
}

/// Precondition: no other engine writes one, so that all unfinished ones are of engines that were killed.
fn new_directory(directory: &Path) -> Result<PathBuf> {
    remove_unfinished(directory)?;
    let path = directory.join(UNFINISHED);
    std::fs::create_dir(&path)?;
    Ok(path)
}

fn remove_unfinished(directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory)?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            match entry.file_type()?.is_dir() {
                true => std::fs::remove_dir_all(entry.path())?,
                false => std::fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}

/// All of it is on the disk before it gets its name.
fn write_sudo(unfinished: &Path) -> Result<()> {
    let bin = unfinished.join("bin");
    std::fs::create_dir(&bin)?;
    let path = bin.join("sudo");
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(GUEST)?;
    // The mode of a new file is subject to the umask.
    file.set_permissions(Permissions::from_mode(0o555))?;
    file.sync_all()?;
    for made in [bin.as_path(), unfinished] {
        std::fs::set_permissions(made, Permissions::from_mode(0o755))?;
        File::open(made)?.sync_all()?;
    }
    let reader = File::open(path)?;
    drop(file);
    wait_for_writers(&reader);
    Ok(())
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

    #[test]
    fn a_sudo_that_is_not_as_it_was_written_is_written_anew() {
        let state = tempfile::tempdir().unwrap();
        let place = place_of_sudo(state.path()).unwrap();
        let sudo = place.join("bin/sudo");
        let inode = || std::fs::metadata(&sudo).unwrap().ino();
        let (is_as_written, first) = (|| std::fs::read(&sudo).unwrap() == GUEST, inode());
        assert!(is_as_written() && place_of_sudo(state.path()).unwrap() == place && inode() == first);
        let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let breakages: [&dyn Fn(); 6] = [
            &|| std::fs::remove_file(&sudo).unwrap(),
            &|| {
                mode(&sudo, 0o755);
                OpenOptions::new().write(true).open(&sudo).unwrap().set_len(7).unwrap();
                mode(&sudo, 0o555);
            },
            &|| mode(&sudo, 0o757),
            &|| mode(&place.join("bin"), 0o777),
            &|| std::fs::remove_dir_all(place.join("bin")).unwrap(),
            &|| {
                std::fs::remove_dir_all(&place).unwrap();
                std::os::unix::fs::symlink("/usr", &place).unwrap();
            },
        ];
        for breaks in breakages {
            breaks();
            assert!(!is_whole(&place));
            assert_eq!(place_of_sudo(state.path()).unwrap(), place);
            assert!(is_whole(&place) && is_as_written());
        }
    }

    #[test]
    fn what_a_killed_engine_left_of_a_sudo_is_removed() {
        let state = tempfile::tempdir().unwrap();
        let left = state.path().join("guest/.sudo-4711-0/bin");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join("sudo"), "half").unwrap();
        let place = place_of_sudo(state.path()).unwrap();
        let names = std::fs::read_dir(state.path().join("guest")).unwrap();
        let names: Vec<_> = names.flatten().map(|entry| entry.file_name()).collect();
        assert!(
            names.len() == 2 && names.iter().any(|name| Some(name.as_os_str()) == place.file_name()),
            "{names:?}"
        );
    }
}
