//! Into a sandbox.

use super::pipe::UploadWriter;
use super::{CopyError, pack};
use crate::client::{Call, Client, ClientError, Target, Upload};
use bytes::Bytes;
use paddock_client::Method;
use paddock_model::api::{FileKind, MakeDirectory};
use paddock_terminal::streams::Stream;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const PIECE: usize = 64 << 10;
const OCTETS: &str = "application/octet-stream";
const TAR: &str = "application/x-tar";

/// A path inside.
pub struct Destination<'a> {
    pub client: &'a Client,
    pub id: &'a str,
    pub path: &'a str,
    pub user: Option<&'a str>,
    /// Of one file: a JSON object.
    pub attributes: Option<String>,
    /// Of one file.
    pub follow_links: bool,
}

/// One file of this computer to the place that the target names, and the answer.
pub async fn file<T: serde::de::DeserializeOwned>(
    client: &Client,
    target: Target,
    source: &Path,
) -> Result<T, CopyError> {
    let failed = |error| CopyError::Local { path: source.to_path_buf(), source: error };
    let mut file = File::open(source).map_err(failed)?;
    let found = file.metadata().map_err(failed)?;
    if !found.is_file() {
        return Err(CopyError::NotPlain(source.to_path_buf()));
    }
    let target = target.query("mode", &format!("{:o}", found.mode() & 0o777));
    let (call, upload) = Call::new(Method::PUT, target).upload(OCTETS);
    let (sent, answered) = tokio::join!(pour(&mut file, upload), client.json(call));
    let answered = answered?;
    sent.map_err(failed)?;
    Ok(answered)
}

impl Destination<'_> {
    /// A file's bytes to that name, or a tar into it where it is a directory.
    pub async fn take_stream(&self, from: &Stream) -> Result<(), CopyError> {
        if self.is_directory().await? {
            self.is_of_no_file("what comes from standard input is a tar")?;
            let (call, upload) = self.archive_call(self.path).upload(TAR);
            let (sent, answered) = tokio::join!(pour_input(from, upload), self.client.done(call));
            answered?;
            return sent.map_err(CopyError::Standard);
        }
        let (call, upload) = self.content_call(self.path, None).upload(OCTETS);
        let (sent, answered) = tokio::join!(pour_input(from, upload), self.client.done(call));
        answered?;
        sent.map_err(CopyError::Standard)
    }

    /// As `cp` does: into the path where that is a directory, else to that name.
    pub async fn take_path(&self, source: &Path) -> Result<(), CopyError> {
        let failed = |error| CopyError::Local { path: source.to_path_buf(), source: error };
        let found = std::fs::metadata(source).map_err(failed)?;
        let whole = if self.is_directory().await? { self.below(source)? } else { self.path.to_string() };
        if found.is_dir() {
            return self.directory(source.to_path_buf(), &whole).await;
        }
        if !found.is_file() {
            return Err(CopyError::NotPlain(source.to_path_buf()));
        }
        let mut file = File::open(source).map_err(failed)?;
        let (call, upload) = self.content_call(&whole, Some(found.mode())).upload(OCTETS);
        let (sent, answered) = tokio::join!(pour(&mut file, upload), self.client.done(call));
        answered?;
        sent.map_err(failed)
    }

    async fn directory(&self, source: PathBuf, whole: &str) -> Result<(), CopyError> {
        self.is_of_no_file("the source is a directory")?;
        let made = MakeDirectory { path: whole.to_string(), mode: None, parents: true };
        let target = Target::sandbox(self.id).part("files").part("directory").query_if("user", self.user);
        self.client.done(Call::new(Method::POST, target).json(&made)?).await?;
        let (call, upload) = self.archive_call(whole).upload(TAR);
        let mut writer = UploadWriter::new(upload, tokio::runtime::Handle::current());
        let packing = tokio::task::spawn_blocking(move || match pack::pack(&source, &mut writer) {
            Ok(()) => Ok(()),
            Err(error) => {
                writer.abort(&io::Error::other(error.to_string()));
                Err(error)
            }
        });
        let (packed, answered) = tokio::join!(packing, self.client.done(call));
        let packed = packed.map_err(|error| CopyError::Standard(io::Error::other(error)))?;
        match (packed, answered) {
            // The server's refusal is the cause of a broken pipe, and our failure is the cause of a lost call.
            (Err(error), Err(refusal @ ClientError::Refused { .. })) if is_broken_pipe(&error) => {
                Err(refusal.into())
            }
            (Err(error), _) => Err(error),
            (Ok(()), answered) => Ok(answered?),
        }
    }

    fn is_of_no_file(&self, why: &'static str) -> Result<(), CopyError> {
        match self.attributes.is_some() || self.follow_links {
            true => Err(CopyError::AttributesOfNoFile(why)),
            false => Ok(()),
        }
    }

    /// True if the path names a directory, by its form or because there is one.
    async fn is_directory(&self) -> Result<bool, CopyError> {
        if self.path.ends_with('/') {
            return Ok(true);
        }
        let found = self.client.stat(self.id, self.path, self.user).await?;
        let Some(entry) = found else { return Ok(false) };
        if entry.kind != FileKind::Link {
            return Ok(entry.kind == FileKind::Directory);
        }
        // Only the guest can tell where the link leads.
        let behind = self.client.stat(self.id, &format!("{}/.", self.path), self.user).await;
        Ok(matches!(behind, Ok(Some(entry)) if entry.kind == FileKind::Directory))
    }

    fn below(&self, source: &Path) -> Result<String, CopyError> {
        // `.` and `..` have a name of their own only after they are looked up.
        let named = match source.file_name() {
            Some(name) => name.to_os_string(),
            None => {
                let full = source.canonicalize();
                let full =
                    full.map_err(|error| CopyError::Local { path: source.to_path_buf(), source: error })?;
                full.file_name().map(ToOwned::to_owned).unwrap_or_default()
            }
        };
        let name = named.to_str().ok_or(CopyError::NotText)?;
        Ok(format!("{}/{name}", self.path.trim_end_matches('/')))
    }

    fn content_call(&self, path: &str, mode: Option<u32>) -> Call {
        let mode = mode.map(|mode| format!("{:o}", mode & 0o777));
        let target = Target::sandbox(self.id)
            .part("files")
            .part("content")
            .query("path", path)
            .query("parents", "true")
            .query_if("mode", mode.as_deref())
            .query_if("attributes", self.attributes.as_deref())
            .query_if("follow_links", self.follow_links.then_some("true"))
            .query_if("user", self.user);
        Call::new(Method::PUT, target)
    }

    fn archive_call(&self, path: &str) -> Call {
        let target = Target::sandbox(self.id)
            .part("files")
            .part("archive")
            .query("path", path)
            .query_if("user", self.user);
        Call::new(Method::PUT, target)
    }
}

async fn pour_input(from: &Stream, mut upload: Upload) -> io::Result<()> {
    loop {
        let bytes = match from.read().await {
            Ok(bytes) => bytes,
            Err(error) => {
                upload.abort(io::Error::new(error.kind(), error.to_string()));
                return Err(error);
            }
        };
        // The server that takes no more has answered already; its answer says why.
        if bytes.is_empty() || upload.send_data(bytes.into()).await.is_err() {
            return Ok(());
        }
    }
}

/// A local file: reading it waits for no other process, so it may block.
async fn pour(from: &mut dyn Read, mut upload: Upload) -> io::Result<()> {
    let mut buffer = vec![0; PIECE];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                upload.abort(io::Error::new(error.kind(), error.to_string()));
                return Err(error);
            }
        };
        if upload.send_data(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
            // The server has answered already; its answer says why.
            return Ok(());
        }
    }
}

fn is_broken_pipe(error: &CopyError) -> bool {
    matches!(error, CopyError::Local { source, .. } if source.kind() == io::ErrorKind::BrokenPipe)
}
