//! Events of a directory, as E2B tells them: as an answer that goes on, or collected for a client that polls.

use super::connect::{self, Envelopes, Result, RpcError};
use super::filesystem::Files;
use super::inside::{Inside, basic_user};
use super::messages::WatchRequest;
use super::process::broken_off;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use paddock_fleet::Watch;
use paddock_model::api::{FileEvent, FileEventKind, FileKind, SandboxState};
use serde_json::{Value, json};
use std::collections::{HashSet, VecDeque};

/// A file that is on its way in has a name of this kind until it is whole, and one of the second kind before it replaces another.
const UNFINISHED: &str = ".paddock-";
const REPLACING: &str = ".paddock-over-";
/// Of uploads at one time that are known to have content.
const MOST_WRITTEN: usize = 1000;

const CREATE: &str = "EVENT_TYPE_CREATE";
const WRITE: &str = "EVENT_TYPE_WRITE";
const REMOVE: &str = "EVENT_TYPE_REMOVE";
const RENAME: &str = "EVENT_TYPE_RENAME";
const CHMOD: &str = "EVENT_TYPE_CHMOD";

pub async fn stream(inside: Inside, request: Request) -> Response {
    streamed(inside, request).await.unwrap_or_else(RpcError::stream)
}

async fn streamed(inside: Inside, request: Request) -> Result<Response> {
    let (alive, timeout) = (connect::keepalive(request.headers()), connect::timeout(request.headers())?);
    let user = inside.user(basic_user(request.headers())?.as_deref());
    let wanted: WatchRequest = Envelopes::of(&inside.app, request).await?.single().await?;
    let files = Files { inside, user };
    let mut events = Events::open(files, &wanted).await?;
    let ending = events.files.inside.app.ending().clone();
    let over = async move {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    let body = async_stream::stream! {
        yield Ok(connect::envelope(&json!({ "start": {} })));
        tokio::pin!(over);
        loop {
            let step = tokio::select! {
                biased;
                () = ending.cancelled() => Step::Ending,
                () = &mut over => Step::Over,
                event = events.next() => Step::Next(event),
                () = tokio::time::sleep(alive) => Step::Quiet,
            };
            match step {
                Step::Next(Next::Event(event)) => {
                    yield Ok(connect::envelope(&json!({ "filesystem": event })));
                }
                Step::Quiet => yield Ok(connect::envelope(&json!({ "keepalive": {} }))),
                Step::Next(Next::End) => {
                    yield Ok(connect::last(None));
                    return;
                }
                Step::Next(Next::Lost(why)) => {
                    yield Err(broken_off(&why));
                    return;
                }
                Step::Over => {
                    let error = RpcError::new("deadline_exceeded", "the time of the watch is over");
                    yield Ok(connect::last(Some(&error)));
                    return;
                }
                Step::Ending => {
                    yield Err(broken_off("the server is shutting down"));
                    return;
                }
            }
        }
    };
    Ok(connect::streamed(Body::from_stream(body)))
}

/// The next thing that a stream of events has to answer to.
enum Step {
    Next(Next),
    Quiet,
    Over,
    Ending,
}

pub enum Next {
    Event(Value),
    /// The directory is not there any more.
    End,
    /// The sandbox is not.
    Lost(String),
}

/// The events of one directory.
pub struct Events {
    files: Files,
    watch: Watch,
    base: String,
    include_entry: bool,
    translation: Translation,
}

impl Events {
    /// Returns when the watch is set.
    pub async fn open(files: Files, wanted: &WatchRequest) -> Result<Events> {
        let base = files.user.path(&wanted.path)?;
        // A file could be watched as well, but E2B watches directories. By its own name, so that a link to one counts.
        let found = files.look(&format!("{base}/.")).await.map_err(|error| match error.code {
            "not_a_directory" => RpcError::invalid(format!("path {base} is not a directory")),
            "file_not_found" => RpcError::not_found(format!("path {base} does not exist")),
            _ => files.failed(error),
        })?;
        if found.kind != FileKind::Directory {
            return Err(RpcError::invalid(format!("path {base} is not a directory")));
        }
        let inside = &files.inside;
        let user = files.user.name.as_deref();
        let watch = inside.fleet().watch(&inside.actor, inside.id(), &base, wanted.recursive, user).await;
        let mut watch = watch.map_err(|error| files.failed(error))?;
        match watch.next().await {
            Some(Ok(FileEvent { kind: FileEventKind::Watching, .. })) => {}
            Some(Err(error)) => return Err(files.failed(error)),
            _ => return Err(RpcError::new("internal", "the watch did not begin")),
        }
        let translation = Translation::default();
        Ok(Events { files, watch, base, include_entry: wanted.include_entry, translation })
    }

    /// Safe to cancel.
    pub async fn next(&mut self) -> Next {
        loop {
            if let Some((kind, name)) = self.translation.ready.front().cloned() {
                let event = self.told(kind, &name).await;
                self.translation.ready.pop_front();
                return Next::Event(event);
            }
            match self.watch.next().await {
                None => return self.ended().await,
                Some(Err(error)) => return Next::Lost(error.to_string()),
                Some(Ok(event)) => self.translation.take(&self.base, &event),
            }
        }
    }

    /// Where the sandbox has gone, its directory has not been removed.
    async fn ended(&self) -> Next {
        let inside = &self.files.inside;
        match inside.fleet().get(&inside.actor, inside.id()).await {
            Ok(sandbox) if sandbox.state == SandboxState::Running => Next::End,
            _ => Next::Lost("the sandbox has ended".into()),
        }
    }

    async fn told(&self, kind: &str, name: &str) -> Value {
        let mut event = json!({ "name": name, "type": kind });
        if self.include_entry && ![REMOVE, RENAME].contains(&kind) {
            let path = format!("{}/{name}", self.base.trim_end_matches('/'));
            // It may have gone since.
            if let Ok(entry) = self.files.look(&path).await {
                event["entry"] = self.files.describe(&entry).await;
            }
        }
        event
    }
}

/// From the kernel's events to E2B's. An upload is written under another name and then put in its place; E2B's agent writes the
/// file itself, so that its clients see it come to be, change its owner and be written. One that is there already changes its owner, is
/// emptied and written.
#[derive(Default)]
struct Translation {
    ready: VecDeque<(&'static str, String)>,
    /// The upload that is about to be put in its place, as E2B tells it.
    upload: Option<&'static [&'static str]>,
    /// Uploads that something was written to.
    written: HashSet<String>,
}

impl Translation {
    fn take(&mut self, base: &str, event: &FileEvent) {
        let name = event.path.strip_prefix(base).unwrap_or(&event.path).trim_start_matches('/');
        let last = name.rsplit('/').next().unwrap_or_default();
        let upload = self.upload.take();
        if last.starts_with(UNFINISHED) {
            return self.take_unfinished(name, last.starts_with(REPLACING), event.kind);
        }
        let kinds: &[&'static str] = match event.kind {
            FileEventKind::MovedTo => upload.unwrap_or(&[CREATE]),
            FileEventKind::Created => &[CREATE],
            FileEventKind::Modified => &[WRITE],
            FileEventKind::Deleted => &[REMOVE],
            FileEventKind::MovedFrom => &[RENAME],
            FileEventKind::Attributes => &[CHMOD],
            FileEventKind::Watching | FileEventKind::Overflow | FileEventKind::Alive => &[],
        };
        // Of the directory itself E2B tells nothing.
        if !name.is_empty() {
            self.ready.extend(kinds.iter().map(|kind| (*kind, name.to_string())));
        }
    }

    fn take_unfinished(&mut self, name: &str, replaces: bool, event: FileEventKind) {
        match event {
            FileEventKind::Modified if self.written.len() < MOST_WRITTEN => {
                self.written.insert(name.to_string());
            }
            FileEventKind::MovedFrom => {
                let written = self.written.remove(name);
                self.upload = Some(match (replaces, written) {
                    (true, _) => &[CHMOD, WRITE],
                    (false, true) => &[CREATE, CHMOD, WRITE],
                    (false, false) => &[CREATE, CHMOD],
                });
            }
            FileEventKind::Deleted => {
                self.written.remove(name);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(events: &[(FileEventKind, &str)]) -> Vec<(&'static str, String)> {
        let mut translation = Translation::default();
        for (kind, path) in events {
            translation.take("/home/user", &FileEvent { kind: *kind, path: (*path).to_string() });
        }
        translation.ready.into()
    }

    #[test]
    fn an_upload_is_three_events() {
        use FileEventKind::{Attributes, Created, Modified, MovedFrom, MovedTo};
        let found = told(&[
            (Created, "/home/user/.paddock-1"),
            (Modified, "/home/user/.paddock-1"),
            (Attributes, "/home/user/.paddock-1"),
            (MovedFrom, "/home/user/.paddock-1"),
            (MovedTo, "/home/user/a.txt"),
        ]);
        assert_eq!(found, [(CREATE, "a.txt".into()), (CHMOD, "a.txt".into()), (WRITE, "a.txt".into())]);
        let found = told(&[
            (Created, "/home/user/.paddock-1"),
            (Attributes, "/home/user/.paddock-1"),
            (MovedFrom, "/home/user/.paddock-1"),
            (MovedTo, "/home/user/empty"),
        ]);
        assert_eq!(found, [(CREATE, "empty".into()), (CHMOD, "empty".into())]);
    }

    #[test]
    fn an_upload_over_a_file_does_not_create_it() {
        use FileEventKind::{Created, Modified, MovedFrom, MovedTo};
        let found = told(&[
            (Created, "/home/user/.paddock-1"),
            (Modified, "/home/user/.paddock-1"),
            (MovedFrom, "/home/user/.paddock-1"),
            (MovedTo, "/home/user/.paddock-over-1"),
            (MovedFrom, "/home/user/.paddock-over-1"),
            (MovedTo, "/home/user/a.txt"),
            (MovedTo, "/home/user/b.txt"),
        ]);
        assert_eq!(found, [(CHMOD, "a.txt".into()), (WRITE, "a.txt".into()), (CREATE, "b.txt".into())]);
    }

    #[test]
    fn a_rename_is_two_and_names_are_relative() {
        use FileEventKind::{Deleted, MovedFrom, MovedTo};
        let found = told(&[
            (MovedFrom, "/home/user/d/a"),
            (MovedTo, "/home/user/d/b"),
            (Deleted, "/home/user/d/b"),
            (Deleted, "/home/user"),
        ]);
        assert_eq!(found, [(RENAME, "d/a".into()), (CREATE, "d/b".into()), (REMOVE, "d/b".into())]);
    }
}
