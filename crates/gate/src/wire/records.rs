//! The records of a TLS client after its ClientHello. A server may ask for the ClientHello again (HelloRetryRequest), and
//! some take the name of the second one: it is judged as the first.

use super::hello::{CLIENT_HELLO, HANDSHAKE, LONGEST_HELLO, name_in};
use paddock_model::net::DomainName;

/// Follows one direction of a connection, wherever it is cut. Nothing is held back.
#[derive(Default)]
pub struct ClientRecords {
    header: Vec<u8>,
    kind: u8,
    /// The bytes that are left of the record under way.
    left: usize,
    /// The handshake message that is under way, from its type on.
    message: Vec<u8>,
    /// The bytes that are left of a message that need not be read.
    skipped: usize,
    lost: bool,
}

/// A ClientHello that went by.
#[derive(Debug, PartialEq, Eq)]
pub enum Hello {
    Names(Option<DomainName>),
    Malformed,
}

const HEADER: usize = 5;
const MESSAGE_HEADER: usize = 4;
/// This many bytes tell a ClientHello from encrypted data: its type, its length, its version.
const TELLING: usize = 6;

impl ClientRecords {
    /// Every ClientHello that ends in these bytes.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Vec<Hello> {
        let mut found = Vec::new();
        while !bytes.is_empty() && !self.lost {
            if self.left == 0 {
                bytes = self.read_header(bytes);
                continue;
            }
            let (now, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.left -= now.len();
            bytes = rest;
            if self.kind == HANDSHAKE {
                self.take(now, &mut found);
            }
        }
        found
    }

    fn read_header<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, rest) = bytes.split_at((HEADER - self.header.len()).min(bytes.len()));
        self.header.extend_from_slice(now);
        if let [kind, major, _, high, low] = self.header[..] {
            self.kind = kind;
            self.left = usize::from(u16::from_be_bytes([high, low]));
            // No server goes on after bytes that are no record.
            self.lost = major != 3;
            self.header.clear();
        }
        rest
    }

    fn take(&mut self, bytes: &[u8], found: &mut Vec<Hello>) {
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let skip = self.skipped.min(bytes.len());
            self.skipped -= skip;
            bytes = &bytes[skip..];
            let Some((byte, rest)) = bytes.split_first() else { return };
            self.message.push(*byte);
            bytes = rest;
            let Some(length) = self.length() else { continue };
            let is_hello = self.may_be_hello();
            if self.message.len() >= MESSAGE_HEADER + length {
                let hello = std::mem::take(&mut self.message);
                if is_hello {
                    let name = name_in(&hello[MESSAGE_HEADER..]);
                    found.push(name.map_or(Hello::Malformed, Hello::Names));
                }
            } else if !is_hello {
                self.skipped = MESSAGE_HEADER + length - self.message.len();
                self.message.clear();
            }
        }
    }

    fn length(&self) -> Option<usize> {
        let [_, high, middle, low, ..] = self.message[..] else { return None };
        Some(usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low))
    }

    /// Encrypted bytes look like one once in a billion.
    fn may_be_hello(&self) -> bool {
        let version = self.message.get(MESSAGE_HEADER..TELLING.min(self.message.len())).unwrap_or_default();
        self.message[0] == CLIENT_HELLO
            && self.length().is_some_and(|length| length <= LONGEST_HELLO)
            && version.iter().zip([3..=3, 0..=4]).all(|(byte, wanted)| wanted.contains(byte))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hello::client_hello;

    fn names(hellos: Vec<Hello>) -> Vec<String> {
        let shown = |hello| match hello {
            Hello::Names(name) => name.map(|name| name.to_string()).unwrap_or_default(),
            Hello::Malformed => "malformed".into(),
        };
        hellos.into_iter().map(shown).collect()
    }

    #[test]
    fn a_second_hello_is_seen_however_it_is_cut() {
        let change = b"\x14\x03\x03\x00\x01\x01";
        let early = [&b"\x17\x03\x03\x00\x40"[..], &[1; 64]].concat();
        for piece in [1, 3, 4096] {
            let first = client_hello(Some(b"good.test"), 4096);
            let second = client_hello(Some(b"evil.test"), piece);
            let stream = [&first[..], change, &early, &second].concat();
            for cut in [1, 2, 5, 7, 4096] {
                let mut records = ClientRecords::default();
                let found = stream.chunks(cut).flat_map(|part| records.feed(part)).collect();
                assert_eq!(names(found), ["good.test", "evil.test"], "{piece} {cut}");
            }
        }
    }

    #[test]
    fn other_messages_and_what_is_encrypted_are_left_alone() {
        // A key exchange and a certificate in one record, then random bytes.
        let clear = [&[16, 0, 0, 3, 1, 2, 3][..], &[11, 0, 0, 2, 9, 9]].concat();
        let stream = [
            &client_hello(None, 4096)[..],
            &[HANDSHAKE, 3, 3, 0, clear.len() as u8],
            &clear,
            &b"\x14\x03\x03\x00\x01\x01\x16\x03\x03\x00\x28"[..],
            &[1; 40],
            &[23, 3, 3, 0, 3, 1, 2, 3],
        ]
        .concat();
        let mut records = ClientRecords::default();
        assert_eq!(names(records.feed(&stream)), [""]);
        assert!(!records.lost && records.message.len() <= LONGEST_HELLO);
        assert!(records.feed(b"GET / HTTP/1.1\r\n").is_empty() && records.lost);
    }
}
