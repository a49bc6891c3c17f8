//! Takes the unwind tables out of an executable that never unwinds: the guest aborts when it panics. They are a twelfth
//! of it, and no flag keeps them out of the parts that come compiled.
//!
//! They lie at the end of the read-only segment. Their first word becomes the mark of an empty table, for the C runtime
//! that looks there at the start; the pages behind it go, and the rest of the file moves up.

const TABLE: &[u8] = b".eh_frame";
const LOAD: u32 = 1;
/// The mark, and nothing else.
const MARK_BYTES: usize = 8;

/// `None`: it is not laid out like that, and stays as it is.
pub fn take_out(executable: &[u8]) -> Option<Vec<u8>> {
    let mut elf = Elf(executable.to_vec());
    let (start, length) = elf.is_known().then(|| elf.table()).flatten()?;
    let segments = elf.segments()?;
    let holds = |segment: &&Segment| {
        let whole = segment.kind == LOAD && segment.in_file == segment.in_memory;
        whole && segment.offset <= start && segment.offset + segment.in_file == start + length
    };
    let holder = segments.iter().find(holds)?;
    let page = segments.iter().filter(|segment| segment.kind == LOAD).map(|segment| segment.align).max()?;
    let cut = length.checked_sub(MARK_BYTES)? / page.max(1) * page;
    elf.0.get_mut(start..start + MARK_BYTES)?.fill(0);
    elf.0.drain(start + MARK_BYTES..start + MARK_BYTES + cut);
    let mut end = 0;
    for segment in &segments {
        let (mut offset, mut in_file) = (segment.offset, segment.in_file);
        if segment.at == holder.at {
            in_file -= cut;
            elf.put(segment.at + 32, in_file)?;
            elf.put(segment.at + 40, in_file)?;
        } else if offset >= start + length {
            offset -= cut;
            elf.put(segment.at + 8, offset)?;
        }
        end = end.max(offset + in_file);
    }
    // The section headers go: no program needs them to run the guest, and the bytes behind the last segment are theirs.
    elf.put(40, 0)?;
    elf.0.get_mut(60..64)?.fill(0);
    elf.0.truncate(end);
    Some(elf.0)
}

struct Segment {
    /// The offset of its entry in the program headers.
    at: usize,
    kind: u32,
    offset: usize,
    in_file: usize,
    in_memory: usize,
    align: usize,
}

struct Elf(Vec<u8>);

impl Elf {
    /// True for a 64-bit, little-endian file.
    fn is_known(&self) -> bool {
        self.0.starts_with(b"\x7fELF\x02\x01")
    }

    fn segments(&self) -> Option<Vec<Segment>> {
        let (first, size, count) = (self.long(32)?, self.short(54)?, self.short(56)?);
        let entries = (0..count).map(|number| {
            let at = first + number * size;
            Some(Segment {
                at,
                kind: self.word(at)?,
                offset: self.long(at + 8)?,
                in_file: self.long(at + 32)?,
                in_memory: self.long(at + 40)?,
                align: self.long(at + 48)?,
            })
        });
        entries.collect()
    }

    /// The offset and the length of the table.
    fn table(&self) -> Option<(usize, usize)> {
        let (first, size, count) = (self.long(40)?, self.short(58)?, self.short(60)?);
        let names = self.long(first + self.short(62)? * size + 24)?;
        let called = |at: usize| {
            let name = names + self.word(at)? as usize;
            Some(self.0.get(name..)?.split(|byte| *byte == 0).next()? == TABLE)
        };
        let at = (0..count).map(|number| first + number * size).find(|at| called(*at) == Some(true))?;
        Some((self.long(at + 24)?, self.long(at + 32)?))
    }

    fn short(&self, at: usize) -> Option<usize> {
        Some(u16::from_le_bytes(self.0.get(at..at + 2)?.try_into().ok()?).into())
    }

    fn word(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    fn long(&self, at: usize) -> Option<usize> {
        usize::try_from(u64::from_le_bytes(self.0.get(at..at + 8)?.try_into().ok()?)).ok()
    }

    fn put(&mut self, at: usize, value: usize) -> Option<()> {
        self.0.get_mut(at..at + 8)?.copy_from_slice(&(value as u64).to_le_bytes());
        Some(())
    }
}
