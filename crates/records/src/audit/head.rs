//! The length of a timeline, in a file of its own: a timeline that was cut off at its end does not fit it.

use super::key::SigningKey;
use super::line::{self, Hash, hex};
use super::{AuditError, PublicKey};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The sandbox. The name of this member tells a head from an entry.
    pub head: String,
    pub seq: u64,
    /// The bytes of the timeline's file up to the end of that entry.
    pub bytes: u64,
    pub last: String,
    /// 0 or 1. Every field keeps its width or grows, so that the head can be written in place.
    pub closed: u8,
}

impl Head {
    pub fn new(sandbox: &str, seq: u64, bytes: u64, last: &Hash, closed: bool) -> Head {
        Head { head: sandbox.to_string(), seq, bytes, last: hex(last), closed: u8::from(closed) }
    }

    /// The signed line, with a newline.
    pub fn line(&self, key: &SigningKey) -> String {
        // A struct of text and numbers always becomes JSON.
        let object = serde_json::to_string(self).unwrap_or_default();
        format!("{}\n", line::seal(key, &object).0)
    }

    pub fn parse(key: &PublicKey, text: &[u8]) -> Result<Head, &'static str> {
        let line = text.strip_suffix(b"\n").ok_or("the head is incomplete")?;
        line::unseal(key, line).map_err(|_| "the head was changed, or signed by another key")?;
        serde_json::from_slice(line).map_err(|_| "the head is not one")
    }
}

pub fn path(timeline: &Path) -> PathBuf {
    timeline.with_extension("head")
}

/// An empty head is the same as none: a full disk or a kill kept it from being written.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, AuditError> {
    match fs::read(path) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(AuditError::io(path, source)),
    }
}

/// Writes the head in place: it is within one page, which the kernel writes whole. It only grows, because its numbers
/// do.
pub fn write(path: &Path, line: &str) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.write_all_at(line.as_bytes(), 0)
}
