use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

use super::ImageError;

/// A directory of image files that others may have made: links in it lead nowhere outside of it.
pub struct Folder {
    directory: OwnedFd,
    path: PathBuf,
}

impl Folder {
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, path, flags, Mode::empty());
        let directory = directory.map_err(|errno| ImageError::io("open", path, errno.into()))?;
        Ok(Self { directory, path: path.to_owned() })
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(Path::new(name)).is_ok()
    }

    pub fn file(&self, name: &Path) -> Result<File, ImageError> {
        let failed = |error| ImageError::io("open", &self.path.join(name), error);
        // Without NONBLOCK the opening of a named pipe would wait for its writer.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = openat2(&self.directory, name, flags, Mode::empty(), resolve);
        let file = File::from(file.map_err(|errno| failed(errno.into()))?);
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")));
        }
        Ok(file)
    }

    pub fn document(&self, name: &Path, limit: u64) -> Result<Vec<u8>, ImageError> {
        let mut bytes = Vec::new();
        let read = self.file(name)?.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| ImageError::io("read", &self.path.join(name), error))?;
        if bytes.len() as u64 > limit {
            return Err(ImageError::LimitExceeded { what: "bytes in a document", allowed: limit });
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_folder_does_not_lead_outside() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(parent.path().join("secret"), "x").unwrap();
        fs::write(folder.join("inside"), "abc").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        std::os::unix::fs::symlink("inside", folder.join("good")).unwrap();
        let folder = Folder::open(&folder).unwrap();
        assert!(folder.has("good") && !folder.has("link") && !folder.has("../secret") && !folder.has("."));
        assert!(folder.document(Path::new("inside"), 3).is_ok());
        assert!(matches!(folder.document(Path::new("inside"), 2), Err(ImageError::LimitExceeded { .. })));
    }
}
