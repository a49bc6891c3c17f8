//! The disk's own layer: what a sandbox has written, apart from the image below it.

use crate::file_error::{FileError, FileErrorKind};
use crate::files::named;
use crate::link::Link;
use crate::tool::{Place, ToolRun};
use crate::transfer::{Download, Framing, Upload};
use paddock_model::User;
use paddock_model::api::FileEntry;
use paddock_protocol::{LayerEntry, Records, Tool, encode_record};
use serde_bytes::ByteBuf;

/// More files than that are not compared.
const MOST_ENTRIES: usize = 2_000_000;
/// How much of their names is kept.
const MOST_BYTES: usize = 256 << 20;

#[derive(Clone)]
pub struct Disk {
    link: Link,
}

/// Something that the layer holds; its path begins with `/`.
#[derive(Debug, Clone)]
pub struct Layered {
    /// The exact bytes of the path.
    pub path: Vec<u8>,
    pub entry: FileEntry,
    /// When it was last changed, in nanoseconds since 1970, by the clock that stamps files.
    pub changed_ns: i64,
    pub modified_ns: i64,
    /// When it was made; 0 where the file system does not know.
    pub born_ns: i64,
    /// The image below has something at this path.
    pub in_image: bool,
    pub inode: u64,
    /// It hides what the image has at this path.
    pub whiteout: bool,
    /// It hides everything that the image has below this path.
    pub opaque: bool,
}

impl Disk {
    pub(crate) fn new(link: Link) -> Disk {
        Disk { link }
    }

    fn start(&self, tool: Tool) -> Result<ToolRun, FileError> {
        // These work with the guest's own rights; the user means nothing to them.
        ToolRun::start(&self.link, tool, &Place { user: User::Agent, cwd: None }, "/")
    }

    /// Everything in the layer, in no order.
    pub async fn manifest(&self) -> Result<Vec<Layered>, FileError> {
        let mut run = self.start(Tool::Manifest)?;
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

    /// A tar of these paths of the layer, as they are now; what is not there any more is left out.
    pub async fn pack(&self, paths: impl IntoIterator<Item = &[u8]>) -> Result<Download, FileError> {
        let run = self.start(Tool::PackLayer)?;
        let mut list = Vec::new();
        let all = paths.into_iter().map(|path| path.strip_prefix(b"/").unwrap_or(path));
        for path in all.filter(|path| !path.is_empty()).chain([&b""[..]]) {
            encode_record(&ByteBuf::from(path), &mut list)
                .map_err(|error| FileError::new(FileErrorKind::Invalid, "/", error.to_string()))?;
        }
        // The tool answers while the list is still on its way: neither may wait for the other.
        let input = run.input();
        tokio::spawn(async move {
            if input.write(&list).await {
                input.close();
            }
        });
        Ok(Download::new(run, Vec::new(), None))
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

/// A disk on its way in.
pub struct DiskUpload {
    upload: Upload,
}

impl DiskUpload {
    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.upload.write(bytes).await
    }

    /// The time from which changes are the work's, as [`Layered::changed_ns`] counts it.
    pub async fn finish(self) -> Result<u64, FileError> {
        self.upload.finish_with().await
    }
}
