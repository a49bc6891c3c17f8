//! A host directory at /workspace, writable, with protected names read-only whether or not they exist yet.
//!
//! A name that does not exist is made as an empty stand-in, only so that a read-only mount can cover it, and
//! removed at the end. While another sandbox covers the same stand-in it stays: removing a mount point removes
//! the mount in every namespace.
//!
//! In two steps, so that the record of what will be made is written before anything is.

use super::identity::Identity;
use super::mounts::{Passed, node_kind, open_exactly, user_source};
use super::placeholder::Placeholder;
use super::root::WORKSPACE;
use super::slot::Slot;
use crate::backend::{CreateError, HostStep};
use paddock_model::{Root, Workspace};
use paddock_protocol::{NodeKind, ProtectedPath, Step};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// Protected names that are directories when they exist.
const DIRECTORIES: [&str; 20] = [
    ".git",
    ".hg",
    ".svn",
    ".jj",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".husky",
    ".githooks",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".opencode",
    ".paddock",
    // Those of continuous integration.
    ".circleci",
    ".buildkite",
    ".woodpecker",
    "workflows",
    "actions",
];

/// What is there, and what has to be made.
pub struct Survey {
    directory: PathBuf,
    owner: (u32, u32),
    /// Relative; empty: all of it.
    writable: Vec<PathBuf>,
    /// Relative, each once: what will be covered.
    covered: BTreeSet<String>,
    absent: Vec<Absent>,
    /// Stand-ins of other sandboxes: they become ours too, so that the last one removes them.
    shared: Vec<Placeholder>,
    /// Limits of the protection that the caller should know.
    pub notes: Vec<String>,
}

struct Absent {
    parent: OwnedFd,
    name: String,
    kind: NodeKind,
    path: PathBuf,
}

enum Found {
    Present { path: PathBuf },
    Absent(Absent),
}

impl Found {
    /// Relative.
    fn path(&self) -> &Path {
        match self {
            Found::Present { path } => path,
            Found::Absent(absent) => &absent.path,
        }
    }
}

/// Precondition: the caller holds the lock over all stand-ins ([`super::slot::lock_placeholders`]), until
/// [`Survey::make`] is done.
pub fn survey(workspace: &Workspace, slot: &Slot) -> Result<Survey, CreateError> {
    let (root, found) = open_exactly(&workspace.directory)?;
    if node_kind(&workspace.directory, &found)? != NodeKind::Directory {
        return Err(refuse(&workspace.directory, "a workspace is a directory"));
    }
    let mut survey = Survey {
        directory: workspace.directory.clone(),
        owner: (found.st_uid, found.st_gid),
        writable: workspace.writable.clone(),
        covered: BTreeSet::new(),
        absent: Vec::new(),
        shared: Vec::new(),
        notes: Vec::new(),
    };
    let held = slot.held_by_others();
    // What cannot be written needs no cover.
    let open = |path: &&PathBuf| can_be_written(&workspace.writable, path);
    for name in workspace.protect.iter().filter(open) {
        survey.add(&root, name, &held)?;
    }
    if workspace.protect.iter().any(|name| name == Path::new(".git")) {
        let nested = super::nested::repositories(&workspace.directory);
        for path in nested.found.iter().filter(open) {
            survey.add(&root, path, &held)?;
        }
        if nested.incomplete {
            survey.notes.push(
                "the workspace is too large to look for repositories in all of it: \
                 name those that matter with --protect DIR/.git"
                    .into(),
            );
        }
    }
    Ok(survey)
}

impl Survey {
    fn add(&mut self, root: &OwnedFd, name: &Path, held: &BTreeSet<PathBuf>) -> Result<(), CreateError> {
        let found = look(root, &self.directory, name)?;
        // One that is made in another's stand-in keeps that from being removed by whoever made it.
        for parent in found.path().ancestors().skip(1) {
            self.share(parent, held);
        }
        match found {
            Found::Present { path } => {
                self.covered.insert(text(&path)?);
                self.share(&path, held);
            }
            // Two names may share their first missing part, which covers both.
            Found::Absent(absent) => {
                if self.covered.insert(text(&absent.path)?) {
                    self.absent.push(absent);
                }
            }
        }
        Ok(())
    }

    /// Ours too, if it is the stand-in of another sandbox.
    fn share(&mut self, path: &Path, held: &BTreeSet<PathBuf>) {
        use std::os::unix::fs::MetadataExt;
        let path = self.directory.join(path);
        if !held.contains(&path) || self.shared.iter().any(|shared| shared.path == path) {
            return;
        }
        if let Ok(found) = path.symlink_metadata() {
            self.shared.push(Placeholder::made(path, found.dev(), found.ino()));
        }
    }

    /// What there will be to remove, for the record.
    pub fn intended(&self) -> Vec<Placeholder> {
        let intended =
            self.absent.iter().map(|absent| Placeholder::intended(self.directory.join(&absent.path)));
        intended.chain(self.shared.iter().cloned()).collect()
    }

    /// Makes the stand-ins. Whatever fails, `placeholders` names those that were made.
    pub fn make(&self, placeholders: &mut Vec<Placeholder>) -> Result<(), CreateError> {
        placeholders.clear();
        placeholders.extend(self.shared.iter().cloned());
        for absent in &self.absent {
            let path = self.directory.join(&absent.path);
            let made = Placeholder::make(&absent.parent, &absent.name, absent.kind, self.owner, path.clone());
            placeholders.push(made.host(|| format!("make a stand-in for {}", path.display()))?);
        }
        Ok(())
    }

    /// Stand-ins are not the caller's files: git inside shall neither list nor commit them. An image keeps its
    /// own system-wide settings of git.
    pub fn hide_from_git(&self, root: &Root) -> Vec<Step> {
        if self.absent.is_empty() || *root != Root::HostUsr {
            return Vec::new();
        }
        let file = |path: &str, content: String| Step::File {
            path: path.into(),
            mode: 0o644,
            content: serde_bytes::ByteBuf::from(content.into_bytes()),
        };
        let names: String =
            self.absent.iter().map(|absent| format!("/{}\n", absent.path.display())).collect();
        vec![
            file("/etc/gitignore", names),
            file("/etc/gitconfig", "[core]\n\texcludesFile = /etc/gitignore\n".into()),
        ]
    }

    pub fn steps(&self, identity: &Identity, passed: &mut Passed) -> Result<Vec<Step>, CreateError> {
        let mut bind = |path: &Path, target: String, read_only| {
            let (source, kind) = user_source(path, identity, passed)?;
            Ok::<Step, CreateError>(Step::Bind { source, target, kind, read_only, allow_exec: true })
        };
        let mut steps = vec![bind(&self.directory, WORKSPACE.to_string(), !self.writable.is_empty())?];
        for path in &self.writable {
            steps.push(bind(&self.directory.join(path), format!("{WORKSPACE}/{}", text(path)?), false)?);
        }
        let paths = self.covered.iter().map(|path| ProtectedPath { path: path.clone() }).collect();
        steps.push(Step::Protect { base: WORKSPACE.to_string(), paths });
        Ok(steps)
    }
}

/// Whether a protected name lies where something can be written.
fn can_be_written(writable: &[PathBuf], name: &Path) -> bool {
    writable.is_empty() || writable.iter().any(|path| name.starts_with(path))
}

/// Follows `name` part by part, never through a link, to its end or to the first part that is missing.
fn look(root: &OwnedFd, directory: &Path, name: &Path) -> Result<Found, CreateError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut parent =
        openat(root, ".", flags, Mode::empty()).host(|| format!("open {}", directory.display()))?;
    let mut path = PathBuf::new();
    let mut parts = name.components().peekable();
    while let Some(part) = parts.next() {
        let Component::Normal(part) = part else {
            return Err(refuse(name, "a protected name is relative, without `..`"));
        };
        path.push(part);
        let last = parts.peek().is_none();
        let part = part.to_str().ok_or_else(|| refuse(&path, "its name is not UTF-8"))?;
        let found = match statat(&parent, part, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => found,
            Err(Errno::NOENT) => {
                let directory = !last || DIRECTORIES.contains(&part);
                let kind = if directory { NodeKind::Directory } else { NodeKind::File };
                return Ok(Found::Absent(Absent { parent, name: part.into(), kind, path }));
            }
            Err(errno) => return Err(errno).host(|| format!("look at {}", path.display())),
        };
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory | FileType::RegularFile if last => {
                return Ok(Found::Present { path });
            }
            FileType::Directory => {
                let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
                parent = openat2(&parent, part, flags, Mode::empty(), resolve)
                    .host(|| format!("open {}", path.display()))?;
            }
            FileType::Symlink => {
                return Err(refuse(
                    &directory.join(&path),
                    "it is protected but is a symbolic link, which cannot be made read-only; \
                     replace the link, or give up its protection with --unprotect",
                ));
            }
            _ => {
                return Err(refuse(
                    &directory.join(&path),
                    "it is protected but neither a file nor a directory",
                ));
            }
        }
    }
    Err(refuse(name, "a protected name is not empty"))
}

fn text(path: &Path) -> Result<String, CreateError> {
    path.to_str().map(str::to_string).ok_or_else(|| refuse(path, "its name is not UTF-8"))
}

fn refuse(path: &Path, reason: &str) -> CreateError {
    CreateError::Mount { path: path.display().to_string(), reason: reason.into() }
}
