//! Named lists of network rules: those that come with Paddock, and the owner's own in the state directory.

use serde::Deserialize;
use std::path::{Path, PathBuf};

const SHIPPED: [(&str, &str); 1] = [("model-apis", include_str!("../presets/model-apis.toml"))];
const LARGEST: u64 = 1 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Preset {
    /// Text for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    allow: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PresetError {
    #[error("preset file `{}` cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("preset file `{}` is damaged: {detail}", .path.display())]
    Damaged { path: PathBuf, detail: String },
}

/// The directory of the owner's own presets.
pub fn directory(state: &Path) -> PathBuf {
    state.join("net").join("presets")
}

/// `Ok(None)`: there is no preset of that name. The owner's own takes the place of a shipped one.
pub fn load(state: &Path, name: &str) -> Result<Option<Vec<String>>, PresetError> {
    if paddock_model::check_template_name(name).is_err() {
        return Ok(None);
    }
    let path = directory(state).join(format!("{name}.toml"));
    let text = match std::fs::metadata(&path) {
        Ok(found) if found.len() > LARGEST => {
            return Err(PresetError::Damaged { path, detail: "it is larger than 1 MiB".into() });
        }
        _ => std::fs::read_to_string(&path),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
                Some((_, text)) => text.to_string(),
                None => return Ok(None),
            }
        }
        Err(source) => return Err(PresetError::Unreadable { path, source }),
    };
    let preset: Preset = toml::from_str(&text)
        .map_err(|error| PresetError::Damaged { path, detail: error.message().to_string() })?;
    Ok(Some(preset.allow))
}

/// The names of all presets, for the error that lists them.
pub fn names(state: &Path) -> Vec<String> {
    let own = std::fs::read_dir(directory(state)).into_iter().flatten().flatten();
    let own = own.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_string()));
    let mut names: Vec<String> = own.chain(SHIPPED.iter().map(|(name, _)| name.to_string())).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_fine() {
        let state = tempfile::tempdir().unwrap();
        for (name, _) in SHIPPED {
            let rules = load(state.path(), name).unwrap().unwrap();
            for rule in rules {
                paddock_model::net::Rule::parse(&rule).unwrap();
            }
        }
        assert_eq!(names(state.path()), ["model-apis"]);
    }

    #[test]
    fn the_owners_own_takes_its_place_and_a_damaged_one_is_said() {
        let state = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory(state.path())).unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(directory(state.path()).join(name), text).unwrap();
        write("model-apis.toml", "allow = [\"models.example\"]");
        write("broken.toml", "allow = 3");
        assert_eq!(load(state.path(), "model-apis").unwrap(), Some(vec!["models.example".to_string()]));
        load(state.path(), "broken").unwrap_err();
        assert!(load(state.path(), "../../etc/passwd").unwrap().is_none());
        assert!(load(state.path(), "nope").unwrap().is_none());
    }
}
