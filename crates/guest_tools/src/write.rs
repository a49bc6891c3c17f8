//! Writes a whole new file in place of the old one, or nothing.

use super::{directory, node, resolve, shown, streams, user_attributes};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{Attribute, Node};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, openat, renameat,
    statat, unlinkat,
};
use rustix::io::Errno;
use serde_bytes::ByteBuf;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;

const DEFAULT_MODE: u32 = 0o644;

/// The old file or link is replaced. A file that is replaced passes its mode on. A link is followed only with `follow`,
/// and then a file that may not be written is not replaced either.
pub fn write(
    path: &[u8],
    mode: Option<u32>,
    parents: bool,
    attributes: &[Attribute],
    follow: bool,
) -> Outcome<()> {
    // A path that ends with a slash names no file, wherever it leads.
    split(path)?;
    let real = if follow { Some(resolve::real_path(path)?) } else { None };
    let place = real.as_deref().unwrap_or(path);
    let (parent, name) = split(place)?;
    if parents {
        directory::make_all(parent)?;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, parent, flags, Mode::empty()).during(|| format!("open {}", shown(parent)))?;
    let old = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).ok();
    let kind = old.map(|old| FileType::from_raw_mode(old.st_mode));
    if kind == Some(FileType::Directory) {
        return Err(Failure { step: format!("{} is a directory", shown(path)), errno: Errno::ISDIR });
    }
    let old_file = old.filter(|_| kind == Some(FileType::RegularFile));
    if follow && old.is_some() {
        let may = match old_file {
            Some(_) => accessat(&folder, name, Access::WRITE_OK, AtFlags::empty()),
            // A device takes no content by a new file in its place.
            None => Err(Errno::NXIO),
        };
        may.during(|| format!("write {}", shown(path)))?;
    }
    let mode = mode.or(old_file.map(|old| old.st_mode)).unwrap_or(DEFAULT_MODE);
    let (mut file, unfinished) = Unfinished::create(folder)?;
    if let Some(old) = old_file.filter(|_| follow) {
        keep_owner(&file, &old);
    }
    user_attributes::set(&file, attributes, path)?;
    copy_pieces(&mut file, path)?;
    fchmod(&file, Mode::from_raw_mode(mode & 0o7777))
        .during(|| format!("set the mode of {}", shown(path)))?;
    unfinished.finish(name).during(|| format!("put {} in its place", shown(path)))?;
    let written = node::look(place)?;
    streams::answer(&Node { path: ByteBuf::from(path), ..written })
}

/// As when the old file had been opened and written. Only root may give a file away: another user gets it himself.
fn keep_owner(file: &File, old: &Stat) {
    let _ = fchown(file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid)));
}

/// The directory and the last part of a path.
pub fn split(path: &[u8]) -> Outcome<(&[u8], &[u8])> {
    let refuse = |errno| Failure { step: format!("`{}` does not name a file", shown(path)), errno };
    let (parent, name) = match path.iter().rposition(|b| *b == b'/') {
        Some(0) => (&b"/"[..], &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&b"."[..], path),
    };
    match name {
        b"" if path.is_empty() => Err(refuse(Errno::NOENT)),
        b"" | b"." | b".." => Err(refuse(Errno::ISDIR)),
        _ => Ok((parent, name)),
    }
}

fn copy_pieces(file: &mut File, path: &[u8]) -> Outcome<()> {
    let mut input = streams::input().during(|| "open the input".into())?;
    let cut = || Failure { step: "the content was not sent to its end".into(), errno: Errno::CANCELED };
    loop {
        let length = match streams::read_length(&mut input)? {
            None => return Err(cut()),
            Some(0) => return Ok(()),
            Some(length) => length,
        };
        let mut piece = (&mut input).take(length as u64);
        let copied = copy(&mut piece, file).during(|| format!("write {}", shown(path)))?;
        if copied < length as u64 {
            return Err(cut());
        }
    }
}

fn copy(from: &mut impl Read, to: &mut File) -> std::io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut copied = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            return Ok(copied);
        }
        to.write_all(&buffer[..count])?;
        copied += count as u64;
    }
}

/// A file with a name of its own, removed unless it gets the one it is for.
pub struct Unfinished {
    folder: OwnedFd,
    name: String,
    finished: bool,
}

impl Unfinished {
    pub fn create(folder: OwnedFd) -> Outcome<(File, Unfinished)> {
        let process = std::process::id();
        for attempt in 0..100 {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
            let name = format!(".paddock-{process:x}-{:x}{:x}-{attempt}", now.tv_sec, now.tv_nsec);
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&folder, name.as_str(), flags, Mode::from_raw_mode(0o600)) {
                Ok(file) => return Ok((file.into(), Unfinished { folder, name, finished: false })),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno).during(|| "make a file".into()),
            }
        }
        Err(Failure { step: "find a free name".into(), errno: Errno::EXIST })
    }

    /// In the place of an old file it first gets a name that says so: who watches the directory sees no other sign of it.
    pub fn finish(mut self, name: &[u8]) -> rustix::io::Result<()> {
        if statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            let over = format!(".paddock-over-{}", self.name.trim_start_matches(".paddock-"));
            renameat(&self.folder, self.name.as_str(), &self.folder, over.as_str())?;
            self.name = over;
        }
        renameat(&self.folder, self.name.as_str(), &self.folder, name)?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.finished {
            let _ = unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_at_their_last_part() {
        assert_eq!(split(b"/a/b").unwrap(), (&b"/a"[..], &b"b"[..]));
        assert_eq!(split(b"/a").unwrap(), (&b"/"[..], &b"a"[..]));
        assert_eq!(split(b"a").unwrap(), (&b"."[..], &b"a"[..]));
        for path in [&b""[..], b"/", b"a/", b"a/..", b"."] {
            assert!(split(path).is_err(), "{path:?}");
        }
    }
}
