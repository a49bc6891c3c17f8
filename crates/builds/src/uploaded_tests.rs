use super::*;
use std::io::Write;

fn archive(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> tempfile::NamedTempFile {
    let mut builder = Builder::new(Vec::new());
    fill(&mut builder);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&builder.into_inner().unwrap()).unwrap();
    file
}

fn put(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, content: &[u8]) {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(0o4755);
    header.set_size(content.len() as u64);
    // The crate's own setter refuses names that lead out.
    header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    builder.append(&header, content).unwrap();
}

fn laid(from: &str, to: &str, file: &tempfile::NamedTempFile) -> Result<Vec<String>, String> {
    lay(file.path(), from, to, to.trim_end_matches('/').ends_with("srv"), None)
        .map(|laid| laid.paths)
        .map_err(|error| error.to_string())
}

#[test]
fn files_directories_and_patterns_come_to_their_places() {
    let file = archive(|tar| put(tar, EntryType::Regular, "a/f.txt", b"x"));
    assert_eq!(laid("a/f.txt", "/srv/g", &file).unwrap(), ["/srv/g"]);
    assert_eq!(laid("./a/../a/f.txt", "/srv/", &file).unwrap(), ["/srv/f.txt"]);
    assert_eq!(laid("a/*.txt", "/srv", &file).unwrap(), ["/srv/f.txt"]);
    assert_eq!(laid("a", "/srv", &file).unwrap(), ["/srv/f.txt"]);
    assert_eq!(laid(".", "/srv", &file).unwrap(), ["/srv/a/f.txt"]);
    let tree = archive(|tar| {
        put(tar, EntryType::Directory, "a", b"");
        put(tar, EntryType::Directory, "a/b", b"");
        put(tar, EntryType::Regular, "a/b/c", b"x");
    });
    assert_eq!(laid("a/b", "/srv/d", &tree).unwrap(), ["/srv/d", "/srv/d/c"]);
}

#[test]
fn hostile_archives_are_refused() {
    for name in ["../x", "a/../../x", "/etc/passwd"] {
        let file = archive(|tar| put(tar, EntryType::Regular, name, b"x"));
        assert!(laid(".", "/srv", &file).unwrap_err().contains("leads out of it"), "{name}");
    }
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo, EntryType::Link] {
        let file = archive(|tar| put(tar, kind, "a", b""));
        assert!(laid("a", "/srv", &file).unwrap_err().contains("is a device"), "{kind:?}");
    }
    let file = archive(|tar| put(tar, EntryType::Regular, "b", b"x"));
    assert!(laid("a", "/srv", &file).unwrap_err().contains("no part of the source"));
    assert!(laid("../a", "/srv", &file).unwrap_err().contains("leads out"));
    let mut nothing = tempfile::NamedTempFile::new().unwrap();
    nothing.write_all(b"this is no archive, and long enough to be read as a header").unwrap();
    assert!(laid("a", "/srv", &nothing).is_err());
    assert!(laid("a", "/srv", &archive(|_| ())).unwrap_err().contains("nothing of that name"));
    let missing = lay(Path::new("/nonexistent/x"), "a", "/srv", true, None).err().unwrap().to_string();
    assert!(missing.contains("were not uploaded"), "{missing}");
}

#[test]
fn a_size_that_lies_and_a_bomb_are_refused() {
    let file = archive(|tar| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_path("a").unwrap();
        header.set_mode(0o644);
        header.set_size(MOST_BYTES + 1);
        header.set_cksum();
        tar.append(&header, &b"x"[..]).unwrap();
    });
    assert!(laid("a", "/srv", &file).unwrap_err().contains("larger than 4 GiB"));
    let file = archive(|tar| {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_path("a").unwrap();
        header.set_mode(0o644);
        header.set_size(1 << 20);
        header.set_cksum();
        tar.append(&header, &b"x"[..]).unwrap();
    });
    assert!(laid("a", "/srv", &file).is_err());
}

#[test]
fn rights_of_owners_are_not_taken_and_the_same_files_have_the_same_digest() {
    let one = archive(|tar| put(tar, EntryType::Regular, "a", b"x"));
    let laid = lay(one.path(), "a", "/srv/a", false, None).unwrap();
    let mut entries = Archive::new(laid.copied.archive.try_clone().unwrap());
    assert_eq!(entries.entries().unwrap().next().unwrap().unwrap().header().mode().unwrap(), 0o755);
    let again = lay(one.path(), "a", "/srv/a", false, None).unwrap();
    assert_eq!(laid.copied.digest, again.copied.digest);
    let closed = lay(one.path(), "a", "/srv/a", false, Some(0o600)).unwrap();
    assert_ne!(laid.copied.digest, closed.copied.digest);
}
