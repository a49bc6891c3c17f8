//! Images on this host's disk.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use super::config::Settings;
use super::digest::{Digest, hash_reader};
use super::directories::Root;
use super::folder::Folder;
use super::job::Reporter;
use super::store::Shared;
use super::unpack::{Layer, Style, Unpacker};
use super::{ImageError, ResolvedImage, docker_archive, layout};

/// The result of opening an archive, so that it need not be opened again.
#[derive(Serialize, Deserialize)]
struct Record {
    root_key: Digest,
    digest: Digest,
    settings: Settings,
}

/// An image that was found on disk and unpacked.
pub struct Found {
    pub root_key: Digest,
    pub root: Root,
    pub digest: Digest,
    pub settings: Settings,
}

pub fn resolve(shared: &Shared, path: &Path, reporter: &Reporter) -> Result<ResolvedImage, ImageError> {
    let path = fs::canonicalize(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ImageError::NoSuchPath { path: path.to_owned() },
        _ => ImageError::io("open", path, error),
    })?;
    if !path.is_dir() {
        return resolve_file(shared, &path, reporter);
    }
    let folder = Folder::open(&path)?;
    if folder.has("oci-layout") {
        let found = layout::resolve(shared, &folder, reporter)?;
        return Ok(ResolvedImage::new(found.root, found.settings, Some(&found.digest)));
    }
    Ok(ResolvedImage::new(Root { path, skipped: Vec::new() }, Settings::default(), None))
}

fn resolve_file(shared: &Shared, path: &Path, reporter: &Reporter) -> Result<ResolvedImage, ImageError> {
    let file = open_archive(path)?;
    let archive_digest = digest_of(&file, path, reporter)?;
    let directories = &shared.directories;
    let _lock = directories.lock(&format!("archive-{}", archive_digest.hex()))?;
    if let Some(Record { root_key, digest, settings }) = directories.record(&archive_digest)?
        && let Some(root) = directories.root(&root_key)?
    {
        return Ok(ResolvedImage::new(root, settings, Some(&digest)));
    }
    let Found { root_key, root, digest, settings } = unpack(shared, path, &archive_digest, reporter)?;
    let record = Record { root_key, digest, settings };
    directories.publish_record(&archive_digest, &record)?;
    Ok(ResolvedImage::new(root, record.settings, Some(&record.digest)))
}

/// Unpacks first and looks then: an archive that is no image is a root file system, and is in place already.
fn unpack(shared: &Shared, path: &Path, digest: &Digest, reporter: &Reporter) -> Result<Found, ImageError> {
    let work = shared.directories.temporary()?;
    let rootfs = work.make("rootfs")?;
    let file = open_archive(path)?;
    reporter.start("unpacking", file.metadata().ok().map(|metadata| metadata.len()))?;
    let mut unpacker = Unpacker::new(&rootfs, Style::Plain, &shared.limits)?;
    // The digest is checked again: the file may have changed since it was taken.
    unpacker.apply(Layer { file, digest: Some(digest.clone()), size: None, diff_id: None }, reporter)?;
    let skipped = unpacker.finish();
    reporter.done()?;

    let is_empty = fs::read_dir(&rootfs).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty {
        return Err(ImageError::NotAnImage { path: path.to_owned() });
    }
    let folder = Folder::open(&rootfs)?;
    if folder.has("oci-layout") {
        return layout::resolve(shared, &folder, reporter);
    }
    if let Some(image) = docker_archive::read(&folder, &shared.limits)? {
        return docker_archive::resolve(shared, &folder, &image, reporter);
    }
    let _lock = shared.directories.lock(&format!("root-{}", digest.hex()))?;
    let root = match shared.directories.root(digest)? {
        Some(root) => root,
        None => shared.directories.publish_root(work, digest, skipped)?,
    };
    Ok(Found { root_key: digest.clone(), root, digest: digest.clone(), settings: Settings::default() })
}

fn open_archive(path: &Path) -> Result<File, ImageError> {
    let failed = |error| ImageError::io("open", path, error);
    // Without NONBLOCK the opening of a named pipe would wait for its writer.
    let flags = OFlags::NONBLOCK.union(OFlags::NOCTTY).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_file() {
        return Ok(file);
    }
    Err(ImageError::NotAnImage { path: path.to_owned() })
}

fn digest_of(file: &File, path: &Path, reporter: &Reporter) -> Result<Digest, ImageError> {
    reporter.start("reading", file.metadata().ok().map(|metadata| metadata.len()))?;
    let mut cancelled = None;
    let digest = hash_reader(file, |bytes| {
        reporter.advance(bytes).map_err(|error| {
            cancelled = Some(error);
            io::ErrorKind::Interrupted.into()
        })
    });
    if let Some(error) = cancelled {
        return Err(error);
    }
    reporter.done()?;
    digest.map_err(|error| ImageError::io("read", path, error))
}
