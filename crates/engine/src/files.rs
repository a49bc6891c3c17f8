//! Files inside a sandbox. The guest does everything; out here no path is resolved and no answer is trusted.

use crate::file_error::{FileError, FileErrorKind};
use crate::link::Link;
use crate::tool::{Place, ToolRun};
use crate::transfer::{Download, Framing, Upload};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use paddock_model::api::{
    FileEntry, FileEvent, FileEventKind, FileKind, FilePage, ResolvedLink, ResolvedPath,
};
use paddock_protocol::{
    Attribute, ListRecord, MOST_ATTRIBUTE_BYTES, Node, NodeType, Records, Resolved, Tool, WatchKind,
    WatchRecord, resolves_paths,
};
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;

/// Longer than any path that the kernel takes.
const LONGEST_PATH: usize = 8192;
const MOST_ENTRIES: usize = 10_000;

/// The user that works on files, and the directory of relative paths.
#[derive(Clone)]
pub struct Files {
    link: Link,
    place: Place,
}

impl Files {
    pub(crate) fn new(link: Link, place: Place) -> Files {
        Files { link, place }
    }

    fn start(&self, tool: Tool, path: &str) -> Result<ToolRun, FileError> {
        ToolRun::start(&self.link, tool, &self.place, path)
    }

    /// Reads a regular file, or a part of it. Fails before the first byte if it can.
    pub async fn read(&self, path: &str, offset: u64, length: Option<u64>) -> Result<Download, FileError> {
        let mut run = self.start(Tool::Read { path: checked(path)?, offset, length }, path)?;
        let mut records = Records::default();
        let node: Option<Node> = run.record(&mut records).await?;
        let node = node.ok_or_else(|| run.broken("it gave no answer"))?;
        let there = node.size.saturating_sub(offset);
        // A file that the kernel makes up, as in /proc, has the size 0.
        let size = (node.size > 0).then_some(length.map_or(there, |most| most.min(there)));
        Ok(Download::new(run, records.into_rest(), size))
    }

    /// Writes a whole new file at `path`; it appears once it is finished.
    pub fn write(&self, path: &str, mode: Option<u32>, parents: bool) -> Result<FileUpload, FileError> {
        self.write_with(path, mode, parents, &BTreeMap::new(), false)
    }

    /// With extended attributes of the user's namespace, by their names without `user.`; with `follow` through links, to a
    /// file that the user may write.
    pub fn write_with(
        &self,
        path: &str,
        mode: Option<u32>,
        parents: bool,
        attributes: &BTreeMap<String, String>,
        follow: bool,
    ) -> Result<FileUpload, FileError> {
        let attribute = |(name, value): (&String, &String)| Attribute {
            name: name.clone(),
            value: ByteBuf::from(value.as_bytes()),
        };
        let attributes = attributes.iter().map(attribute).collect();
        if follow {
            self.check_resolves(path)?;
        }
        let tool = Tool::Write { path: checked(path)?, mode, parents, attributes, follow };
        let run = self.start(tool, path)?;
        Ok(FileUpload { upload: Upload::new(run, Framing::Pieces), path: path.to_string() })
    }

    /// A link is described, not followed.
    pub async fn stat(&self, path: &str) -> Result<FileEntry, FileError> {
        self.entry(Tool::Stat { path: checked(path)? }, path).await
    }

    /// Where a path leads, through all links; parts that are missing stay as they are written.
    pub async fn resolve(&self, path: &str) -> Result<ResolvedPath, FileError> {
        self.check_resolves(path)?;
        let mut run = self.start(Tool::Resolve { path: checked(path)? }, path)?;
        let found: Resolved = run.answer().await?;
        if !found.path.starts_with(b"/") || found.path.len() > LONGEST_PATH {
            return Err(run.broken("it resolved the path to none that is absolute"));
        }
        let (path, path_base64) = text(found.path.to_vec());
        let entry = found.node.map(|node| named(found.path.into_vec(), node));
        Ok(ResolvedPath { path, path_base64, entry })
    }

    fn check_resolves(&self, path: &str) -> Result<(), FileError> {
        match self.link.guest_version() {
            version if resolves_paths(version) => Ok(()),
            _ => {
                let detail = "the guest of this sandbox is of an older paddock, and does not resolve paths: make it anew";
                Err(FileError::new(FileErrorKind::Unsupported, path, detail.into()))
            }
        }
    }

    pub async fn exists(&self, path: &str) -> Result<bool, FileError> {
        match self.stat(path).await {
            Ok(_) => Ok(true),
            Err(FileError { kind: FileErrorKind::NotFound | FileErrorKind::NotADirectory, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Sorted by path. `cursor` comes from the page before.
    pub async fn list(
        &self,
        path: &str,
        recursive: bool,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<FilePage, FileError> {
        let bad =
            |_| FileError::new(FileErrorKind::Invalid, path, "the cursor is not one of a page before".into());
        let after = cursor.map(|c| URL_SAFE_NO_PAD.decode(c)).transpose().map_err(bad)?.map(ByteBuf::from);
        let limit = limit.clamp(1, MOST_ENTRIES);
        let tool = Tool::List { path: checked(path)?, recursive, after, limit: limit as u32 };
        let mut run = self.start(tool, path)?;
        let mut records = Records::default();
        let mut page = FilePage { entries: Vec::new(), next_cursor: None };
        let mut last = Vec::new();
        loop {
            match run.record::<ListRecord>(&mut records).await? {
                Some(ListRecord::Entry(node)) => {
                    if page.entries.len() >= limit {
                        return Err(run.broken("it listed more than it was asked"));
                    }
                    last = node.path.to_vec();
                    page.entries.push(below(path, node));
                }
                Some(ListRecord::End { more }) => {
                    page.next_cursor = more.then(|| URL_SAFE_NO_PAD.encode(&last));
                    run.finish().await?;
                    return Ok(page);
                }
                None => return Err(run.broken("it stopped in the middle of a list")),
            }
        }
    }

    pub async fn make_directory(
        &self,
        path: &str,
        mode: Option<u32>,
        parents: bool,
    ) -> Result<FileEntry, FileError> {
        self.entry(Tool::MakeDirectory { path: checked(path)?, mode, parents }, path).await
    }

    pub async fn rename(&self, from: &str, to: &str, overwrite: bool) -> Result<FileEntry, FileError> {
        let tool = Tool::Move { from: checked(from)?, to: checked(to)?, overwrite };
        let mut run = self.start(tool, from)?;
        Ok(entry(to, run.answer().await?))
    }

    pub async fn remove(&self, path: &str, recursive: bool) -> Result<(), FileError> {
        self.start(Tool::Remove { path: checked(path)?, recursive }, path)?.finish().await
    }

    pub async fn change_mode(&self, path: &str, mode: u32) -> Result<FileEntry, FileError> {
        self.entry(Tool::ChangeMode { path: checked(path)?, mode }, path).await
    }

    /// Returns when the watch is set: all events from then on are seen.
    pub async fn watch(&self, path: &str, recursive: bool) -> Result<Watch, FileError> {
        let mut run = self.start(Tool::Watch { path: checked(path)?, recursive }, path)?;
        let mut records = Records::default();
        match run.record::<WatchRecord>(&mut records).await? {
            Some(WatchRecord { kind: WatchKind::Watching, .. }) => {}
            _ => return Err(run.broken("it told of an event before it was watching")),
        }
        Ok(Watch { run, records, path: path.to_string() })
    }

    /// A tar of `path`, with names relative to it.
    pub async fn pack(&self, path: &str) -> Result<Download, FileError> {
        let mut run = self.start(Tool::Pack { path: checked(path)? }, path)?;
        let first = run.next().await?.unwrap_or_default();
        Ok(Download::new(run, first, None))
    }

    /// Unpacks a tar below the directory `path`.
    pub fn unpack(&self, path: &str) -> Result<ArchiveUpload, FileError> {
        let run = self.start(Tool::Unpack { path: checked(path)? }, path)?;
        Ok(ArchiveUpload { upload: Upload::new(run, Framing::Raw) })
    }

    async fn entry(&self, tool: Tool, path: &str) -> Result<FileEntry, FileError> {
        let node = self.start(tool, path)?.answer().await?;
        Ok(entry(path, node))
    }
}

/// A file on its way in. If this is dropped before its end, nothing is written.
pub struct FileUpload {
    upload: Upload,
    path: String,
}

impl FileUpload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.upload.write(bytes).await
    }

    pub async fn finish(self) -> Result<FileEntry, FileError> {
        Ok(entry(&self.path, self.upload.finish_with().await?))
    }
}

/// An archive on its way in.
pub struct ArchiveUpload {
    upload: Upload,
}

impl ArchiveUpload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.upload.write(bytes).await
    }

    pub async fn finish(self) -> Result<(), FileError> {
        self.upload.finish_without_answer().await
    }
}

/// Events below a path, until this is dropped.
pub struct Watch {
    run: ToolRun,
    records: Records,
    path: String,
}

impl Watch {
    /// `None` when the watched path does not exist any more. May be dropped without a loss.
    pub async fn next(&mut self) -> Result<Option<FileEvent>, FileError> {
        loop {
            match self.records.next_body() {
                Ok(Some(body)) => {
                    let record: WatchRecord = paddock_protocol::decode_record(body)
                        .map_err(|error| self.run.broken(&error.to_string()))?;
                    return Ok(Some(FileEvent {
                        kind: event_kind(record.kind),
                        path: String::from_utf8_lossy(&join(&self.path, &record.path)).into_owned(),
                    }));
                }
                Ok(None) => {}
                Err(error) => return Err(self.run.broken(&error.to_string())),
            }
            match self.run.next_whenever().await? {
                Some(bytes) => self.records.push(&bytes),
                None => return Ok(None),
            }
        }
    }
}

fn event_kind(kind: WatchKind) -> FileEventKind {
    match kind {
        WatchKind::Watching => FileEventKind::Watching,
        WatchKind::Created => FileEventKind::Created,
        WatchKind::Modified => FileEventKind::Modified,
        WatchKind::Deleted => FileEventKind::Deleted,
        WatchKind::MovedFrom => FileEventKind::MovedFrom,
        WatchKind::MovedTo => FileEventKind::MovedTo,
        WatchKind::Attributes => FileEventKind::Attributes,
        WatchKind::Overflow => FileEventKind::Overflow,
    }
}

fn checked(path: &str) -> Result<ByteBuf, FileError> {
    let refuse = |why: &str| FileError::new(FileErrorKind::Invalid, path, why.into());
    if path.is_empty() {
        return Err(refuse("the path is empty"));
    }
    if path.contains('\0') {
        return Err(refuse("the path has a NUL in it"));
    }
    if path.len() > LONGEST_PATH {
        return Err(refuse("the path is longer than 4096 bytes, the kernel's own limit"));
    }
    Ok(ByteBuf::from(path.as_bytes()))
}

fn join(base: &str, relative: &[u8]) -> Vec<u8> {
    if relative.is_empty() {
        return base.as_bytes().to_vec();
    }
    [base.trim_end_matches('/').as_bytes(), b"/", relative].concat()
}

fn below(base: &str, node: Node) -> FileEntry {
    let full = join(base, &node.path);
    named(full, node)
}

/// The entry has the requested name, whatever name the guest gives.
fn entry(path: &str, node: Node) -> FileEntry {
    named(path.as_bytes().to_vec(), node)
}

/// Also used for the entries of the disk's layer.
pub(crate) fn named(path: Vec<u8>, node: Node) -> FileEntry {
    let (path, path_base64) = text(path);
    FileEntry {
        path,
        path_base64,
        kind: kind_of(node.kind),
        size: node.size,
        mode: node.mode & 0o7777,
        uid: node.uid,
        gid: node.gid,
        modified_at_ms: node.modified_ns.div_euclid(1_000_000),
        target: node.target.map(|target| String::from_utf8_lossy(&target).into_owned()),
        attributes: texts(node.attributes),
        resolved: node.end.map(|end| ResolvedLink {
            path: String::from_utf8_lossy(&end.path).into_owned(),
            kind: kind_of(end.kind),
            mode: end.mode & 0o7777,
        }),
    }
}

fn kind_of(kind: NodeType) -> FileKind {
    match kind {
        NodeType::File => FileKind::File,
        NodeType::Directory => FileKind::Directory,
        NodeType::Link => FileKind::Link,
        NodeType::Other => FileKind::Other,
    }
}

/// A path as text, and in base64 where it is none.
fn text(path: Vec<u8>) -> (String, Option<String>) {
    match String::from_utf8(path) {
        Ok(path) => (path, None),
        Err(error) => {
            let bytes = error.into_bytes();
            (String::from_utf8_lossy(&bytes).into_owned(), Some(STANDARD.encode(&bytes)))
        }
    }
}

/// Attributes that are text. The guest does not tell more than it may.
fn texts(attributes: Vec<Attribute>) -> BTreeMap<String, String> {
    let bytes: usize = attributes.iter().map(|one| one.name.len() + one.value.len()).sum();
    if bytes > MOST_ATTRIBUTE_BYTES {
        return BTreeMap::new();
    }
    let text = |one: Attribute| Some((one.name, String::from_utf8(one.value.into_vec()).ok()?));
    attributes.into_iter().filter_map(text).collect()
}
