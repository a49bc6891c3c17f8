//! Files and crates stay small enough to be read. A crate that is too large already may not grow.

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use paddock_architecture::rust_files;
use std::path::{Path, PathBuf};

const LARGEST_FILE: usize = 600;
const LARGEST_CRATE: usize = 12_000;
/// Crates that are still to be split, and the lines that each may have until then (docs/decisions/0059).
const TOO_LARGE: &[(&str, usize)] =
    &[("fleet", 19_700), ("cli", 19_000), ("backends", 18_200), ("server", 14_600)];

#[test]
fn no_file_is_too_long() {
    let root = root();
    let all = ["crates", "tests", "bench"].iter().flat_map(|top| rust_files(&root.join(top)));
    let long: Vec<String> = all
        .map(|path| (lines(&path), path))
        .filter(|(lines, _)| *lines > LARGEST_FILE)
        .map(|(lines, path)| format!("{} has {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "more than {LARGEST_FILE} lines: {long:?}");
}

#[test]
fn no_crate_is_too_large() {
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let most =
            TOO_LARGE.iter().find(|(known, _)| *known == name).map_or(LARGEST_CRATE, |(_, most)| *most);
        let lines: usize = rust_files(&path).iter().map(|file| lines(file)).sum();
        assert!(lines <= most, "crates/{name} has {lines} lines, and {most} are the most: split it");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}
