//! The submodules of a repository, by `.gitmodules` and by the index. `git status` runs git in each that looks like a repository, so an
//! empty directory of one that was never fetched must not become one.

use super::config;
use super::repository::{Repository, read_bounded};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LARGEST_MODULES: u64 = 1 << 20;
/// A repository with a million files has an index of about 100 MiB; reading it takes 50 ms.
const LARGEST_INDEX: u64 = 128 << 20;
const MOST_SUBMODULES: usize = 1024;
/// Before the flags of an entry: times, device, inode, mode, ids, size.
const BEFORE_HASH: usize = 40;
const MODE_AT: usize = 24;
const SUBMODULE: u32 = 0o160_000;

/// Relative to the working tree.
pub fn submodules(repository: &Repository, working_tree: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    if let Some(text) = read_bounded(&working_tree.join(".gitmodules"), LARGEST_MODULES) {
        let settings = config::parse(&text).into_iter();
        let paths = settings.filter(|setting| setting.section == "submodule" && setting.key == "path");
        found.extend(paths.map(|setting| PathBuf::from(setting.value)));
    }
    if let Some(index) = read_bounded(&repository.git_directory.join("index"), LARGEST_INDEX) {
        // The size of a hash is not in the file: one of the two reads to the end.
        let entries = entries(&index, 20).or_else(|| entries(&index, 32));
        found.extend(entries.unwrap_or_default());
    }
    found.into_iter().filter(|path| path.is_relative()).take(MOST_SUBMODULES).collect()
}

/// Both sizes of a hash, for the fuzzer.
pub fn fuzz(data: &[u8]) {
    for hash in [20, 32] {
        entries(data, hash);
    }
}

/// The submodules among the entries; nothing where the file is not as it should be with hashes of this size.
fn entries(index: &[u8], hash: usize) -> Option<Vec<PathBuf>> {
    let number = |at: usize| Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?));
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut at, mut path) = (12, Vec::new());
    let mut found = Vec::new();
    for _ in 0..count {
        let flags_at = at + BEFORE_HASH + hash;
        let mode = number(at + MODE_AT)?;
        let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let extended = version >= 3 && flags & 0x4000 != 0;
        let mut name_at = flags_at + if extended { 4 } else { 2 };
        if version == 4 {
            let (removed, length) = variable_number(index.get(name_at..)?)?;
            path.truncate(path.len().checked_sub(removed)?);
            name_at += length;
        } else {
            path.clear();
        }
        let rest = index.get(name_at..)?;
        let length = rest.iter().position(|byte| *byte == 0)?;
        path.extend_from_slice(&rest[..length]);
        // An entry is filled up with one to eight zeroes, but not in the fourth version.
        at = match version {
            4 => name_at + length + 1,
            _ => at + ((name_at + length - at) / 8 + 1) * 8,
        };
        // A mode that no entry has tells that the hashes are of another size.
        match mode & 0o170_000 {
            SUBMODULE => found.push(PathBuf::from(std::ffi::OsStr::from_bytes(&path))),
            0o100_000 | 0o120_000 | 0o040_000 => {}
            _ => return None,
        }
        if found.len() > MOST_SUBMODULES {
            break;
        }
    }
    Some(found)
}

/// The number format of git's packs: seven bits a byte, each further byte counting from one more.
fn variable_number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (position, byte) in bytes.iter().take(8).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, position + 1));
        }
        value += 1;
    }
    None
}
