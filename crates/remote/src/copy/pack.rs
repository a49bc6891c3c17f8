use super::CopyError;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// The files below `directory`, with names relative to it. Links stay links, special files are an error.
pub fn pack(directory: &Path, to: &mut impl Write) -> Result<(), CopyError> {
    let mut builder = Builder::new(&mut *to);
    below(&mut builder, directory, Path::new(""))?;
    builder.into_inner().and_then(|to| to.flush()).map_err(|source| failed(directory, source))
}

fn below(builder: &mut Builder<impl Write>, directory: &Path, prefix: &Path) -> Result<(), CopyError> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>())
        .map_err(|source| failed(directory, source))?;
    names.sort();
    for name in names {
        one(builder, &directory.join(&name), &prefix.join(&name))?;
    }
    Ok(())
}

fn one(builder: &mut Builder<impl Write>, path: &Path, name: &Path) -> Result<(), CopyError> {
    let found = fs::symlink_metadata(path).map_err(|source| failed(path, source))?;
    let mut header = header(&found);
    if found.is_dir() {
        header.set_entry_type(EntryType::Directory);
        builder.append_data(&mut header, name, io::empty()).map_err(|source| failed(path, source))?;
        below(builder, path, name)
    } else if found.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        let appended = fs::read_link(path).and_then(|target| builder.append_link(&mut header, name, target));
        appended.map_err(|source| failed(path, source))
    } else if found.is_file() {
        header.set_entry_type(EntryType::Regular);
        file(builder, &mut header, path, name).map_err(|source| failed(path, source))
    } else {
        Err(CopyError::NotPlain(path.to_path_buf()))
    }
}

/// Exactly as many bytes as the header says, even if the file changes meanwhile.
fn file(builder: &mut Builder<impl Write>, header: &mut Header, path: &Path, name: &Path) -> io::Result<()> {
    // Without NOFOLLOW a file that is replaced by a link at the wrong moment would lead elsewhere.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let size = file.metadata()?.len();
    header.set_size(size);
    builder.append_data(header, name, Exactly { file, left: size })
}

struct Exactly {
    file: File,
    left: u64,
}

impl Read for Exactly {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(io::Error::other("it became shorter while it was read"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

/// Owners stay here: inside, the files belong to the user that makes the copy.
fn header(found: &fs::Metadata) -> Header {
    let mut header = Header::new_gnu();
    header.set_mode(found.mode() & 0o777);
    header.set_mtime(u64::try_from(found.mtime()).unwrap_or(0));
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

fn failed(path: &Path, source: io::Error) -> CopyError {
    CopyError::Local { path: path.to_path_buf(), source }
}
