//! Archives that clients upload for their builds: one directory for each tenant, bounded in size and age.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// The most bytes of one archive.
pub const LARGEST_UPLOAD: u64 = 1 << 30;
/// The most bytes of all archives of a tenant; the oldest give way.
const MOST_BYTES: u64 = 4 << 30;
const MOST_ARCHIVES: usize = 1000;
/// An archive that no upload has touched for this time is removed: its client uploads it again.
const ARCHIVE_KEPT_FOR: Duration = Duration::from_secs(7 * 86_400);

/// The directory of a tenant's archives.
pub fn directory(state: &Path, tenant: &str) -> PathBuf {
    // A tenant's name may hold anything that a file's may not.
    let name: String = tenant.bytes().map(|byte| format!("{byte:02x}")).collect();
    state.join("builds/uploads").join(name)
}

/// An archive on its way. Dropping it leaves nothing.
pub struct Upload {
    file: NamedTempFile,
    directory: PathBuf,
    hash: String,
    bytes: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    #[error("the archive is larger than {} MiB", LARGEST_UPLOAD >> 20)]
    TooLarge,
    #[error("the archive cannot be kept")]
    Io(#[from] io::Error),
}

impl Upload {
    /// Precondition: `hash` is one by [`super::hash_problem`].
    pub fn begin(directory: &Path, hash: &str) -> io::Result<Upload> {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        let file = NamedTempFile::new_in(directory)?;
        Ok(Upload { file, directory: directory.to_path_buf(), hash: hash.into(), bytes: 0 })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), UploadError> {
        self.bytes += bytes.len() as u64;
        if self.bytes > LARGEST_UPLOAD {
            return Err(UploadError::TooLarge);
        }
        Ok(self.file.write_all(bytes)?)
    }

    /// Keeps it in the place of an earlier one; older archives of the tenant may give way. Returns its size.
    pub fn finish(self) -> Result<u64, UploadError> {
        self.file.persist(self.directory.join(&self.hash)).map_err(|error| error.error)?;
        make_room(&self.directory, &self.hash, SystemTime::now());
        Ok(self.bytes)
    }
}

/// True if the archive is there; it counts as new again.
pub fn is_there(directory: &Path, hash: &str) -> bool {
    match File::open(directory.join(hash)) {
        Ok(file) => {
            let _ = file.set_modified(SystemTime::now());
            true
        }
        Err(_) => false,
    }
}

/// At most a thousand small looks, after an upload.
fn make_room(directory: &Path, newest: &str, now: SystemTime) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let mut archives: Vec<(SystemTime, u64, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.file_name() != newest)
        .filter_map(|entry| {
            let found = entry.metadata().ok()?;
            Some((found.modified().ok()?, found.len(), entry.path()))
        })
        .collect();
    archives.sort();
    let mut bytes: u64 = archives.iter().map(|(_, size, _)| size).sum();
    let mut left = archives.len();
    for (modified, size, path) in archives {
        let old = now.duration_since(modified).is_ok_and(|age| age > ARCHIVE_KEPT_FOR);
        if !old && bytes <= MOST_BYTES - LARGEST_UPLOAD && left < MOST_ARCHIVES {
            break;
        }
        let _ = fs::remove_file(path);
        bytes = bytes.saturating_sub(size);
        left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_whole_or_not_there_and_old_ones_give_way() {
        let state = tempfile::tempdir().unwrap();
        let place = directory(state.path(), "../a/b");
        assert!(place.starts_with(state.path().join("builds/uploads")));
        assert_eq!(place.components().count(), state.path().components().count() + 3);
        let mut half = Upload::begin(&place, "one").unwrap();
        half.write(b"x").unwrap();
        assert!(!is_there(&place, "one"));
        drop(half);
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
        let mut whole = Upload::begin(&place, "one").unwrap();
        whole.write(b"xy").unwrap();
        assert_eq!(whole.finish().unwrap(), 2);
        assert!(is_there(&place, "one"));
        make_room(&place, "two", SystemTime::now() + ARCHIVE_KEPT_FOR * 2);
        assert!(!is_there(&place, "one"));
    }

    #[test]
    fn an_upload_has_a_bound() {
        let place = tempfile::tempdir().unwrap();
        let mut upload = Upload::begin(place.path(), "one").unwrap();
        upload.bytes = LARGEST_UPLOAD;
        assert!(matches!(upload.write(b"x"), Err(UploadError::TooLarge)));
    }
}
