//! Recovery of a killed server's files: they are whole as far as they go, because bytes are written before the entry
//! that counts them.

use super::file::LazyFile;
use super::layout::Layout;
use super::missing::Missing;
use super::order::{self, ENTRY, Position};
use super::writer::Writer;
use super::{JournalError, Published};
use paddock_model::api::StreamName;

pub struct Recovered {
    pub layout: Layout,
    pub missing: Missing,
    pub writer: Writer,
    pub published: Published,
}

pub fn recover(
    limit: u64,
    stdout: &LazyFile,
    stderr: &LazyFile,
    order_file: &LazyFile,
    lost: &LazyFile,
) -> Result<Recovered, JournalError> {
    let sizes = Position {
        stdout: stdout.open_existing()?.unwrap_or(0),
        stderr: stderr.open_existing()?.unwrap_or(0),
    };
    let header = match order_file.open_existing()? {
        Some(_) => order::decode_header(&order_file.read_at(0, ENTRY)?),
        None => None,
    };
    let layout = Layout::new(header.unwrap_or(limit));
    let (entries, last) = match header {
        Some(_) => newest(&layout, &order_file.read_at(ENTRY as u64, size(&layout))?),
        None => (0, Position::default()),
    };
    let mut missing = Missing::load(lost)?;
    let mut position = last;
    let mut damaged = false;
    for stream in [StreamName::Stdout, StreamName::Stderr] {
        // Counts bytes that no entry counts, and missing ranges, which were written before their entry.
        let counted = last.of(stream).max(missing.end().of(stream));
        let length = sizes.of(stream);
        position.set(stream, if length < layout.data.size() { counted.max(length) } else { counted });
        // A loss of power can take bytes that an entry counts.
        let written = counted.min(layout.data.size());
        if length < written && missing.at(stream, length).is_ok() {
            missing.add(stream, length..counted);
            damaged = true;
        }
    }
    let writer = Writer {
        position,
        entries,
        growing: None,
        header_written: header.is_some(),
        // The next write brings the order up to date.
        unsettled: damaged || position != last,
    };
    Ok(Recovered { layout, missing, writer, published: Published { position, entries, finished: false } })
}

fn size(layout: &Layout) -> usize {
    layout.order.size() as usize * ENTRY
}

/// The number of entries, and the last one's position. Sums of positions only grow, so that the newest is the largest.
fn newest(layout: &Layout, bytes: &[u8]) -> (u64, Position) {
    let entries: Vec<Option<Position>> = bytes.chunks(ENTRY).map(order::decode).collect();
    let total = |position: Position| position.stdout + position.stderr;
    let newest = entries
        .iter()
        .enumerate()
        .filter_map(|(place, entry)| entry.map(|position| (place as u64, position)))
        .max_by_key(|(_, position)| total(*position));
    let Some((place, last)) = newest else { return (0, Position::default()) };
    // The ring came around already if an older entry lies behind this one; how often does not matter.
    let wrapped = entries.iter().skip(place as usize + 1).any(Option::is_some);
    let around = if wrapped { layout.order.size() - layout.order.head } else { 0 };
    (place + 1 + around, last)
}
