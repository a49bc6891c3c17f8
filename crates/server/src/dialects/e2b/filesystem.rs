//! Calls about files and directories.

use super::connect::{self, Result, RpcError};
use super::entries;
use super::inside::{Inside, User, basic_user};
use super::messages::{AtPath, ListDir, Move};
use super::owners::Owners;
use super::routes::filesystem_call;
use super::{watch, watchers};
use axum::extract::Request;
use axum::response::Response;
use paddock_fleet::FleetError;
use paddock_model::api::{FileEntry, FileKind, MakeDirectory, MoveFile};
use serde_json::{Value, json};

/// How much one answer lists; the answer is held whole.
const MOST_ENTRIES: usize = 50_000;
const PAGE: usize = 1000;

pub async fn answer(inside: Inside, call: &str, request: Request) -> Response {
    let known = filesystem_call(call);
    if known == "WatchDir" {
        return watch::stream(inside, request).await;
    }
    let user = match basic_user(request.headers()) {
        Ok(user) => inside.user(user.as_deref()),
        Err(refusal) => return RpcError::from(refusal).unary(),
    };
    let files = Files { inside, user };
    let answered = match known {
        "Stat" => files.stat(request).await,
        "ListDir" => files.list(request).await,
        "MakeDir" => files.make_directory(request).await,
        "Move" => files.rename(request).await,
        "Remove" => files.remove(request).await,
        "CreateWatcher" => watchers::create(&files, request).await,
        "GetWatcherEvents" => watchers::events(&files.inside, request).await,
        "RemoveWatcher" => watchers::remove(&files.inside, request).await,
        _ => Err(RpcError::new(
            "unimplemented",
            format!(
                "this server's E2B dialect has no call filesystem.Filesystem/{}",
                crate::errors::shorten(call)
            ),
        )),
    };
    connect::unary(answered)
}

/// The files of a sandbox, as one of its users sees them.
pub struct Files {
    pub inside: Inside,
    pub user: User,
}

impl Files {
    async fn stat(&self, request: Request) -> Result<Value> {
        let wanted: AtPath = connect::message(&self.inside.app, request).await?;
        let entry = self.look(&self.user.path(&wanted.path)?).await.map_err(|error| self.missing(error))?;
        Ok(json!({ "entry": self.describe(&entry).await }))
    }

    /// With the names of its owners, which are the sandbox's.
    pub async fn describe(&self, entry: &FileEntry) -> Value {
        entries::describe(entry, &self.owners(std::slice::from_ref(entry)).await)
    }

    async fn owners(&self, entries: &[FileEntry]) -> Owners {
        Owners::of(&self.inside, self.user.name.as_deref(), entries).await
    }

    async fn list(&self, request: Request) -> Result<Value> {
        let wanted: ListDir = connect::message(&self.inside.app, request).await?;
        let root = self.user.path(&wanted.path)?;
        let mut entries = self.children(&root, 0).await?;
        let mut level: Vec<String> = directories(&entries);
        for _ in 1..wanted.depth {
            let mut next = Vec::new();
            for directory in std::mem::take(&mut level) {
                // One that was removed, or that the user may not read, has nothing to show.
                let Ok(found) = self.children(&directory, entries.len()).await else { continue };
                next.extend(directories(&found));
                entries.extend(found);
                if entries.len() > MOST_ENTRIES {
                    return Err(too_many(&root));
                }
            }
            level = next;
        }
        entries.sort_by(|one, other| one.path.cmp(&other.path));
        let owners = self.owners(&entries).await;
        let entries: Vec<_> = entries.iter().map(|entry| entries::describe(entry, &owners)).collect();
        Ok(json!({ "entries": entries }))
    }

    /// `so_far`: how many entries the answer has already.
    async fn children(&self, path: &str, so_far: usize) -> Result<Vec<FileEntry>> {
        let mut found = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let (fleet, actor, id) = (self.inside.fleet(), &self.inside.actor, self.inside.id());
            let user = self.user.name.as_deref();
            let page = fleet.list_files(actor, id, path, false, PAGE, cursor.as_deref(), user).await;
            let page = page.map_err(|error| self.failed(error))?;
            found.extend(page.entries);
            if so_far + found.len() > MOST_ENTRIES {
                return Err(too_many(path));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    /// Missing parents are made too. A directory that exists is answered with `already_exists`, a file with `invalid_argument`.
    async fn make_directory(&self, request: Request) -> Result<Value> {
        let wanted: AtPath = connect::message(&self.inside.app, request).await?;
        let path = self.user.path(&wanted.path)?;
        let made = match self.make(&path, false).await {
            Err(error) if error.code == "file_not_found" => self.make(&path, true).await,
            made => made,
        };
        let is_file = match &made {
            Err(error) if error.code == "file_exists" => {
                let found = self.look(&path).await;
                found.is_ok_and(|entry| matches!(entry.kind, FileKind::File | FileKind::Other))
            }
            _ => false,
        };
        if is_file {
            return Err(RpcError::invalid(format!("{path}: it exists and is no directory")));
        }
        let entry = made.map_err(|error| self.failed(error))?;
        Ok(json!({ "entry": self.describe(&entry).await }))
    }

    async fn rename(&self, request: Request) -> Result<Value> {
        let wanted: Move = connect::message(&self.inside.app, request).await?;
        let (from, to) = (self.user.path(&wanted.source)?, self.user.path(&wanted.destination)?);
        let moved = match self.move_to(&from, &to).await {
            // The directory that it goes to, or the file itself, is missing.
            Err(error) if error.code == "file_not_found" && self.look(&from).await.is_ok() => {
                let above = to.rsplit_once('/').map_or("/", |(above, _)| above);
                self.make(above, true).await.map_err(|error| self.failed(error))?;
                self.move_to(&from, &to).await
            }
            moved => moved,
        };
        let entry = moved.map_err(|error| self.failed(error))?;
        Ok(json!({ "entry": self.describe(&entry).await }))
    }

    /// A directory with everything below it. One that is not there is no mistake, as with E2B.
    async fn remove(&self, request: Request) -> Result<Value> {
        let wanted: AtPath = connect::message(&self.inside.app, request).await?;
        let path = self.user.path(&wanted.path)?;
        let (fleet, actor, id) = (self.inside.fleet(), &self.inside.actor, self.inside.id());
        match fleet.remove_file(actor, id, &path, true, self.user.name.as_deref()).await {
            Err(error) if error.code != "file_not_found" => Err(self.failed(error)),
            _ => Ok(json!({})),
        }
    }

    pub async fn look(&self, path: &str) -> std::result::Result<FileEntry, FleetError> {
        let user = self.user.name.as_deref();
        self.inside.fleet().stat(&self.inside.actor, self.inside.id(), path, user).await
    }

    async fn make(&self, path: &str, parents: bool) -> std::result::Result<FileEntry, FleetError> {
        let request = MakeDirectory { path: path.to_string(), mode: None, parents };
        let user = self.user.name.as_deref();
        self.inside.fleet().make_directory(&self.inside.actor, self.inside.id(), request, user).await
    }

    async fn move_to(&self, from: &str, to: &str) -> std::result::Result<FileEntry, FleetError> {
        let request = MoveFile { from: from.to_string(), to: to.to_string(), overwrite: true };
        let user = self.user.name.as_deref();
        self.inside.fleet().move_file(&self.inside.actor, self.inside.id(), request, user).await
    }

    pub fn failed(&self, error: FleetError) -> RpcError {
        RpcError::of(self.inside.id(), error)
    }

    /// A path through something that is no directory leads nowhere.
    fn missing(&self, error: FleetError) -> RpcError {
        match error.code {
            "not_a_directory" => RpcError::not_found(error.message),
            _ => self.failed(error),
        }
    }
}

fn directories(entries: &[FileEntry]) -> Vec<String> {
    entries.iter().filter(|entry| entry.kind == FileKind::Directory).map(|entry| entry.path.clone()).collect()
}

fn too_many(path: &str) -> RpcError {
    RpcError::new(
        "resource_exhausted",
        format!("{path} has more than {MOST_ENTRIES} entries; ask for a smaller depth"),
    )
}
