//! Fills a disk from an archive that `export` wrote. It runs before any work has started, with the guest's own rights;
//! still no path leads out of the disk.

use super::archive::copy_content;
use super::trail::Trail;
use super::{beneath, shown, streams, unpack};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{EXTENTS, parse_extents};
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown, fsetxattr,
    ftruncate, futimens, linkat, mkdirat, mknodat, openat, statat, symlinkat, utimensat,
};
use rustix::io::Errno;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tar::{Entry, EntryType};

pub fn import(layer: BorrowedFd<'_>) -> Outcome<()> {
    let root =
        beneath::open(layer, b".", OFlags::RDONLY | OFlags::DIRECTORY).during(|| "open the disk".into())?;
    let input = streams::input().during(|| "open the input".into())?;
    let mut archive = tar::Archive::new(&input);
    let damaged = |error: std::io::Error| Failure {
        step: format!("the archive is damaged: {error}"),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
    };
    // A directory's time changes when a file is put into it, so it is set last.
    let mut directories = Vec::new();
    let mut ways = Ways { entries: Trail::new(&root), links: Trail::new(&root) };
    for entry in archive.entries().map_err(damaged)? {
        place(&root, &mut ways, &mut entry.map_err(damaged)?, &mut directories)?;
    }
    for (path, times) in directories.iter().rev() {
        let parts = beneath::parts_of_any_length(path)?;
        let Some((name, above)) = parts.split_last() else { continue };
        if let Ok(folder) = ways.entries.directory(above, false) {
            let _ = utimensat(folder, *name, times, AtFlags::SYMLINK_NOFOLLOW);
        }
    }
    let _ = std::io::copy(&mut &input, &mut std::io::sink());
    let time = paddock_guest_system::clock::file_time(&root).during(|| "note the time".into())?;
    streams::answer(&time)
}

#[derive(Clone, Copy)]
pub struct Owner(pub Option<Uid>, pub Option<Gid>);

/// To the directory of an entry, and to the one that a hard link leads to.
struct Ways<'a> {
    entries: Trail<'a>,
    links: Trail<'a>,
}

fn place(
    root: &OwnedFd,
    ways: &mut Ways<'_>,
    entry: &mut Entry<'_, impl Read>,
    directories: &mut Vec<(Vec<u8>, Timestamps)>,
) -> Outcome<()> {
    let path = entry.path_bytes().into_owned();
    let step = || format!("bring back {}", shown(&path));
    let parts = beneath::parts_of_any_length(&path)?;
    let (attributes, extents) = extensions(entry).during(step)?;
    let mode = Mode::from_raw_mode(entry.header().mode().during(step)? & 0o7777);
    let owner = owner(entry).during(step)?;
    let times = unpack::times(entry);
    let Some((name, above)) = parts.split_last() else {
        return finish(root, &owner, mode, &attributes).during(step);
    };
    let folder = ways.entries.directory(above, true).during(step)?;
    let kind = entry.header().entry_type();
    let mut name = name.to_vec();
    if kind != EntryType::Directory {
        match beneath::clear(folder, &name) {
            // Something of the host is mounted there, which a kernel in user space shows from above only.
            Err(Errno::BUSY) => return Ok(()),
            // A volume is mounted below a name at which the work left a link: as on a disk that stayed, the link goes aside.
            Err(Errno::NOTEMPTY) => name = free_name_beside(folder, &name).during(step)?,
            cleared => cleared.during(step)?,
        }
    }
    let name = &name.as_slice();
    match kind {
        EntryType::Directory => {
            match mkdirat(folder, *name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno).during(step),
            }
            let made = beneath::open(folder, name, OFlags::RDONLY | OFlags::DIRECTORY).during(step)?;
            directories.push((path.clone(), times));
            finish(&made, &owner, mode, &attributes).during(step)
        }
        EntryType::Regular | EntryType::Continuous => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let made = openat(folder, *name, flags, Mode::from_raw_mode(0o600)).during(step)?;
            let mut file = File::from(made);
            fill(&mut file, entry, extents).during(step)?;
            finish(&file, &owner, mode, &attributes).during(step)?;
            let _ = futimens(&file, &times);
            Ok(())
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().map(|t| t.into_owned()).unwrap_or_default();
            symlinkat(target.as_slice(), folder, *name).during(step)?;
            own(chownat(folder, *name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)).during(step)?;
            let _ = utimensat(folder, *name, &times, AtFlags::SYMLINK_NOFOLLOW);
            Ok(())
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().map(|t| t.into_owned()).unwrap_or_default();
            let target = beneath::parts_of_any_length(&target)?;
            let Some((last, above)) = target.split_last() else { return Ok(()) };
            let from = ways.links.directory(above, false).during(step)?;
            linkat(from, *last, folder, *name, AtFlags::empty()).during(step)
        }
        // The only devices in an export are whiteouts.
        EntryType::Char => mknodat(folder, *name, FileType::CharacterDevice, mode, 0).during(step),
        EntryType::Fifo => {
            mknodat(folder, *name, FileType::Fifo, mode, 0).during(step)?;
            own(chownat(folder, *name, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW)).during(step)
        }
        _ => Err(Failure { step: format!("{}: no disk has such an entry", step()), errno: Errno::PERM }),
    }
}

fn free_name_beside(folder: &OwnedFd, name: &[u8]) -> rustix::io::Result<Vec<u8>> {
    for number in 0..1000 {
        let other = paddock_guest_system::names::name_aside(name, number);
        if statat(folder, other.as_slice(), AtFlags::SYMLINK_NOFOLLOW).err() == Some(Errno::NOENT) {
            return Ok(other);
        }
    }
    Err(Errno::EXIST)
}

pub type Extensions = (Vec<(String, Vec<u8>)>, Option<(u64, Vec<(u64, u64)>)>);

pub fn extensions(entry: &mut Entry<'_, impl Read>) -> std::io::Result<Extensions> {
    let (mut attributes, mut extents) = (Vec::new(), None);
    for extension in entry.pax_extensions()?.into_iter().flatten() {
        let extension = extension?;
        let Ok(key) = extension.key() else { continue };
        if let Some(name) = key.strip_prefix("SCHILY.xattr.").filter(|name| name.starts_with("user.")) {
            attributes.push((name.to_string(), extension.value_bytes().to_vec()));
        } else if key == EXTENTS {
            let parsed = parse_extents(extension.value_bytes());
            extents = Some(parsed.ok_or_else(|| std::io::Error::from_raw_os_error(libc::EINVAL))?);
        }
    }
    Ok((attributes, extents))
}

pub fn owner(entry: &Entry<'_, impl Read>) -> std::io::Result<Owner> {
    let id = |number: u64| u32::try_from(number).ok().filter(|id| *id != u32::MAX);
    Ok(Owner(id(entry.header().uid()?).map(Uid::from_raw), id(entry.header().gid()?).map(Gid::from_raw)))
}

pub fn fill(
    file: &mut File,
    entry: &mut Entry<'_, impl Read>,
    extents: Option<(u64, Vec<(u64, u64)>)>,
) -> std::io::Result<()> {
    let Some((size, pieces)) = extents else {
        let size = entry.size();
        let copied = copy_content(entry, file)?;
        return if copied == size { Ok(()) } else { Err(std::io::ErrorKind::UnexpectedEof.into()) };
    };
    ftruncate(&*file, size)?;
    for (at, length) in pieces {
        file.seek(SeekFrom::Start(at))?;
        if copy_content(&mut entry.by_ref().take(length), file)? != length {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// The owner before the mode: a change of owner takes bits from it.
pub fn finish(
    file: impl AsFd,
    owner: &Owner,
    mode: Mode,
    attributes: &[(String, Vec<u8>)],
) -> rustix::io::Result<()> {
    for (name, value) in attributes {
        match fsetxattr(&file, name.as_str(), value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    own(fchown(&file, owner.0, owner.1))?;
    fchmod(&file, mode)
}

/// With one id only, or with fewer than where the export was made, some owners do not exist here.
pub fn own(changed: rustix::io::Result<()>) -> rustix::io::Result<()> {
    match changed {
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        other => other,
    }
}
