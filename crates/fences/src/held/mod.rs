//! The names in a workspace that are held read-only because of the workspace's content. One look at the directory finds
//! them when a fence goes up.
//!
//! - [`scan`]: one bounded walk: repositories, and protected names in directories below
//! - [`git`]: the files that a repository's settings make git execute or include
//!
//! Nothing of the workspace is executed, no program is started, and no file is read beyond a bound. The list of names itself is in
//! `paddock_model::protected`.

mod git;
mod scan;

pub use git::{LARGEST_INDEX, fuzz_git_settings, is_plain_index, read_bounded, setting as git_setting};

use paddock_model::Workspace;
use paddock_model::protected::{Held, Node, PROTECTED, find_anywhere};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// More are not held; a repository with more is told as too large.
const MOST_NAMES: usize = 256;
/// A directory with all three is a repository to git. Absent ones are preferred in this order: a file called HEAD makes every
/// `git diff HEAD` ambiguous.
const PARTS_OF_A_BARE_REPOSITORY: [&str; 3] = ["refs", "objects", "HEAD"];

#[derive(Debug, Default)]
pub struct Found {
    pub names: Vec<FoundName>,
    /// Limits of the protection that the caller should know.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundName {
    /// Relative to the workspace.
    pub path: PathBuf,
    /// The kind of stand-in that it gets where it does not exist.
    pub node: Node,
    pub reason: &'static str,
}

/// All names that are held beside those that `workspace.protect` has.
pub fn find(workspace: &Workspace) -> Found {
    find_in(&workspace.directory, &workspace.unprotected)
}

/// True if this name would be held.
pub fn names_found(directory: &Path, name: &Path) -> bool {
    find_in(directory, &[]).names.iter().any(|found| found.path == name)
}

fn find_in(directory: &Path, unprotected: &[PathBuf]) -> Found {
    let scanned = scan::scan(directory);
    let mut names = Names::new(unprotected);
    for (path, entry) in &scanned.names {
        names.add(path.clone(), entry.node, entry.reason);
    }
    if !names.is_given_up(Path::new(".git")) {
        add_repositories(directory, &scanned, &mut names);
    }
    let mut found = Found { names: names.into_outermost(), notes: scanned.notes };
    if found.names.len() > MOST_NAMES {
        // Editor settings and the like give way to the files that git runs.
        let by_the_table = |found: &FoundName| {
            let last = found.path.file_name().and_then(|name| name.to_str());
            last.is_some_and(|name| name != ".git" && find_anywhere(name).is_some())
        };
        found.names.sort_by_key(by_the_table);
        found.names.truncate(MOST_NAMES);
        found.notes.push(format!(
            "more than {MOST_NAMES} names below the workspace would have to be held: name those that matter with --protect"
        ));
    }
    found
}

fn add_repositories(directory: &Path, scanned: &scan::Scanned, names: &mut Names) {
    let mut tools = BTreeSet::new();
    for place in &scanned.repositories {
        if !place.as_os_str().is_empty() {
            names.add(place.join(".git"), Node::Directory, "a repository below: its hooks and settings");
        }
        let repository = git::Repository::of_working_tree(&directory.join(place));
        names.extend(git::names(&repository, directory, &mut tools));
    }
    for place in &scanned.bare {
        for (name, node) in [("config", Node::File), ("hooks", Node::Directory)] {
            names.add(place.join(name), node, "a bare repository: its hooks and settings");
        }
        let repository = git::Repository::bare(&directory.join(place));
        names.extend(git::names(&repository, directory, &mut tools));
    }
    if !git::Repository::of_working_tree(directory).is_valid() && !scanned.bare.contains(&PathBuf::new()) {
        // A file may be the stand-in of another sandbox, which holds the same.
        let is_free =
            |name: &&&str| directory.join(name).symlink_metadata().ok().is_none_or(|found| found.is_file());
        let name = PARTS_OF_A_BARE_REPOSITORY.iter().find(is_free).unwrap_or(&"HEAD");
        let reason = "with its like beside it, git takes the directory for a repository of its own";
        names.add(PathBuf::from(name), Node::File, reason);
    }
    for entry in PROTECTED {
        if let Held::WithHook(tool) = entry.held
            && tools.contains(tool)
        {
            names.add(PathBuf::from(entry.name), entry.node, entry.reason);
        }
    }
}

struct Names<'a> {
    names: BTreeMap<PathBuf, FoundName>,
    unprotected: &'a [PathBuf],
}

impl<'a> Names<'a> {
    fn new(unprotected: &'a [PathBuf]) -> Self {
        Names { names: BTreeMap::new(), unprotected }
    }

    /// True if the caller gave up this path, or its last part at every depth.
    fn is_given_up(&self, path: &Path) -> bool {
        let last = path.file_name().map(Path::new);
        self.unprotected.iter().any(|name| name == path || Some(name.as_path()) == last)
    }

    fn add(&mut self, path: PathBuf, node: Node, reason: &'static str) {
        let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if plain && !path.as_os_str().is_empty() && path.to_str().is_some() && !self.is_given_up(&path) {
            self.names.entry(path.clone()).or_insert(FoundName { path, node, reason });
        }
    }

    fn extend(&mut self, found: Vec<FoundName>) {
        for FoundName { path, node, reason } in found {
            self.add(path, node, reason);
        }
    }

    /// A held directory holds everything below it.
    fn into_outermost(self) -> Vec<FoundName> {
        let below_another =
            |path: &Path| path.ancestors().skip(1).any(|above| self.names.contains_key(above));
        self.names.values().filter(|found| !below_another(&found.path)).cloned().collect()
    }
}

#[cfg(test)]
mod tests;
