//! Named settings: one TOML file each, in the state directory.

use crate::policy_file::{self, LARGEST_FILE, PolicyError};
use paddock_model::{NameError, Policy, check_template_name};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("there is no template `{0}`")]
    Missing(String),
    #[error("template `{0}` is built in, and cannot be removed")]
    BuiltIn(String),
    #[error("there is a template `{0}` already")]
    Exists(String),
    #[error("template file `{}` is damaged", .path.display())]
    Damaged { path: PathBuf, source: PolicyError },
    #[error("template file `{}` cannot be used", .path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("the settings cannot be written as TOML")]
    Unwritable(#[from] toml::ser::Error),
}

/// This template always exists: the host's Python, Node and shells. A file of that name takes its place.
pub const BUILT_IN: &str = "code-interpreter";

#[derive(Debug)]
pub struct Listed {
    pub name: String,
    /// The settings, or the mistake in its file.
    pub settings: Result<Policy, TemplateError>,
    /// True if no file has this template.
    pub built_in: bool,
}

impl TemplateError {
    pub fn hint(&self) -> Option<String> {
        match self {
            TemplateError::Missing(name) if crate::shipped_builds::text(name).is_some() => Some(format!(
                "it comes with Paddock: `paddock template build {name}` makes it, on the host of the server"
            )),
            TemplateError::Missing(_) => Some("`paddock template ls` lists those there are".to_string()),
            TemplateError::Exists(_) => Some("--force replaces it".to_string()),
            TemplateError::Damaged { .. } => {
                Some("mend the file, or replace it with `paddock template add --force`".to_string())
            }
            _ => None,
        }
    }
}

pub fn load(state_dir: &Path, name: &str) -> Result<Policy, TemplateError> {
    let path = file_of(state_dir, name)?;
    let mut bytes = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if name == BUILT_IN {
                Ok(Policy::default())
            } else {
                Err(TemplateError::Missing(name.to_string()))
            };
        }
        Err(source) => return Err(TemplateError::Unusable { path, source }),
    }
    policy_file::parse_bytes(&bytes).map_err(|source| TemplateError::Damaged { path, source })
}

/// A reader sees the old file or the new one, never a part; of two writers that create a template, only one succeeds.
pub fn save(state_dir: &Path, name: &str, policy: &Policy, replace: bool) -> Result<(), TemplateError> {
    let path = file_of(state_dir, name)?;
    let text = to_toml(policy)?;
    match write_atomically(&path, text.as_bytes(), replace) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(TemplateError::Exists(name.to_string()))
        }
        Err(source) => Err(TemplateError::Unusable { path, source }),
    }
}

pub fn remove(state_dir: &Path, name: &str) -> Result<(), TemplateError> {
    let path = file_of(state_dir, name)?;
    fs::remove_file(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound if name == BUILT_IN => TemplateError::BuiltIn(name.to_string()),
        io::ErrorKind::NotFound => TemplateError::Missing(name.to_string()),
        _ => TemplateError::Unusable { path, source },
    })
}

/// Sorted by name, the built-in one included.
pub fn list(state_dir: &Path) -> Result<Vec<Listed>, TemplateError> {
    let path = directory(state_dir);
    let entries = match fs::read_dir(&path) {
        Ok(entries) => Some(entries),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(source) => return Err(TemplateError::Unusable { path, source }),
    };
    let mut names = Vec::new();
    for entry in entries.into_iter().flatten() {
        let file_name =
            entry.map_err(|source| TemplateError::Unusable { path: path.clone(), source })?.file_name();
        let name = file_name.to_str().and_then(|name| name.strip_suffix(".toml"));
        names.extend(name.filter(|name| check_template_name(name).is_ok()).map(str::to_string));
    }
    let built_in = !names.iter().any(|name| name == BUILT_IN);
    names.extend(built_in.then(|| BUILT_IN.to_string()));
    names.sort();
    let listed = |name: String| Listed {
        settings: load(state_dir, &name),
        built_in: built_in && name == BUILT_IN,
        name,
    };
    Ok(names.into_iter().map(listed).collect())
}

pub fn to_toml(policy: &Policy) -> Result<String, TemplateError> {
    Ok(toml::to_string(policy)?)
}

fn directory(state_dir: &Path) -> PathBuf {
    state_dir.join("templates")
}

fn file_of(state_dir: &Path, name: &str) -> Result<PathBuf, TemplateError> {
    check_template_name(name)?;
    Ok(directory(state_dir).join(format!("{name}.toml")))
}

fn write_atomically(path: &Path, bytes: &[u8], replace: bool) -> io::Result<()> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    // The file is made with mode 0600.
    let mut file = tempfile::NamedTempFile::new_in(parent)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    let kept = if replace { file.persist(path) } else { file.persist_noclobber(path) };
    kept.map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::LimitsLayer;
    use std::os::unix::fs::PermissionsExt;

    fn policy() -> Policy {
        Policy {
            image: Some("python:3.12".into()),
            read: vec!["/data".into()],
            env: [("A B.c".into(), "x\n\"\u{1b}".into())].into(),
            command: vec!["python3".into(), "-q".into()],
            limits: LimitsLayer { memory: Some("1GiB".into()), ..Default::default() },
            ..Default::default()
        }
    }

    #[test]
    fn what_is_saved_is_loaded_listed_and_removed() {
        let state = tempfile::tempdir().unwrap();
        let listed = list(state.path()).unwrap();
        assert_eq!((listed.len(), listed[0].name.as_str(), listed[0].built_in), (1, BUILT_IN, true));
        save(state.path(), "py", &policy(), false).unwrap();
        assert_eq!(load(state.path(), "py").unwrap(), policy());
        let mode = fs::metadata(state.path().join("templates/py.toml")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(list(state.path()).unwrap()[1].name, "py");
        remove(state.path(), "py").unwrap();
        assert_eq!(remove(state.path(), "py").unwrap_err().to_string(), "there is no template `py`");
        assert_eq!(fs::read_dir(state.path().join("templates")).unwrap().count(), 0);
    }

    #[test]
    fn a_template_is_replaced_only_on_demand() {
        let state = tempfile::tempdir().unwrap();
        save(state.path(), "py", &policy(), false).unwrap();
        let error = save(state.path(), "py", &Policy::default(), false).unwrap_err();
        assert_eq!(error.to_string(), "there is a template `py` already");
        assert_eq!(load(state.path(), "py").unwrap(), policy());
        save(state.path(), "py", &Policy::default(), true).unwrap();
        assert_eq!(load(state.path(), "py").unwrap(), Policy::default());
    }

    #[test]
    fn the_built_in_one_gives_way_to_a_file() {
        let state = tempfile::tempdir().unwrap();
        assert_eq!(load(state.path(), BUILT_IN).unwrap(), Policy::default());
        let error = remove(state.path(), BUILT_IN).unwrap_err();
        assert_eq!(error.to_string(), "template `code-interpreter` is built in, and cannot be removed");
        save(state.path(), BUILT_IN, &policy(), false).unwrap();
        assert_eq!(load(state.path(), BUILT_IN).unwrap(), policy());
        let listed = list(state.path()).unwrap();
        assert_eq!((listed.len(), listed[0].built_in), (1, false));
        remove(state.path(), BUILT_IN).unwrap();
        assert_eq!(load(state.path(), BUILT_IN).unwrap(), Policy::default());
    }

    #[test]
    fn a_damaged_file_is_named() {
        let state = tempfile::tempdir().unwrap();
        save(state.path(), "py", &policy(), false).unwrap();
        let path = state.path().join("templates/py.toml");
        fs::write(&path, "image = ").unwrap();
        let error = load(state.path(), "py").unwrap_err();
        assert_eq!(error.to_string(), format!("template file `{}` is damaged", path.display()));
        assert!(list(state.path()).unwrap()[1].settings.is_err());
    }

    #[test]
    fn names_that_leave_the_directory_are_refused() {
        let state = tempfile::tempdir().unwrap();
        for bad in ["../x", "a/b", "", "a\nb", "\u{1b}"] {
            let error = load(state.path(), bad).unwrap_err();
            assert!(error.to_string().starts_with("template name `"), "{error}");
        }
    }
}
