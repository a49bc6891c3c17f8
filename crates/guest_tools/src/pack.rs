//! An archive of a directory as its user sees it, or of chosen paths of the disk's own layer.

use super::archive::{Archive, Extras};
use super::walk::{Visit, walk};
use super::{attributes, beneath, node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{NodeType, decode_record};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, openat, statat};
use rustix::io::Errno;
use serde_bytes::ByteBuf;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

pub fn pack(path: &[u8]) -> Outcome<()> {
    let step = || format!("open {}", shown(path));
    let found = statat(CWD, path, AtFlags::empty()).during(step)?;
    // Everything that can be refused is refused before the archive is begun: one that is dropped writes its end, and
    // an answer that has begun cannot become an error any more.
    match node::kind(&found) {
        NodeType::Directory => {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let root = openat(CWD, path, flags, Mode::empty()).during(step)?;
            let mut packing = Packing::begin()?;
            walk(root, false, &mut packing)?;
            packing.archive.finish()
        }
        NodeType::File => {
            let (_, name) = super::write::split(path)?;
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            drop(openat(CWD, path, flags, Mode::empty()).during(step)?);
            // The archive follows no link, but a named path does, as with every other read.
            let real = std::fs::canonicalize(OsStr::from_bytes(path)).during(step)?;
            let mut packing = Packing::begin()?;
            packing.archive.add(CWD, real.as_os_str().as_bytes(), name, &found, Extras::default())?;
            packing.archive.finish()
        }
        _ => Err(Failure { step: format!("{} is not a regular file", shown(path)), errno: Errno::NXIO }),
    }
}

struct Packing {
    archive: Archive<BufWriter<File>>,
}

impl Packing {
    fn begin() -> Outcome<Packing> {
        let output = streams::output().during(|| "open the output".into())?;
        Ok(Packing { archive: Archive::new(BufWriter::with_capacity(64 * 1024, output)) })
    }
}

impl Visit for Packing {
    fn entry(&mut self, directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat) -> Outcome<bool> {
        match self.archive.add(directory, name, path, found, Extras::default()) {
            // Gone, or not for this user: an archive of the readable files is better than none.
            Err(Failure { errno: Errno::NOENT | Errno::ACCESS, .. }) => Ok(false),
            added => added.map(|()| true),
        }
    }

    fn closed(&mut self, _: &[u8], _: Errno) -> Outcome<()> {
        Ok(())
    }
}

/// The paths come as records; an empty one is the last.
///
/// `exact`: with attributes, holes and names of the same file, as only another guest understands it.
pub fn pack_layer(layer: BorrowedFd<'_>, exact: bool) -> Outcome<()> {
    let mut input = streams::input().during(|| "open the input".into())?;
    let output = BufWriter::with_capacity(64 * 1024, streams::output().during(|| "open the output".into())?);
    let mut archive = Archive::new(output);
    let mut names = exact.then(HashMap::new);
    while let Some(path) = next_path(&mut input)? {
        add_from_layer(&mut archive, layer, &path, names.as_mut())?;
    }
    archive.finish()
}

/// One path of a list; `None` at its end.
pub fn next_path(input: &mut File) -> Outcome<Option<ByteBuf>> {
    let cut = || Failure { step: "the list of paths was not sent to its end".into(), errno: Errno::CANCELED };
    let length = streams::read_length(input)?.ok_or_else(cut)?;
    let mut body = vec![0; length];
    input.read_exact(&mut body).during(|| "read the input".into())?;
    let path: ByteBuf =
        decode_record(&body).map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })?;
    Ok(Some(path).filter(|path| !path.is_empty()))
}

/// `names`, where everything is wanted exactly: under which name a file with several is in the archive already.
fn add_from_layer(
    archive: &mut Archive<BufWriter<File>>,
    layer: BorrowedFd<'_>,
    path: &[u8],
    names: Option<&mut HashMap<u64, Vec<u8>>>,
) -> Outcome<()> {
    let parts = beneath::parts(path)?;
    let Some((name, above)) = parts.split_last() else { return Ok(()) };
    let directory = match beneath::open_directory(layer, above, false) {
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(()),
        found => found.during(|| format!("open {}", shown(path)))?,
    };
    let found = match statat(&directory, *name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.during(|| format!("look at {}", shown(path)))?,
    };
    let path = parts.join(&b'/');
    let Some(names) = names else {
        return archive.add(&directory, name, &path, &found, Extras::default());
    };
    if found.st_nlink > 1 && node::kind(&found) == NodeType::File {
        if let Some(first) = names.get(&found.st_ino) {
            return archive.link(&path, first, &found);
        }
        names.insert(found.st_ino, path.clone());
    }
    archive.add(
        &directory,
        name,
        &path,
        &found,
        Extras { attributes: without_notes(&directory, name), sparse: true },
    )
}

/// The user's own attributes, and none of the overlay's.
fn without_notes(directory: &OwnedFd, name: &[u8]) -> Vec<(String, Vec<u8>)> {
    let found = attributes::of_the_user(directory, name);
    found.into_iter().filter(|(name, _)| !name.starts_with("user.overlay.")).collect()
}
