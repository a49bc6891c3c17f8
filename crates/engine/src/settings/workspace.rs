//! The workspace, and which names in it stay read-only.

use super::Surroundings;
use super::paths::{self, PathError};
use super::protected::{IN_A_HOME, IN_EVERY_WORKSPACE, WHERE_PRESENT};
use paddock_model::{Policy, Workspace};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("workspace `{}` is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("`{}` is not protected, so it cannot be unprotected", .0.escape_debug())]
    NotProtected(String),
    #[error("`{}` is to be protected and unprotected at once", .0.escape_debug())]
    Both(String),
}

impl WorkspaceError {
    pub fn hint(&self) -> Option<String> {
        match self {
            WorkspaceError::Path(error) => error.hint(),
            WorkspaceError::NotProtected(_) => Some("--explain shows the protected names".to_string()),
            WorkspaceError::NotDirectory(_) => {
                Some("--read and --write show a single file inside".to_string())
            }
            WorkspaceError::Both(_) => None,
        }
    }
}

pub fn resolve(layers: &[Policy], surroundings: Surroundings) -> Result<Option<Workspace>, WorkspaceError> {
    let text = layers.iter().rev().find_map(|layer| layer.workspace.as_deref());
    let directory = text.map(|text| checked_directory(text, surroundings)).transpose()?;
    let is_home = match (&directory, surroundings.home) {
        (Some(directory), Some(home)) => std::fs::canonicalize(home).is_ok_and(|home| home == *directory),
        _ => false,
    };
    // Checked without a workspace too: a template may leave the directory to its caller.
    let protect = protected_names(layers, directory.as_deref(), is_home)?;
    Ok(directory.map(|directory| Workspace { directory, protect, writable: Vec::new() }))
}

fn checked_directory(text: &str, surroundings: Surroundings) -> Result<PathBuf, WorkspaceError> {
    let what = "workspace";
    let directory = paths::host(what, text)?;
    paths::refused(what, &directory, paths::refuse_writable(&directory, surroundings.state_dir))?;
    if directory.is_dir() { Ok(directory) } else { Err(WorkspaceError::NotDirectory(directory)) }
}

/// A later layer wins: what a template unprotects, a flag can protect again.
fn protected_names(
    layers: &[Policy],
    directory: Option<&Path>,
    is_home: bool,
) -> Result<Vec<PathBuf>, WorkspaceError> {
    let home_names: &[_] = if is_home { IN_A_HOME } else { &[] };
    let exists = |name: &str| directory.is_some_and(|d| d.join(name).symlink_metadata().is_ok());
    let present = WHERE_PRESENT.iter().filter(|(name, _)| exists(name));
    let table = IN_EVERY_WORKSPACE.iter().chain(home_names).chain(present);
    let mut names: BTreeSet<PathBuf> = table.map(|(name, _)| PathBuf::from(name)).collect();
    for layer in layers {
        if let Some(both) = layer.unprotect.iter().find(|name| layer.protect.contains(name)) {
            return Err(WorkspaceError::Both(both.clone()));
        }
        for text in &layer.protect {
            names.insert(name_in_workspace("protected name", text)?);
        }
        for text in &layer.unprotect {
            let name = name_in_workspace("unprotected name", text)?;
            let could_be = WHERE_PRESENT.iter().any(|(known, _)| Path::new(known) == name);
            if !names.remove(&name) && !could_be {
                return Err(WorkspaceError::NotProtected(text.clone()));
            }
        }
    }
    Ok(without_nested(&names))
}

fn name_in_workspace(what: &'static str, text: &str) -> Result<PathBuf, PathError> {
    let problem = match text {
        _ if text.contains(['\0', '\n', '\r']) => "holds a NUL or a newline",
        _ if text.starts_with('/') => "is absolute: write it relative to the workspace",
        _ if Path::new(text).components().any(|part| part == Component::ParentDir) => "holds `..`",
        _ => "",
    };
    if !problem.is_empty() {
        return Err(paths::malformed(what, text, problem));
    }
    let plain = |part: &Component| matches!(part, Component::Normal(_));
    let name: PathBuf = Path::new(text).components().filter(plain).collect();
    if name.as_os_str().is_empty() {
        return Err(paths::malformed(what, text, "is the workspace itself; --read shows it read-only"));
    }
    Ok(name)
}

/// What is below a protected directory is protected with it.
fn without_nested(names: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let below_another = |name: &Path| name.ancestors().skip(1).any(|above| names.contains(above));
    names.iter().filter(|name| !below_another(name)).cloned().collect()
}
