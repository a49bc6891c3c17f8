//! Frames: four bytes of length, four of channel (both little endian), then the payload.
//! Channel 0 carries messages; any other carries raw bytes of one stream of one process.

/// The bound of a frame from the guest, which is not trusted: small enough that a hostile length costs nothing.
pub const MAX_PAYLOAD: usize = 1 << 20;
/// The bound of a frame from the host. A command is in one frame, and Linux takes 2 MiB of one, with the usual stack.
pub const MAX_FROM_HOST: usize = 2 << 20;
pub const FRAME_HEADER: usize = 8;
/// Memory that a decoder with nothing in it keeps for the next frame.
const EMPTY_DECODER_BYTES: usize = 1 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Message(Vec<u8>),
    Data { channel: u32, bytes: Vec<u8> },
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("frame of {length} bytes is larger than the {most} allowed")]
    TooLarge { length: usize, most: usize },
    #[error("message could not be encoded: {0}")]
    Encode(String),
    #[error("message could not be decoded: {0}")]
    Decode(String),
}

/// Appends one message to `out`, within the bound that every peer takes.
pub fn encode_message<T: serde::Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    encode_message_within(MAX_PAYLOAD, message, out)
}

/// Appends one message to `out` if it has at most so many bytes.
pub fn encode_message_within<T: serde::Serialize>(
    most: usize,
    message: &T,
    out: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER]);
    let mut serializer = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    message.serialize(&mut serializer).map_err(|e| FrameError::Encode(e.to_string()))?;
    let length = out.len() - start - FRAME_HEADER;
    if length > most {
        out.truncate(start);
        return Err(FrameError::TooLarge { length, most });
    }
    out[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Appends one piece of a stream to `out`.
///
/// Precondition: `bytes` is at most [`MAX_PAYLOAD`] long and `channel` is not 0.
pub fn encode_data(channel: u32, bytes: &[u8], out: &mut Vec<u8>) {
    debug_assert!(bytes.len() <= MAX_PAYLOAD && channel != 0);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&channel.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Cuts a byte stream into frames. Holds at most one frame and the bytes that were pushed since.
#[derive(Debug)]
pub struct Decoder {
    most: usize,
    buffer: Vec<u8>,
    consumed: usize,
}

impl Decoder {
    /// For frames of a guest.
    pub fn new() -> Decoder {
        Decoder::within(MAX_PAYLOAD)
    }

    /// For frames of a host.
    pub fn of_host() -> Decoder {
        Decoder::within(MAX_FROM_HOST)
    }

    fn within(most: usize) -> Decoder {
        Decoder { most, buffer: Vec::new(), consumed: 0 }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.consumed
    }

    /// How many bytes are missing until the next frame is whole, as far as can be told. A reader that reads no more
    /// than that leaves the bytes behind the frame to another reader.
    pub fn missing(&self) -> Result<usize, FrameError> {
        let rest = &self.buffer[self.consumed..];
        let Some((header, body)) = rest.split_at_checked(FRAME_HEADER) else {
            return Ok(FRAME_HEADER - rest.len());
        };
        let length = self.checked(word(header, 0))?;
        Ok(length.saturating_sub(body.len()))
    }

    /// `Ok(None)` when more bytes are needed.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        if self.consumed == self.buffer.len() && self.buffer.capacity() > EMPTY_DECODER_BYTES {
            *self = Decoder::within(self.most);
        }
        let rest = &self.buffer[self.consumed..];
        let Some((header, body)) = rest.split_at_checked(FRAME_HEADER) else { return Ok(None) };
        let length = self.checked(word(header, 0))?;
        let channel = word(header, 4);
        let Some(payload) = body.get(..length) else { return Ok(None) };
        let bytes = payload.to_vec();
        self.consumed += FRAME_HEADER + length;
        Ok(Some(if channel == 0 { Frame::Message(bytes) } else { Frame::Data { channel, bytes } }))
    }

    fn checked(&self, length: u32) -> Result<usize, FrameError> {
        let (length, most) = (length as usize, self.most);
        if length > most { Err(FrameError::TooLarge { length, most }) } else { Ok(length) }
    }
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

fn word(header: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FromGuest, LARGEST_COMMAND, Start, ToGuest, Who, decode_from_guest, fuzz_frames};
    use serde_bytes::ByteBuf;

    #[test]
    fn frames_survive_any_cut() {
        let mut bytes = Vec::new();
        encode_message(&FromGuest::Closed { exec: 7 }, &mut bytes).unwrap();
        encode_data(9, b"hello", &mut bytes);
        encode_data(9, b"", &mut bytes);
        for piece in 1..bytes.len() {
            let mut decoder = Decoder::new();
            let mut frames = Vec::new();
            for part in bytes.chunks(piece) {
                decoder.push(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            assert_eq!(frames.len(), 3);
            let Frame::Message(body) = &frames[0] else { panic!("a message comes first") };
            assert!(matches!(decode_from_guest(body), Ok(FromGuest::Closed { exec: 7 })));
            assert_eq!(frames[1], Frame::Data { channel: 9, bytes: b"hello".to_vec() });
        }
    }

    #[test]
    fn a_decoder_that_waits_holds_little() {
        let mut bytes = Vec::new();
        encode_data(9, &[7; 100_000], &mut bytes);
        let mut decoder = Decoder::new();
        decoder.push(&bytes);
        assert!(decoder.next_frame().unwrap().is_some());
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.buffer.capacity() <= EMPTY_DECODER_BYTES);
        decoder.push(&bytes);
        assert!(decoder.next_frame().unwrap().is_some(), "and it goes on");
    }

    #[test]
    fn a_hostile_length_is_refused_before_memory_is_taken() {
        let mut decoder = Decoder::new();
        decoder.push(&u32::MAX.to_le_bytes());
        decoder.push(&[0; 4]);
        let refused = FrameError::TooLarge { length: u32::MAX as usize, most: MAX_PAYLOAD };
        assert_eq!(decoder.next_frame(), Err(refused));
        assert!(decoder.buffer.capacity() <= EMPTY_DECODER_BYTES);
    }

    #[test]
    fn each_side_takes_frames_up_to_the_bound_of_the_other() {
        for (mut decoder, most) in [(Decoder::new(), MAX_PAYLOAD), (Decoder::of_host(), MAX_FROM_HOST)] {
            for length in [most, most + 1] {
                decoder.push(&(length as u32).to_le_bytes());
                decoder.push(&9u32.to_le_bytes());
                if length > most {
                    let refused = || FrameError::TooLarge { length, most };
                    assert_eq!(decoder.missing(), Err(refused()));
                    assert_eq!(decoder.next_frame(), Err(refused()));
                    continue;
                }
                assert_eq!((decoder.missing(), decoder.next_frame()), (Ok(length), Ok(None)));
                decoder.push(&vec![7; length]);
                assert!(
                    matches!(decoder.next_frame(), Ok(Some(Frame::Data { channel: 9, bytes })) if bytes.len() == length)
                );
                assert_eq!(decoder.next_frame(), Ok(None));
                assert!(
                    decoder.buffer.capacity() <= EMPTY_DECODER_BYTES,
                    "what a large frame took is given back"
                );
            }
        }
    }

    #[test]
    fn the_largest_command_fits_into_a_frame_of_the_host() {
        // As many strings as possible, which have the most overhead, and the fewest.
        for length in [0, 1, 31, 32, 255, 256, 65_535, 65_536, 131_071] {
            let argv = vec![ByteBuf::from(vec![b'x'; length]); LARGEST_COMMAND / (length + 9)];
            let mut start = Start::program(1 << 28, argv, Vec::new(), Who::Name("n".repeat(64)));
            start.cwd = Some("d".repeat(4096));
            let mut out = Vec::new();
            encode_message_within(MAX_FROM_HOST, &ToGuest::Start(Box::new(start)), &mut out).unwrap();
        }
    }

    #[test]
    fn a_message_over_the_bound_is_not_sent() {
        let mut out = Vec::new();
        let huge = ToGuest::WriteFile {
            request: 1,
            path: "/tmp/x".into(),
            mode: 0o600,
            append: false,
            content: serde_bytes::ByteBuf::from(vec![0; MAX_PAYLOAD + 1]),
        };
        let refused = encode_message(&huge, &mut out).unwrap_err();
        assert!(matches!(refused, FrameError::TooLarge { most: MAX_PAYLOAD, .. }), "{refused}");
        assert!(out.is_empty());
        encode_message_within(MAX_FROM_HOST, &huge, &mut out).unwrap();
    }

    /// The same entry that `cargo fuzz run frames` drives, on 20,000 deterministic inputs.
    #[test]
    fn arbitrary_bytes_never_panic() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let mut valid = Vec::new();
        encode_message(
            &FromGuest::Ready {
                version: 1,
                landlock_abi: 7,
                time_namespace: true,
                ready_at: 9,
                shares_system: false,
            },
            &mut valid,
        )
        .unwrap();
        encode_data(5, b"some output", &mut valid);
        for round in 0..20_000 {
            let mut input: Vec<u8> =
                if round % 2 == 0 { (0..next() % 64).map(|_| next() as u8).collect() } else { valid.clone() };
            for _ in 0..next() % 4 {
                if !input.is_empty() {
                    let at = (next() as usize) % input.len();
                    input[at] = next() as u8;
                }
            }
            fuzz_frames(&input);
        }
    }
}
