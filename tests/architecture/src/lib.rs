//! Nothing runs here: the tests of this crate hold the workspace to docs/architecture.md.

#![allow(clippy::unwrap_used, reason = "of tests: whatever is missing shall fail them")]

pub mod functions;
pub mod modules;

use std::path::{Path, PathBuf};

/// All Rust files below a directory.
pub fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
