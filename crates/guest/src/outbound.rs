//! What waits to be sent to the host. Bounded: while it is full, no more output is read from the work.

use paddock_protocol::{FromGuest, encode_data, encode_message};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Above this, the agent stops reading what the work prints.
const FULL: usize = 512 * 1024;
/// A buffer that grew is given back when it is empty, so that an idle agent stays small.
const KEEP: usize = 64 * 1024;

#[derive(Default)]
pub struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outbound {
    pub fn message(&mut self, message: &FromGuest) {
        // Our own messages are small and plain; one that cannot be encoded would be a defect of this file,
        // and the host notices the missing answer.
        let _ = encode_message(message, &mut self.bytes);
    }

    pub fn data(&mut self, channel: u32, bytes: &[u8]) {
        encode_data(channel, bytes, &mut self.bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.sent >= FULL
    }

    /// Writes as much as the stream takes now.
    pub fn flush(&mut self, control: &impl AsFd) -> rustix::io::Result<()> {
        while !self.is_empty() {
            match rustix::io::write(control, &self.bytes[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        self.sent = 0;
        self.bytes.clear();
        self.bytes.shrink_to(KEEP);
        Ok(())
    }
}
