//! The contents of chosen paths, now or when the sandbox began.

use super::start::Start;
use super::{Reach, beneath, node, pack, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{Content, ContentRecord, Node, NodeType, When};
use rustix::fs::{AtFlags, OFlags, Stat, fstat, statat};
use rustix::io::{Errno, pread, retry_on_intr};
use serde_bytes::ByteBuf;
use std::collections::BTreeSet;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Asked for at a time.
const MOST_PATHS: usize = 4096;
/// The most entries that are told of a directory that was there.
const MOST_BELOW: usize = 20_000;
/// The most bytes of all files together; the others are called too large.
const MOST_BYTES: usize = 32 << 20;
const PIECE: usize = 64 * 1024;

/// A file or a link, and its content.
pub struct Found {
    pub node: Node,
    pub content: Content,
    pub bytes: Vec<u8>,
}

pub fn contents(
    layer: BorrowedFd<'_>,
    reach: &Reach<'_>,
    when: When,
    largest: u64,
    archive: bool,
) -> Outcome<()> {
    let mut input = streams::input().during(|| "open the input".into())?;
    let mut paths = BTreeSet::new();
    while let Some(path) = pack::next_path(&mut input)? {
        if paths.len() >= MOST_PATHS {
            let step = format!("more than {MOST_PATHS} paths at once");
            return Err(Failure { step, errno: Errno::TOOBIG });
        }
        paths.insert(beneath::parts(&path)?.join(&b'/'));
    }
    let mut answers = Telling { answers: streams::Answers::open()?, left: MOST_BYTES };
    match when {
        When::Now => {
            let device = fstat(layer).during(|| "look at the disk".into())?.st_dev;
            for path in &paths {
                if let Some(found) = at(layer, path, largest, Some(device))? {
                    answers.tell(found)?;
                }
            }
        }
        When::Start => {
            let archived = archive.then_some((&mut input, &paths));
            let start = Start::open(reach, archived, largest)?;
            start.each(&paths, MOST_BELOW, &mut |found| answers.tell(found))?;
        }
    }
    answers.answers.flush()
}

struct Telling {
    answers: streams::Answers,
    left: usize,
}

impl Telling {
    fn tell(&mut self, mut found: Found) -> Outcome<()> {
        if found.bytes.len() > self.left {
            (found.content, found.bytes) = (Content::TooLarge, Vec::new());
        }
        self.left -= found.bytes.len();
        self.answers.put(&ContentRecord::Found { node: found.node, content: found.content })?;
        for piece in found.bytes.chunks(PIECE) {
            self.answers.put(&ContentRecord::Piece(ByteBuf::from(piece)))?;
        }
        Ok(())
    }
}

/// The file at `path` in a tree, through no link; `None` for nothing and for directories. `device`: only on that one.
pub fn at(tree: BorrowedFd<'_>, path: &[u8], largest: u64, device: Option<u64>) -> Outcome<Option<Found>> {
    let Some((directory, name, found)) = look(tree, path)? else { return Ok(None) };
    if device.is_some_and(|device| device != found.st_dev) {
        return Ok(None);
    }
    leaf(&directory, &name, path, &found, largest)
}

/// Its directory and name, and the kernel's description of it.
pub fn look(tree: BorrowedFd<'_>, path: &[u8]) -> Outcome<Option<(OwnedFd, Vec<u8>, Stat)>> {
    let parts = beneath::parts(path)?;
    let Some((name, above)) = parts.split_last() else { return Ok(None) };
    let directory = match beneath::open_directory(tree, above, false) {
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
        found => found.during(|| format!("open {}", shown(path)))?,
    };
    match statat(&directory, *name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        found => Ok(Some((directory, name.to_vec(), found.during(|| format!("look at {}", shown(path)))?))),
    }
}

fn leaf(directory: &OwnedFd, name: &[u8], path: &[u8], found: &Stat, largest: u64) -> Outcome<Option<Found>> {
    let node = node::describe(directory, name, path, found);
    let (content, bytes) = match node.kind {
        NodeType::Directory => return Ok(None),
        NodeType::Other => (Content::None, Vec::new()),
        NodeType::Link => (Content::Given, node.target.clone().unwrap_or_default().into_vec()),
        NodeType::File if node.size > largest => (Content::TooLarge, Vec::new()),
        NodeType::File => {
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
            match beneath::open(directory, name, flags) {
                // Gone, or something else by now.
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(None),
                opened => {
                    let file = opened.during(|| format!("open {}", shown(path)))?;
                    read(&file, largest).during(|| format!("read {}", shown(path)))?
                }
            }
        }
    };
    Ok(Some(Found { node, content, bytes }))
}

/// Never more than was asked for, even if the file's size says more.
fn read(file: &OwnedFd, largest: u64) -> rustix::io::Result<(Content, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = vec![0; PIECE];
    loop {
        match retry_on_intr(|| pread(file, &mut buffer[..], bytes.len() as u64))? {
            0 => return Ok(judge(bytes)),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
        if bytes.len() as u64 > largest {
            return Ok((Content::TooLarge, Vec::new()));
        }
    }
}

/// A NUL is in no text.
pub fn judge(bytes: Vec<u8>) -> (Content, Vec<u8>) {
    if bytes.contains(&0) { (Content::Binary, Vec::new()) } else { (Content::Given, bytes) }
}
