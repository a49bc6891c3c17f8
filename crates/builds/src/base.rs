//! The base of a build: the image, directory or release that the build file's `base` names, as a root of our own.

use super::debian;
use super::error::BuildError;
use super::run::{Event, Ground};
use super::step::Key;
use paddock_images::digest::Digest;
use paddock_images::directories::Temporary;
use paddock_images::share::Sharing;
use paddock_images::{Credentials, ImageError, ImageStore, NoProgress, RegistryReach, ResolvedImage};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, statat,
};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub enum Base {
    Image {
        image: Box<ResolvedImage>,
        key: Digest,
        sharing: Sharing,
        /// The place of an image that was fetched with a login: it goes with this.
        private: Option<Temporary>,
    },
    /// The base is made from the packages of this release.
    Debian { suite: String },
}

/// The credentials of a tenant for the registry of the base.
pub struct Login {
    pub credentials: Credentials,
    pub tenant: String,
}

/// Finds the base. For a Debian release the registry is asked first.
pub async fn find(
    ground: &Ground<'_>,
    base: &str,
    directory: Option<&Path>,
    reach: Option<&RegistryReach>,
) -> Result<Base, BuildError> {
    let named = |source| BuildError::Base { base: base.chars().take(200).collect(), source };
    let resolved = match reach {
        Some(reach) => ground.store.resolve_from_registry(base, reach, &NoProgress).await,
        None => ground.store.resolve(&anchored(base, directory), &NoProgress).await,
    };
    match resolved {
        Ok(image) => describe(image, Key::new("image"), None, named).await,
        Err(error) => match debian::suite(base).filter(|_| no_registry_answers(&error)) {
            Some(suite) => {
                let text = format!("no registry has it ({error}): from Debian's packages");
                ground.watcher.event(Event::Note { text: &text });
                Ok(Base::Debian { suite: suite.into() })
            }
            None => Err(named(error)),
        },
    }
}

/// Finds the base that a registry gives to its tenant alone. Nothing of it comes from the images that all tenants share, and nothing goes
/// there: who knows the digest of a layer could have it from there. The key is the tenant's own, so that the layers above are, too.
/// The registry decides anew at each build.
pub async fn find_with_login(
    ground: &Ground<'_>,
    base: &str,
    reach: &RegistryReach,
    login: &Login,
) -> Result<Base, BuildError> {
    let named = |source| BuildError::Base { base: base.chars().take(200).collect(), source };
    let place = ground.store.shared().directories.temporary()?;
    let store = ImageStore::open(&place.path.join("images"))?;
    let image = store.resolve_with_login(base, reach, &login.credentials, &NoProgress).await;
    let mut key = Key::new("private image");
    key.add(&login.tenant);
    describe(image.map_err(named)?, key, Some(place), named).await
}

/// Relative paths count from the build file, as those of `copy` do.
fn anchored(base: &str, directory: Option<&Path>) -> String {
    match directory {
        Some(directory)
            if base.starts_with("./") || base.starts_with("../") || [".", ".."].contains(&base) =>
        {
            directory.join(base).display().to_string()
        }
        _ => base.to_string(),
    }
}

/// True if the registry gave no usable answer. False if it answers that there is no such image, or that the caller may
/// not have it: the user has to hear of that mistake.
fn no_registry_answers(error: &ImageError) -> bool {
    matches!(
        error,
        ImageError::Unreachable { .. }
            | ImageError::TooManyRequests { .. }
            | ImageError::RegistryAnswer { .. }
    )
}

async fn describe(
    image: ResolvedImage,
    mut key: Key,
    private: Option<Temporary>,
    named: impl Fn(ImageError) -> BuildError,
) -> Result<Base, BuildError> {
    match &image.digest {
        Some(digest) => {
            let key = {
                key.add(digest);
                key.finish()
            };
            Ok(Base::Image { image: Box::new(image), key, sharing: Sharing::Links, private })
        }
        // A directory of the host, which may change at any time.
        None => {
            let root = image.root.clone();
            let looked = tokio::task::spawn_blocking(move || state_of(&root)).await;
            let failed =
                |error| named(ImageError::Io { action: "read", path: image.root.clone(), source: error });
            let state = looked.map_err(|error| failed(std::io::Error::other(error)))?.map_err(failed)?;
            key.add("directory").add(state.hex());
            Ok(Base::Image { key: key.finish(), image: Box::new(image), sharing: Sharing::Copies, private })
        }
    }
}

/// True if the root has a directory at this absolute path. Links are followed as they lie inside.
pub fn has_directory(root: &Path, path: &str) -> bool {
    let how = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .and_then(|root| openat2(&root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), how))
        .and_then(fstat);
    found.is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

/// A digest that changes with every change in a directory. It is made of the kernel's facts about each file; no file is
/// read.
fn state_of(root: &PathBuf) -> std::io::Result<Digest> {
    let mut key = Key::new("directory");
    let opened = openat(CWD, root, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    look(&opened, &mut key, 0)?;
    Ok(key.finish())
}

fn look(directory: &OwnedFd, key: &mut Key, depth: usize) -> std::io::Result<()> {
    if depth > 512 {
        return Err(rustix::io::Errno::NAMETOOLONG.into());
    }
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        names.push(entry?.file_name().to_bytes().to_vec());
    }
    names.sort();
    note(&fstat(directory)?, key);
    for name in names.iter().filter(|name| *name != b"." && *name != b"..") {
        let name = OsStr::from_bytes(name);
        key.add(&format!("{name:?}"));
        let found = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        note(&found, key);
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            look(&openat(directory, name, flags, Mode::empty())?, key, depth + 1)?;
        }
    }
    key.add("/");
    Ok(())
}

fn note(found: &Stat, key: &mut Key) {
    let Stat { st_mode, st_uid, st_gid, st_size, st_ino, st_ctime, st_ctime_nsec, .. } = found;
    key.add(&format!("{st_mode} {st_uid} {st_gid} {st_size} {st_ino} {st_ctime} {st_ctime_nsec}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_changed_directory_is_another_base() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().to_path_buf();
        fs::create_dir(path.join("a")).unwrap();
        fs::write(path.join("a/b"), "1").unwrap();
        let first = state_of(&path).unwrap();
        assert_eq!(first, state_of(&path).unwrap());
        fs::write(path.join("a/b"), "22").unwrap();
        let second = state_of(&path).unwrap();
        assert_ne!(first, second);
        fs::write(path.join("a/c"), "").unwrap();
        assert_ne!(second, state_of(&path).unwrap());
    }

    #[test]
    fn relative_paths_count_from_the_build_file() {
        assert_eq!(anchored("./root", Some(Path::new("/project"))), "/project/./root");
        assert_eq!(anchored("debian:bookworm", Some(Path::new("/project"))), "debian:bookworm");
        assert_eq!(anchored("/root", Some(Path::new("/project"))), "/root");
    }
}
