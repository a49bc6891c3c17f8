//! The files to come, unpacked beside their places: whole, with owner and mode, before any old file is touched.

use super::undo::Staging;
use crate::import::{self, Owner};
use crate::{attributes, beneath, shown};
use paddock_guest_system::failure::{During, Failure, Outcome};
use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chownat, fstat, futimens, linkat, openat,
    symlinkat, utimensat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use tar::EntryType;

pub enum Ready {
    /// Made when its turn comes: a failed merge with an empty directory too many loses nothing.
    Directory(Finish),
    /// Its number in the staging directory.
    Staged(u64),
}

/// The properties of a directory or a file besides its content.
pub struct Finish {
    owner: Owner,
    mode: Mode,
    attributes: Vec<(String, Vec<u8>)>,
    times: Timestamps,
}

impl Finish {
    pub fn of(directory: &OwnedFd) -> rustix::io::Result<Finish> {
        let found = fstat(directory)?;
        let time = Timespec { tv_sec: found.st_mtime, tv_nsec: found.st_mtime_nsec as _ };
        Ok(Finish {
            owner: Owner(Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid))),
            mode: Mode::from_raw_mode(found.st_mode & 0o7777),
            attributes: attributes::of_the_user(directory, b".").into_iter().filter(is_plain).collect(),
            times: Timestamps { last_access: time, last_modification: time },
        })
    }

    pub fn put_on(&self, file: impl AsFd) -> rustix::io::Result<()> {
        import::finish(&file, &self.owner, self.mode, &self.attributes)?;
        futimens(&file, &self.times)
    }
}

/// Without the overlay's notes: they belong to another layer.
fn is_plain((name, _): &(String, Vec<u8>)) -> bool {
    !name.starts_with("user.overlay.")
}

/// Nothing is unpacked that was not asked for, and nothing twice.
pub fn unpack(
    input: &mut File,
    steps: &BTreeMap<Vec<u8>, bool>,
    staging: &Staging,
) -> Outcome<BTreeMap<Vec<u8>, Ready>> {
    let mut ready = BTreeMap::new();
    let mut archive = tar::Archive::new(&*input);
    let damaged = |error: std::io::Error| Failure {
        step: format!("the archive is damaged: {error}"),
        errno: Errno::from_io_error(&error).unwrap_or(Errno::INVAL),
    };
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let path = beneath::parts(&entry.path_bytes())?.join(&b'/');
        let step = || format!("prepare {}", shown(&path));
        if steps.get(&path) != Some(&false) || ready.contains_key(&path) {
            return Err(Failure { step: format!("{}: it was not asked for", step()), errno: Errno::PERM });
        }
        let (attributes, extents) = import::extensions(&mut entry).during(step)?;
        let finish = Finish {
            owner: import::owner(&entry).during(step)?,
            mode: Mode::from_raw_mode(entry.header().mode().during(step)? & 0o7777),
            attributes: attributes.into_iter().filter(is_plain).collect(),
            times: crate::unpack::times(&entry),
        };
        let kind = entry.header().entry_type();
        if kind == EntryType::Directory {
            ready.insert(path, Ready::Directory(finish));
            continue;
        }
        let number = staging.number();
        let (folder, name) = (&staging.directory, number.to_string());
        match kind {
            EntryType::Regular | EntryType::Continuous => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = openat(folder, name.as_str(), flags, Mode::from_raw_mode(0o600)).during(step)?;
                let mut file = File::from(made);
                import::fill(&mut file, &mut entry, extents).during(step)?;
                finish.put_on(&file).during(step)?;
            }
            EntryType::Symlink => {
                let target = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
                symlinkat(target.as_slice(), folder, name.as_str()).during(step)?;
                let Owner(user, group) = finish.owner;
                import::own(chownat(folder, name.as_str(), user, group, AtFlags::SYMLINK_NOFOLLOW))
                    .during(step)?;
                let _ = utimensat(folder, name.as_str(), &finish.times, AtFlags::SYMLINK_NOFOLLOW);
            }
            EntryType::Link => {
                let target = entry.link_name_bytes().map(|target| target.into_owned()).unwrap_or_default();
                let target = beneath::parts(&target)?.join(&b'/');
                let Some(Ready::Staged(first)) = ready.get(&target) else {
                    let step = format!("{}: it is another name of nothing", step());
                    return Err(Failure { step, errno: Errno::INVAL });
                };
                linkat(folder, first.to_string(), folder, name.as_str(), AtFlags::empty()).during(step)?;
            }
            _ => {
                let step = format!("{}: a pipe, a socket or a device is not merged", step());
                return Err(Failure { step, errno: Errno::PERM });
            }
        }
        ready.insert(path, Ready::Staged(number));
    }
    let _ = std::io::copy(&mut &*input, &mut std::io::sink());
    Ok(ready)
}
