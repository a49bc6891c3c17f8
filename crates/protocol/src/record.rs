//! Records in a stream of bytes: four bytes of length (little endian), then MessagePack.

use crate::frame::FrameError;
use serde::{Serialize, de::DeserializeOwned};

/// More than the longest path and its link's target need.
pub const MAX_RECORD: usize = 256 * 1024;
pub const RECORD_HEADER: usize = 4;

/// Appends one record to `out`.
pub fn encode_record<T: Serialize>(record: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; RECORD_HEADER]);
    let mut serializer = rmp_serde::Serializer::new(&mut *out).with_struct_map();
    record.serialize(&mut serializer).map_err(|e| FrameError::Encode(e.to_string()))?;
    let length = out.len() - start - RECORD_HEADER;
    if length > MAX_RECORD {
        out.truncate(start);
        return Err(FrameError::TooLarge { length, most: MAX_RECORD });
    }
    out[start..start + RECORD_HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

pub fn decode_record<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    rmp_serde::from_slice(body).map_err(|e| FrameError::Decode(e.to_string()))
}

/// Cuts a stream into records. Holds at most one record and the bytes that were pushed since.
#[derive(Debug, Default)]
pub struct Records {
    buffer: Vec<u8>,
    consumed: usize,
}

impl Records {
    pub fn push(&mut self, bytes: &[u8]) {
        if self.consumed > 0 {
            self.buffer.drain(..self.consumed);
            self.consumed = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The body of the next record; `Ok(None)` when more bytes are needed.
    pub fn next_body(&mut self) -> Result<Option<&[u8]>, FrameError> {
        let rest = &self.buffer[self.consumed..];
        let Some((header, body)) = rest.split_at_checked(RECORD_HEADER) else { return Ok(None) };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        if length > MAX_RECORD {
            return Err(FrameError::TooLarge { length, most: MAX_RECORD });
        }
        if body.len() < length {
            return Ok(None);
        }
        let start = self.consumed + RECORD_HEADER;
        self.consumed = start + length;
        Ok(Some(&self.buffer[start..start + length]))
    }

    /// The bytes behind the last record.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.buffer.split_off(self.consumed)
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.len() == self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WatchKind, WatchRecord};

    #[test]
    fn records_survive_any_cut_and_leave_the_rest() {
        let record = WatchRecord { kind: WatchKind::Created, path: serde_bytes::ByteBuf::from("a/b") };
        let mut bytes = Vec::new();
        encode_record(&record, &mut bytes).unwrap();
        encode_record(&(), &mut bytes).unwrap();
        let whole = bytes.len();
        bytes.extend_from_slice(b"raw");
        for piece in 1..bytes.len() {
            let mut records = Records::default();
            let mut found = Vec::new();
            for part in bytes[..whole].chunks(piece) {
                records.push(part);
                while let Some(body) = records.next_body().unwrap() {
                    found.push(body.to_vec());
                }
            }
            assert_eq!(found.len(), 2);
            assert_eq!(decode_record::<WatchRecord>(&found[0]).unwrap(), record);
            records.push(&bytes[whole..]);
            assert_eq!(records.into_rest(), b"raw");
        }
    }

    #[test]
    fn a_hostile_length_is_refused() {
        let mut records = Records::default();
        records.push(&u32::MAX.to_le_bytes());
        assert!(matches!(records.next_body(), Err(FrameError::TooLarge { most: MAX_RECORD, .. })));
    }
}
