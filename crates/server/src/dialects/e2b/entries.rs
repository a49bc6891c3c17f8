//! A file as E2B describes it.

use super::errors::{Refusal, Result};
use super::owners::Owners;
use super::timestamps::rfc3339;
use axum::http::HeaderMap;
use paddock_model::api::{FileEntry, FileKind};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const METADATA_HEADER: &str = "x-metadata-";
/// E2B keeps the metadata of a file in attributes whose names begin so.
const ATTRIBUTE_PREFIX: &str = "e2b.";

/// A link has the type and the mode of what it leads to, as from E2B's agent; one that leads nowhere has neither, and is its own target.
pub fn describe(entry: &FileEntry, owners: &Owners) -> Value {
    let is_link = entry.kind == FileKind::Link;
    let (kind, mode) = match (&entry.resolved, is_link) {
        (Some(end), true) => (end.kind, end.mode),
        (None, true) => (FileKind::Other, 0),
        (_, false) => (entry.kind, entry.mode),
    };
    let kind = match kind {
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
        "mode": mode & 0o777,
        "permissions": permissions(entry),
        "owner": owners.user(entry.uid),
        "group": owners.group(entry.gid),
        "modifiedTime": rfc3339(entry.modified_at_ms),
        "metadata": metadata(entry),
        "isSymlink": is_link,
    });
    if is_link {
        let target = entry.resolved.as_ref().map_or(&entry.path, |end| &end.path);
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

/// As Go writes the mode of a file: a letter for its kind and for each of setuid, setgid and sticky, or a dash where there is none of these.
fn permissions(entry: &FileEntry) -> String {
    let mut letters = match entry.kind {
        FileKind::File => "",
        FileKind::Directory => "d",
        FileKind::Link => "L",
        FileKind::Other => "?",
    }
    .to_string();
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if entry.mode & bit != 0 {
            letters.push(letter);
        }
    }
    if letters.is_empty() {
        letters.push('-');
    }
    let bits = "rwxrwxrwx".chars().enumerate();
    letters.extend(bits.map(|(place, letter)| if entry.mode >> (8 - place) & 1 == 1 { letter } else { '-' }));
    letters
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::ResolvedLink;

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
            resolved: None,
        };
        let owners = Owners::of_e2b();
        let found = describe(&entry, &owners);
        assert_eq!(found["name"], "a b.txt");
        assert_eq!((&found["type"], &found["size"]), (&json!("FILE_TYPE_FILE"), &json!("5000000000")));
        assert_eq!((&found["permissions"], &found["mode"]), (&json!("-rw-r--r--"), &json!(0o644)));
        assert_eq!((&found["owner"], &found["group"]), (&json!("user"), &json!("root")));
        assert_eq!(found["modifiedTime"], "1970-01-01T00:00:00.000Z");
        assert_eq!(found["metadata"], json!({ "owner": "me" }));
        assert!(found.get("symlinkTarget").is_none());
        assert_eq!(describe(&entry, &Owners::default())["owner"], "1000");
    }

    #[test]
    fn a_link_has_the_type_and_the_mode_of_its_end() {
        let mut link = FileEntry {
            path: "/tmp/link".into(),
            path_base64: None,
            kind: FileKind::Link,
            size: 4,
            mode: 0o777,
            uid: 0,
            gid: 0,
            modified_at_ms: 0,
            attributes: BTreeMap::new(),
            target: Some("next".into()),
            resolved: Some(ResolvedLink { path: "/tmp/end".into(), kind: FileKind::Directory, mode: 0o1750 }),
        };
        let found = describe(&link, &Owners::default());
        assert_eq!((&found["isSymlink"], &found["symlinkTarget"]), (&json!(true), &json!("/tmp/end")));
        assert_eq!((&found["type"], &found["mode"]), (&json!("FILE_TYPE_DIRECTORY"), &json!(0o750)));
        assert_eq!(found["permissions"], "Lrwxrwxrwx");
        link.resolved = None;
        let found = describe(&link, &Owners::default());
        assert_eq!((&found["symlinkTarget"], &found["mode"]), (&json!("/tmp/link"), &json!(0)));
        assert_eq!(found["type"], "FILE_TYPE_UNSPECIFIED");
    }

    #[test]
    fn permissions_have_the_letters_of_go() {
        let of = |kind, mode| {
            permissions(&FileEntry {
                path: "/a".into(),
                path_base64: None,
                kind,
                size: 0,
                mode,
                uid: 0,
                gid: 0,
                modified_at_ms: 0,
                attributes: BTreeMap::new(),
                target: None,
                resolved: None,
            })
        };
        assert_eq!(of(FileKind::File, 0o640), "-rw-r-----");
        assert_eq!(of(FileKind::File, 0o4755), "urwxr-xr-x");
        assert_eq!(of(FileKind::File, 0o6711), "ugrwx--x--x");
        assert_eq!(of(FileKind::Directory, 0o1777), "dtrwxrwxrwx");
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
