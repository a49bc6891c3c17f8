//! Files, functions, types and crates stay small enough to be read. What is too large already may not grow.

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use paddock_architecture::functions::{functions, methods};
use paddock_architecture::rust_files;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const LARGEST_FILE: usize = 600;
const LARGEST_FUNCTION: usize = 100;
const LARGEST_CRATE: usize = 12_000;
/// The methods of one type, in all files of its crate.
const MOST_METHODS: usize = 60;
/// Types that are still to be split, and the methods that each may have until then.
const TOO_MANY_METHODS: &[(&str, &str, usize)] = &[("fleet", "Fleet", 467), ("records", "Store", 89)];
/// Crates that are still to be split, and the lines that each may have until then (docs/decisions/0084).
const TOO_LARGE: &[(&str, usize)] = &[("fleet", 24_094), ("server", 22_067)];

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
fn no_function_is_too_long() {
    let root = root();
    let mut long = Vec::new();
    for path in ["crates", "tests", "bench"].iter().flat_map(|top| rust_files(&root.join(top))) {
        let found = functions(&std::fs::read_to_string(&path).unwrap());
        let found = found.into_iter().filter(|function| function.lines > LARGEST_FUNCTION);
        long.extend(
            found
                .map(|function| format!("{} of {}: {} lines", function.name, path.display(), function.lines)),
        );
    }
    assert!(long.is_empty(), "more than {LARGEST_FUNCTION} lines: {long:#?}");
}

#[test]
fn no_type_has_too_many_methods() {
    let mut counted: BTreeMap<(String, String), usize> = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        for file in rust_files(&path.join("src")) {
            for (subject, count) in methods(&std::fs::read_to_string(file).unwrap()) {
                *counted.entry((name.clone(), subject)).or_default() += count;
            }
        }
    }
    for ((place, subject), count) in &counted {
        let known = TOO_MANY_METHODS.iter().find(|(known, of, _)| known == place && of == subject);
        let most = known.map_or(MOST_METHODS, |(_, _, most)| *most);
        assert!(*count <= most, "{subject} of crates/{place} has {count} methods, and {most} are the most");
        assert!(
            known.is_none() || *count > MOST_METHODS,
            "{subject} of crates/{place} is no exception any more"
        );
    }
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
