//! Output within a bound: the head as it came, the tail as a ring, and the number of bytes between them.

use paddock_model::Captured;
use std::collections::VecDeque;

#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_room: usize,
    tail_room: usize,
    missing: u64,
}

impl Capture {
    /// `limit` bytes in all, half for each end.
    pub fn new(limit: u64) -> Capture {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tail_room = limit / 2;
        Capture {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_room: limit - tail_room,
            tail_room,
            missing: 0,
        }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(first);
        // Bytes that would be pushed out at once need not go through the ring.
        let (skipped, kept) = rest.split_at(rest.len().saturating_sub(self.tail_room));
        self.missing += skipped.len() as u64;
        let overflow = (self.tail.len() + kept.len()).saturating_sub(self.tail_room);
        self.tail.drain(..overflow);
        self.missing += overflow as u64;
        self.tail.extend(kept);
    }

    pub fn finish(self) -> Captured {
        Captured { head: self.head, tail: self.tail.into(), missing: self.missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_both_ends_and_counts_the_rest() {
        for piece in [1, 3, 7, 100] {
            let mut capture = Capture::new(10);
            let all: Vec<u8> = (0..100).collect();
            all.chunks(piece).for_each(|part| capture.push(part));
            let kept = capture.finish();
            assert_eq!(kept.head, &all[..5]);
            assert_eq!(kept.tail, &all[95..]);
            assert_eq!(kept.missing, 90);
        }
    }

    #[test]
    fn output_within_the_bound_is_whole() {
        let mut capture = Capture::new(11);
        capture.push(b"hello ");
        capture.push(b"world");
        let kept = capture.finish();
        assert_eq!(kept.missing, 0);
        assert_eq!(kept.to_text(), "hello world");
    }

    #[test]
    fn a_bound_of_one_byte_works() {
        let mut capture = Capture::new(1);
        capture.push(b"abc");
        let kept = capture.finish();
        assert_eq!((kept.head.as_slice(), kept.missing), (&b"a"[..], 2));
    }
}
