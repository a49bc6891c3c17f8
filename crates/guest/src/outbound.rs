//! Messages that wait to be sent to the host. Bounded: while the buffer is full, no more output is read from the work.

use paddock_protocol::{FromGuest, encode_data, encode_message};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Above this, the agent stops reading the work's output.
const FULL: usize = 512 * 1024;
/// A buffer that grew is given back when it is empty, so that an idle agent stays small.
const KEEP: usize = 64 * 1024;

#[derive(Default)]
pub struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    /// How long the message of a beginning may wait for the next message.
    patience: Duration,
    /// There is nothing but beginnings, and until then they may wait.
    may_wait: Option<Instant>,
}

impl Outbound {
    pub fn with_patience(patience: Duration) -> Outbound {
        Outbound { patience, ..Outbound::default() }
    }

    /// The same for another connection.
    pub fn renew(&self) -> Outbound {
        Outbound::with_patience(self.patience)
    }

    /// Sends the message together with the next one, if that comes soon.
    pub fn beginning(&mut self, message: &FromGuest) {
        let until = if self.is_empty() { Some(Instant::now() + self.patience) } else { self.may_wait };
        self.message(message);
        self.may_wait = until;
    }

    /// How long the messages may still wait.
    pub fn rest(&self) -> Option<Duration> {
        let rest = self.may_wait?.saturating_duration_since(Instant::now());
        (!rest.is_zero()).then_some(rest)
    }

    /// True if it would be sent as soon as the stream takes it.
    pub fn is_due(&self) -> bool {
        !self.is_empty() && self.rest().is_none()
    }

    pub fn message(&mut self, message: &FromGuest) {
        self.may_wait = None;
        // Our own messages are small and plain; one that cannot be encoded would be a defect of this file,
        // and the host notices the missing answer.
        let _ = encode_message(message, &mut self.bytes);
    }

    pub fn data(&mut self, channel: u32, bytes: &[u8]) {
        self.may_wait = None;
        encode_data(channel, bytes, &mut self.bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    pub fn is_full(&self) -> bool {
        self.bytes.len() - self.sent >= FULL
    }

    /// Writes as much as the stream takes now, unless the messages may still wait.
    pub fn flush(&mut self, control: &impl AsFd) -> rustix::io::Result<()> {
        if self.rest().is_some() {
            return Ok(());
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    const STARTED: FromGuest = FromGuest::Started { exec: 1, pid: 2 };

    fn received(host: &mut UnixStream) -> usize {
        host.set_nonblocking(true).unwrap();
        host.read(&mut [0; 4096]).unwrap_or(0)
    }

    #[test]
    fn a_beginning_waits_for_what_comes_of_it_and_goes_out_before_it() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        let mut outbound = Outbound::with_patience(Duration::from_secs(3600));
        outbound.beginning(&STARTED);
        outbound.beginning(&STARTED);
        outbound.flush(&guest).unwrap();
        assert_eq!(received(&mut host), 0);
        assert!(!outbound.is_due() && !outbound.is_empty() && outbound.rest().is_some());
        outbound.message(&FromGuest::Closed { exec: 1 });
        assert!(outbound.is_due() && outbound.rest().is_none());
        outbound.flush(&guest).unwrap();
        assert!(received(&mut host) > 0 && outbound.is_empty());
    }

    #[test]
    fn behind_what_may_not_wait_a_beginning_does_not_either() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        let mut outbound = Outbound::with_patience(Duration::from_secs(3600));
        outbound.data(5, b"of another command");
        outbound.beginning(&STARTED);
        assert!(outbound.is_due());
        outbound.flush(&guest).unwrap();
        assert!(received(&mut host) > 0);
    }

    #[test]
    fn without_patience_it_goes_out_at_once() {
        let mut outbound = Outbound::default();
        outbound.beginning(&STARTED);
        assert!(outbound.is_due());
    }
}
