//! Repositories within a workspace: submodules, vendored code. Their hooks would run as well.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Looking is bounded, so that a huge or hostile tree costs milliseconds, not minutes.
const MOST_ENTRIES: usize = 20_000;
const DEEPEST: usize = 6;

pub struct Nested {
    /// Relative to the workspace; never its own `.git`.
    pub found: Vec<PathBuf>,
    pub incomplete: bool,
}

pub fn repositories(workspace: &Path) -> Nested {
    let mut nested = Nested { found: Vec::new(), incomplete: false };
    let mut waiting = VecDeque::from([(PathBuf::new(), 0)]);
    let mut seen = 0;
    while let Some((relative, depth)) = waiting.pop_front() {
        let Ok(entries) = std::fs::read_dir(workspace.join(&relative)) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                nested.incomplete = true;
                return nested;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let path = relative.join(entry.file_name());
            if entry.file_name() == ".git" {
                if depth > 0 && !kind.is_symlink() && path.to_str().is_some() {
                    nested.found.push(path);
                }
            } else if kind.is_dir() && depth < DEEPEST {
                waiting.push_back((path, depth + 1));
            } else if kind.is_dir() {
                nested.incomplete = true;
            }
        }
    }
    nested.found.sort();
    nested
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_submodules_and_leaves_the_top_and_links_alone() {
        let workspace = tempfile::tempdir().unwrap();
        for path in [".git", "a/.git", "a/b/c/.git", "d"] {
            std::fs::create_dir_all(workspace.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink("/", workspace.path().join("d/.git")).unwrap();
        std::os::unix::fs::symlink("/", workspace.path().join("d/root")).unwrap();
        let nested = repositories(workspace.path());
        assert_eq!(nested.found, [PathBuf::from("a/.git"), PathBuf::from("a/b/c/.git")]);
        assert!(!nested.incomplete);
    }
}
