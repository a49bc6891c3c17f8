//! An archive that a client uploaded, on its way into a build. It is hostile: its names, its links and its size are checked
//! here, and it is unpacked inside the fence only. The host writes none of its entries anywhere.

use super::copied::Copied;
use super::error::BuildError;
use paddock_images::digest::hash_reader;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Archive, Builder, Entry, EntryType, Header};

/// The most bytes of files in one archive, as it is unpacked: a small archive can be a large one compressed.
pub const MOST_BYTES: u64 = 4 << 30;
const MOST_ENTRIES: usize = 200_000;
const DEEPEST: usize = 256;

/// An archive whose entries lie as they are to lie inside.
pub struct Laid {
    pub copied: Copied,
    /// Every path that it makes, from the root. The destination is among them unless it was a directory before.
    pub paths: Vec<String>,
}

/// The place of each entry inside.
struct Placing {
    /// The parts of the source that no longer stand in the place.
    prefix: PathBuf,
    /// True if the source is a pattern: its last part stays.
    pattern: bool,
    to: PathBuf,
    /// True if the destination is a directory whatever the source is.
    into: bool,
}

/// Reads the archive whole and writes it anew, with the places of its entries inside. Blocks while it reads.
///
/// `there`: the destination is a directory already. The result depends on names, contents and modes alone, so that the same
/// files give the same layer.
pub fn lay(archive: &Path, from: &str, to: &str, there: bool, mode: Option<u32>) -> Result<Laid, BuildError> {
    let fail = |reason: String| BuildError::Copy { from: from.chars().take(200).collect(), reason };
    let failed = |error: io::Error| fail(error.to_string());
    let file = File::open(archive).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => fail("its files were not uploaded".into()),
        _ => failed(error),
    })?;
    let placing = Placing::new(from, to, there).map_err(fail)?;
    let reader = paddock_images::decoder(BufReader::new(file)).map_err(failed)?;
    // One byte more than allowed, so that the count below finds it.
    let mut entries = Archive::new(reader.take(MOST_BYTES + (MOST_ENTRIES as u64) * 2048));
    let mut laying = Laying {
        builder: Builder::new(tempfile::tempfile().map_err(failed)?),
        paths: Vec::new(),
        bytes: 0,
        mode,
        one_file: false,
    };
    let damaged = |error: io::Error| fail(format!("the uploaded archive is damaged: {error}"));
    for (number, entry) in entries.entries().map_err(damaged)?.enumerate() {
        if number >= MOST_ENTRIES {
            return Err(fail(format!("the uploaded archive has more than {MOST_ENTRIES} entries")));
        }
        laying.entry(entry.map_err(damaged)?, &placing).map_err(fail)?;
    }
    if laying.paths.is_empty() {
        return Err(fail("the uploaded archive has nothing of that name".into()));
    }
    let mut archive = laying.builder.into_inner().map_err(failed)?;
    archive.seek(SeekFrom::Start(0)).map_err(failed)?;
    let digest = hash_reader(&archive, |_| Ok(())).map_err(failed)?;
    archive.seek(SeekFrom::Start(0)).map_err(failed)?;
    let into = if laying.one_file { placing.to.parent().unwrap_or(Path::new("")) } else { &placing.to };
    let into = format!("/{}", into.display());
    let destination = format!("/{}", placing.to.display());
    laying.paths.retain(|path| *path != destination || !there);
    if !there && !laying.one_file && !laying.paths.contains(&destination) {
        laying.paths.push(destination);
    }
    Ok(Laid { copied: Copied { archive, digest, into }, paths: laying.paths })
}

struct Laying {
    builder: Builder<File>,
    paths: Vec<String>,
    bytes: u64,
    mode: Option<u32>,
    /// The source is a file, and the destination is its name.
    one_file: bool,
}

impl Laying {
    fn entry(&mut self, mut entry: Entry<'_, impl Read>, placing: &Placing) -> Result<(), String> {
        let kind = entry.header().entry_type();
        if matches!(kind, EntryType::XGlobalHeader) {
            return Ok(());
        }
        let bytes = entry.path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&bytes).chars().take(200).collect::<String>();
        let name = plain(Path::new(OsStr::from_bytes(&bytes)))
            .ok_or_else(|| format!("the uploaded archive's `{}` leads out of it", shown.escape_debug()))?;
        let is_directory = kind == EntryType::Directory;
        let Some(found) = placing.of(&name, is_directory) else {
            // Directories on the way to the source are no part of it.
            if is_directory && placing.prefix.starts_with(&name) {
                return Ok(());
            }
            return Err(format!(
                "the uploaded archive's `{}` is no part of the source",
                shown.escape_debug()
            ));
        };
        let place = match found {
            Place::Below(place) if !self.one_file => place,
            Place::Itself(place) if self.paths.is_empty() => {
                self.one_file = true;
                place
            }
            _ => return Err("the source is a file and more than that in the uploaded archive".into()),
        };
        let above = if self.one_file { placing.to.parent().unwrap_or(Path::new("")) } else { &placing.to };
        let inside = above.join(&place);
        let text = inside.to_str().ok_or_else(|| format!("`{}` is not UTF-8", shown.escape_debug()))?;
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mtime(0);
        header.set_size(0);
        let own = entry.header().mode().map_err(|error| error.to_string())? & 0o777;
        let damaged = |error: io::Error| format!("the uploaded archive is damaged: {error}");
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                header.set_entry_type(EntryType::Regular);
                header.set_mode(self.mode.unwrap_or(own));
                let size = entry.size();
                self.bytes = self.bytes.saturating_add(size);
                if self.bytes > MOST_BYTES {
                    return Err(format!("its files are larger than {} GiB", MOST_BYTES >> 30));
                }
                header.set_size(size);
                let mut content = Counted { inner: &mut entry, bytes: 0 };
                self.builder.append_data(&mut header, place.as_path(), &mut content).map_err(damaged)?;
                if content.bytes != size {
                    return Err(format!("the uploaded archive ends within `{}`", shown.escape_debug()));
                }
            }
            EntryType::Directory => {
                header.set_mode(self.mode.unwrap_or(own) | ((self.mode.unwrap_or(own) & 0o444) >> 2));
                if !place.as_os_str().is_empty() {
                    self.builder.append_data(&mut header, place.as_path(), io::empty()).map_err(damaged)?;
                }
            }
            EntryType::Symlink => {
                header.set_mode(0o777);
                let target = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
                if target.is_empty() || target.contains(&0) {
                    return Err(format!(
                        "the uploaded archive's `{}` is a link to nowhere",
                        shown.escape_debug()
                    ));
                }
                let target = OsStr::from_bytes(&target);
                self.builder.append_link(&mut header, place.as_path(), target).map_err(damaged)?;
            }
            _ => {
                return Err(format!(
                    "the uploaded archive's `{}` is a device, a pipe, a hard link or of another kind that is not copied",
                    shown.escape_debug()
                ));
            }
        }
        self.paths.push(format!("/{}", text.trim_end_matches('/')));
        Ok(())
    }
}

struct Counted<'a, R> {
    inner: &'a mut R,
    bytes: u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

impl Placing {
    fn new(from: &str, to: &str, there: bool) -> Result<Placing, String> {
        let is_pattern = |part: &Path| part.to_string_lossy().contains(['*', '?', '[', '{']);
        let source = plain(Path::new(from)).ok_or("it leads out of the directory that was uploaded")?;
        let literal: PathBuf = source
            .components()
            .map(|part| Path::new(part.as_os_str()))
            .take_while(|part| !is_pattern(part))
            .collect();
        let pattern = literal != source;
        let to_path =
            plain(Path::new(to.trim_start_matches('/'))).ok_or("its destination leads out of the root")?;
        Ok(Placing { prefix: literal, pattern, to: to_path, into: pattern || there || to.ends_with('/') })
    }

    /// `None`: the entry is no part of the source.
    fn of(&self, name: &Path, is_directory: bool) -> Option<Place> {
        let rest = name.strip_prefix(&self.prefix).ok()?;
        if !rest.as_os_str().is_empty() {
            return Some(Place::Below(rest.to_path_buf()));
        }
        match (is_directory, self.pattern) {
            (true, true) => None,
            (true, false) => Some(Place::Below(PathBuf::new())),
            (false, _) if self.into => Some(Place::Below(name.file_name()?.into())),
            (false, _) => self.to.file_name().map(|name| Place::Itself(name.into())),
        }
    }
}

/// The place of an entry: below the destination, or the destination itself, by its last part.
enum Place {
    Below(PathBuf),
    Itself(PathBuf),
}

/// Relative, without `.`; `..` is taken away with the part before it. `None`: it is absolute or leads out.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut found = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) if !name.as_bytes().contains(&0) => found.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !found.pop() {
                    return None;
                }
            }
            _ => return None,
        }
    }
    (found.components().count() <= DEEPEST).then_some(found)
}

#[cfg(test)]
#[path = "uploaded_tests.rs"]
mod tests;
