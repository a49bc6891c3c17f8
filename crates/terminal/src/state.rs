//! The state directory: where it is, and that no other user can write to it.

use crate::caller::Environment;
use crate::env_vars;
use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The host's state directory, unless a variable names another.
const OF_ROOT: &str = "/var/lib/paddock";

#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("there is no place for the state directory: neither PADDOCK_STATE_DIR nor HOME is set")]
    NoPlace,
    #[error("state directory `{}` is not an absolute path", .0.display())]
    NotAbsolute(PathBuf),
    #[error("state directory `{}` cannot be used", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("state directory `{}` is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("state directory `{}` belongs to user {owner}, but this is user {caller}", .path.display())]
    ForeignOwner { path: PathBuf, owner: u32, caller: u32 },
    #[error("state directory `{}` can be written by others (mode {mode:03o})", .path.display())]
    WritableByOthers { path: PathBuf, mode: u32 },
}

impl StateError {
    pub fn hint(&self) -> Option<String> {
        match self {
            StateError::WritableByOthers { path, .. } => Some(format!("chmod go-w {}", path.display())),
            _ => Some(format!("set {} to a directory of your own", env_vars::PADDOCK_STATE_DIR)),
        }
    }
}

/// Where the state directory is, or would be; symbolic links on the way are resolved.
pub fn locate(environment: &Environment) -> Result<PathBuf, StateError> {
    let path = chosen(environment)?;
    if !path.is_absolute() {
        return Err(StateError::NotAbsolute(path));
    }
    let resolved = resolve_existing(&path);
    resolved.map_err(|source| StateError::Unusable { path, source })
}

/// The state directory, made if need be.
pub fn prepare(environment: &Environment) -> Result<PathBuf, StateError> {
    let path = locate(environment)?;
    let unusable = |source| StateError::Unusable { path: path.clone(), source };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(unusable)?;
    let found = std::fs::symlink_metadata(&path).map_err(unusable)?;
    let caller = geteuid().as_raw();
    if !found.is_dir() {
        return Err(StateError::NotDirectory(path));
    }
    if found.uid() != caller {
        return Err(StateError::ForeignOwner { path, owner: found.uid(), caller });
    }
    if found.mode() & 0o022 != 0 {
        return Err(StateError::WritableByOthers { path, mode: found.mode() & 0o777 });
    }
    Ok(path)
}

/// True if this is the user's state directory when no variable names another.
pub fn is_usual(environment: &Environment, state_dir: &Path) -> bool {
    let usual = match geteuid().is_root() {
        true => Some(PathBuf::from(OF_ROOT)),
        false => environment.home().map(|home| home.join(".local/state/paddock")),
    };
    usual.and_then(|usual| resolve_existing(&usual).ok()).is_some_and(|usual| usual == state_dir)
}

fn chosen(environment: &Environment) -> Result<PathBuf, StateError> {
    if let Some(path) = environment.get(env_vars::PADDOCK_STATE_DIR) {
        return Ok(PathBuf::from(path));
    }
    if geteuid().is_root() {
        return Ok(PathBuf::from(OF_ROOT));
    }
    let home = || environment.home().map(|home| home.join(".local/state"));
    let parent = environment.get(env_vars::XDG_STATE_HOME).map(PathBuf::from).or_else(home);
    Ok(parent.ok_or(StateError::NoPlace)?.join("paddock"))
}

/// Canonical as far as the path exists, so that it can be compared with other canonical paths before it is made.
fn resolve_existing(path: &Path) -> io::Result<PathBuf> {
    match (std::fs::canonicalize(path), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(resolve_existing(parent)?.join(name))
        }
        (result, _, _) => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn environment(path: &Path) -> Environment {
        [(env_vars::PADDOCK_STATE_DIR.into(), path.into())].into_iter().collect()
    }

    #[test]
    fn it_is_made_private() {
        let parent = tempfile::tempdir().unwrap();
        let path = prepare(&environment(&parent.path().join("a/state"))).unwrap();
        assert_eq!(std::fs::metadata(path).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_directory_that_others_can_write_is_refused() {
        let shared = tempfile::tempdir().unwrap();
        std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o770)).unwrap();
        let error = prepare(&environment(shared.path())).unwrap_err();
        assert!(error.to_string().contains("can be written by others (mode 770)"), "{error}");
        assert!(error.hint().unwrap().starts_with("chmod go-w /"));
    }

    #[test]
    fn a_file_or_a_relative_path_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = prepare(&environment(file.path())).unwrap_err();
        assert!(error.to_string().contains("cannot be used"), "{error}");
        let error = prepare(&environment(Path::new("state"))).unwrap_err();
        assert_eq!(error.to_string(), "state directory `state` is not an absolute path");
    }

    #[test]
    fn links_on_the_way_are_resolved_before_it_exists() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::create_dir(parent.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", parent.path().join("link")).unwrap();
        let found = locate(&environment(&parent.path().join("link/not/yet"))).unwrap();
        assert_eq!(found, parent.path().canonicalize().unwrap().join("real/not/yet"));
    }
}
