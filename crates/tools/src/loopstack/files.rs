//! The seven tools about files. Bytes come and go exactly; a link is described, not followed, but for `sandbox_exists`.

use super::arguments::{At, CreateDirectory, Delete, Encoding, ListDirectory, ReadFile, WriteFile};
use super::containers::Containers;
use super::{LoopstackError, Result, paths};
use crate::host::{FileOperations, Host};
use crate::operations::{OperationError, Operations};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use paddock_model::api::{FileEntry, FileKind, StartExec};
use serde::Serialize;

/// The most bytes of one read: as much as an answer can carry.
const LARGEST_FILE: u64 = 64 << 20;
const MOST_ENTRIES: usize = 20_000;
const PAGE: usize = 1000;
/// Owner, group and times, which only the inside knows.
const STAT_FORMAT: &str = "%U|%G|%y|%x|%w";
const STAT_SECONDS: f64 = 10.0;

#[derive(Debug, Serialize)]
pub struct Content {
    content: String,
    encoding: Encoding,
}

pub async fn read<H: Host>(containers: &Containers<H>, given: ReadFile) -> Result<Content> {
    let path = paths::inside(&given.path)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let failed =
        |reason: String| LoopstackError::File { what: "read file", path: given.path.clone(), reason };
    let told = |error: OperationError| failed(error.told());
    let bytes = sandbox.read_file(&path, LARGEST_FILE + 1).await.map_err(told)?;
    if bytes.len() as u64 > LARGEST_FILE {
        return Err(failed(format!("it is larger than {} MiB", LARGEST_FILE >> 20)));
    }
    let content = match given.encoding {
        Encoding::Base64 => STANDARD.encode(bytes),
        Encoding::Utf8 => String::from_utf8(bytes)
            .map_err(|error| failed(format!("it is not UTF-8 ({error}); read it as base64")))?,
    };
    Ok(Content { content, encoding: given.encoding })
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    path: String,
    bytes_written: usize,
}

pub async fn write<H: Host>(containers: &Containers<H>, given: WriteFile) -> Result<Written> {
    let path = paths::inside(&given.path)?;
    let failed =
        |reason: String| LoopstackError::File { what: "write file", path: given.path.clone(), reason };
    let bytes = match given.encoding {
        Encoding::Utf8 => given.content.clone().into_bytes(),
        Encoding::Base64 => {
            let compact: String = given.content.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            STANDARD.decode(compact).map_err(|error| failed(format!("content is not base64: {error}")))?
        }
    };
    let bytes_written = bytes.len();
    let sandbox = containers.sandbox(&given.container_id).await?;
    let done = match given.create_parent_dirs {
        true => sandbox.write_file(&path, bytes, None).await.map(drop),
        false => sandbox.put_file(&path, bytes).await,
    };
    done.map_err(|error| failed(error.told()))?;
    Ok(Written { path: given.path, bytes_written })
}

#[derive(Debug, Serialize)]
pub struct Listed {
    path: String,
    entries: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    path: String,
}

pub async fn list<H: Host>(containers: &Containers<H>, given: ListDirectory) -> Result<Listed> {
    let path = paths::inside(&given.path)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let failed =
        |reason: String| LoopstackError::File { what: "list directory", path: given.path.clone(), reason };
    let mut entries = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = sandbox.list_files(&path, given.recursive, PAGE, cursor.as_deref()).await;
        let page = page.map_err(|error| failed(error.told()))?;
        entries.extend(page.entries.into_iter().map(|entry| listed(entry, &path)));
        if entries.len() > MOST_ENTRIES {
            return Err(failed(format!(
                "it has more than {MOST_ENTRIES} entries; list a directory further down"
            )));
        }
        if page.next_cursor.is_none() || page.next_cursor == cursor {
            return Ok(Listed { path: given.path, entries });
        }
        cursor = page.next_cursor;
    }
}

fn listed(entry: FileEntry, directory: &str) -> Entry {
    let path = match entry.path.starts_with('/') {
        true => entry.path,
        false => format!("{}/{}", directory.trim_end_matches('/'), entry.path),
    };
    Entry { name: name_of(&path), kind: kind(entry.kind), size: entry.size, path }
}

#[derive(Debug, Serialize)]
pub struct Created {
    path: String,
    created: bool,
}

pub async fn create_directory<H: Host>(
    containers: &Containers<H>,
    given: CreateDirectory,
) -> Result<Created> {
    let path = paths::inside(&given.path)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let created = match sandbox.make_directory(&path, given.recursive).await {
        Ok(()) => true,
        Err(error) => match sandbox.stat(&path).await {
            Ok(entry) if entry.kind == FileKind::Directory => false,
            _ => {
                let reason = error.told();
                return Err(LoopstackError::File { what: "create directory", path: given.path, reason });
            }
        },
    };
    Ok(Created { path: given.path, created })
}

#[derive(Debug, Serialize)]
pub struct Deleted {
    path: String,
    deleted: bool,
}

pub async fn delete<H: Host>(containers: &Containers<H>, given: Delete) -> Result<Deleted> {
    let path = paths::inside(&given.path)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let failed = |reason: String| LoopstackError::File { what: "delete", path: given.path.clone(), reason };
    match sandbox.stat(&path).await {
        Ok(entry) if entry.kind == FileKind::Directory && !given.recursive => {
            return Err(failed("it is a directory; set recursive".into()));
        }
        Ok(_) => sandbox.remove_file(&path, given.recursive).await.map_err(|error| failed(error.told()))?,
        Err(error) if error.code == "file_not_found" && given.force => {}
        Err(error) => return Err(failed(error.told())),
    }
    Ok(Deleted { path: given.path, deleted: true })
}

#[derive(Debug, Serialize)]
pub struct Existence {
    path: String,
    exists: bool,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
}

/// A link that leads nowhere does not exist.
pub async fn exists<H: Host>(containers: &Containers<H>, given: At) -> Result<Existence> {
    let path = paths::inside(&given.path)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let found = match sandbox.stat(&path).await {
        Ok(entry) if entry.kind == FileKind::Link => match sandbox.read_file(&path, 1).await {
            Err(error) if error.code == "file_not_found" => None,
            _ => Some(entry),
        },
        Ok(entry) => Some(entry),
        Err(error) if matches!(error.code.as_str(), "file_not_found" | "not_a_directory") => None,
        Err(error) => {
            let reason = error.told();
            return Err(LoopstackError::File { what: "check existence of", path: given.path, reason });
        }
    };
    Ok(Existence { path: given.path, exists: found.is_some(), kind: found.map(|entry| kind(entry.kind)) })
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Info {
    path: String,
    name: String,
    #[serde(rename = "type")]
    kind: &'static str,
    size: u64,
    permissions: String,
    owner: String,
    group: String,
    modified_at: String,
    accessed_at: String,
    created_at: String,
}

pub async fn info<H: Host>(containers: &Containers<H>, given: At) -> Result<Info> {
    let path = paths::inside(&given.path)?;
    let sandbox = containers.sandbox(&given.container_id).await?;
    let failed = |error: OperationError| LoopstackError::File {
        what: "get file info for",
        path: given.path.clone(),
        reason: error.told(),
    };
    let entry = sandbox.stat(&path).await.map_err(failed)?;
    let words = ["stat", "-c", STAT_FORMAT, "--", path.as_str()].map(String::from);
    let request = StartExec {
        argv: Some(words.to_vec()),
        cwd: Some("/".into()),
        timeout_seconds: Some(STAT_SECONDS),
        ..StartExec::default()
    };
    let told = sandbox.run_command(request).await.map_err(failed)?;
    let parts: Vec<&str> = told.stdout.trim_end().split('|').collect();
    // An image without `stat`: numbers, and the one time that is known.
    let modified = format!("@{}", entry.modified_at_ms as f64 / 1000.0);
    let (owner, group, modified, accessed, created) = match (told.exit_code, parts.as_slice()) {
        (Some(0), [owner, group, modified, accessed, created]) => {
            let created = if matches!(*created, "-" | "" | "?") { modified } else { created };
            (
                owner.to_string(),
                group.to_string(),
                modified.to_string(),
                accessed.to_string(),
                created.to_string(),
            )
        }
        _ => (entry.uid.to_string(), entry.gid.to_string(), modified.clone(), modified.clone(), modified),
    };
    Ok(Info {
        name: name_of(&given.path),
        path: given.path,
        kind: kind(entry.kind),
        size: entry.size,
        permissions: permissions(entry.kind, entry.mode),
        owner,
        group,
        modified_at: modified,
        accessed_at: accessed,
        created_at: created,
    })
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Link => "symlink",
        FileKind::Other => "other",
    }
}

fn name_of(path: &str) -> String {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path).to_string()
}

/// As `ls -l` writes them.
fn permissions(of: FileKind, mode: u32) -> String {
    let first = match of {
        FileKind::Directory => 'd',
        FileKind::Link => 'l',
        FileKind::File => '-',
        FileKind::Other => '?',
    };
    let special = |bit: u32, execute: u32, yes: char, no: char| match (mode & bit != 0, mode & execute != 0) {
        (true, true) => yes,
        (true, false) => no,
        (false, true) => 'x',
        (false, false) => '-',
    };
    let bit = |mask: u32, letter: char| if mode & mask != 0 { letter } else { '-' };
    [
        first,
        bit(0o400, 'r'),
        bit(0o200, 'w'),
        special(0o4000, 0o100, 's', 'S'),
        bit(0o040, 'r'),
        bit(0o020, 'w'),
        special(0o2000, 0o010, 's', 'S'),
        bit(0o004, 'r'),
        bit(0o002, 'w'),
        special(0o1000, 0o001, 't', 'T'),
    ]
    .iter()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_written_as_ls_does() {
        assert_eq!(permissions(FileKind::File, 0o100644), "-rw-r--r--");
        assert_eq!(permissions(FileKind::Directory, 0o41777), "drwxrwxrwt");
        assert_eq!(permissions(FileKind::File, 0o104750), "-rwsr-x---");
        assert_eq!((name_of("/a/b"), name_of("/")), ("b".into(), "/".into()));
    }
}
