//! The private disk of a VM: a file whose size is the limit, with a file system of that size. The file lies in the
//! sandbox's directory of the engine's storage, which keeps and copies it like everything there; or it has no name, and
//! ends with the VM.

use super::ext4;
use super::sparse;
use crate::process::mounts::inodes;
use paddock_fences::error::{CreateError, HostStep};
use paddock_model::{Disk, Spec};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, openat};
use std::fs::File;
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

const NAME: &str = "disk.ext4";

/// Opened to be written. A new one is empty, or a copy of `like`.
pub fn open(state: &Path, spec: &Spec, like: Option<&File>) -> std::result::Result<File, CreateError> {
    match &spec.disk {
        Disk::Memory => {
            let place = place(state)?;
            let file = sparse::unnamed(&place).host(|| format!("make a disk in {}", place.display()))?;
            fill(state, spec, &file, like)?;
            Ok(file)
        }
        Disk::Directory { path, .. } => in_storage(state, spec, path, like),
    }
}

fn in_storage(
    state: &Path,
    spec: &Spec,
    directory: &Path,
    like: Option<&File>,
) -> std::result::Result<File, CreateError> {
    let refuse =
        |reason: &str| CreateError::Mount { path: directory.display().to_string(), reason: reason.into() };
    let place = File::open(directory).host(|| format!("open {}", directory.display()))?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(&place, NAME, flags, Mode::empty()) {
        Ok(file) => return Ok(File::from(file)),
        Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno).host(|| format!("open the disk in {}", directory.display())),
    }
    let mut others = std::fs::read_dir(directory).host(|| format!("list {}", directory.display()))?;
    if others.next().is_some() {
        return Err(refuse(
            "it holds the files of a sandbox of another backend, which a VM cannot have as its disk; \
             use the backend that it was made with",
        ));
    }
    let file = openat(&place, NAME, flags | OFlags::CREATE | OFlags::EXCL, Mode::from_raw_mode(0o600));
    let file = File::from(file.host(|| format!("make a disk in {}", directory.display()))?);
    fill(state, spec, &file, like)?;
    Ok(file)
}

/// An empty file system is made once for each size, and copied.
fn fill(state: &Path, spec: &Spec, file: &File, like: Option<&File>) -> std::result::Result<(), CreateError> {
    if let Some(like) = like {
        return sparse::copy(like, file).host(|| "fill the disk".into());
    }
    // Whole blocks, and room for the file system itself.
    let bytes = (spec.limits.disk.max(8 << 20)).next_multiple_of(4096);
    let empty = place(state)?.join(format!("empty-{bytes}"));
    let opened = open_or_make(&empty, |new| ext4::make_empty(new, bytes, inodes(spec)));
    let opened = opened.map_err(|error| match error.kind() {
        ErrorKind::NotFound => ext4::unavailable(&error),
        _ => CreateError::Host { step: "make an empty disk".into(), source: error },
    })?;
    sparse::copy(&opened, file).host(|| "fill the disk".into())
}

/// A file that all VMs share. If several want it at the same time, one of them makes it; `make` gets a temporary name.
pub fn open_or_make(path: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<File> {
    let is_there =
        |opened: &Result<File>| !matches!(opened, Err(error) if error.kind() == ErrorKind::NotFound);
    let opened = File::open(path);
    if is_there(&opened) {
        return opened;
    }
    let lock = File::create(path.with_file_name("make.lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    let opened = File::open(path);
    if is_there(&opened) {
        return opened;
    }
    let new = path.with_extension("new");
    make(&new)
        .and_then(|()| std::fs::rename(&new, path))
        .inspect_err(|_| drop(std::fs::remove_file(&new)))?;
    File::open(path)
}

/// The directory for the files that VMs are made of.
pub fn place(state: &Path) -> std::result::Result<PathBuf, CreateError> {
    use std::os::unix::fs::DirBuilderExt;
    let place = state.join("machines");
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&place);
    made.host(|| format!("make {}", place.display()))?;
    Ok(place)
}
