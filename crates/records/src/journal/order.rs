//! The order between the streams: each entry has the positions of both. From one entry to the next usually one stream
//! moved. If both did (entries between were not kept, or a server was killed), stdout is taken to have come first.

use super::layout::Layout;

/// The number of bytes that came on each stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    pub stdout: u64,
    pub stderr: u64,
}

/// A divisor of the page size: the kernel writes an entry whole or not at all, whenever the process is killed.
pub const ENTRY: usize = 32;

/// The first entry's place holds the limit that the files were laid out for.
pub fn place(layout: &Layout, index: u64, count: u64) -> (u64, usize) {
    let (place, count) = layout.order.place(index, count);
    ((place + 1) * ENTRY as u64, count as usize)
}

pub fn encode_header(limit: u64) -> [u8; ENTRY] {
    encode_numbers([u64::from_le_bytes(*b"paddock1"), limit, 0])
}

pub fn decode_header(bytes: &[u8]) -> Option<u64> {
    decode_numbers(bytes)
        .filter(|numbers| numbers[0] == u64::from_le_bytes(*b"paddock1"))
        .map(|numbers| numbers[1])
}

pub fn encode(position: Position, ms: u64) -> [u8; ENTRY] {
    encode_numbers([position.stdout, position.stderr, ms])
}

/// `None` if the bytes are not a whole entry.
pub fn decode(bytes: &[u8]) -> Option<Position> {
    decode_numbers(bytes).map(|[stdout, stderr, _]| Position { stdout, stderr })
}

/// Three numbers and a sum over them.
pub fn encode_numbers(numbers: [u64; 3]) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    for (place, number) in bytes.chunks_exact_mut(8).zip(numbers.into_iter().chain([sum(numbers)])) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

pub fn decode_numbers(bytes: &[u8]) -> Option<[u64; 3]> {
    let mut found = [0; 4];
    if bytes.len() != ENTRY {
        return None;
    }
    for (number, place) in found.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = u64::from_le_bytes(place.try_into().ok()?);
    }
    let [a, b, c, check] = found;
    (sum([a, b, c]) == check).then_some([a, b, c])
}

/// A checksum against accidents only. It is not zero for zeroes, which is the content of a hole in a file.
fn sum(numbers: [u64; 3]) -> u64 {
    numbers.into_iter().fold(0x9E37_79B9_7F4A_7C15, |sum, number| {
        (sum ^ number).wrapping_mul(0xFF51_AFD7_ED55_8CCD).rotate_left(29)
    })
}
