//! One output stream of an exec: how much of it the host has, how much is under way, and, for a guest that outlives
//! its host, the bytes between the two.

use crate::agent::host::CHUNK;
use crate::outbound::Outbound;
use paddock_protocol::{Channel, StreamKind, WINDOW};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// A buffer that grew is given back when it is empty, so that an idle agent stays small.
const KEEP: usize = 16 * 1024;

pub struct Output {
    channel: u32,
    pub descriptor: Option<OwnedFd>,
    /// Offsets of the bytes that the host has safely, that were read from the work, and that were sent over this
    /// connection.
    acknowledged: u64,
    read: u64,
    sent: u64,
    /// The bytes from `acknowledged` to `read`. `None` if no other host will ever ask for them.
    held: Option<VecDeque<u8>>,
    /// Nothing more to read at the moment.
    drained: bool,
}

impl Output {
    pub fn new(exec: u32, stream: StreamKind, descriptor: Option<OwnedFd>, hold: bool) -> Output {
        Output {
            channel: Channel { exec, stream }.number(),
            descriptor,
            acknowledged: 0,
            read: 0,
            sent: 0,
            held: hold.then(VecDeque::new),
            drained: false,
        }
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// True if all bytes that are available now have been read and sent.
    pub fn is_at_rest(&self) -> bool {
        self.sent == self.read && (self.drained || self.descriptor.is_none())
    }

    /// Read, and neither sent nor waiting for the work to write more.
    pub fn has_backlog(&self) -> bool {
        self.sent < self.read
    }

    pub fn is_closed(&self) -> bool {
        self.descriptor.is_none() && self.sent == self.read
    }

    /// Offset of the first byte that the work has not written yet, as far as this process can see.
    pub fn written(&self) -> u64 {
        let waiting = self.descriptor.as_ref().and_then(|d| rustix::io::ioctl_fionread(d).ok());
        self.read + waiting.unwrap_or(0)
    }

    /// True if everything before `offset` was sent, or will never be there to send.
    pub fn has_sent(&self, offset: u64) -> bool {
        self.sent >= offset || (self.descriptor.is_none() && self.sent == self.read)
    }

    /// Offset behind the last byte that was read.
    pub fn end(&self) -> u64 {
        self.read
    }

    pub fn has_backlog_before(&self, offset: u64) -> bool {
        self.sent < self.read.min(offset)
    }

    fn room(&self) -> usize {
        (u64::from(WINDOW) - (self.read - self.acknowledged)) as usize
    }

    pub fn add_to_poll<'a>(&'a self, polled: &mut Vec<PollFd<'a>>, attached: bool, outbound_full: bool) {
        if self.room() > 0 && !(attached && outbound_full) {
            polled.extend(self.descriptor.as_ref().map(|d| PollFd::new(d, PollFlags::IN)));
        }
    }

    pub fn acknowledge(&mut self, channel: u32, bytes: u32) {
        if channel == self.channel {
            self.release_to(self.acknowledged + u64::from(bytes));
        }
    }

    /// A new host has everything before `offset`, and nothing was sent to it yet.
    pub fn go_on_from(&mut self, offset: u64) {
        self.release_to(offset);
        self.sent = self.acknowledged;
    }

    fn release_to(&mut self, offset: u64) {
        let offset = offset.clamp(self.acknowledged, self.read);
        if let Some(held) = &mut self.held {
            held.drain(..(offset - self.acknowledged) as usize);
            if held.is_empty() && held.capacity() > KEEP {
                *held = VecDeque::new();
            }
        }
        self.acknowledged = offset;
    }

    /// Precondition: `attached` is true if the host of this connection has asked for this exec.
    pub fn advance(&mut self, buffer: &mut [u8], attached: bool, outbound: &mut Outbound) {
        if attached {
            self.send_held_before(u64::MAX, outbound);
        }
        self.drained = false;
        while self.room() > 0 && !(attached && outbound.is_full()) {
            match self.read_some(buffer) {
                Some(count) => self.take(&buffer[..count], attached, outbound),
                None => break,
            }
        }
    }

    /// Reads the available bytes without sending them. Precondition: this stream holds the bytes that it reads.
    pub fn read_only(&mut self, buffer: &mut [u8]) {
        self.drained = false;
        while self.room() > 0 {
            let Some(count) = self.read_some(buffer) else { break };
            if let Some(held) = &mut self.held {
                held.extend(&buffer[..count]);
            }
            self.read += count as u64;
        }
    }

    /// `None` when there is nothing, for now or for ever.
    fn read_some(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let most = buffer.len().min(self.room());
        loop {
            match rustix::io::read(self.descriptor.as_ref()?, &mut buffer[..most]) {
                Ok(0) => self.descriptor = None,
                Ok(count) => return Some(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.drained = true;
                    return None;
                }
                // A terminal whose last user has gone answers with an error.
                Err(_) => self.descriptor = None,
            }
        }
    }

    fn take(&mut self, bytes: &[u8], attached: bool, outbound: &mut Outbound) {
        if let Some(held) = &mut self.held {
            held.extend(bytes);
        }
        if attached && self.sent == self.read {
            outbound.data(self.channel, bytes);
            self.sent += bytes.len() as u64;
        }
        self.read += bytes.len() as u64;
    }

    /// Sends bytes that were read while no host was connected, or that were sent to a host that has gone.
    pub fn send_held_before(&mut self, end: u64, outbound: &mut Outbound) {
        let Some(held) = &mut self.held else { return };
        let end = end.min(self.read);
        while self.sent < end && !outbound.is_full() {
            let start = (self.sent - self.acknowledged) as usize;
            let (front, back) = held.as_slices();
            let piece = if start < front.len() { &front[start..] } else { &back[start - front.len()..] };
            let most = usize::try_from(end - self.sent).unwrap_or(CHUNK).min(CHUNK);
            let piece = &piece[..piece.len().min(most)];
            outbound.data(self.channel, piece);
            self.sent += piece.len() as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_protocol::{Decoder, Frame};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn output() -> (UnixStream, Output) {
        let (work, guest) = UnixStream::pair().unwrap();
        guest.set_nonblocking(true).unwrap();
        (work, Output::new(5, StreamKind::Stdout, Some(guest.into()), true))
    }

    fn sent(outbound: &mut Outbound) -> Vec<u8> {
        let (host, guest) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut &host, &mut bytes).unwrap();
            bytes
        });
        outbound.flush(&guest).unwrap();
        drop(guest);
        let mut decoder = Decoder::new();
        decoder.push(&reader.join().unwrap());
        let mut all = Vec::new();
        while let Some(frame) = decoder.next_frame().unwrap() {
            let Frame::Data { bytes, .. } = frame else { panic!("only data was sent") };
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn a_new_host_gets_exactly_what_the_last_one_did_not_acknowledge() {
        let (mut work, mut output) = output();
        let (mut buffer, mut outbound) = (vec![0; CHUNK], Outbound::default());
        work.write_all(b"one two three").unwrap();
        output.advance(&mut buffer, true, &mut outbound);
        assert_eq!(sent(&mut outbound), b"one two three");
        output.acknowledge(output.channel, 4);
        // The connection is lost, and the work goes on.
        work.write_all(b" four").unwrap();
        output.advance(&mut buffer, false, &mut outbound);
        assert!(outbound.is_empty());
        // The next host had journaled a little more than it could acknowledge.
        output.go_on_from(8);
        output.advance(&mut buffer, true, &mut outbound);
        assert_eq!(sent(&mut outbound), b"three four");
        assert_eq!(output.acknowledged(), 8);
        assert!(output.is_at_rest());
    }

    #[test]
    fn without_a_host_the_work_stops_at_the_window() {
        let (mut work, mut output) = output();
        work.set_nonblocking(true).unwrap();
        let (mut buffer, mut outbound) = (vec![0; CHUNK], Outbound::default());
        let mut written = 0;
        while let Ok(count) = work.write(&[7; 4096]) {
            written += count;
            output.advance(&mut buffer, false, &mut outbound);
        }
        assert!(written > WINDOW as usize);
        assert_eq!(output.read, u64::from(WINDOW));
        output.go_on_from(0);
        output.advance(&mut buffer, true, &mut outbound);
        assert_eq!(sent(&mut outbound).len(), WINDOW as usize);
    }

    #[test]
    fn an_offset_that_cannot_be_is_cut_to_what_there_is() {
        let (mut work, mut output) = output();
        work.write_all(b"abc").unwrap();
        output.advance(&mut [0; 16], true, &mut Outbound::default());
        output.go_on_from(u64::MAX);
        assert_eq!((output.acknowledged(), output.sent), (3, 3));
    }
}
