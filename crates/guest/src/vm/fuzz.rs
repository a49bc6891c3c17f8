//! Bytes that a VM under hostile control could send through its port: 20,000 deterministic inputs, the same every time.

use super::net::{Network, Proxy};
use super::wire::{Frame, HELD, Kind, Wire};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::OwnedFd;

/// xorshift: the same sequences every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most as u64) as usize
    }

    /// Frames as they should be, then a few bytes of them changed; or bytes of no kind at all.
    fn input(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.next().is_multiple_of(4) {
            bytes.extend((0..self.below(64)).map(|_| self.next() as u8).collect::<Vec<_>>());
        } else {
            for _ in 0..1 + self.below(5) {
                let length = self.below(40) as u32;
                bytes.extend([self.below(19) as u8, 0, 0, 0]);
                bytes.extend(length.to_le_bytes());
                bytes.extend((0..length).map(|_| (self.next() % 4) as u8).collect::<Vec<_>>());
            }
        }
        for _ in 0..self.below(3) {
            if !bytes.is_empty() {
                let at = self.below(bytes.len());
                bytes[at] = self.next() as u8;
            }
        }
        bytes
    }
}

/// All frames up to the first that is refused, and true if one was.
fn read(bytes: &[u8], piece: usize, inside: bool) -> (Vec<Frame>, bool) {
    let mut wire = if inside { Wire::of_the_vm() } else { Wire::default() };
    let mut frames = Vec::new();
    for part in bytes.chunks(piece.max(1)) {
        wire.push(part);
        loop {
            match wire.next() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        assert!(wire.held() <= HELD, "{} bytes are kept of a frame", wire.held());
    }
    (frames, false)
}

#[test]
fn any_bytes_are_frames_or_refused_however_they_are_cut() {
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let (mut read_whole, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let bytes = numbers.input();
        let inside = numbers.next().is_multiple_of(2);
        let whole = read(&bytes, bytes.len(), inside);
        assert_eq!(read(&bytes, 1 + numbers.below(9), inside), whole, "{bytes:?}");
        let shown: usize = whole.0.iter().map(|frame| 8 + frame.payload.len()).sum();
        assert!(shown <= bytes.len(), "more came out than went in: {bytes:?}");
        read_whole += whole.0.len();
        refused += usize::from(whole.1);
    }
    // A test that only ever sees one of both shows nothing.
    assert!(read_whole > 10_000 && refused > 1_000, "{read_whole} frames, {refused} refused");
}

#[test]
fn nothing_that_is_said_of_the_network_is_more_than_a_bounded_answer() {
    let pair = || socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
    let listener = OwnedFd::from(std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let (link, _far) = pair();
    let mut network = Network::new(link, Proxy::Gate(listener)).unwrap();
    let mut numbers = Numbers(0x2545_f491_4f6c_dd1d);
    let kinds = [Kind::Link, Kind::ProxyOpen, Kind::ProxyData, Kind::ProxyEnd, Kind::ProxyCredit];
    let mut wire = Wire::default();
    for _ in 0..20_000 {
        let mut payload: Vec<u8> = (0..numbers.below(24)).map(|_| numbers.next() as u8).collect();
        // Few connections, so that most messages are about one that exists.
        for byte in payload.iter_mut().take(4).skip(1) {
            *byte = 0;
        }
        let before = wire.waits();
        network.handle(&Frame { kind: kinds[numbers.below(kinds.len())], payload }, &mut wire);
        assert!(wire.waits() - before <= 64, "a short frame is answered at length");
        assert!(network.descriptors(false).len() <= 2 + 256);
    }
}
