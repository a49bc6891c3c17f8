//! A job's file, with the contents of the files that it names.

use crate::caller::Caller;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_jobs::{FileError, LARGEST_INPUTS, parse};
use paddock_model::api::{JobInput, JobSpec};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum JobFileError {
    #[error("job file `{}` cannot be read", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("job file `{}`", .path.display())]
    Parse { path: PathBuf, source: FileError },
    #[error("input `{from}` of the job cannot be read")]
    Input { from: String, source: io::Error },
    #[error("input `{0}` of the job is neither a file nor a directory")]
    Kind(String),
    #[error("the inputs of the job are more than {} MiB", LARGEST_INPUTS >> 20)]
    TooLarge,
    #[error("input `{0}` of the job has a name that is not UTF-8")]
    NotText(String),
}

impl JobFileError {
    pub fn hint(&self) -> Option<String> {
        match self {
            JobFileError::Parse { source, .. } => source.hint(),
            JobFileError::TooLarge => Some("put what is large into a volume: `paddock volume put`".into()),
            JobFileError::Input { .. } => Some("`from` is relative to the job's file".into()),
            _ => None,
        }
    }
}

pub fn read(path: &Path, caller: &mut Caller) -> Result<JobSpec, JobFileError> {
    let failed = |source| JobFileError::Read { path: path.to_path_buf(), source };
    let mut bytes = Vec::new();
    let stdin = path == Path::new("-");
    // One byte more than is allowed is enough to refuse it.
    let most = (8 << 20) + 1;
    match stdin {
        true => (&mut *caller.stdin).take(most).read_to_end(&mut bytes).map_err(failed)?,
        false => {
            std::fs::File::open(path).map_err(failed)?.take(most).read_to_end(&mut bytes).map_err(failed)?
        }
    };
    let mut spec =
        parse(&bytes).map_err(|source| JobFileError::Parse { path: path.to_path_buf(), source })?;
    let beside = if stdin { Path::new(".") } else { path.parent().unwrap_or(Path::new(".")) };
    let mut left = LARGEST_INPUTS;
    let mut inputs = Vec::new();
    for input in std::mem::take(&mut spec.inputs) {
        match input.from.clone() {
            Some(from) => add(&mut inputs, &input, &beside.join(&from), &mut left)?,
            None => inputs.push(input),
        }
    }
    spec.inputs = inputs;
    Ok(spec)
}

/// A file as it is, a directory with all that is in it; links are not followed below it.
fn add(all: &mut Vec<JobInput>, input: &JobInput, from: &Path, left: &mut u64) -> Result<(), JobFileError> {
    let shown = || from.display().to_string();
    let failed = |source| JobFileError::Input { from: shown(), source };
    let found = std::fs::metadata(from).map_err(failed)?;
    if found.is_dir() {
        let mut names: Vec<_> =
            std::fs::read_dir(from).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)?;
        names.sort_by_key(std::fs::DirEntry::file_name);
        for entry in names {
            let name = entry.file_name().into_string();
            let name = name.map_err(|name| JobFileError::NotText(name.to_string_lossy().into_owned()))?;
            if entry.file_type().map_err(failed)?.is_symlink() {
                return Err(JobFileError::Kind(entry.path().display().to_string()));
            }
            let path = if input.path.is_empty() {
                name
            } else {
                format!("{}/{name}", input.path.trim_end_matches('/'))
            };
            let below = JobInput { path, mode: None, ..input.clone() };
            add(all, &below, &entry.path(), left)?;
        }
        return Ok(());
    }
    if !found.is_file() {
        return Err(JobFileError::Kind(shown()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(from).map_err(failed)?;
    file.take(*left + 1).read_to_end(&mut bytes).map_err(failed)?;
    *left = left.checked_sub(bytes.len() as u64).ok_or(JobFileError::TooLarge)?;
    let mode = input.mode.or(Some(found.permissions().mode() & 0o777));
    all.push(JobInput {
        path: input.path.clone(),
        base64: Some(STANDARD.encode(bytes)),
        mode,
        ..JobInput::default()
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_comes_with_all_that_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("data/deep")).unwrap();
        std::fs::write(place.path().join("data/deep/b"), "two").unwrap();
        std::fs::write(place.path().join("data/a"), "one").unwrap();
        let (mut all, mut left) = (Vec::new(), 100);
        let input = JobInput { path: "in/".into(), from: Some("data".into()), ..JobInput::default() };
        add(&mut all, &input, &place.path().join("data"), &mut left).unwrap();
        let found: Vec<(&str, &str)> =
            all.iter().map(|input| (input.path.as_str(), input.base64.as_deref().unwrap())).collect();
        assert_eq!((found, left), (vec![("in/a", "b25l"), ("in/deep/b", "dHdv")], 94));
        let mut left = 5;
        let error = add(&mut all, &input, &place.path().join("data"), &mut left).unwrap_err();
        assert!(matches!(error, JobFileError::TooLarge), "{error}");
        std::os::unix::fs::symlink("/etc/passwd", place.path().join("data/link")).unwrap();
        let error = add(&mut all, &input, &place.path().join("data"), &mut 100).unwrap_err();
        assert!(matches!(error, JobFileError::Kind(_)), "{error}");
    }
}
