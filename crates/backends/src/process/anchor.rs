//! A directory that every sandbox of root's has above its root. No process inside can reach it; it is empty and
//! read-only.
//!
//! A Landlock domain follows a process into a fork, where its rules mean nothing: they are about files of the source.
//! But this directory is the same in both, so a right below it holds in both.

use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::shared::run_directory::run_directory;
use paddock_protocol::ANCHORED;
use rustix::fs::CWD;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::fs::Permissions;
use std::io::Result;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

const NAME: &str = "above";

/// A detached mount of it.
pub fn detached(state: &Path) -> std::result::Result<OwnedFd, CreateError> {
    let directory = run_directory(state).join(NAME);
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let open = || open_tree(CWD, &directory, flags);
    let opened = match open() {
        Err(rustix::io::Errno::NOENT) => make(&directory).and_then(|()| Ok(open()?)),
        opened => opened.map_err(Into::into),
    };
    opened.host(|| "open the anchor".into())
}

/// The directory appears with its whole content at once. Every guest can pass through it, with any id.
fn make(directory: &Path) -> Result<()> {
    // A name of its own: the first creates of a host may come at the same time, in one process.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let new = directory.with_extension(format!("new-{}-{number}", std::process::id()));
    std::fs::create_dir_all(new.join(ANCHORED))?;
    let mut part = Some(new.join(ANCHORED));
    while let Some(path) = part.take_if(|path| path.starts_with(&new)) {
        std::fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        part = path.parent().map(Path::to_path_buf);
    }
    match std::fs::rename(&new, directory) {
        // Another engine was first.
        Err(_) if directory.join(ANCHORED).is_dir() => std::fs::remove_dir_all(&new),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_open_to_all() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join(NAME);
        make(&directory).unwrap();
        make(&directory).unwrap();
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!([mode(&directory), mode(&directory.join(ANCHORED))], [0o755, 0o755]);
        assert_eq!(place.path().read_dir().unwrap().count(), 1);
    }

    #[test]
    fn all_who_are_first_at_the_same_time_have_it() {
        for _ in 0..20 {
            let place = tempfile::tempdir().unwrap();
            let directory = place.path().join(NAME);
            let together = std::sync::Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        together.wait();
                        make(&directory).unwrap();
                        assert!(directory.join(ANCHORED).is_dir());
                    });
                }
            });
            assert_eq!(place.path().read_dir().unwrap().count(), 1);
        }
    }
}
