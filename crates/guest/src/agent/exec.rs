//! One running command: its streams, how much of each may be under way, and how it ended.

use crate::outbound::Outbound;
use crate::work::{Spawned, resize};
use paddock_protocol::{Channel, ExitKind, FromGuest, Start, StreamKind, WINDOW, WindowSize, WorkUsage};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

pub struct Exec {
    pub number: u32,
    pub pid: Pid,
    pub status: Option<ExitKind>,
    pub deadline: Option<Instant>,
    report: Option<OwnedFd>,
    /// Exec itself failed; the process was never the caller's, and its end is not told.
    failed: bool,
    told: bool,
    finished: bool,
    tty: bool,
    stdin: Option<OwnedFd>,
    queued: VecDeque<u8>,
    input_closed: bool,
    outputs: [Output; 2],
}

struct Output {
    stream: StreamKind,
    descriptor: Option<OwnedFd>,
    credit: u32,
    /// Nothing more to read at the moment.
    drained: bool,
}

impl Exec {
    pub fn new(start: &Start, spawned: Spawned) -> Exec {
        let output = |stream, descriptor| Output { stream, descriptor, credit: WINDOW, drained: false };
        Exec {
            number: start.exec,
            pid: spawned.pid,
            status: None,
            deadline: start.deadline_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
            report: Some(spawned.report),
            failed: false,
            told: false,
            finished: false,
            tty: start.tty.is_some(),
            stdin: spawned.stdin,
            queued: VecDeque::new(),
            input_closed: false,
            outputs: [output(StreamKind::Stdout, spawned.stdout), output(StreamKind::Stderr, spawned.stderr)],
        }
    }

    fn channel(&self, stream: StreamKind) -> u32 {
        Channel { exec: self.number, stream }.number()
    }

    pub fn add_to_poll<'a>(&'a self, polled: &mut Vec<PollFd<'a>>, outbound_full: bool) {
        if let Some(report) = &self.report {
            polled.push(PollFd::new(report, PollFlags::IN));
        }
        if let Some(stdin) = self.stdin.as_ref().filter(|_| !self.queued.is_empty()) {
            polled.push(PollFd::new(stdin, PollFlags::OUT));
        }
        for output in self.outputs.iter().filter(|o| o.credit > 0 && !outbound_full) {
            if let Some(descriptor) = &output.descriptor {
                polled.push(PollFd::new(descriptor, PollFlags::IN));
            }
        }
    }

    pub fn takes_input_from(&self, channel: u32) -> bool {
        self.channel(StreamKind::Stdin) == channel
    }

    /// Anything over the window is dropped with the stream: the host broke the protocol.
    pub fn queue_input(&mut self, bytes: Vec<u8>) {
        if self.queued.len() + bytes.len() > WINDOW as usize {
            self.stdin = None;
            self.queued.clear();
        } else if self.stdin.is_some() {
            self.queued.extend(bytes);
        }
    }

    pub fn close_input(&mut self) {
        self.input_closed = true;
        if self.queued.is_empty() {
            self.end_input();
        }
    }

    pub fn resize(&mut self, size: WindowSize) {
        if let Some(terminal) = self.outputs[0].descriptor.as_ref().filter(|_| self.tty) {
            let _ = resize(terminal, size);
        }
    }

    pub fn signal(&mut self, number: i32) {
        if self.status.is_none() {
            super::signal_group(self.pid, number);
        }
    }

    pub fn grant(&mut self, channel: u32, bytes: u32) {
        let number = self.number;
        for output in &mut self.outputs {
            if (Channel { exec: number, stream: output.stream }).number() == channel {
                output.credit = output.credit.saturating_add(bytes).min(WINDOW);
            }
        }
    }

    /// The pipe that exec closes: empty when it worked, else the reason.
    pub fn read_start_report(&mut self, outbound: &mut Outbound) {
        let Some(report) = &self.report else { return };
        let mut reason = [0; 512];
        match rustix::io::read(report, &mut reason) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(count) if count >= 4 => {
                self.failed = true;
                let errno = i32::from_ne_bytes([reason[0], reason[1], reason[2], reason[3]]);
                let step = String::from_utf8_lossy(&reason[4..count]).into_owned();
                outbound.message(&FromGuest::StartFailed { exec: self.number, step, errno });
            }
            _ => {
                let pid = self.pid.as_raw_nonzero().get() as u32;
                outbound.message(&FromGuest::Started { exec: self.number, pid });
            }
        }
        self.report = None;
    }

    pub fn write_input(&mut self, outbound: &mut Outbound) {
        let Some(stdin) = &self.stdin else { return };
        let mut written = 0;
        while !self.queued.is_empty() {
            match rustix::io::write(stdin, self.queued.as_slices().0) {
                Ok(count) => {
                    self.queued.drain(..count);
                    written += count as u32;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // Nobody reads any more; what comes later is dropped too.
                Err(_) => {
                    self.stdin = None;
                    self.queued.clear();
                    break;
                }
            }
        }
        if written > 0 {
            outbound.message(&FromGuest::Credit { channel: self.channel(StreamKind::Stdin), bytes: written });
        }
        if self.input_closed && self.queued.is_empty() {
            self.end_input();
        }
    }

    /// A terminal has no end to close: its end-of-file is a character.
    fn end_input(&mut self) {
        self.input_closed = false;
        if self.tty {
            const END_OF_TRANSMISSION: u8 = 4;
            if let Some(terminal) = &self.stdin {
                let _ = rustix::io::write(terminal, &[END_OF_TRANSMISSION]);
            }
        } else {
            self.stdin = None;
        }
    }

    pub fn read_output(&mut self, buffer: &mut [u8], outbound: &mut Outbound) {
        let number = self.number;
        for output in &mut self.outputs {
            output.drained = false;
            while !outbound.is_full() && output.credit > 0 {
                let Some(descriptor) = &output.descriptor else { break };
                let most = buffer.len().min(output.credit as usize);
                match rustix::io::read(descriptor, &mut buffer[..most]) {
                    Ok(0) => output.descriptor = None,
                    Ok(count) => {
                        output.credit -= count as u32;
                        let channel = Channel { exec: number, stream: output.stream }.number();
                        outbound.data(channel, &buffer[..count]);
                    }
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => {
                        output.drained = true;
                        break;
                    }
                    // A terminal whose last user has gone answers with an error.
                    Err(_) => output.descriptor = None,
                }
            }
        }
    }

    /// The end is told after the last byte that the process itself can have written; that its streams are at
    /// their end, when nobody holds them any more.
    pub fn report_end(&mut self, outbound: &mut Outbound, usage: impl FnOnce() -> WorkUsage) {
        let Some(status) = self.status.filter(|_| self.report.is_none()) else { return };
        let drained = self.outputs.iter().all(|o| o.drained || o.descriptor.is_none());
        if !self.told && drained {
            self.told = true;
            if !self.failed {
                outbound.message(&FromGuest::Exited { exec: self.number, status, usage: usage() });
            }
        }
        if self.told && !self.finished && self.outputs.iter().all(|o| o.descriptor.is_none()) {
            self.finished = true;
            outbound.message(&FromGuest::Closed { exec: self.number });
        }
    }

    pub fn is_finished(&self) -> bool {
        self.finished
    }
}
