//! One tar stream into a directory, without ever leaving it.
//!
//! The `tar` crate only parses. Every change goes through [`tree::Tree`], which resolves parents with openat2 and
//! follows no symbolic link, so that an entry cannot use a link of an earlier entry.
//!
//! - [`name`]: the name of an entry, checked
//! - [`entry`]: the facts of the header: type, mode, owner, time
//! - [`stream`]: the bytes: digests and limits, on both sides of [`compression`]
//! - [`tree`]: the directory that is written
//! - [`upper`]: peculiarities of a sandbox's disk: an overlay's marks, and holes
//! - [`layer`]: peculiarities of a layer: whiteouts, and the list of paths it has touched

mod compression;
mod entry;
mod layer;
mod name;
mod stream;
mod tree;
mod upper;

pub use compression::decoder;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use tar::{Archive, Entry};

use super::digest::Digest;
use super::job::Reporter;
use super::{ImageError, Refusal, UnpackLimits};
use entry::{Kind, Metadata};
use layer::{Touched, Whiteout};
use name::EntryName;
use stream::{Meter, Stream};
use tree::Tree;

/// The most skipped names that are kept.
const SKIPPED_NAMES: usize = 100;
/// The most bytes of directory names that are kept to restore their times; directories beyond keep the time of
/// unpacking.
const DIRECTORY_TIMES_BYTES: usize = 16 << 20;

/// The kind of a tar stream, which decides how some of its entries are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// A whole root file system: a special file is an error, and no name is a whiteout.
    Plain,
    /// A layer of an image: special files are skipped and counted, whiteouts remove.
    Layer,
    /// The changes of a sandbox over its root, as its guest exports them: an overlay's marks remove, other special
    /// files are skipped, and the files that Paddock itself puts into every sandbox are left out.
    Disk,
}

/// A tar file, perhaps compressed, and its promised digests.
pub struct Layer {
    pub file: File,
    /// The digest of the bytes in the file.
    pub digest: Option<Digest>,
    /// The number of bytes in the file.
    pub size: Option<u64>,
    /// The digest of the bytes after decompression.
    pub diff_id: Option<Digest>,
}

/// Unpacks one or more tar streams over each other into one directory.
pub struct Unpacker<'a> {
    tree: Tree,
    limits: &'a UnpackLimits,
    style: Style,
    entries: u64,
    bytes: u64,
    skipped: Vec<String>,
    times: Vec<(PathBuf, u64)>,
    times_bytes: usize,
    buffer: Vec<u8>,
}

impl<'a> Unpacker<'a> {
    /// Precondition: `destination` exists and is empty, and nothing else writes to it.
    pub fn new(destination: &Path, style: Style, limits: &'a UnpackLimits) -> Result<Self, ImageError> {
        Ok(Self {
            tree: Tree::open(destination)?,
            limits,
            style,
            entries: 0,
            bytes: 0,
            skipped: Vec::new(),
            times: Vec::new(),
            times_bytes: 0,
            buffer: vec![0; 256 << 10],
        })
    }

    pub fn apply(&mut self, layer: Layer, reporter: &Reporter) -> Result<(), ImageError> {
        let meter = Meter::new(self.limits, self.limits.bytes.saturating_sub(self.bytes));
        let Layer { file, digest, size, diff_id } = layer;
        let stream = Stream::open(file, &meter, reporter)?;
        let mut archive = Archive::new(stream);
        let result = self.apply_entries(&mut archive, &meter);
        // An error below the archive is the cause of the archive's own complaint.
        if let Some(failure) = meter.take_failure() {
            return Err(failure);
        }
        result?;
        let summary = archive.into_inner().finish()?;
        self.bytes += summary.bytes;
        if let Some(expected) = size.filter(|expected| *expected != summary.file_bytes) {
            return Err(ImageError::SizeMismatch {
                what: "a layer".to_owned(),
                expected,
                found: summary.file_bytes,
            });
        }
        if let Some(expected) = digest {
            expected.expect(&summary.file_digest, "a layer")?;
        }
        if let Some(expected) = diff_id {
            expected.expect(&summary.digest, "an unpacked layer")?;
        }
        Ok(())
    }

    /// Restores the times of directories, and returns the names that were skipped.
    pub fn finish(self) -> Vec<String> {
        for (path, seconds) in &self.times {
            self.tree.set_directory_time(path, *seconds);
        }
        self.skipped
    }

    fn apply_entries(
        &mut self,
        archive: &mut Archive<Stream<'_>>,
        meter: &Meter<'_>,
    ) -> Result<(), ImageError> {
        let mut touched = Touched::default();
        meter.expect_header();
        for entry in archive.entries().map_err(damaged)? {
            let mut entry = entry.map_err(damaged)?;
            meter.expect_data();
            self.count_entry()?;
            self.apply_entry(&mut entry, &mut touched)?;
            // The rest of an entry is passed over here, so that the allowance below is for the next header alone.
            while entry.read(&mut self.buffer).map_err(damaged)? > 0 {}
            meter.expect_header();
        }
        meter.expect_data();
        Ok(())
    }

    fn apply_entry<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        touched: &mut Touched,
    ) -> Result<(), ImageError> {
        let raw_name = entry.path_bytes().into_owned();
        let refuse = |refusal| ImageError::refused(&raw_name, refusal);
        let kind = Kind::of(entry).map_err(refuse)?;
        if kind == Kind::Global {
            return Ok(());
        }
        let name = EntryName::parse(&raw_name).map_err(refuse)?;
        if self.style == Style::Layer
            && let Some(whiteout) = Whiteout::parse(&name).map_err(refuse)?
        {
            return self.apply_whiteout(&whiteout, &raw_name, touched);
        }
        if self.style == Style::Disk && upper::is_paddocks_own(name.path()) {
            return Ok(());
        }
        if self.style == Style::Disk
            && let Some(mark) = upper::mark(entry, kind, &name)
        {
            self.apply_whiteout(&mark, &raw_name, touched)?;
        }
        if kind == Kind::Special {
            return match self.style {
                Style::Plain => Err(refuse(Refusal::SpecialFile)),
                Style::Disk if upper::is_whiteout(entry) => Ok(()),
                Style::Layer | Style::Disk => {
                    self.skip(&raw_name);
                    Ok(())
                }
            };
        }
        let metadata = Metadata::of(entry.header()).map_err(refuse)?;
        let mut made = 0;
        let result = self.write_entry(entry, kind, &name, &metadata, &mut made);
        self.entries += made;
        self.check_entries()?;
        result.map_err(|failure| failure.into_error(&self.tree, &raw_name))?;
        if self.style != Style::Plain {
            touched.add(name.path());
        }
        Ok(())
    }

    fn write_entry<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        kind: Kind,
        name: &EntryName,
        metadata: &Metadata,
        made: &mut u64,
    ) -> Result<(), tree::Failure> {
        let Some(base) = name.base() else {
            if kind != Kind::Directory {
                return Err(Refusal::RootNotDirectory.into());
            }
            self.remember_time(name.path(), metadata);
            return self.tree.set_root_metadata(metadata);
        };
        let parent = self.tree.make_parent(name.parent(), made)?;
        match kind {
            Kind::Directory => {
                self.remember_time(name.path(), metadata);
                self.tree.put_directory(&parent, base, metadata)
            }
            Kind::File => {
                if self.style == Style::Disk
                    && let Some(holes) = upper::holes(entry, self.limits.bytes)?
                {
                    return self.tree.put_holed_file(&parent, base, metadata, entry, &holes);
                }
                let size = entry.size();
                self.tree.put_file(&parent, base, metadata, entry, size, &mut self.buffer)
            }
            Kind::Symlink => {
                let target = entry.link_name_bytes().ok_or(Refusal::BadSymlink)?;
                self.tree.put_symlink(&parent, base, metadata, &target)
            }
            Kind::HardLink => {
                let target = entry.link_name_bytes().ok_or(Refusal::BadHardLink)?;
                let target = EntryName::parse(&target)?;
                self.tree.put_hard_link(&parent, base, name, &target)
            }
            Kind::Special | Kind::Global => Err(Refusal::SpecialFile.into()),
        }
    }

    fn apply_whiteout(
        &mut self,
        whiteout: &Whiteout,
        raw_name: &[u8],
        touched: &Touched,
    ) -> Result<(), ImageError> {
        let removed = match whiteout {
            Whiteout::Remove(path) => self.tree.remove_lower(path, touched),
            Whiteout::Opaque(directory) => self.tree.remove_lower_children(directory, touched),
            Whiteout::Unused => {
                self.skip(raw_name);
                Ok(())
            }
        };
        removed.map_err(|failure| failure.into_error(&self.tree, raw_name))
    }

    fn count_entry(&mut self) -> Result<(), ImageError> {
        self.entries += 1;
        self.check_entries()
    }

    fn check_entries(&self) -> Result<(), ImageError> {
        if self.entries > self.limits.entries {
            return Err(ImageError::LimitExceeded { what: "entries", allowed: self.limits.entries });
        }
        Ok(())
    }

    fn skip(&mut self, raw_name: &[u8]) {
        if self.skipped.len() < SKIPPED_NAMES {
            self.skipped.push(super::error::printable(raw_name));
        }
    }

    fn remember_time(&mut self, path: &Path, metadata: &Metadata) {
        let size = path.as_os_str().len() + size_of::<(PathBuf, u64)>();
        if self.times_bytes + size <= DIRECTORY_TIMES_BYTES {
            self.times_bytes += size;
            self.times.push((path.to_owned(), metadata.seconds));
        }
    }
}

fn damaged(source: std::io::Error) -> ImageError {
    ImageError::DamagedArchive { source }
}
