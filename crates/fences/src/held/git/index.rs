//! The submodules of a repository, by `.gitmodules` and by the index. `git status` runs git in each that looks like a repository, so an
//! empty directory of one that was never fetched must not become one.
//!
//! And whether git can be given an index that hostile code could write. Git looks at the paths of an index when they are added, and not when it
//! reads them: a path such as `../x`, or an absolute one, leads `git status` into a repository anywhere on the host, and `git restore` writes it.

use super::config;
use super::repository::{Repository, read_bounded};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LARGEST_MODULES: u64 = 1 << 20;
/// A repository with a million files has an index of about 100 MiB; reading it takes 50 ms.
pub const LARGEST_INDEX: u64 = 128 << 20;
const MOST_SUBMODULES: usize = 1024;
/// Before the flags of an entry: times, device, inode, mode, ids, size.
const BEFORE_HASH: usize = 40;
const MODE_AT: usize = 24;
const KIND: u32 = 0o170_000;
const SUBMODULE: u32 = 0o160_000;
const DIRECTORY: u32 = 0o040_000;
/// In the flags of an entry: further flags follow; the length of the path, as far as it fits.
const EXTENDED: u16 = 0x4000;
const LENGTH: u16 = 0xfff;

/// Relative to the working tree.
pub fn submodules(repository: &Repository, working_tree: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    if let Some(text) = read_bounded(&working_tree.join(".gitmodules"), LARGEST_MODULES) {
        let settings = config::parse(&text).into_iter();
        let paths = settings.filter(|setting| setting.section == "submodule" && setting.key == "path");
        found.extend(paths.map(|setting| PathBuf::from(setting.value)));
    }
    if let Some(index) = read_bounded(&repository.git_directory.join("index"), LARGEST_INDEX) {
        found.extend(entries_of_either(&index));
        // A split index has the rest of its entries in another file.
        let shared = [20, 32].into_iter().find_map(|hash| read_plain(&index, hash)).flatten();
        let shared =
            shared.and_then(|name| read_bounded(&repository.git_directory.join(name), LARGEST_INDEX));
        found.extend(shared.map(|shared| entries_of_either(&shared)).unwrap_or_default());
    }
    found.into_iter().filter(|path| path.is_relative()).take(MOST_SUBMODULES).collect()
}

/// Both sizes of a hash, for the fuzzer.
pub fn fuzz(data: &[u8]) {
    for hash in [20, 32] {
        entries(data, hash);
        is_plain(data, hash, &|_| Some(data.to_vec()));
    }
}

/// The size of a hash is not in the file: one of the two reads to the end.
fn entries_of_either(index: &[u8]) -> Vec<PathBuf> {
    entries(index, 20).or_else(|| entries(index, 32)).unwrap_or_default()
}

/// The submodules among the entries; nothing where the file is not as it should be with hashes of this size.
fn entries(index: &[u8], hash: usize) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    each_entry(index, hash, &mut |mode, path| {
        if mode & KIND == SUBMODULE && found.len() < MOST_SUBMODULES {
            found.push(PathBuf::from(std::ffi::OsStr::from_bytes(path)));
        }
        true
    })?;
    Some(found)
}

/// True if every entry is one that git itself would have added, and nothing in the file makes git read it in another way than this does. An
/// index may name another one with most of its entries, which `shared` reads.
pub fn is_plain(index: &[u8], hash: usize, shared: &dyn Fn(&str) -> Option<Vec<u8>>) -> bool {
    match read_plain(index, hash) {
        Some(None) => true,
        Some(Some(name)) => shared(&name).is_some_and(|below| matches!(read_plain(&below, hash), Some(None))),
        None => false,
    }
}

/// The name of the file that has further entries, if the index names one. `None` if the index is not plain.
fn read_plain(index: &[u8], hash: usize) -> Option<Option<String>> {
    let (mut without_name, mut submodules, mut link) = (false, 0, None);
    let mut at = each_entry(index, hash, &mut |mode, path| {
        without_name |= path.is_empty();
        submodules += usize::from(mode & KIND == SUBMODULE);
        path.is_empty() || is_plain_path(path, mode)
    })?;
    let end = index.len().checked_sub(hash)?;
    while at < end {
        let length = usize::try_from(number(index, at + 4)?).ok()?;
        let content = at + 8;
        match index.get(at..at + 4)? {
            b"TREE" | b"REUC" | b"UNTR" | b"FSMN" | b"sdir" => {}
            b"link" => link = Some(index.get(content..content + hash)?),
            // Where entries begin: git would believe it.
            _ => return None,
        }
        at = content.checked_add(length)?;
    }
    // More submodules are not held by a later fence.
    if at != end || (without_name && link.is_none()) || submodules > MOST_SUBMODULES {
        return None;
    }
    let hex = |hash: &[u8]| hash.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    // Zeroes: no other file.
    Some(
        link.filter(|hash| hash.iter().any(|byte| *byte != 0))
            .map(|hash| format!("sharedindex.{}", hex(hash))),
    )
}

fn is_plain_path(path: &[u8], mode: u32) -> bool {
    // A directory that a sparse working tree leaves out.
    let path = if mode & KIND == DIRECTORY { path.strip_suffix(b"/").unwrap_or(path) } else { path };
    let bad = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.eq_ignore_ascii_case(b".git");
    !path.split(|byte| *byte == b'/').any(bad)
}

/// Calls `look` with the mode and the path of each entry. Returns the offset behind the last, or `None` where `look` returned false or the file is not
/// as it should be with hashes of this size.
fn each_entry(index: &[u8], hash: usize, look: &mut dyn FnMut(u32, &[u8]) -> bool) -> Option<usize> {
    if index.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, count) = (number(index, 4)?, number(index, 8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut at, mut path) = (12, Vec::new());
    for _ in 0..count {
        let flags_at = at + BEFORE_HASH + hash;
        let mode = number(index, at + MODE_AT)?;
        let flags = u16::from_be_bytes(index.get(flags_at..flags_at + 2)?.try_into().ok()?);
        let extended = flags & EXTENDED != 0;
        if extended && version == 2 {
            return None;
        }
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
        // Git goes by this length, and not by the zero, where the path is shorter.
        if usize::from(flags & LENGTH) != path.len().min(usize::from(LENGTH)) {
            return None;
        }
        // An entry is filled up with one to eight zeroes, but not in the fourth version.
        at = match version {
            4 => name_at + length + 1,
            _ => at + ((name_at + length - at) / 8 + 1) * 8,
        };
        // A mode that no entry has tells that the hashes are of another size.
        if !matches!(mode & KIND, SUBMODULE | 0o100_000 | 0o120_000 | DIRECTORY) || !look(mode, &path) {
            return None;
        }
    }
    Some(at)
}

fn number(index: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(index.get(at..at + 4)?.try_into().ok()?))
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
