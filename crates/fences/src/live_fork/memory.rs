//! Memory that the interpreter shared with another process becomes the copy's own.

use super::process_facts::Mapping;
use super::tracee::{Tracee, errno, host};
use crate::error::LiveForkError;

/// The most shared memory that is copied, because the caller waits meanwhile.
const MOST_SHARED_BYTES: u64 = 256 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// Precondition: no other process has the copy's memory. The copy maps nothing of its own until it goes on.
pub fn separate(copy: &mut Tracee) -> Result<(), LiveForkError> {
    let shared = shared(copy)?;
    if shared.is_empty() {
        return Ok(());
    }
    let total: u64 = shared.iter().map(|mapping| mapping.end - mapping.start).sum();
    if total > MOST_SHARED_BYTES {
        return Err(LiveForkError::Unable(format!("it shares {} MiB of memory", total >> 20)));
    }
    shared.iter().try_for_each(|mapping| replace(copy, mapping))?;
    // Checked by the kernel's own list.
    match self::shared(copy)?.is_empty() {
        true => Ok(()),
        false => Err(LiveForkError::Unable("its copy is not as it should be: it shares memory".into())),
    }
}

fn shared(copy: &Tracee) -> Result<Vec<Mapping>, LiveForkError> {
    let maps = Mapping::all(copy.pid).map_err(|source| host("look at the copy's memory", source))?;
    Ok(maps.into_iter().filter(Mapping::is_shared).collect())
}

/// A private copy is made elsewhere, filled, and moved to its place.
fn replace(copy: &mut Tracee, mapping: &Mapping) -> Result<(), LiveForkError> {
    let length = mapping.end - mapping.start;
    let writable = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let arguments = [0, length, writable, flags, u64::MAX, 0];
    let place = copy.must("make a place for shared memory", libc::SYS_mmap, &arguments)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut at = 0;
    while at < length {
        let count = PIECE_BYTES.min((length - at) as usize);
        // A part that cannot be read, because its file is shorter, stays empty.
        if copy.read(mapping.start + at, &mut piece[..count]).is_ok() {
            copy.write(place + at, &piece[..count])?;
        }
        at += count as u64;
    }
    let mut rights = 0;
    for (letter, right) in [('r', libc::PROT_READ), ('w', libc::PROT_WRITE), ('x', libc::PROT_EXEC)] {
        if mapping.rights.contains(letter) {
            rights |= right;
        }
    }
    copy.must("protect what was shared", libc::SYS_mprotect, &[place, length, rights as u64])?;
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as u64;
    let moved = copy.call(libc::SYS_mremap, &[place, length, length, flags, mapping.start])?;
    match errno(moved) {
        None if moved == mapping.start => Ok(()),
        number => Err(host(
            "put what was shared into its place",
            std::io::Error::from_raw_os_error(number.unwrap_or(libc::EIO)),
        )),
    }
}
