//! The control stream of an exec: messages of its program to the host alone. Each keeps its place in the output: it is
//! sent only after everything that had been written to the standard streams before it.

use crate::agent::output::Output;
use crate::outbound::Outbound;
use paddock_protocol::StreamKind;
use rustix::event::PollFd;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;

/// Further gates are folded into the last one, which only delays the bytes behind it.
const MOST_GATES: usize = 16;

pub struct Control {
    stream: Output,
    gates: VecDeque<Gate>,
    /// Up to where it may be sent.
    open: u64,
}

/// Control bytes before `until` wait for the standard streams to have been sent up to here.
struct Gate {
    until: u64,
    stdout: u64,
    stderr: u64,
}

impl Control {
    pub fn new(exec: u32, descriptor: Option<OwnedFd>) -> Control {
        let stream = Output::new(exec, StreamKind::Control, descriptor, true);
        Control { stream, gates: VecDeque::new(), open: 0 }
    }

    pub fn acknowledged(&self) -> u64 {
        self.stream.acknowledged()
    }

    pub fn acknowledge(&mut self, channel: u32, bytes: u32) {
        self.stream.acknowledge(channel, bytes);
    }

    pub fn add_to_poll<'a>(&'a self, polled: &mut Vec<PollFd<'a>>, attached: bool, outbound_full: bool) {
        self.stream.add_to_poll(polled, attached, outbound_full);
    }

    pub fn has_backlog(&self) -> bool {
        self.stream.has_backlog_before(self.open)
    }

    pub fn is_at_rest(&self) -> bool {
        self.stream.is_at_rest()
    }

    pub fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }

    /// Another host goes on from `offset`. Bytes that are sent to it again wait for those that the standard streams
    /// send again.
    pub fn go_on_from(&mut self, offset: u64, stdout: &Output, stderr: &Output) {
        self.stream.go_on_from(offset);
        self.open = self.stream.acknowledged();
        self.gates.clear();
        if self.stream.end() > self.open {
            let gate = Gate { until: self.stream.end(), stdout: stdout.end(), stderr: stderr.end() };
            self.gates.push_back(gate);
        }
    }

    /// Called before the standard streams are read, so that these then hold all bytes written before a control byte.
    pub fn read(&mut self, buffer: &mut [u8], stdout: &Output, stderr: &Output) {
        let before = self.stream.end();
        self.stream.read_only(buffer);
        let until = self.stream.end();
        if until == before {
            return;
        }
        let gate = Gate { until, stdout: stdout.written(), stderr: stderr.written() };
        if self.gates.len() >= MOST_GATES {
            self.gates.pop_back();
        }
        self.gates.push_back(gate);
    }

    /// To be done after the standard streams were sent.
    pub fn send(&mut self, outbound: &mut Outbound, stdout: &Output, stderr: &Output) {
        while let Some(gate) = self.gates.front() {
            if !stdout.has_sent(gate.stdout) || !stderr.has_sent(gate.stderr) {
                break;
            }
            self.open = gate.until;
            self.gates.pop_front();
        }
        self.stream.send_held_before(self.open, outbound);
    }
}
