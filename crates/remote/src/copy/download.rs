//! Out of a sandbox.

use super::place::base_name;
use super::{CopyError, LeftOut, pipe, unpack};
use crate::client::{Answer, Call, Client, ClientError, Target};
use bytes::Bytes;
use paddock_model::api::FileKind;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file or directory inside.
pub struct Source<'a> {
    pub client: &'a Client,
    pub id: &'a str,
    pub path: &'a str,
    pub user: Option<&'a str>,
}

/// Bytes as they come.
pub async fn pour(mut answer: Answer, to: &mut dyn Write) -> Result<(), CopyError> {
    while let Some(bytes) = answer.next().await? {
        to.write_all(&bytes).map_err(CopyError::Standard)?;
    }
    to.flush().map_err(CopyError::Standard)
}

/// Whole or not at all: it appears under its name when all bytes are there.
pub async fn whole(mut answer: Answer, target: &Path, mode: u32) -> Result<(), CopyError> {
    let failed = |source| CopyError::Local { path: target.to_path_buf(), source };
    if target.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let directory = target.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).map_err(failed)?;
    while let Some(bytes) = answer.next().await? {
        file.write_all(&bytes).map_err(failed)?;
    }
    let mode = std::fs::Permissions::from_mode(mode & 0o777 | 0o600);
    file.as_file().set_permissions(mode).map_err(failed)?;
    file.persist(target).map_err(|error| failed(error.error))?;
    Ok(())
}

impl Source<'_> {
    /// Bytes of a file, or the tar of a directory.
    pub async fn to_stream(&self, to: &mut dyn Write) -> Result<(), CopyError> {
        let answer = match self.content().await? {
            Found::File { answer, .. } => answer,
            Found::Directory => self.archive().await?,
        };
        pour(answer, to).await
    }

    /// As `cp` does: into `destination` where that is a directory, else to that name.
    pub async fn to_path(&self, destination: &Path) -> Result<Vec<LeftOut>, CopyError> {
        let found = self.content().await?;
        let into = destination.is_dir() && !base_name(self.path).is_empty();
        let target = if into { destination.join(base_name(self.path)) } else { destination.to_path_buf() };
        match found {
            Found::File { answer, mode } => whole(answer, &target, mode).await.map(|()| Vec::new()),
            Found::Directory => self.directory(target).await,
        }
    }

    async fn directory(&self, target: PathBuf) -> Result<Vec<LeftOut>, CopyError> {
        match std::fs::create_dir(&target) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(CopyError::NotDirectory(target));
            }
            other => other.map_err(|source| CopyError::Local { path: target.clone(), source })?,
        }
        let mut answer = self.archive().await?;
        let (sender, reader) = pipe::pipe();
        let work = tokio::task::spawn_blocking(move || unpack::unpack(reader, &target));
        loop {
            let piece = answer.next().await?;
            let last = piece.is_none();
            // An unpacker that stops reading has a reason, which is the result below.
            if sender.send(piece.unwrap_or_else(Bytes::new)).await.is_err() || last {
                break;
            }
        }
        drop(sender);
        work.await.map_err(|error| CopyError::Archive(io::Error::other(error)))?
    }

    async fn content(&self) -> Result<Found, CopyError> {
        let missing = || CopyError::Missing(self.path.to_string());
        let entry = self.client.stat(self.id, self.path, self.user).await?.ok_or_else(missing)?;
        match entry.kind {
            FileKind::Directory => return Ok(Found::Directory),
            FileKind::Other => return Err(CopyError::Special(self.path.to_string())),
            FileKind::File | FileKind::Link => {}
        }
        let target = Target::sandbox(self.id).part("files").part("content");
        match self.client.send(Call::get(self.with_path(target))).await {
            Ok(answer) => {
                // A link's own bits say nothing about the file.
                let mode = if entry.kind == FileKind::File { entry.mode } else { 0o644 };
                Ok(Found::File { answer, mode })
            }
            Err(error) if entry.kind == FileKind::Link && error.code() == Some("not_a_file") => {
                Ok(Found::Directory)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn archive(&self) -> Result<Answer, ClientError> {
        let target = Target::sandbox(self.id).part("files").part("archive");
        self.client.send(Call::get(self.with_path(target))).await
    }

    fn with_path(&self, target: Target) -> Target {
        target.query("path", self.path).query_if("user", self.user)
    }
}

enum Found {
    File { answer: Answer, mode: u32 },
    Directory,
}
