//! Unpacks an archive below a directory, as the user. The archive is hostile: nothing in it leads out of the
//! directory, through a link, or to anything but files, directories and links, and nothing gains rights by it.

use super::{archive, beneath, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, fchmod, futimens, linkat, mkdirat, openat,
    statat, symlinkat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use tar::{Entry, EntryType};

const MOST_ENTRIES: u64 = 2_000_000;

pub fn unpack(path: &[u8]) -> Outcome<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, path, flags, Mode::empty()).during(|| format!("open {}", shown(path)))?;
    let input = streams::input().during(|| "open the input".into())?;
    let mut archive = tar::Archive::new(&input);
    let damaged = |error: std::io::Error| Failure {
        step: format!("the archive is damaged: {error}"),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
    };
    for (number, entry) in archive.entries().map_err(damaged)?.enumerate() {
        if number as u64 >= MOST_ENTRIES {
            let step = format!("the archive has more than {MOST_ENTRIES} entries");
            return Err(Failure { step, errno: Errno::FBIG });
        }
        place(&root, &mut entry.map_err(damaged)?)?;
    }
    // The sender pads its archive; a closed stream must not look like an error to it.
    let _ = std::io::copy(&mut &input, &mut std::io::sink());
    Ok(())
}

fn place(root: &OwnedFd, entry: &mut Entry<'_, impl Read>) -> Outcome<()> {
    let kind = entry.header().entry_type();
    if kind == EntryType::XGlobalHeader {
        return Ok(());
    }
    let path = entry.path_bytes().into_owned();
    let step = || format!("unpack {}", shown(&path));
    let parts = beneath::parts(&path)?;
    let Some((name, above)) = parts.split_last() else { return Ok(()) };
    // Rights that come from an owner or a group are not taken from an archive.
    let mode = Mode::from_raw_mode(entry.header().mode().during(step)? & 0o777);
    let folder = beneath::open_directory(root, above, true).during(step)?;
    match kind {
        EntryType::Regular | EntryType::Continuous => {
            beneath::clear(&folder, name).during(step)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut file = File::from(openat(&folder, *name, flags, mode).during(step)?);
            let size = entry.size();
            if archive::copy_content(entry, &mut file).during(step)? != size {
                return Err(Failure { step: format!("{}: it ends too early", step()), errno: Errno::INVAL });
            }
            fchmod(&file, mode).during(step)?;
            let _ = futimens(&file, &times(entry));
            Ok(())
        }
        EntryType::Directory => {
            match mkdirat(&folder, *name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno).during(step),
            }
            // Opened without following links: a link there would lead to another directory.
            let made = beneath::open(&folder, name, OFlags::RDONLY | OFlags::DIRECTORY).during(step)?;
            fchmod(&made, mode).during(step)
        }
        EntryType::Symlink => {
            let target = link_target(entry, &path)?;
            beneath::clear(&folder, name).during(step)?;
            symlinkat(target.as_slice(), &folder, *name).during(step)
        }
        EntryType::Link => {
            let target = link_target(entry, &path)?;
            hard_link(root, &target, &folder, name).during(step)
        }
        _ => Err(Failure {
            step: format!(
                "the archive's `{}` is a device, a pipe or of another kind that is not unpacked",
                shown(&path)
            ),
            errno: Errno::PERM,
        }),
    }
}

fn link_target(entry: &Entry<'_, impl Read>, path: &[u8]) -> Outcome<Vec<u8>> {
    let target = entry.link_name_bytes().filter(|target| !target.is_empty() && !target.contains(&0));
    target.map(|target| target.into_owned()).ok_or_else(|| Failure {
        step: format!("the archive's `{}` is a link to nowhere", shown(path)),
        errno: Errno::INVAL,
    })
}

/// To something that is below the same root, and a regular file.
fn hard_link(root: &OwnedFd, target: &[u8], folder: &OwnedFd, name: &[u8]) -> rustix::io::Result<()> {
    let parts = beneath::parts(target).map_err(|failure| failure.errno)?;
    let (last, above) = parts.split_last().ok_or(Errno::INVAL)?;
    let from = beneath::open_directory(root, above, false)?;
    let found = statat(&from, *last, AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(Errno::PERM);
    }
    beneath::clear(folder, name)?;
    linkat(&from, *last, folder, name, AtFlags::empty())
}

pub fn times(entry: &Entry<'_, impl Read>) -> Timestamps {
    let seconds = entry.header().mtime().ok().and_then(|seconds| i64::try_from(seconds).ok()).unwrap_or(0);
    let time = Timespec { tv_sec: seconds, tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
