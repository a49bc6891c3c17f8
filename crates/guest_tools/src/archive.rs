//! Writes an archive: the properties of a file, as the kernel tells them, and exactly as many bytes as were announced.

use super::shown;
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{EXTENTS, MOST_EXTENTS};
use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat, fstat, openat, readlinkat, seek};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

pub struct Archive<W: Write> {
    builder: Builder<W>,
}

/// The properties of a file that go into the archive besides its content.
#[derive(Default)]
pub struct Extras {
    pub attributes: Vec<(String, Vec<u8>)>,
    /// Holes are left out.
    pub sparse: bool,
}

impl<W: Write> Archive<W> {
    pub fn new(output: W) -> Archive<W> {
        Archive { builder: Builder::new(output) }
    }

    pub fn finish(self) -> Outcome<()> {
        let mut output = self.builder.into_inner().during(|| "end the archive".into())?;
        output.flush().during(|| "end the archive".into())
    }

    /// Adds the file at `name` in `directory`. Pipes, sockets and devices are left out, whiteouts are not.
    pub fn add(
        &mut self,
        directory: impl AsFd,
        name: &[u8],
        path: &[u8],
        found: &Stat,
        extras: Extras,
    ) -> Outcome<()> {
        let step = || format!("pack {}", shown(path));
        let mut header = header(found);
        let name_in_archive = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
        match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => {
                self.file(directory, name, &name_in_archive, header, extras).map_err(|mut failure| {
                    failure.step = format!("{}: {}", step(), failure.step);
                    failure
                })
            }
            FileType::Directory => {
                self.attributes(&extras.attributes, None)?;
                header.set_entry_type(EntryType::Directory);
                self.builder.append_data(&mut header, &name_in_archive, std::io::empty()).during(step)
            }
            FileType::Symlink => {
                let target = readlinkat(directory, name, Vec::new()).during(step)?.into_bytes();
                header.set_entry_type(EntryType::Symlink);
                self.builder
                    .append_link(&mut header, &name_in_archive, OsStr::from_bytes(&target))
                    .during(step)
            }
            FileType::CharacterDevice if found.st_rdev == 0 => {
                header.set_entry_type(EntryType::Char);
                let numbers = header.set_device_major(0).and_then(|()| header.set_device_minor(0));
                numbers.during(step)?;
                self.builder.append_data(&mut header, &name_in_archive, std::io::empty()).during(step)
            }
            FileType::Fifo => {
                header.set_entry_type(EntryType::Fifo);
                self.builder.append_data(&mut header, &name_in_archive, std::io::empty()).during(step)
            }
            _ => Ok(()),
        }
    }

    /// Another name of a file that the archive has already.
    pub fn link(&mut self, path: &[u8], target: &[u8], found: &Stat) -> Outcome<()> {
        let mut header = header(found);
        header.set_entry_type(EntryType::Link);
        self.builder
            .append_link(&mut header, OsStr::from_bytes(path), OsStr::from_bytes(target))
            .during(|| format!("pack {}", shown(path)))
    }

    fn file(
        &mut self,
        directory: impl AsFd,
        name: &[u8],
        path: &Path,
        mut header: Header,
        extras: Extras,
    ) -> Outcome<()> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty()).during(|| "open it".into())?;
        let found = fstat(&file).during(|| "look at it".into())?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Failure { step: "it was replaced meanwhile".into(), errno: Errno::STALE });
        }
        let size = found.st_size as u64;
        let holes = extras.sparse && (found.st_blocks as u64).saturating_mul(512) < size;
        let extents = if holes { extents(&file, size) } else { None };
        header.set_entry_type(EntryType::Regular);
        let extents = match extents {
            None => vec![(0, size)],
            Some(found) => {
                let text: Vec<String> = found.iter().map(|(at, length)| format!(",{at},{length}")).collect();
                self.attributes(&extras.attributes, Some(format!("{size}{}", text.concat())))?;
                header.set_size(found.iter().map(|(_, length)| length).sum());
                let content = Exactly { file, extents: found };
                return self.builder.append_data(&mut header, path, content).during(|| "read it".into());
            }
        };
        self.attributes(&extras.attributes, None)?;
        header.set_size(size);
        self.builder.append_data(&mut header, path, Exactly { file, extents }).during(|| "read it".into())
    }

    fn attributes(&mut self, attributes: &[(String, Vec<u8>)], extents: Option<String>) -> Outcome<()> {
        let extended = attributes.iter().map(|(name, value)| (format!("SCHILY.xattr.{name}"), value.clone()));
        let all: Vec<(String, Vec<u8>)> =
            extended.chain(extents.map(|text| (EXTENTS.to_string(), text.into_bytes()))).collect();
        if all.is_empty() {
            return Ok(());
        }
        let borrowed = all.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        self.builder.append_pax_extensions(borrowed).during(|| "pack attributes".into())
    }
}

fn header(found: &Stat) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(found.st_mode & 0o7777);
    header.set_uid(found.st_uid.into());
    header.set_gid(found.st_gid.into());
    header.set_mtime(u64::try_from(found.st_mtime).unwrap_or(0));
    header.set_size(0);
    header
}

/// Where the file has data; `None` where it cannot be told, or in too many pieces.
fn extents(file: &OwnedFd, size: u64) -> Option<Vec<(u64, u64)>> {
    let mut found = Vec::new();
    let mut position = 0;
    while position < size {
        let start = match seek(file, SeekFrom::Data(position)) {
            Ok(start) if start < size => start,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = seek(file, SeekFrom::Hole(start)).ok()?.min(size);
        if end <= start || found.len() >= MOST_EXTENTS {
            return None;
        }
        found.push((start, end - start));
        position = end;
    }
    Some(found)
}

/// Reads as many bytes as were announced, even if the file changes meanwhile: a file that shrinks reads as zeroes.
struct Exactly {
    file: OwnedFd,
    extents: Vec<(u64, u64)>,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.extents.first().is_some_and(|(_, length)| *length == 0) {
            self.extents.remove(0);
        }
        let Some((at, length)) = self.extents.first_mut() else { return Ok(0) };
        let most = buffer.len().min(usize::try_from(*length).unwrap_or(usize::MAX));
        let mut count =
            rustix::io::retry_on_intr(|| rustix::io::pread(&self.file, &mut buffer[..most], *at))?;
        if count == 0 {
            buffer[..most].fill(0);
            count = most;
        }
        *at += count as u64;
        *length -= count as u64;
        Ok(count)
    }
}

/// A copy of the whole content into an archive entry's target.
pub fn copy_content(from: &mut impl Read, to: &mut File) -> std::io::Result<u64> {
    let mut buffer = vec![0; 64 * 1024];
    let mut copied = 0;
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(copied),
            count => {
                to.write_all(&buffer[..count])?;
                copied += count as u64;
            }
        }
    }
}
