//! Finds the paths of the workspace that the settings of a repository make git execute or include.
//!
//! - [`config`]: the text form of git's settings
//! - [`repository`]: where a repository's settings, hooks and index are
//! - [`values`]: from a setting to the files that it names
//! - [`index`]: the submodules that the index has
//!
//! Git itself is not asked: it would have to be installed, it takes some milliseconds, and it evaluates conditions (`includeIf`) that the
//! code inside can change later. All includes are followed here, whatever their condition.

mod config;
mod index;
mod repository;
mod values;

pub use index::{LARGEST_INDEX, is_plain as is_plain_index};
pub use repository::{Repository, read_bounded};
pub use values::setting;

use super::FoundName;
use paddock_model::protected::{Held, Node, PROTECTED};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const HOOK: &str = "git runs it as a hook";
/// Entries of a directory of hooks that are looked at; git knows about thirty names.
const MOST_HOOKS: usize = 256;
const LARGEST_HOOK: u64 = 64 << 10;
/// Held one by one where the directory of the hooks is the top of the workspace.
const HOOKS: [&str; 20] = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-auto-gc",
    "post-rewrite",
    "reference-transaction",
    "fsmonitor-watchman",
    "post-index-change",
    "sendemail-validate",
    "push-to-checkout",
    "proc-receive",
];

/// Parses a stranger's bytes, as settings and as an index.
pub fn fuzz_git_settings(data: &[u8]) {
    for setting in config::parse(data) {
        values::files_of_a_command(&setting.value, Path::new("/nonexistent"));
    }
    index::fuzz(data);
}

/// The names in `workspace` that belong to this repository. `tools` gets those that its hooks name.
pub fn names(
    repository: &Repository,
    workspace: &Path,
    tools: &mut BTreeSet<&'static str>,
) -> Vec<FoundName> {
    let mut found = Vec::new();
    let mut add = |path: &Path, node: Node, reason: &'static str| {
        found.extend(inside(workspace, path).map(|path| FoundName { path, node, reason }));
    };
    if repository.is_linked() {
        add(&repository.git_directory, Node::Directory, "the repository that a .git file leads to");
        add(&repository.common_directory, Node::Directory, "the repository that a .git file leads to");
    }
    let settings = values::read(repository);
    for file in &settings.includes {
        add(file, Node::File, "git includes its settings");
    }
    for file in &settings.programs {
        add(file, Node::File, "git's settings name it as a program");
    }
    for directory in settings.templates.iter().chain(&settings.hooks) {
        add(directory, Node::Directory, "git runs the hooks in it");
    }
    let usual = [repository.common_directory.join("hooks")];
    for directory in settings.hooks.iter().chain(&usual) {
        if inside(workspace, directory).is_some_and(|path| path.as_os_str().is_empty()) {
            HOOKS.iter().for_each(|hook| add(&directory.join(hook), Node::File, HOOK));
        }
        hooks_in(directory, tools, &mut |path| add(path, Node::File, HOOK));
    }
    for tree in &settings.working_trees {
        for module in index::submodules(repository, tree) {
            let place = tree.join(module);
            // A fetched submodule is found by its `.git`. An empty `.git` would be an error to git, so the whole
            // directory is held.
            if place.join(".git").symlink_metadata().is_err() {
                add(
                    &place,
                    Node::Directory,
                    "a submodule that was not fetched: `git status` would run git in it",
                );
            }
        }
    }
    found
}

/// Files that links lead to, and the tools that the text of hooks names.
fn hooks_in(directory: &Path, tools: &mut BTreeSet<&'static str>, add: &mut dyn FnMut(&Path)) {
    if let Ok(real) = directory.canonicalize()
        && real != normal(directory)
    {
        add(&real);
    }
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries.take(MOST_HOOKS) {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "sample") {
            continue;
        }
        if let Ok(target) = std::fs::read_link(&path) {
            add(&directory.join(target));
        }
        let Some(text) = repository::read_bounded(&path, LARGEST_HOOK) else { continue };
        let text = String::from_utf8_lossy(&text);
        for entry in PROTECTED {
            if let Held::WithHook(tool) = entry.held
                && text.contains(tool)
            {
                tools.insert(tool);
            }
        }
    }
}

/// Relative to the workspace, if it lies in it. Precondition: the workspace's path has no links.
fn inside(workspace: &Path, path: &Path) -> Option<PathBuf> {
    let path = normal(path);
    if let Ok(below) = path.strip_prefix(workspace) {
        return Some(below.to_path_buf());
    }
    // It may be written by another name of the same directory.
    let existing = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let (above, real) = existing?;
    let whole = real.join(path.strip_prefix(above).ok()?);
    whole.strip_prefix(workspace).ok().map(Path::to_path_buf)
}

/// Without `.` and `..`, as text.
fn normal(path: &Path) -> PathBuf {
    let mut whole = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                whole.pop();
            }
            part => whole.push(part),
        }
    }
    whole
}
