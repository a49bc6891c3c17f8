//! The last results of `paddock verify` in the state directory: for each backend its last complete run and, where some groups
//! were tried alone afterwards, the last of those. So there are two files for a backend at most, however often it is verified.

use paddock_model::api::{VerifyResult, VerifyResults};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const DIRECTORY: &str = "verify";
/// A complete run of one backend takes 300 KiB.
const LARGEST: u64 = 8 << 20;
const LONGEST_NAME: usize = 32;
/// Files are of backends that this host's Paddock ever had.
const MOST_FILES: usize = 64;

/// Takes the place of an earlier result of the same kind. A complete run also takes the place of a partial one.
pub fn keep(state: &Path, result: &VerifyResult) -> io::Result<()> {
    let name = checked(&result.backend).ok_or_else(|| {
        io::Error::other(format!("`{}` is no name of a backend", result.backend.escape_debug()))
    })?;
    let directory = state.join(DIRECTORY);
    DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
    let is_complete = result.only.is_empty();
    let path = directory.join(file_name(name, is_complete));
    // Two verifications may end at the same time.
    let part = directory.join(format!(".{}.{}", file_name(name, is_complete), std::process::id()));
    let written = write(&part, &serde_json::to_vec(result)?).and_then(|()| fs::rename(&part, &path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
        return written;
    }
    if is_complete {
        let old = directory.join(file_name(name, false));
        fs::remove_file(old)
            .or_else(|error| (error.kind() == io::ErrorKind::NotFound).then_some(()).ok_or(error))?;
    }
    Ok(())
}

/// By backend, complete runs before partial ones. A file that is damaged is left out: it shows nothing as held.
pub fn kept(state: &Path) -> VerifyResults {
    let entries = fs::read_dir(state.join(DIRECTORY)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.ends_with(".json") && !name.starts_with('.')
    });
    paths.sort();
    let mut results: Vec<VerifyResult> =
        paths.iter().take(MOST_FILES).filter_map(|path| read(path)).collect();
    results.sort_by(|a, b| (&a.backend, !a.only.is_empty()).cmp(&(&b.backend, !b.only.is_empty())));
    VerifyResults { results }
}

fn read(path: &Path) -> Option<VerifyResult> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
    let result = read.and_then(|_| Ok(serde_json::from_slice(&bytes)?));
    result
        .inspect_err(
            |error| tracing::warn!(path = %path.display(), %error, "a result of verify is not readable"),
        )
        .ok()
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn file_name(backend: &str, is_complete: bool) -> String {
    format!("{backend}{}.json", if is_complete { "" } else { ".part" })
}

/// The name becomes a part of a path.
fn checked(backend: &str) -> Option<&str> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let fits = !backend.is_empty() && backend.len() <= LONGEST_NAME && backend.bytes().all(plain);
    fits.then_some(backend)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(backend: &str, only: &[&str], at_ms: u64) -> VerifyResult {
        let only = only.iter().map(|one| one.to_string()).collect();
        VerifyResult { backend: backend.into(), only, at_ms, held: true, ..VerifyResult::default() }
    }

    fn told(state: &Path) -> Vec<(String, bool, u64)> {
        let results = kept(state).results.into_iter();
        results.map(|result| (result.backend, result.only.is_empty(), result.at_ms)).collect()
    }

    #[test]
    fn the_last_of_each_kind_is_kept() {
        let state = tempfile::tempdir().unwrap();
        assert!(kept(state.path()).results.is_empty());
        for one in [result("process", &["A"], 1), result("process", &[], 2), result("gvisor", &[], 3)] {
            keep(state.path(), &one).unwrap();
        }
        assert_eq!(told(state.path()), [("gvisor".into(), true, 3), ("process".into(), true, 2)]);
        for at_ms in 4..20 {
            keep(state.path(), &result("process", &["C13"], at_ms)).unwrap();
        }
        keep(state.path(), &result("gvisor", &[], 20)).unwrap();
        let expected =
            [("gvisor".into(), true, 20), ("process".into(), true, 2), ("process".into(), false, 19)];
        assert_eq!(told(state.path()), expected);
        assert_eq!(fs::read_dir(state.path().join(DIRECTORY)).unwrap().count(), 3);
    }

    #[test]
    fn a_damaged_file_shows_nothing_as_held_and_a_name_is_no_path() {
        let state = tempfile::tempdir().unwrap();
        keep(state.path(), &result("process", &[], 1)).unwrap();
        let path = state.path().join("verify/process.json");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(kept(state.path()).results.is_empty());
        for name in ["", "../process", "a/b", "A", &"x".repeat(33)] {
            assert!(keep(state.path(), &result(name, &[], 1)).is_err(), "{name}");
        }
    }
}
