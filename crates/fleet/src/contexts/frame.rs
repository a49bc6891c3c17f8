//! The messages between host and runner, in a form that a shell can write and read:
//!
//! ```text
//! KIND COUNT\n            a word, and how many fields follow
//! NAME LENGTH\n           a name without spaces, and how many bytes follow
//! BYTES\n
//! ```
//!
//! The runner shares its process with the code, so that every byte from it may be forged. Lengths are checked before
//! they are used, and bytes that do not parse are an error, not a guess.

/// The most bytes of one frame, with its header.
pub const MAX_FRAME: usize = 16 << 20;
const MAX_LINE: usize = 160;
const MAX_FIELDS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub kind: String,
    pub fields: Vec<(String, Vec<u8>)>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(&'static str);

impl Frame {
    pub fn new(kind: &str) -> Frame {
        Frame { kind: kind.into(), fields: Vec::new() }
    }

    pub fn with(mut self, name: &str, value: impl Into<Vec<u8>>) -> Frame {
        self.fields.push((name.into(), value.into()));
        self
    }

    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }

    /// The field as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Precondition: kind and names hold no spaces and no line ends.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = format!("{} {}\n", self.kind, self.fields.len()).into_bytes();
        for (name, value) in &self.fields {
            out.extend_from_slice(format!("{name} {}\n", value.len()).as_bytes());
            out.extend_from_slice(value);
            out.push(b'\n');
        }
        out
    }
}

/// Cuts a stream into frames. Holds at most one frame and the bytes that were pushed since.
#[derive(Debug, Default)]
pub struct Frames {
    buffer: Vec<u8>,
    /// The least bytes of a complete frame, so that the same bytes are not parsed again.
    needed: usize,
}

impl Frames {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// `Ok(None)` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Malformed> {
        if self.buffer.len() < self.needed {
            return Ok(None);
        }
        match parse(&self.buffer)? {
            Parsed::Frame(frame, length) => {
                self.buffer.drain(..length);
                self.needed = 0;
                Ok(Some(frame))
            }
            Parsed::Needs(bytes) => {
                self.needed = bytes;
                Ok(None)
            }
        }
    }
}

enum Parsed {
    Frame(Frame, usize),
    Needs(usize),
}

fn parse(buffer: &[u8]) -> Result<Parsed, Malformed> {
    let mut at = 0;
    let Some((kind, count, next)) = line(buffer, at)? else { return Ok(Parsed::Needs(buffer.len() + 1)) };
    if count > MAX_FIELDS {
        return Err(Malformed("it has too many fields"));
    }
    at = next;
    let mut fields = Vec::new();
    for _ in 0..count {
        let Some((name, length, next)) = line(buffer, at)? else {
            return Ok(Parsed::Needs(buffer.len() + 1));
        };
        let end = next.checked_add(length).filter(|end| *end < MAX_FRAME);
        let end = end.ok_or(Malformed("it is too long"))?;
        match buffer.get(end) {
            None => return Ok(Parsed::Needs(end + 1)),
            Some(b'\n') => {}
            Some(_) => return Err(Malformed("a field does not end where it says")),
        }
        fields.push((name.to_string(), buffer[next..end].to_vec()));
        at = end + 1;
    }
    Ok(Parsed::Frame(Frame { kind: kind.to_string(), fields }, at))
}

/// A word, a number, and the end of the line; `None` if the line has no end yet.
fn line(buffer: &[u8], at: usize) -> Result<Option<(&str, usize, usize)>, Malformed> {
    let rest = &buffer[at..];
    let head = &rest[..rest.len().min(MAX_LINE)];
    let Some(length) = head.iter().position(|byte| *byte == b'\n') else {
        return if rest.len() < MAX_LINE { Ok(None) } else { Err(Malformed("a line has no end")) };
    };
    let text = std::str::from_utf8(&head[..length]).map_err(|_| Malformed("a line is not text"))?;
    let (word, number) = text.split_once(' ').ok_or(Malformed("a line is not a word and a number"))?;
    let visible = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
    let digits = (1..=9).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse().ok().filter(|_| visible && digits);
    let number = number.ok_or(Malformed("a line is not a word and a number"))?;
    Ok(Some((word, number, at + length + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drain(frames: &mut Frames) -> Result<Vec<Frame>, Malformed> {
        let mut found = Vec::new();
        while let Some(frame) = frames.next_frame()? {
            found.push(frame);
        }
        Ok(found)
    }

    #[test]
    fn frames_survive_any_cut() {
        let first = Frame::new("result").with("text/plain", "a\nb").with("image/png", vec![0, 10, 255]);
        let second = Frame::new("done");
        let bytes = [first.encode(), second.encode()].concat();
        for piece in 1..=bytes.len() {
            let mut frames = Frames::default();
            let mut found = Vec::new();
            for part in bytes.chunks(piece) {
                frames.push(part);
                found.extend(drain(&mut frames).unwrap());
            }
            assert_eq!(found, [first.clone(), second.clone()]);
        }
    }

    #[test]
    fn hostile_bytes_are_refused_before_memory_is_taken() {
        let refused = |bytes: &[u8]| {
            let mut frames = Frames::default();
            frames.push(bytes);
            frames.next_frame().expect_err(&String::from_utf8_lossy(bytes))
        };
        refused(b"result 1\ntext/plain 999999999\n");
        refused(b"result 99999999999999999999\n");
        refused(b"result 65\n");
        refused(b"result -1\n");
        refused(b"result  1\n");
        refused(b"\n");
        refused(
            &[0xff; 8].map(|b| if b == 0 { 0 } else { b }).iter().chain(b"\n").copied().collect::<Vec<_>>(),
        );
        refused(b"result 1\ntext/plain 1\nxy\n");
        refused(&[b'a'; MAX_LINE]);
    }

    /// Deterministic garbage, and damaged valid frames.
    #[test]
    fn arbitrary_bytes_never_panic_and_never_grow() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let valid = Frame::new("error").with("name", "E").with("value", "x\n").encode();
        for round in 0..20_000 {
            let mut input: Vec<u8> =
                if round % 2 == 0 { (0..next() % 64).map(|_| next() as u8).collect() } else { valid.clone() };
            for _ in 0..next() % 4 {
                if !input.is_empty() {
                    let at = (next() as usize) % input.len();
                    input[at] = next() as u8;
                }
            }
            let mut frames = Frames::default();
            for part in input.chunks(1 + (next() % 7) as usize) {
                frames.push(part);
                if drain(&mut frames).is_err() {
                    break;
                }
            }
        }
    }
}
