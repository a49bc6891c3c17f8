//! A file as E2B describes it.

use super::inside::Inside;
use super::timestamps::rfc3339;
use paddock_model::api::{FileEntry, FileKind};
use serde_json::{Value, json};

pub fn describe(inside: &Inside, entry: &FileEntry) -> Value {
    described(entry, inside.is_built_in())
}

fn described(entry: &FileEntry, built_in: bool) -> Value {
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
        "owner": owner(entry.uid, built_in),
        "group": owner(entry.gid, built_in),
        "modifiedTime": rfc3339(entry.modified_at_ms),
        "metadata": {},
        "isSymlink": entry.kind == FileKind::Link,
    });
    if let Some(target) = &entry.target {
        described["symlinkTarget"] = json!(target);
    }
    described
}

/// The last part of a path.
pub fn name(path: &str) -> &str {
    match path.trim_end_matches('/').rsplit('/').next() {
        Some(name) if !name.is_empty() => name,
        _ => "/",
    }
}

fn owner(id: u32, built_in: bool) -> String {
    match id {
        0 => "root".into(),
        1000 if built_in => "user".into(),
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
            target: None,
        };
        let found = described(&entry, true);
        assert_eq!(found["name"], "a b.txt");
        assert_eq!((&found["type"], &found["size"]), (&json!("FILE_TYPE_FILE"), &json!("5000000000")));
        assert_eq!((&found["permissions"], &found["mode"]), (&json!("-rw-r--r--"), &json!(0o644)));
        assert_eq!((&found["owner"], &found["group"]), (&json!("user"), &json!("root")));
        assert_eq!(found["modifiedTime"], "1970-01-01T00:00:00.000Z");
        assert!(found.get("symlinkTarget").is_none());
        let link = FileEntry { kind: FileKind::Link, target: Some("/tmp".into()), mode: 0o777, ..entry };
        let found = described(&link, false);
        assert_eq!((&found["isSymlink"], &found["symlinkTarget"]), (&json!(true), &json!("/tmp")));
        assert_eq!((&found["permissions"], &found["owner"]), (&json!("Lrwxrwxrwx"), &json!("1000")));
    }

    #[test]
    fn the_last_part_is_the_name() {
        for (path, found) in [("/a/b", "b"), ("/a/", "a"), ("/", "/"), ("c", "c")] {
            assert_eq!(name(path), found);
        }
    }
}
