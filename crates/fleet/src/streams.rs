//! Streams out of and into a sandbox, piece by piece.

use super::awake::Awake;
use super::live::OpenStream;
use super::{FleetError, Kind};
use bytes::Bytes;
use paddock_engine::{ArchiveUpload, FileError, FileUpload, transfer};
use paddock_model::api::FileEntry;
use sha2::{Digest, Sha256};

/// Bytes that come out, with back-pressure: bytes that are not asked for stay inside.
pub struct Download {
    /// The size, if it is known beforehand.
    pub size: Option<u64>,
    source: Source,
    /// A piece that was read before the caller asked for it.
    first: Option<Bytes>,
    _open: Option<(OpenStream, Awake)>,
}

enum Source {
    Inside(transfer::Download),
    /// The beginning of a file, and the bytes that come behind.
    Host(tokio::io::Take<tokio::fs::File>, Bytes),
    Volume(Box<paddock_volumes::FileReader>),
}

/// The bytes that are read from a file of the host at once.
const PIECE: usize = 128 * 1024;

impl Download {
    pub(super) fn from_inside(stream: transfer::Download, open: OpenStream, awake: Awake) -> Download {
        Download {
            size: stream.size(),
            source: Source::Inside(stream),
            first: None,
            _open: Some((open, awake)),
        }
    }

    /// A file of the host with this length.
    pub fn from_file(file: tokio::fs::File, bytes: u64) -> Download {
        Download { size: Some(bytes), ..Download::from_host(file, bytes, Vec::new()) }
    }

    /// This many bytes of the file, then the tail.
    pub(super) fn from_host(file: tokio::fs::File, bytes: u64, tail: Vec<u8>) -> Download {
        let source = Source::Host(tokio::io::AsyncReadExt::take(file, bytes), tail.into());
        Download { size: None, source, first: None, _open: None }
    }

    pub(super) fn from_volume(file: paddock_volumes::FileReader) -> Download {
        let size = file.size();
        Download { size: Some(size), source: Source::Volume(Box::new(file)), first: None, _open: None }
    }

    /// Reads the first piece, so that an unreadable file is refused instead of broken off.
    pub async fn look_ahead(&mut self) -> Result<(), FleetError> {
        self.first = self.next().await.transpose()?;
        Ok(())
    }

    pub async fn next(&mut self) -> Option<Result<Bytes, FleetError>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        match &mut self.source {
            Source::Inside(stream) => {
                stream.next().await.transpose().map(|piece| piece.map(Bytes::from).map_err(FleetError::from))
            }
            Source::Volume(file) => file.next().await.map_err(FleetError::from).transpose(),
            Source::Host(file, tail) => {
                use tokio::io::AsyncReadExt;
                let mut buffer = vec![0; PIECE];
                match file.read(&mut buffer).await {
                    Ok(0) => Some(std::mem::take(tail)).filter(|tail| !tail.is_empty()).map(Ok),
                    Ok(count) => {
                        buffer.truncate(count);
                        Some(Ok(buffer.into()))
                    }
                    Err(error) => Some(Err(FleetError::storage(&error))),
                }
            }
        }
    }
}

/// The length and digest of an upload.
pub(super) struct Received {
    pub bytes: u64,
    pub sha256: String,
}

/// The place of uploaded bytes.
pub(super) enum Sink {
    File(FileUpload),
    Archive(ArchiveUpload),
}

impl Sink {
    async fn write(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        match self {
            Sink::File(upload) => upload.write(bytes).await,
            Sink::Archive(upload) => upload.write(bytes).await,
        }
    }

    /// Finishes the upload. Returns the file in its place; `None` for an archive.
    async fn finish(self) -> Result<Option<FileEntry>, FileError> {
        match self {
            Sink::File(upload) => upload.finish().await.map(Some),
            Sink::Archive(upload) => upload.finish().await.map(|()| None),
        }
    }
}

type After<T> = Box<dyn FnOnce(Option<FileEntry>, Received) -> Result<T, FleetError> + Send>;

/// Bytes that go in. If this is dropped before `finish`, a file is as it was.
pub struct Upload<T> {
    sink: Sink,
    bytes: u64,
    digest: Sha256,
    after: After<T>,
    awake: Awake,
    _open: OpenStream,
}

impl<T> Upload<T> {
    pub(super) fn new(
        sink: Sink,
        open: OpenStream,
        awake: Awake,
        after: impl FnOnce(Option<FileEntry>, Received) -> Result<T, FleetError> + Send + 'static,
    ) -> Upload<T> {
        Upload { sink, bytes: 0, digest: Sha256::new(), after: Box::new(after), awake, _open: open }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> Result<(), FleetError> {
        self.bytes += bytes.len() as u64;
        self.digest.update(bytes);
        Ok(self.sink.write(bytes).await?)
    }

    pub async fn finish(self) -> Result<T, FleetError> {
        let entry = self.sink.finish().await?;
        // The kept files of the sandbox may lack the last bytes of this.
        if self.awake.is_cut_off() {
            let message = "the sandbox fell asleep or ended before the upload was whole";
            return Err(FleetError::new(Kind::Unavailable, "guest_lost", message).hint("upload it again"));
        }
        let sha256 = self.digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        (self.after)(entry, Received { bytes: self.bytes, sha256 })
    }
}
