//! Files of the build's own directory, as an archive. It is made once, so that exactly the hashed bytes are copied.

use super::error::BuildError;
use paddock_images::digest::{Digest, hash_reader};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, readlinkat, statat,
};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

const MOST_BYTES: u64 = 16 << 30;
const DEEPEST: usize = 256;

/// A tar, and the directory inside that it is unpacked into.
pub struct Copied {
    pub archive: File,
    pub digest: Digest,
    pub into: String,
}

/// `from` is relative to `directory`; no link on the way to it is followed, and those in it are copied as links.
/// Blocks while it reads.
pub fn pack(directory: &Path, from: &str, to: &str) -> Result<Copied, BuildError> {
    let fail = |reason: String| BuildError::Copy { from: from.chars().take(200).collect(), reason };
    let failed = |error: io::Error| fail(error.to_string());
    let root = openat(CWD, directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| BuildError::Io { path: directory.to_path_buf(), source: errno.into() })?;
    let found = open_beneath(&root, from).map_err(|error| {
        fail(match error.raw_os_error() {
            Some(libc::ELOOP) => "a symbolic link is on the way to it, which is not followed".into(),
            Some(libc::EXDEV) => "it lies outside of the build file's directory".into(),
            Some(libc::ENOENT) => format!("there is nothing of that name in {}", directory.display()),
            _ => error.to_string(),
        })
    })?;
    let stat = fstat(&found).map_err(|errno| failed(errno.into()))?;
    let mut packing = Packing { builder: Builder::new(tempfile::tempfile().map_err(failed)?), bytes: 0 };
    let into = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            packing.directory(found, Path::new(""), 0).map_err(failed)?;
            to.to_string()
        }
        FileType::RegularFile => {
            let (into, name) = place_of_file(from, to);
            packing.file(found, &name, &stat).map_err(failed)?;
            into
        }
        _ => return Err(fail("it is a device, a pipe or a socket".into())),
    };
    let mut archive = packing.builder.into_inner().map_err(failed)?;
    archive.seek(SeekFrom::Start(0)).map_err(failed)?;
    let digest = hash_reader(&archive, |_| Ok(())).map_err(failed)?;
    archive.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(Copied { archive, digest, into })
}

/// `to` is the file's own place, or with a slash at its end the directory that it goes to.
fn place_of_file(from: &str, to: &str) -> (String, PathBuf) {
    let own_name = || Path::new(from).file_name().unwrap_or(OsStr::new("file")).into();
    match to.rsplit_once('/') {
        Some((above, "")) => (format!("{above}/"), own_name()),
        Some((above, name)) => (format!("{above}/"), name.into()),
        None => ("/".into(), own_name()),
    }
}

fn open_beneath(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(openat2(root, path, flags, Mode::empty(), how)?)
}

struct Packing {
    builder: Builder<File>,
    bytes: u64,
}

impl Packing {
    fn directory(&mut self, directory: OwnedFd, path: &Path, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(io::Error::other(format!("`{}` is too deep", path.display())));
        }
        let mut names: Vec<OsString> = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        // A directory's order on the disk is arbitrary, and the same files must give the same archive.
        names.sort();
        for name in names {
            let found = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            let path = path.join(&name);
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => {
                    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let inner = openat(&directory, &name, flags, Mode::empty())?;
                    let mut header = header(&found, EntryType::Directory);
                    self.builder.append_data(&mut header, &path, io::empty())?;
                    self.directory(inner, &path, depth + 1)?;
                }
                FileType::Symlink => {
                    let target = readlinkat(&directory, &name, Vec::new())?.into_bytes();
                    let mut header = header(&found, EntryType::Symlink);
                    self.builder.append_link(&mut header, &path, OsStr::from_bytes(&target))?;
                }
                FileType::RegularFile => {
                    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                    self.file(openat(&directory, &name, flags, Mode::empty())?, &path, &found)?;
                }
                _ => {
                    let reason = format!("`{}` is a device, a pipe or a socket", path.display());
                    return Err(io::Error::other(reason));
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, file: OwnedFd, path: &Path, found: &Stat) -> io::Result<()> {
        let size = u64::try_from(found.st_size).unwrap_or(0);
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > MOST_BYTES {
            return Err(io::Error::other("it is larger than 16 GiB"));
        }
        let mut header = header(found, EntryType::Regular);
        header.set_size(size);
        // The header has promised `size` bytes: a file that shrinks meanwhile would shift all entries after it.
        let content = File::from(file).take(size).chain(io::repeat(0)).take(size);
        self.builder.append_data(&mut header, path, content)
    }
}

/// The header has no times and no owners: they belong to this host, and the result must not depend on them.
fn header(found: &Stat, kind: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(found.st_mode & 0o777);
    header.set_mtime(0);
    header.set_size(0);
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn names(copied: &Copied) -> Vec<String> {
        let mut archive = tar::Archive::new(copied.archive.try_clone().unwrap());
        let entries = archive.entries().unwrap();
        entries.map(|entry| entry.unwrap().path().unwrap().display().to_string()).collect()
    }

    #[test]
    fn a_directory_is_packed_with_its_links_and_the_same_content_has_the_same_digest() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("tools");
        fs::create_dir_all(directory.join("b")).unwrap();
        fs::write(directory.join("b/run"), "#!/bin/sh\n").unwrap();
        symlink("/etc/shadow", directory.join("a")).unwrap();
        let first = pack(place.path(), "tools", "/opt/tools").unwrap();
        assert_eq!(
            (first.into.as_str(), names(&first)),
            ("/opt/tools", vec!["a".into(), "b".into(), "b/run".into()])
        );
        let again = pack(place.path(), "./tools", "/elsewhere").unwrap();
        assert_eq!(first.digest, again.digest);
        fs::set_permissions(directory.join("b/run"), fs::Permissions::from_mode(0o755)).unwrap();
        let executable = pack(place.path(), "tools", "/opt/tools").unwrap();
        assert_ne!(first.digest, executable.digest);
    }

    #[test]
    fn a_file_goes_to_its_place_or_into_a_directory() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("f"), "x").unwrap();
        let copied = pack(place.path(), "f", "/opt/g").unwrap();
        assert_eq!((copied.into.as_str(), names(&copied)), ("/opt/", vec!["g".to_string()]));
        let copied = pack(place.path(), "f", "/opt/").unwrap();
        assert_eq!((copied.into.as_str(), names(&copied)), ("/opt/", vec!["f".to_string()]));
    }

    #[test]
    fn nothing_outside_is_copied() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("project");
        fs::create_dir(&directory).unwrap();
        fs::write(place.path().join("secret"), "x").unwrap();
        symlink("../secret", directory.join("file")).unwrap();
        symlink("..", directory.join("up")).unwrap();
        let refusal = |from| pack(&directory, from, "/x").err().unwrap().to_string();
        assert_eq!(
            refusal("file"),
            "copy `file`: a symbolic link is on the way to it, which is not followed"
        );
        assert_eq!(
            refusal("up/secret"),
            "copy `up/secret`: a symbolic link is on the way to it, which is not followed"
        );
        assert_eq!(refusal("../secret"), "copy `../secret`: it lies outside of the build file's directory");
        assert!(refusal("nothing").contains("there is nothing of that name in"));
        rustix::fs::mknodat(CWD, directory.join("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(refusal("pipe"), "copy `pipe`: it is a device, a pipe or a socket");
        assert!(refusal(".").contains("`pipe` is a device"));
    }
}
