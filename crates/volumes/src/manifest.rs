//! One version: its tree, and where the chunks of its files are. Written once, and read as if a stranger had changed
//! it.

use crate::VolumeError;
use crate::key::ChunkId;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::cell::Cell;
use std::cmp::Ordering;
use std::io::Read;

const FORMAT: u8 = 1;
/// Most of it are hashes, which nothing makes shorter: quick rather than thorough.
const LEVEL: i32 = -3;
/// In the chunk's place, where a file has no bytes.
pub const HOLE: u32 = u32::MAX;
/// No manifest is longer, packed or unpacked.
pub const LONGEST: u64 = 1 << 30;
pub const LONGEST_NAME: usize = 255;
pub const LONGEST_PATH: usize = 4095;
/// Set-uid and set-gid are not kept: the user that mounts it is not the user that wrote it.
pub const MODES: u32 = 0o1777;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    format: u8,
    /// Names of the objects that hold the chunks.
    pub packs: Vec<String>,
    pub chunks: Vec<Chunk>,
    /// Parents before their entries; the first is the root itself.
    pub entries: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    #[serde(with = "serde_bytes")]
    pub id: ChunkId,
    pub pack: u32,
    pub offset: u32,
    /// In the pack, where it may be encrypted.
    pub stored: u32,
    pub length: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Relative, with `/` between the names; any bytes that a name can have.
    pub path: ByteBuf,
    pub mode: u32,
    /// Seconds and nanoseconds.
    pub modified: (i64, u32),
    pub node: Node,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    Directory,
    /// Its size, and its content: chunks and holes, with their lengths.
    File {
        size: u64,
        pieces: Vec<(u32, u64)>,
    },
    Link {
        target: ByteBuf,
    },
}

impl Entry {
    /// An empty one, made now.
    pub fn directory(path: &[u8], mode: u32) -> Entry {
        let modified = (i64::try_from(crate::head::now_ms() / 1000).unwrap_or(0), 0);
        Entry { path: ByteBuf::from(path), mode, modified, node: Node::Directory }
    }
}

impl Manifest {
    pub fn new(packs: Vec<String>, chunks: Vec<Chunk>, entries: Vec<Entry>) -> Manifest {
        Manifest { format: FORMAT, packs, chunks, entries }
    }

    /// The manifest of a volume that was never written to.
    pub fn empty() -> Manifest {
        let path = ByteBuf::new();
        let root = Entry { path, mode: 0o755, modified: (0, 0), node: Node::Directory };
        Manifest::new(Vec::new(), Vec::new(), vec![root])
    }

    pub fn files(&self) -> u64 {
        self.entries.iter().filter(|entry| entry.node != Node::Directory).count() as u64
    }

    pub fn bytes(&self) -> u64 {
        let size = |entry: &Entry| match entry.node {
            Node::File { size, .. } => size,
            _ => 0,
        };
        self.entries.iter().map(size).fold(0, u64::saturating_add)
    }

    pub fn find(&self, path: &[u8]) -> Option<&Entry> {
        let found = self.entries.binary_search_by(|entry| order(&entry.path, path));
        found.ok().map(|at| &self.entries[at])
    }

    /// The entry of this path and all that are below it; everything where the path is empty.
    pub fn within(&self, path: &[u8]) -> &[Entry] {
        let from = self.entries.partition_point(|entry| order(&entry.path, path) == Ordering::Less);
        let found = &self.entries[from..];
        &found[..found.partition_point(|entry| is_within(&entry.path, path))]
    }

    /// The same for paths in the order of the entries; `near` is the place of the last one.
    pub fn find_near(&self, path: &[u8], near: &Cell<usize>) -> Option<&Entry> {
        find_near(&self.entries, |entry| &entry.path, path, near)
    }

    /// True if both are the same tree with the same content, wherever the chunks lie.
    pub fn same_tree(&self, other: &Manifest) -> bool {
        let id = |manifest: &Manifest, chunk: u32| manifest.chunks.get(chunk as usize).map(|chunk| chunk.id);
        let same = |(one, two): (&Entry, &Entry)| {
            let nodes = match (&one.node, &two.node) {
                (Node::File { size: s1, pieces: p1 }, Node::File { size: s2, pieces: p2 }) => {
                    s1 == s2
                        && p1.len() == p2.len()
                        && p1.iter().zip(p2).all(|(a, b)| a.1 == b.1 && id(self, a.0) == id(other, b.0))
                }
                (one, two) => one == two,
            };
            nodes && one.path == two.path && one.mode == two.mode && one.modified == two.modified
        };
        self.entries.len() == other.entries.len() && self.entries.iter().zip(&other.entries).all(same)
    }

    pub fn encode(&self) -> Result<Vec<u8>, VolumeError> {
        let plain = rmp_serde::to_vec(self)
            .map_err(|error| VolumeError::io("write a manifest", std::io::Error::other(error)))?;
        zstd::encode_all(plain.as_slice(), LEVEL).map_err(|error| VolumeError::io("write a manifest", error))
    }

    /// The result can be written out without leaving its directory.
    pub fn decode(bytes: &[u8]) -> Result<Manifest, String> {
        let decoder = zstd::Decoder::new(bytes).map_err(|error| error.to_string())?;
        let mut plain = Vec::new();
        decoder.take(LONGEST + 1).read_to_end(&mut plain).map_err(|error| error.to_string())?;
        if plain.len() as u64 > LONGEST {
            return Err("it is longer than a manifest can be".into());
        }
        let manifest: Manifest = rmp_serde::from_slice(&plain).map_err(|error| error.to_string())?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!("it has the format {}, and {FORMAT} is known", self.format));
        }
        let plain =
            |name: &String| !name.is_empty() && name.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        if !self.packs.iter().all(plain) {
            return Err("it names objects that are no packs".into());
        }
        let known = |chunk: &Chunk| {
            (chunk.pack as usize) < self.packs.len() && chunk.offset.checked_add(chunk.stored).is_some()
        };
        if !self.chunks.iter().all(known) {
            return Err("it names chunks outside its packs".into());
        }
        let root = |entry: &Entry| entry.path.is_empty() && entry.node == Node::Directory;
        if !self.entries.first().is_some_and(root) {
            return Err("it does not begin with its root".into());
        }
        // Directories that are open, the root first.
        let mut open: Vec<&[u8]> = vec![b""];
        let mut before: &[u8] = b"";
        for entry in &self.entries[1..] {
            let named = || format!("`{}`", String::from_utf8_lossy(&entry.path).escape_debug());
            check_path(&entry.path).map_err(|problem| format!("{} {problem}", named()))?;
            if order(before, &entry.path) != Ordering::Less {
                return Err(format!("{} is not in its order", named()));
            }
            before = &entry.path;
            let parent = parent(&entry.path);
            while open.last().is_some_and(|last| *last != parent) {
                open.pop();
            }
            if open.is_empty() {
                return Err(format!("{} has no directory", named()));
            }
            match &entry.node {
                Node::Directory => open.push(&entry.path),
                Node::File { size, pieces } => {
                    self.check_pieces(*size, pieces).map_err(|p| format!("{} {p}", named()))?
                }
                Node::Link { target } => {
                    if target.is_empty() || target.len() > LONGEST_PATH || target.contains(&0) {
                        return Err(format!("{} is a link to nothing that can be", named()));
                    }
                }
            }
        }
        Ok(())
    }

    fn check_pieces(&self, size: u64, pieces: &[(u32, u64)]) -> Result<(), &'static str> {
        let mut total = 0_u64;
        for (chunk, length) in pieces {
            let right = match self.chunks.get(*chunk as usize) {
                Some(chunk) => u64::from(chunk.length) == *length,
                None => *chunk == HOLE,
            };
            if !right {
                return Err("has content that is not there");
            }
            total = total.checked_add(*length).ok_or("is larger than a file can be")?;
        }
        if total == size { Ok(()) } else { Err("has another size than its content") }
    }
}

/// The order of a walk: a directory, all its entries, then its next neighbour.
pub fn order(one: &[u8], other: &[u8]) -> Ordering {
    let key = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(key).cmp(other.iter().map(key))
}

/// Searches a list in [`order`]. Quick if one path after the other is looked for; `near` is the place of the last one.
pub fn find_near<'a, T>(
    all: &'a [T],
    path_of: impl Fn(&T) -> &[u8],
    path: &[u8],
    near: &Cell<usize>,
) -> Option<&'a T> {
    let next = [near.get(), near.get() + 1]
        .into_iter()
        .find(|at| all.get(*at).is_some_and(|one| path_of(one) == path));
    let at = match next {
        Some(at) => at,
        None => all.binary_search_by(|one| order(path_of(one), path)).ok()?,
    };
    near.set(at);
    all.get(at)
}

/// True for a path itself and for all below it.
pub fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let rest = path.strip_prefix(directory);
    rest.is_some_and(|rest| directory.is_empty() || rest.is_empty() || rest[0] == b'/')
}

pub fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(b"", |at| &path[..at])
}

pub fn base(path: &[u8]) -> &[u8] {
    path.iter().rposition(|b| *b == b'/').map_or(path, |at| &path[at + 1..])
}

/// A path that a caller wrote, as entries have it: without the slashes at its ends.
pub fn plain_path(volume: &str, path: &str) -> Result<Vec<u8>, VolumeError> {
    let plain = path.trim_matches('/').as_bytes();
    let refuse = |problem| VolumeError::Path {
        volume: volume.into(),
        path: path.chars().take(200).collect(),
        problem,
    };
    check_path(plain).map_err(refuse)?;
    Ok(plain.to_vec())
}

/// Names that lead nowhere but down.
pub fn check_path(path: &[u8]) -> Result<(), &'static str> {
    if path.is_empty() || path.len() > LONGEST_PATH {
        return Err("is empty or longer than 4095 bytes");
    }
    if path.contains(&0) {
        return Err("holds a NUL");
    }
    for name in path.split(|b| *b == b'/') {
        if name.is_empty() || name == b"." || name == b".." || name.len() > LONGEST_NAME {
            return Err("holds `..`, `.`, an empty name or one of more than 255 bytes");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, node: Node) -> Entry {
        Entry { path: ByteBuf::from(path.as_bytes()), mode: 0o644, modified: (1, 2), node }
    }

    fn manifest(entries: Vec<Entry>) -> Manifest {
        let chunk = Chunk { id: [1; 32], pack: 0, offset: 0, stored: 4, length: 4 };
        let all = [vec![entry("", Node::Directory)], entries].concat();
        Manifest::new(vec!["0000-01".into()], vec![chunk], all)
    }

    fn file(size: u64, pieces: &[(u32, u64)]) -> Node {
        Node::File { size, pieces: pieces.to_vec() }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let link = Node::Link { target: ByteBuf::from(&b"../../etc/passwd"[..]) };
        let written = manifest(vec![
            entry("a", Node::Directory),
            entry("a/b", file(12, &[(0, 4), (HOLE, 8)])),
            entry("a.txt", file(0, &[])),
            entry("c", link),
        ]);
        let read = Manifest::decode(&written.encode().unwrap()).unwrap();
        assert_eq!(read, written);
        assert!(read.same_tree(&written));
        assert_eq!((read.files(), read.bytes()), (3, 12));
        assert!(read.find(b"a/b").is_some() && read.find(b"b").is_none());
        let within =
            |path: &[u8]| read.within(path).iter().map(|entry| entry.path.to_vec()).collect::<Vec<_>>();
        assert_eq!(within(b"a"), [b"a".to_vec(), b"a/b".to_vec()]);
        assert_eq!((within(b"").len(), within(b"a.txt").len(), within(b"b").len()), (5, 1, 0));
    }

    #[test]
    fn a_manifest_that_would_escape_is_refused() {
        let dir = || Node::Directory;
        for (entries, words) in [
            (vec![entry("../x", file(0, &[]))], "`..`"),
            (vec![entry("/etc", dir())], "empty name"),
            (vec![entry("a/../../x", file(0, &[]))], "`..`"),
            (vec![entry("a\0b", dir())], "NUL"),
            (vec![entry("a/b", file(0, &[]))], "no directory"),
            (
                vec![entry("a", Node::Link { target: ByteBuf::from(&b"/"[..]) }), entry("a/b", file(0, &[]))],
                "no directory",
            ),
            (vec![entry("b", dir()), entry("a", dir())], "order"),
            (vec![entry("a", dir()), entry("a", file(0, &[]))], "order"),
            (vec![entry("a", file(5, &[(0, 4)]))], "another size"),
            (vec![entry("a", file(4, &[(9, 4)]))], "not there"),
            (vec![entry("a", file(5, &[(0, 5)]))], "not there"),
            (vec![entry("a", file(3, &[(HOLE, u64::MAX), (HOLE, 4)]))], "larger"),
            (vec![entry("a", Node::Link { target: ByteBuf::new() })], "link"),
        ] {
            let said = Manifest::decode(&manifest(entries.clone()).encode().unwrap()).unwrap_err();
            assert!(said.contains(words), "{entries:?}: {said}");
        }
    }

    #[test]
    fn noise_is_no_manifest() {
        let good = manifest(vec![entry("a", file(4, &[(0, 4)]))]).encode().unwrap();
        for cut in 0..good.len() {
            Manifest::decode(&good[..cut]).unwrap_err();
        }
        let bomb = zstd::encode_all(std::io::repeat(0).take(LONGEST + 2), 1).unwrap();
        assert!(Manifest::decode(&bomb).unwrap_err().contains("longer"));
    }
}
