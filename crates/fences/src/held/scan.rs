//! Repositories and protected names within a workspace: submodules, vendored code, packages with editor settings of their own.

use paddock_model::protected::{Protected, find_anywhere};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// Looking is bounded, so that a huge or hostile tree costs milliseconds, not minutes.
const MOST_ENTRIES: usize = 20_000;
const DEEPEST: usize = 6;
/// Directories of dependencies and build results: tools make them again, and a held name in them would be in their way. Repositories in
/// them are found all the same.
const MADE_AGAIN: [&str; 7] = ["node_modules", "target", "dist", "build", "venv", ".venv", "__pycache__"];

#[derive(Debug, Default)]
pub struct Scanned {
    /// Directories with a `.git`, relative; the workspace itself is the empty path.
    pub repositories: Vec<PathBuf>,
    /// Directories that are repositories themselves.
    pub bare: Vec<PathBuf>,
    /// Names of the table that exist below the top.
    pub names: Vec<(PathBuf, &'static Protected)>,
    pub notes: Vec<String>,
}

struct Waiting {
    path: PathBuf,
    depth: usize,
    /// True below a directory of files that tools make again.
    made_again: bool,
}

pub fn scan(workspace: &Path) -> Scanned {
    let mut scanned = Scanned::default();
    let mut waiting = VecDeque::from([Waiting { path: PathBuf::new(), depth: 0, made_again: false }]);
    let (mut seen, mut incomplete, mut links) = (0, false, Vec::new());
    'walk: while let Some(place) = waiting.pop_front() {
        let Ok(entries) = std::fs::read_dir(workspace.join(&place.path)) else { continue };
        let mut parts = 0;
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES {
                incomplete = true;
                break 'walk;
            }
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            let path = place.path.join(&name);
            let name = name.to_str().unwrap_or_default();
            parts += usize::from(matches!(name, "HEAD" | "objects" | "refs"));
            if name == ".git" {
                match kind.is_symlink() && place.depth > 0 {
                    true => links.push(path),
                    false => scanned.repositories.push(place.path.clone()),
                }
            } else if place.depth > 0
                && !place.made_again
                && let Some(held) = find_anywhere(name)
            {
                match kind.is_file() || kind.is_dir() {
                    true => scanned.names.push((path, held)),
                    false => links.push(path),
                }
            } else if kind.is_dir() && place.depth < DEEPEST {
                let made_again = place.made_again || MADE_AGAIN.contains(&name);
                waiting.push_back(Waiting { path, depth: place.depth + 1, made_again });
            } else if kind.is_dir() {
                incomplete = true;
            }
        }
        if parts == 3 {
            scanned.bare.push(place.path);
        }
    }
    if incomplete {
        scanned.notes.push(
            "the workspace is too large to look for repositories and settings in all of it: \
             name those that matter with --protect DIR/.git"
                .into(),
        );
    }
    if let Some(first) = links.first() {
        scanned.notes.push(format!(
            "{} protected names below the workspace are links, which cannot be held, such as {}",
            links.len(),
            first.display()
        ));
    }
    scanned.repositories.sort();
    scanned.names.sort_by(|one, other| one.0.cmp(&other.0));
    scanned
}
