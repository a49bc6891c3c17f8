//! The caller's terminal while a command has one of its own: bytes go both ways, and the caller's is raw meanwhile, so that the keys
//! mean something to the command's alone.

use crate::system::is_ready;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Bytes that wait in one direction; no more are read before these are written.
const MOST: usize = 64 * 1024;
/// Output that the kernel still moves through the terminal after the end of the command.
const LATE_MS: i64 = 50;

pub struct Relay {
    /// Which of the caller's three streams are the terminal, and become the command's.
    pub replaced: [bool; 3],
    /// Its settings before, while it is raw.
    saved: Option<Termios>,
    to_command: VecDeque<u8>,
    input_ended: bool,
    output_ended: bool,
}

fn input() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}

fn output() -> BorrowedFd<'static> {
    rustix::stdio::stdout()
}

impl Relay {
    /// None in a pipeline: the command then gets the caller's own streams.
    pub fn find() -> Option<Relay> {
        let replaced = [input(), output(), rustix::stdio::stderr()].map(isatty);
        (replaced[0] && replaced[1]).then(|| Relay {
            replaced,
            saved: None,
            to_command: VecDeque::new(),
            input_ended: false,
            output_ended: false,
        })
    }

    pub fn size(&self) -> (u16, u16) {
        tcgetwinsize(output()).map_or((24, 80), |size| (size.ws_row, size.ws_col))
    }

    pub fn resize(&self, controlling: &OwnedFd) {
        if let Ok(size) = tcgetwinsize(output()) {
            let _ = tcsetwinsize(controlling, size);
        }
    }

    /// In the background the terminal is another's: it is neither read nor changed.
    fn is_in_front(&self) -> bool {
        tcgetpgrp(input()).is_ok_and(|group| group == rustix::process::getpgrp())
    }

    pub fn begin(&mut self) {
        if self.saved.is_some() || !self.is_in_front() {
            return;
        }
        let Ok(before) = tcgetattr(input()) else { return };
        let mut raw = before.clone();
        raw.make_raw();
        if tcsetattr(input(), OptionalActions::Drain, &raw).is_ok() {
            self.saved = Some(before);
        }
    }

    pub fn pause(&mut self) {
        if let Some(before) = self.saved.take() {
            let _ = tcsetattr(input(), OptionalActions::Drain, &before);
        }
    }

    pub fn polled<'a>(&'a self, controlling: &'a OwnedFd) -> Vec<PollFd<'a>> {
        let mut polled = Vec::new();
        let mut wanted = PollFlags::empty();
        if !self.output_ended {
            wanted |= PollFlags::IN;
        }
        if !self.to_command.is_empty() && !self.output_ended {
            wanted |= PollFlags::OUT;
        }
        if !wanted.is_empty() {
            polled.push(PollFd::new(controlling, wanted));
        }
        if self.reads_input() {
            polled.push(PollFd::from_borrowed_fd(input(), PollFlags::IN));
        }
        polled
    }

    fn reads_input(&self) -> bool {
        self.saved.is_some() && !self.input_ended && self.to_command.len() < MOST
    }

    /// Moves what there is, without waiting for more.
    pub fn carry(&mut self, controlling: &OwnedFd) {
        let mut buffer = [0; 4096];
        if self.reads_input() && is_ready(&input(), PollFlags::IN) {
            match rustix::io::read(input(), &mut buffer) {
                Ok(0) => self.input_ended = true,
                Ok(count) => self.to_command.extend(&buffer[..count]),
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => self.input_ended = true,
            }
        }
        while !self.to_command.is_empty() && is_ready(controlling, PollFlags::OUT) {
            match rustix::io::write(controlling, self.to_command.as_slices().0) {
                Ok(count) => drop(self.to_command.drain(..count)),
                Err(Errno::INTR) => {}
                Err(_) => break,
            }
        }
        self.carry_output(controlling);
    }

    fn carry_output(&mut self, controlling: &OwnedFd) {
        let mut buffer = [0; 4096];
        if self.output_ended || !is_ready(controlling, PollFlags::IN) {
            return;
        }
        match rustix::io::read(controlling, &mut buffer) {
            // Nobody has the command's side open any more.
            Ok(0) | Err(Errno::IO) => self.output_ended = true,
            Ok(count) => write_all(&buffer[..count]),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.output_ended = true,
        }
    }

    /// The last output. A process in the background may keep the terminal open: then it ends with a short silence.
    pub fn drain(&mut self, controlling: &OwnedFd) {
        while !self.output_ended {
            let mut polled = [PollFd::new(controlling, PollFlags::IN)];
            let late = rustix::event::Timespec { tv_sec: 0, tv_nsec: LATE_MS * 1_000_000 };
            match poll(&mut polled, Some(&late)) {
                Ok(0) => return,
                Ok(_) => self.carry_output(controlling),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// The terminal is given back, whatever ends this process in an ordinary way.
impl Drop for Relay {
    fn drop(&mut self) {
        self.pause();
    }
}

fn write_all(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match rustix::io::write(output(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let _ = poll(&mut [PollFd::from_borrowed_fd(output(), PollFlags::OUT)], None);
            }
            Err(_) => return,
        }
    }
}
