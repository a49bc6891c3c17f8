//! The home of an agent, one for each workspace: its login and its sessions stay, and it never sees the user's.
//!
//! The agent wrote everything in it. The host makes and removes the directory, and reads nothing below it.

use super::ShieldError;
use sha2::{Digest, Sha256};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Where it stands inside.
pub const TARGET: &str = "/home/agent";

/// A file for people that look through the homes: it names the workspace of this one.
const OWNER: &str = "workspace";

/// Where the home of a workspace is, or would be.
pub fn locate(state: &Path, workspace: &Path) -> PathBuf {
    place(state, workspace).join("home")
}

/// Makes it if need be.
pub fn prepare(state: &Path, workspace: &Path) -> Result<PathBuf, ShieldError> {
    let place = place(state, workspace);
    let home = place.join("home");
    let make = || -> io::Result<PathBuf> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&home)?;
        let owner = place.join(OWNER);
        match std::fs::read(&owner) {
            Ok(bytes) => Ok(PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::write(&owner, workspace.as_os_str().as_bytes())?;
                Ok(workspace.to_path_buf())
            }
            Err(error) => Err(error),
        }
    };
    let owner = make().map_err(|source| ShieldError::HomeDirectory { path: home.clone(), source })?;
    if owner != workspace {
        return Err(ShieldError::HomeOfAnother { path: home, other: owner });
    }
    Ok(home)
}

/// `false`: there was none. Links in it are removed and not followed.
pub fn forget(state: &Path, workspace: &Path) -> Result<bool, ShieldError> {
    let path = place(state, workspace);
    match std::fs::remove_dir_all(&path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(ShieldError::HomeDirectory { path, source }),
    }
}

fn place(state: &Path, workspace: &Path) -> PathBuf {
    let digest = Sha256::digest(workspace.as_os_str().as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    state.join("shield").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_workspace_has_its_own() {
        let state = tempfile::tempdir().unwrap();
        let home = prepare(state.path(), Path::new("/a")).unwrap();
        assert_eq!(home, locate(state.path(), Path::new("/a")));
        assert_eq!(std::fs::metadata(&home).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(home.join("login"), "x").unwrap();
        assert_eq!(prepare(state.path(), Path::new("/a")).unwrap(), home);
        assert!(home.join("login").exists());
        assert_ne!(prepare(state.path(), Path::new("/b")).unwrap(), home);
    }

    #[test]
    fn it_is_forgotten_without_following_links() {
        let state = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("kept"), "x").unwrap();
        let home = prepare(state.path(), Path::new("/a")).unwrap();
        std::os::unix::fs::symlink(outside.path(), home.join("link")).unwrap();
        assert!(forget(state.path(), Path::new("/a")).unwrap());
        assert!(!forget(state.path(), Path::new("/a")).unwrap());
        assert!(outside.path().join("kept").exists() && !home.exists());
    }

    #[test]
    fn a_home_of_another_directory_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let home = prepare(state.path(), Path::new("/a")).unwrap();
        std::fs::write(home.parent().unwrap().join(OWNER), "/b").unwrap();
        let error = prepare(state.path(), Path::new("/a")).unwrap_err();
        assert!(error.to_string().contains("holds the home of another directory, `/b`"), "{error}");
    }
}
