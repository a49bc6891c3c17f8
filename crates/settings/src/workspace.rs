//! The workspace, and which names in it stay read-only.

use super::Surroundings;
use super::paths::{self, PathError};
use paddock_model::protected::{self, Held, PROTECTED, Scope};
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
    let (protect, unprotected) = protected_names(layers, directory.as_deref(), is_home)?;
    Ok(directory.map(|directory| Workspace { directory, protect, writable: Vec::new(), unprotected }))
}

fn checked_directory(text: &str, surroundings: Surroundings) -> Result<PathBuf, WorkspaceError> {
    let what = "workspace";
    let directory = paths::host(what, text)?;
    paths::refused(what, &directory, paths::refuse_writable(&directory, surroundings.state_dir))?;
    if directory.is_dir() { Ok(directory) } else { Err(WorkspaceError::NotDirectory(directory)) }
}

/// A later layer wins: a flag can protect a name again that a template unprotects. Returns the names that are held, and
/// the names that were given up.
fn protected_names(
    layers: &[Policy],
    directory: Option<&Path>,
    is_home: bool,
) -> Result<(Vec<PathBuf>, Vec<PathBuf>), WorkspaceError> {
    let mut names = names_of_the_table(Scope::Workspace, directory);
    if is_home {
        names.extend(names_of_the_table(Scope::Home, directory));
    }
    let mut given_up = BTreeSet::new();
    for layer in layers {
        if let Some(both) = layer.unprotect.iter().find(|name| layer.protect.contains(name)) {
            return Err(WorkspaceError::Both(both.clone()));
        }
        for text in &layer.protect {
            let name = name_in_workspace("protected name", text)?;
            given_up.remove(&name);
            names.insert(name);
        }
        for text in &layer.unprotect {
            let name = name_in_workspace("unprotected name", text)?;
            if !names.remove(&name) && !could_be_held(&name, directory) {
                return Err(WorkspaceError::NotProtected(text.clone()));
            }
            given_up.insert(name);
        }
    }
    Ok((without_nested(&names), given_up.into_iter().collect()))
}

/// The names of the table that are held in this directory: always, or because they exist in it.
pub fn names_of_the_table(scope: Scope, directory: Option<&Path>) -> BTreeSet<PathBuf> {
    let exists = |name: &str| directory.is_some_and(|d| d.join(name).symlink_metadata().is_ok());
    let entries = PROTECTED.iter().filter(|entry| entry.scope == scope);
    let held = entries.filter(|entry| match entry.held {
        Held::Always => true,
        Held::WherePresent | Held::WithHook(_) => exists(entry.name),
        Held::Told => false,
    });
    held.map(|entry| PathBuf::from(entry.name)).collect()
}

/// True if the fence might hold the name: by the table, in a directory below, or because a repository's settings name
/// it.
fn could_be_held(name: &Path, directory: Option<&Path>) -> bool {
    let by_table = |name: &Path| protected::find(name).is_some_and(|entry| entry.held != Held::Told);
    let below = name.file_name().and_then(|last| last.to_str()).and_then(protected::find_anywhere);
    let by_settings = || directory.is_some_and(|directory| paddock_backends::names_found(directory, name));
    by_table(name) || below.is_some() || by_settings()
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

/// Leaves out names below a protected directory, which protects them already.
fn without_nested(names: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let below_another = |name: &Path| name.ancestors().skip(1).any(|above| names.contains(above));
    names.iter().filter(|name| !below_another(name)).cloned().collect()
}
