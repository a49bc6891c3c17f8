//! A file as E2B describes it.

use super::errors::{Refusal, Result};
use super::inside::Inside;
use super::timestamps::rfc3339;
use axum::http::HeaderMap;
use paddock_model::api::{FileEntry, FileKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METADATA_HEADER: &str = "x-metadata-";
/// E2B keeps the metadata of a file in attributes whose names begin so.
const ATTRIBUTE_PREFIX: &str = "e2b.";

pub fn describe(inside: &Inside, entry: &FileEntry) -> Value {
    described(entry, inside.is_built_in() || inside.template_user().is_some())
}

/// `has_user`: the id of an ordinary user is E2B's `user`.
fn described(entry: &FileEntry, has_user: bool) -> Value {
    let kind = match entry.kind {
        FileKind::File => "FILE_TYPE_FILE",
        FileKind::Directory => "FILE_TYPE_DIRECTORY",
        FileKind::Link => "FILE_TYPE_SYMLINK",
        FileKind::Other => "FILE_TYPE_UNSPECIFIED",
    };
    let mut described = json!({
        "name": name(&entry.path),
        "type": kind,
        "path": entry.path,
        // Whole numbers of 64 bits are text in this JSON.
        "size": entry.size.to_string(),
        "mode": entry.mode & 0o777,
        "permissions": permissions(entry),
        "owner": owner(entry.uid, has_user),
        "group": owner(entry.gid, has_user),
        "modifiedTime": rfc3339(entry.modified_at_ms),
        "metadata": metadata(entry),
        "isSymlink": entry.kind == FileKind::Link,
    });
    if let Some(target) = &entry.target {
        described["symlinkTarget"] = json!(target);
    }
    described
}

/// The attributes that E2B's clients set, which are those of one prefix.
pub fn metadata(entry: &FileEntry) -> BTreeMap<&str, &str> {
    let ours = entry.attributes.iter();
    ours.filter_map(|(name, value)| Some((name.strip_prefix(ATTRIBUTE_PREFIX)?, value.as_str()))).collect()
}

/// The metadata that the headers of an upload give, as attributes of its files.
pub fn attributes_of(headers: &HeaderMap) -> Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(METADATA_HEADER) else { continue };
        let value = value
            .to_str()
            .map_err(|_| Refusal::invalid(format!("the header {name}: its value is not printable ASCII")))?;
        if attributes.insert(format!("{ATTRIBUTE_PREFIX}{key}"), value.to_string()).is_some() {
            return Err(Refusal::invalid(format!("the header {name} is given twice")));
        }
    }
    Ok(attributes)
}

/// The last part of a path.
pub fn name(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => "/",
    }
}

fn owner(id: u32, has_user: bool) -> String {
    match id {
        0 => "root".into(),
        1000 if has_user => "user".into(),
        id => id.to_string(),
    }
}

/// As Go writes the mode of a file.
fn permissions(entry: &FileEntry) -> String {
    let kind = match entry.kind {
        FileKind::File => "-",
        FileKind::Directory => "d",
        FileKind::Link => "L",
        FileKind::Other => "?",
    };
    let bits = "rwxrwxrwx".chars().enumerate();
    let bits = bits.map(|(place, letter)| if entry.mode >> (8 - place) & 1 == 1 { letter } else { '-' });
    kind.chars().chain(bits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_described_with_all_that_the_sdks_read() {
        let entry = FileEntry {
            path: "/home/user/a b.txt".into(),
            path_base64: None,
            kind: FileKind::File,
            size: 5_000_000_000,
            mode: 0o644,
            uid: 1000,
            gid: 0,
            modified_at_ms: 0,
            attributes: [("e2b.owner".into(), "me".into()), ("other".into(), "x".into())].into(),
            target: None,
        };
        let found = described(&entry, true);
        assert_eq!(found["name"], "a b.txt");
        assert_eq!((&found["type"], &found["size"]), (&json!("FILE_TYPE_FILE"), &json!("5000000000")));
        assert_eq!((&found["permissions"], &found["mode"]), (&json!("-rw-r--r--"), &json!(0o644)));
        assert_eq!((&found["owner"], &found["group"]), (&json!("user"), &json!("root")));
        assert_eq!(found["modifiedTime"], "1970-01-01T00:00:00.000Z");
        assert_eq!(found["metadata"], json!({ "owner": "me" }));
        assert!(found.get("symlinkTarget").is_none());
        let link = FileEntry { kind: FileKind::Link, target: Some("/tmp".into()), mode: 0o777, ..entry };
        let found = described(&link, false);
        assert_eq!((&found["isSymlink"], &found["symlinkTarget"]), (&json!(true), &json!("/tmp")));
        assert_eq!((&found["permissions"], &found["owner"]), (&json!("Lrwxrwxrwx"), &json!("1000")));
    }

    #[test]
    fn headers_give_metadata() {
        let mut headers = HeaderMap::new();
        headers.insert("X-Metadata-Owner", "a b".parse().expect("a value"));
        headers.insert("content-type", "text/plain".parse().expect("a value"));
        let found = attributes_of(&headers).map_err(|_| ()).expect("valid");
        assert_eq!(found, BTreeMap::from([("e2b.owner".to_string(), "a b".to_string())]));
        headers.append("X-Metadata-Owner", "c".parse().expect("a value"));
        assert!(attributes_of(&headers).is_err());
    }

    #[test]
    fn the_last_part_is_the_name() {
        for (path, found) in [("/a/b", "b"), ("/a/", "a"), ("/", "/"), ("c", "c")] {
            assert_eq!(name(path), found);
        }
    }
}
