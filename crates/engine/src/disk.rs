//! The disk's own layer: the changes of a sandbox, apart from the image below it.

use crate::file_error::{FileError, FileErrorKind};
use crate::files::named;
use crate::link::Link;
use crate::tool::{Place, ToolRun};
use crate::transfer::{Download, Framing, Upload};
use paddock_model::User;
use paddock_model::api::{FileEntry, FileKind};
use paddock_protocol::{Content, ContentRecord, LayerEntry, MergeStep, Records, Tool, When, encode_record};
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::io::AsyncReadExt;

/// The most files that are compared.
const MOST_ENTRIES: usize = 2_000_000;
/// The most bytes of their names that are kept.
const MOST_BYTES: usize = 256 << 20;
/// The most bytes of contents in one request.
const MOST_CONTENT: usize = 48 << 20;
const MOST_CONTENTS: usize = 32_000;

#[derive(Clone)]
pub struct Disk {
    link: Link,
}

/// An entry of the layer; its path begins with `/`.
#[derive(Debug, Clone)]
pub struct Layered {
    /// The exact bytes of the path.
    pub path: Vec<u8>,
    pub entry: FileEntry,
    /// The time of its last change, in nanoseconds since 1970, by the clock that stamps files.
    pub changed_ns: i64,
    pub modified_ns: i64,
    /// The time of its creation; 0 if the file system does not know.
    pub born_ns: i64,
    /// True if the image below has something at this path.
    pub in_image: bool,
    pub inode: u64,
    /// True if it hides the image's entry at this path.
    pub whiteout: bool,
    /// True if it hides all entries of the image below this path.
    pub opaque: bool,
}

impl Disk {
    pub(crate) fn new(link: Link) -> Disk {
        Disk { link }
    }

    fn start(&self, tool: Tool) -> Result<ToolRun, FileError> {
        // These tools work with the guest's own rights; the user means nothing to them.
        ToolRun::start(&self.link, tool, &Place { user: User::Agent, cwd: None }, "/")
    }

    /// All entries of the layer, in no order.
    pub async fn manifest(&self) -> Result<Vec<Layered>, FileError> {
        self.listed_by(Tool::Manifest).await
    }

    /// The same for the disk or snapshot that this disk was cloned from.
    pub async fn manifest_of_start(&self) -> Result<Vec<Layered>, FileError> {
        self.listed_by(Tool::ManifestOfStart).await
    }

    async fn listed_by(&self, tool: Tool) -> Result<Vec<Layered>, FileError> {
        let mut run = self.start(tool)?;
        let mut records = Records::default();
        let (mut found, mut bytes) = (Vec::new(), 0);
        while let Some(LayerEntry { node, changed_ns, born_ns, in_image, inode, whiteout, opaque }) =
            run.record(&mut records).await?
        {
            bytes += node.path.len() + node.target.as_ref().map_or(0, |target| target.len());
            if found.len() >= MOST_ENTRIES || bytes > MOST_BYTES {
                let detail = format!("the disk holds more than {MOST_ENTRIES} files");
                return Err(FileError::new(FileErrorKind::TooLarge, "/", detail));
            }
            let path = [b"/", node.path.as_slice()].concat();
            let modified_ns = node.modified_ns;
            let entry = named(path.clone(), node);
            found.push(Layered {
                path,
                entry,
                changed_ns,
                modified_ns,
                born_ns,
                in_image,
                inode,
                whiteout,
                opaque,
            });
        }
        Ok(found)
    }

    /// A tar of these paths of the layer, as they are now; paths that have gone are left out.
    pub async fn pack<'a>(&self, paths: impl IntoIterator<Item = &'a [u8]>) -> Result<Download, FileError> {
        self.pack_as(false, paths)
    }

    /// The same for [`Disk::merge`], with attributes, holes and hard links.
    pub async fn pack_exactly<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Download, FileError> {
        self.pack_as(true, paths)
    }

    fn pack_as<'a>(
        &self,
        exact: bool,
        paths: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Download, FileError> {
        let run = self.start(Tool::PackLayer { exact })?;
        let list = listed(paths)?;
        // The tool answers while the list is still on its way, so that neither side waits for the other.
        let input = run.input();
        tokio::spawn(async move {
            if input.write(&list).await {
                input.close();
            }
        });
        Ok(Download::new(run, Vec::new(), None))
    }

    /// The files and links at these paths, and below those that were directories at the start, by path. A file larger
    /// than `largest` comes without its content. `archive`: the archive that the disk was filled from at the start.
    pub async fn contents(
        &self,
        when: When,
        paths: &[&str],
        largest: u64,
        archive: Option<&Path>,
    ) -> Result<BTreeMap<String, Held>, FileError> {
        if paths.is_empty() {
            return Ok(BTreeMap::new());
        }
        let failed = |error: std::io::Error| FileError::new(FileErrorKind::Other, "/", error.to_string());
        let mut archive = match archive {
            Some(path) => Some(tokio::fs::File::open(path).await.map_err(failed)?),
            None => None,
        };
        let mut run = self.start(Tool::Contents { when, largest, archive: archive.is_some() })?;
        let list = listed(paths.iter().map(|path| path.as_bytes()))?;
        let input = run.input();
        tokio::spawn(async move {
            let mut going = input.write(&list).await;
            let mut buffer = vec![0; 128 * 1024];
            while let Some(archive) = archive.as_mut().filter(|_| going) {
                match archive.read(&mut buffer).await {
                    Ok(count) if count > 0 => going = input.write(&buffer[..count]).await,
                    _ => break,
                }
            }
            input.close();
        });
        let mut records = Records::default();
        let mut found: BTreeMap<String, Held> = BTreeMap::new();
        let (mut last, mut bytes) = (None, 0);
        while let Some(record) = run.record(&mut records).await? {
            match record {
                ContentRecord::Found { node, content } => {
                    let entry = named([b"/", node.path.as_slice()].concat(), node);
                    last = Some(entry.path.clone());
                    let held = Held { kind: entry.kind, mode: entry.mode, content, bytes: Vec::new() };
                    found.insert(entry.path, held);
                }
                ContentRecord::Piece(piece) => {
                    bytes += piece.len();
                    match last.as_ref().and_then(|path| found.get_mut(path)) {
                        Some(held) => held.bytes.extend_from_slice(&piece),
                        None => return Err(run.broken("a content of nothing")),
                    }
                }
            }
            if bytes > MOST_CONTENT || found.len() > MOST_CONTENTS {
                return Err(run.broken("it told more than it was asked"));
            }
        }
        Ok(found)
    }

    /// Brings files in, from a tar that [`Disk::pack`] gave for these paths, and removes others: all, or nothing.
    ///
    /// Precondition: the work stands still.
    pub async fn merge<'a>(
        &self,
        put: impl IntoIterator<Item = &'a [u8]>,
        removed: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<DiskMerge, FileError> {
        let path = |path: &[u8]| ByteBuf::from(path.strip_prefix(b"/").unwrap_or(path));
        let put = put.into_iter().map(|p| MergeStep::Put(path(p)));
        let removed = removed.into_iter().map(|p| MergeStep::Remove(path(p)));
        let mut list = Vec::new();
        for step in put.chain(removed).chain([MergeStep::End]) {
            encode_record(&step, &mut list)
                .map_err(|error| FileError::new(FileErrorKind::Invalid, "/", error.to_string()))?;
        }
        let mut upload = Upload::new(self.start(Tool::Merge)?, Framing::Raw);
        upload.write(&list).await?;
        Ok(DiskMerge { upload })
    }

    /// The whole disk as a tar that [`Disk::import`] understands.
    pub async fn export(&self) -> Result<Download, FileError> {
        let mut run = self.start(Tool::Export)?;
        let first = run.next().await?.unwrap_or_default();
        Ok(Download::new(run, first, None))
    }

    /// Fills the disk of a sandbox in which nothing has run yet.
    pub fn import(&self) -> Result<DiskUpload, FileError> {
        Ok(DiskUpload { upload: Upload::new(self.start(Tool::Import)?, Framing::Raw) })
    }
}

/// A file or a link, and its content.
#[derive(Debug, Clone)]
pub struct Held {
    pub kind: FileKind,
    pub mode: u32,
    pub content: Content,
    /// For a link, its target.
    pub bytes: Vec<u8>,
}

/// Paths in the guest's form, with the mark of the end.
fn listed<'a>(paths: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, FileError> {
    let mut list = Vec::new();
    let all = paths.into_iter().map(|path| path.strip_prefix(b"/").unwrap_or(path));
    for path in all.filter(|path| !path.is_empty()).chain([&b""[..]]) {
        encode_record(&ByteBuf::from(path), &mut list)
            .map_err(|error| FileError::new(FileErrorKind::Invalid, "/", error.to_string()))?;
    }
    Ok(list)
}

/// A disk on its way in.
pub struct DiskUpload {
    upload: Upload,
}

impl DiskUpload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.upload.write(bytes).await
    }

    /// Returns the time from which changes are the work's, on the clock of [`Layered::changed_ns`].
    pub async fn finish(self) -> Result<u64, FileError> {
        self.upload.finish_with().await
    }
}

/// Files on their way into a disk that is in use.
pub struct DiskMerge {
    upload: Upload,
}

impl DiskMerge {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.upload.write(bytes).await
    }

    /// Ends the content; waits until everything is in its place.
    pub async fn finish(self) -> Result<(), FileError> {
        self.upload.finish_without_answer().await
    }
}
