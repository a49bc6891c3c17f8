//! The bytes of a regular file. Anything else could block for ever, or never end.

use super::{node, shown, streams};
use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::NodeType;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::{Errno, pread};
use std::io::Write;

const CHUNK: usize = 64 * 1024;
/// Files that the kernel makes up say that they are empty; so much of them is read.
const MADE_UP: u64 = 1 << 20;

pub fn read(path: &[u8], offset: u64, length: Option<u64>) -> Outcome<()> {
    let step = || format!("open {}", shown(path));
    // Looked at before it is opened: to open a device may do something already.
    check(path, &statat(CWD, path, AtFlags::empty()).during(step)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).during(step)?;
    let found = fstat(&file).during(step)?;
    check(path, &found)?;

    let size = found.st_size as u64;
    let there = if size == 0 { MADE_UP } else { size.saturating_sub(offset) };
    let mut left = length.unwrap_or(u64::MAX).min(there);
    let mut answers = streams::Answers::open()?;
    answers.put(&node::describe(CWD, path, path, &found))?;
    let mut output = answers.into_output()?;
    let mut buffer = vec![0; CHUNK];
    let mut position = offset;
    while left > 0 {
        let most = left.min(CHUNK as u64) as usize;
        match pread(&file, &mut buffer[..most], position) {
            Ok(0) => break,
            Ok(count) => {
                output.write_all(&buffer[..count]).during(|| "answer".into())?;
                position += count as u64;
                left -= count as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).during(|| format!("read {}", shown(path))),
        }
    }
    Ok(())
}

fn check(path: &[u8], found: &Stat) -> Outcome<()> {
    let errno = match node::kind(found) {
        NodeType::File => return Ok(()),
        NodeType::Directory => Errno::ISDIR,
        _ => Errno::NXIO,
    };
    Err(Failure { step: format!("{} is not a regular file", shown(path)), errno })
}
