//! A host directory at /workspace, writable, with protected names read-only whether or not they exist yet.
//!
//! A name that does not exist is made as an empty stand-in, only so that a read-only mount can cover it, and
//! removed at the end. Where there is no `.git`, the stand-in is not read-only: a directory in it takes its place inside, so that the work
//! can make a repository ([`paddock_fences::shared::new_repository`]). While another sandbox covers the same stand-in it stays: removing a mount point removes
//! the mount in every namespace.
//!
//! In two steps, so that the record of what will be made is written before anything is.

use super::mounts::{node_kind, open_exactly, user_source};
use super::passed::Passed;
use super::root::WORKSPACE;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::held;
use paddock_fences::shared::identity::Identity;
use paddock_fences::shared::new_repository;
use paddock_fences::shared::placeholder::Placeholder;
use paddock_fences::shared::repository_files;
use paddock_fences::shared::slot::Slot;
use paddock_fences::shared::written_repositories::Before;
use paddock_model::protected::{self, IN_A_REPOSITORY, Node};
use paddock_model::{Root, Workspace};
use paddock_protocol::{NodeKind, ProtectedPath, Step};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, openat, openat2, statat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// The files that are there, and the files that have to be made.
pub struct Survey {
    directory: PathBuf,
    owner: (u32, u32),
    /// Relative; empty: all of it.
    writable: Vec<PathBuf>,
    /// Relative, each once: the names that will be covered.
    covered: BTreeSet<String>,
    absent: Vec<Absent>,
    /// True if the work may make a repository where there is none.
    new_repository: bool,
    /// Set if the work can write to a repository that is there, or make one.
    before: Option<Before>,
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

/// `found`: the names that are held because of the workspace's content.
///
/// Precondition: the caller holds the lock over all stand-ins ([`paddock_fences::shared::slot::lock_placeholders`]), until
/// [`Survey::make`] is done.
pub fn survey(workspace: &Workspace, found: held::Found, slot: &Slot) -> Result<Survey, CreateError> {
    let (root, status) = open_exactly(&workspace.directory)?;
    if node_kind(&workspace.directory, &status)? != NodeKind::Directory {
        return Err(refuse(&workspace.directory, "a workspace is a directory"));
    }
    let mut survey = Survey {
        directory: workspace.directory.clone(),
        owner: (status.st_uid, status.st_gid),
        writable: workspace.writable.clone(),
        covered: BTreeSet::new(),
        absent: Vec::new(),
        new_repository: false,
        before: None,
        shared: Vec::new(),
        notes: Vec::new(),
    };
    let others = slot.held_by_others();
    survey.notes = found.notes;
    let of_the_table = workspace.protect.iter().map(|name| (name.as_path(), node_of(name)));
    let found = found.names.iter().map(|found| (found.path.as_path(), found.node));
    // A name that cannot be written needs no cover.
    for (name, node) in
        of_the_table.chain(found).filter(|(name, _)| can_be_written(&workspace.writable, name))
    {
        match name == Path::new(".git") && new_repository::has_room(&workspace.directory, &others) {
            true => survey.make_room(&root)?,
            false => survey.add(&root, name, node, &others)?,
        }
    }
    if survey.new_repository || survey.allows_commits() {
        survey.before = Some(Before::of(&survey.directory, &survey.writable, &survey.covered));
    }
    Ok(survey)
}

/// The kind of stand-in for a name that the settings hold.
fn node_of(name: &Path) -> Node {
    let in_git = name.strip_prefix(".git").ok().and_then(|below| {
        IN_A_REPOSITORY.iter().find(|(name, _, _)| Path::new(name) == below).map(|(_, node, _)| *node)
    });
    in_git.or_else(|| protected::find(name).map(|entry| entry.node)).unwrap_or(Node::File)
}

/// An empty `commondir` is an error to git; this content means the same as no file.
fn content_of(name: &Path) -> &'static str {
    if name == Path::new(".git/commondir") { ".\n" } else { "" }
}

impl Survey {
    /// True if all of `.git` is writable but for the names by which git runs code.
    fn allows_commits(&self) -> bool {
        self.covered.contains(".git/config") && !self.covered.contains(".git")
    }

    fn add(
        &mut self,
        root: &OwnedFd,
        name: &Path,
        node: Node,
        held: &BTreeSet<PathBuf>,
    ) -> Result<(), CreateError> {
        let found = look(root, &self.directory, name, node)?;
        // A stand-in that is made inside another sandbox's keeps the maker of the outer one from removing that.
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

    /// A directory in the stand-in of `.git`, for a repository of the work's own. One that a crash left is gone on with.
    fn make_room(&mut self, root: &OwnedFd) -> Result<(), CreateError> {
        self.new_repository = true;
        let parent = rustix::io::dup(root).host(|| "open the workspace again".into())?;
        let kind = NodeKind::Directory;
        self.absent.push(Absent { parent, name: ".git".into(), kind, path: ".git".into() });
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

    /// The files to remove later, for the record.
    pub fn intended(&self) -> Vec<Placeholder> {
        let intended = |path: &Path| Placeholder::intended(self.directory.join(path)).with(content_of(path));
        let absent = self.absent.iter().map(|absent| intended(&absent.path));
        let room = self.new_repository.then(|| self.with_task(intended(new_repository::place())));
        absent.chain(room).chain(self.commits()).chain(self.shared.iter().cloned()).collect()
    }

    fn with_task(&self, room: Placeholder) -> Placeholder {
        match &self.before {
            Some(before) => room.before(before.clone()),
            None => room,
        }
    }

    /// The task for the end, where the repository is there.
    fn commits(&self) -> Option<Placeholder> {
        self.before
            .as_ref()
            .filter(|_| !self.new_repository)
            .map(|before| Placeholder::of_commits(before.clone()))
    }

    /// Makes the stand-ins. If a step fails, `placeholders` names those that were made.
    pub fn make(&self, placeholders: &mut Vec<Placeholder>) -> Result<(), CreateError> {
        placeholders.clear();
        placeholders.extend(self.shared.iter().cloned());
        placeholders.extend(self.commits());
        for absent in &self.absent {
            let path = self.directory.join(&absent.path);
            if self.new_repository && absent.path == Path::new(".git") {
                let made = make_repository(&absent.parent, &path, self.owner);
                let [git, room] =
                    made.host(|| format!("make room for a repository in {}", path.display()))?;
                placeholders.extend([git, self.with_task(room)]);
                continue;
            }
            let content = content_of(&absent.path);
            let made = Placeholder::make(
                &absent.parent,
                &absent.name,
                absent.kind,
                self.owner,
                path.clone(),
                content,
            );
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
        let outside_of_git = self.absent.iter().filter(|absent| !absent.path.starts_with(".git"));
        let names: String = outside_of_git.map(|absent| format!("/{}\n", absent.path.display())).collect();
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
        if self.new_repository {
            let room = self.directory.join(new_repository::place());
            steps.push(bind(&room, format!("{WORKSPACE}/.git"), false)?);
        }
        let paths = self.covered.iter().map(|path| ProtectedPath { path: path.clone() }).collect();
        steps.push(Step::Protect { base: WORKSPACE.to_string(), paths });
        Ok(steps)
    }
}

/// True if a protected name lies where something can be written.
fn can_be_written(writable: &[PathBuf], name: &Path) -> bool {
    writable.is_empty() || writable.iter().any(|path| name.starts_with(path))
}

/// Follows `name` part by part, never through a link, to its end or to the first part that is missing.
fn look(root: &OwnedFd, directory: &Path, name: &Path, node: Node) -> Result<Found, CreateError> {
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
                let directory = !last || node == Node::Directory;
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

/// `git`: the absolute path of the stand-in, in `parent`.
fn make_repository(parent: &OwnedFd, git: &Path, owner: (u32, u32)) -> rustix::io::Result<[Placeholder; 2]> {
    let own = make_or_find(parent.as_fd(), ".git", git.to_path_buf(), owner)?;
    let directory = repository_files::open_directory(parent.as_fd(), c".git")?;
    Ok([own, make_or_find(directory.as_fd(), new_repository::NAME, git.join(new_repository::NAME), owner)?])
}

fn make_or_find(
    parent: BorrowedFd<'_>,
    name: &str,
    path: PathBuf,
    owner: (u32, u32),
) -> rustix::io::Result<Placeholder> {
    match Placeholder::make(parent, name, NodeKind::Directory, owner, path.clone(), "") {
        Err(rustix::io::Errno::EXIST) => {
            let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(Placeholder::made(path, found.st_dev, found.st_ino))
        }
        made => made,
    }
}
