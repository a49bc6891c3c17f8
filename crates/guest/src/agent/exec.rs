//! One running command or tool: its streams, its beginning and end, and the part of these that this connection was
//! told.

use crate::agent::alarm::Alarm;
use crate::agent::control::Control;
use crate::agent::output::Output;
use crate::failure::Failure;
use crate::outbound::Outbound;
use crate::work::{Spawned, kill_session, resize};
use paddock_protocol::{
    Channel, ExecPhase, ExecState, ExitKind, FIRST_TOOL, FromGuest, Kills, Start, StreamKind, WINDOW, Who,
    WindowSize, WorkUsage,
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

pub struct Exec {
    pub number: u32,
    /// `None` where not even a process could be made.
    pub pid: Option<Pid>,
    pub status: Option<ExitKind>,
    pub deadline: Option<Instant>,
    pub kills: Kills,
    phase: Phase,
    /// Counted when the process was gone.
    usage: Option<WorkUsage>,
    deadline_passed: bool,
    /// True if the host of this connection has started it or asked for it.
    attached: bool,
    told: Told,
    tty: bool,
    /// The sandbox ends with it.
    pub last: bool,
    input: InputStream,
    outputs: [Output; 2],
    control: Option<Control>,
    pub alarm: Alarm,
}

enum Phase {
    /// Until the pipe tells: exec closes it, or a failure is written to it.
    Starting(OwnedFd),
    Started,
    /// Exec itself failed; the process was never the caller's, and its end is not told.
    Failed {
        step: String,
        errno: i32,
    },
}

/// Over this connection.
#[derive(Default)]
struct Told {
    start: bool,
    deadline: bool,
    end: bool,
    closed: bool,
    interrupted: Option<u32>,
}

struct InputStream {
    descriptor: Option<OwnedFd>,
    queued: VecDeque<u8>,
    received: u64,
    /// Read by the work, and the host does not know it yet.
    owed: u32,
    closing: bool,
}

impl Exec {
    /// `lasting`: a later host may ask for it again.
    pub fn new(start: &Start, spawned: Result<Spawned, Failure>, lasting: bool) -> Exec {
        let hold = lasting && start.exec < FIRST_TOOL;
        let output = |stream, descriptor| Output::new(start.exec, stream, descriptor, hold);
        let (pid, phase, streams) = match spawned {
            Ok(s) => {
                let phase = s.report.map_or(Phase::Started, Phase::Starting);
                (Some(s.pid), phase, (s.stdin, s.stdout, s.stderr, s.control))
            }
            Err(failure) => {
                let phase = Phase::Failed { step: failure.step, errno: failure.errno.raw_os_error() };
                (None, phase, (None, None, None, None))
            }
        };
        Exec {
            number: start.exec,
            pid,
            status: None,
            deadline: start.deadline_ms.map(|ms| Instant::now() + Duration::from_millis(ms)),
            kills: start.deadline_kills,
            phase,
            usage: None,
            deadline_passed: false,
            attached: true,
            told: Told::default(),
            tty: start.tty.is_some(),
            last: start.last,
            input: InputStream {
                descriptor: streams.0,
                queued: VecDeque::new(),
                received: 0,
                owed: 0,
                closing: false,
            },
            outputs: [output(StreamKind::Stdout, streams.1), output(StreamKind::Stderr, streams.2)],
            control: streams.3.map(|descriptor| Control::new(start.exec, Some(descriptor))),
            alarm: Alarm::default(),
        }
    }

    /// A process that came in from outside, with streams of its own.
    pub fn taken_in(number: u32, taken: Result<Spawned, Failure>) -> Exec {
        let start = Start {
            exec: number,
            argv: Vec::new(),
            env: Vec::new(),
            cwd: None,
            user: Who::Ids { uid: 0, gid: 0 },
            tty: None,
            stdin: false,
            deadline_ms: None,
            deadline_kills: Kills::Exec,
            tool: None,
            last: false,
            control: true,
            zygote: false,
        };
        Exec::new(&start, taken, true)
    }

    /// Its process, and the inodes of the pipes that it writes to; `None` if it does not run.
    pub fn describe(&self) -> Option<(u32, u64, u64)> {
        let pid = self.pid.filter(|_| self.status.is_none())?;
        let inode = |output: &Output| {
            let descriptor = output.descriptor.as_ref()?;
            rustix::fs::fstat(descriptor).ok().map(|found| found.st_ino)
        };
        let [stdout, stderr] = [0, 1].map(|place| inode(&self.outputs[place]).unwrap_or(0));
        Some((pid.as_raw_nonzero().get() as u32, stdout, stderr))
    }

    pub fn is_tool(&self) -> bool {
        self.number >= FIRST_TOOL
    }

    pub fn has_backlog(&self) -> bool {
        let control = self.control.as_ref().is_some_and(Control::has_backlog);
        self.attached && (control || self.outputs.iter().any(Output::has_backlog))
    }

    fn channel(&self, stream: StreamKind) -> u32 {
        Channel { exec: self.number, stream }.number()
    }

    pub fn add_to_poll<'a>(&'a self, polled: &mut Vec<PollFd<'a>>, outbound_full: bool) {
        if let Phase::Starting(report) = &self.phase {
            polled.push(PollFd::new(report, PollFlags::IN));
        }
        if let Some(stdin) = self.input.descriptor.as_ref().filter(|_| !self.input.queued.is_empty()) {
            polled.push(PollFd::new(stdin, PollFlags::OUT));
        }
        for output in &self.outputs {
            output.add_to_poll(polled, self.attached, outbound_full);
        }
        if let Some(control) = &self.control {
            control.add_to_poll(polled, self.attached, outbound_full);
        }
    }

    pub fn takes_input_from(&self, channel: u32) -> bool {
        self.channel(StreamKind::Stdin) == channel
    }

    /// Anything over the window is dropped with the stream: the host broke the protocol.
    pub fn queue_input(&mut self, bytes: Vec<u8>) {
        self.input.received += bytes.len() as u64;
        if self.input.queued.len() + bytes.len() > WINDOW as usize {
            self.input.descriptor = None;
            self.input.queued.clear();
        } else if self.input.descriptor.is_some() {
            self.input.queued.extend(bytes);
            self.write_input();
        } else {
            // No process reads the input; the sender gets its credit back and does not wait.
            self.input.owed += bytes.len() as u32;
        }
    }

    pub fn close_input(&mut self) {
        self.input.closing = true;
        if self.input.queued.is_empty() {
            self.end_input();
        }
    }

    pub fn resize(&mut self, size: WindowSize) {
        if let Some(terminal) = self.outputs[0].descriptor.as_ref().filter(|_| self.tty) {
            let _ = resize(terminal, size);
        }
    }

    pub fn signal(&mut self, number: i32) {
        if let Some(pid) = self.pid.filter(|_| self.status.is_none()) {
            super::signal_group(pid, number);
        }
    }

    /// Kills its process group and its session, even if the process that began them has gone.
    pub fn kill(&mut self) {
        if let Some(pid) = self.pid {
            kill_session(pid, self.status.is_none());
        }
    }

    pub fn grant(&mut self, channel: u32, bytes: u32) {
        self.outputs.iter_mut().for_each(|output| output.acknowledge(channel, bytes));
        if let Some(control) = &mut self.control {
            control.acknowledge(channel, bytes);
        }
    }

    /// Interrupts the program. `true` if it ignored the interrupts and is to be killed.
    pub fn ring(&mut self) -> bool {
        let interrupts = self.alarm.ring();
        if interrupts {
            self.signal(libc::SIGINT);
        }
        !interrupts
    }

    pub fn pass_deadline(&mut self) {
        self.deadline = None;
        self.deadline_passed = true;
    }

    /// Another host has come, which knows nothing of this exec until it asks.
    pub fn detach(&mut self) {
        self.attached = false;
        self.told = Told::default();
        self.input.owed = 0;
    }

    pub fn go_on_from(&mut self, stdout: u64, stderr: u64, control: u64) {
        self.attached = true;
        self.told = Told::default();
        self.outputs[0].go_on_from(stdout);
        self.outputs[1].go_on_from(stderr);
        if let Some(stream) = &mut self.control {
            stream.go_on_from(control, &self.outputs[0], &self.outputs[1]);
        }
    }

    pub fn state(&self) -> ExecState {
        let phase = match (&self.phase, self.status, self.usage) {
            (Phase::Failed { step, errno }, ..) => {
                ExecPhase::StartFailed { step: step.clone(), errno: *errno }
            }
            (_, Some(status), usage) => ExecPhase::Ended { status, usage: usage.unwrap_or_default() },
            (_, None, _) => ExecPhase::Running,
        };
        ExecState {
            exec: self.number,
            phase,
            stdout: self.outputs[0].acknowledged(),
            stderr: self.outputs[1].acknowledged(),
            stdin: self.input.received,
            stdin_queued: self.input.queued.len() as u32,
            stdin_open: self.input.descriptor.is_some() && !self.input.closing,
            deadline_passed: self.deadline_passed,
            control: self.control.as_ref().map_or(0, Control::acknowledged),
            interrupted: self.alarm.rung(),
        }
    }

    /// The pipe that exec closes: empty when it worked, else the reason.
    pub fn read_start_report(&mut self) {
        let Phase::Starting(report) = &self.phase else { return };
        let mut reason = [0; 512];
        self.phase = match rustix::io::read(report, &mut reason) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(count) if count >= 4 => Phase::Failed {
                errno: i32::from_ne_bytes([reason[0], reason[1], reason[2], reason[3]]),
                step: String::from_utf8_lossy(&reason[4..count]).into_owned(),
            },
            _ => Phase::Started,
        };
    }

    pub fn write_input(&mut self) {
        let Some(stdin) = &self.input.descriptor else { return };
        while !self.input.queued.is_empty() {
            match rustix::io::write(stdin, self.input.queued.as_slices().0) {
                Ok(count) => {
                    self.input.queued.drain(..count);
                    self.input.owed += count as u32;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                // The reader is gone; later input is dropped too.
                Err(_) => {
                    self.input.descriptor = None;
                    self.input.owed += self.input.queued.len() as u32;
                    self.input.queued.clear();
                    break;
                }
            }
        }
        if self.input.queued.is_empty() {
            self.input.queued.shrink_to(0);
            if self.input.closing {
                self.end_input();
            }
        }
    }

    /// A terminal has no end to close: its end-of-file is a character.
    fn end_input(&mut self) {
        self.input.closing = false;
        if self.tty {
            const END_OF_TRANSMISSION: u8 = 4;
            if let Some(terminal) = &self.input.descriptor {
                let _ = rustix::io::write(terminal, &[END_OF_TRANSMISSION]);
            }
        } else {
            self.input.descriptor = None;
        }
    }

    pub fn read_output(&mut self, buffer: &mut [u8], outbound: &mut Outbound) {
        // The beginning is told before the first byte.
        self.tell_start(outbound);
        self.tell_credit(outbound);
        if let Some(control) = &mut self.control {
            control.read(buffer, &self.outputs[0], &self.outputs[1]);
        }
        for output in &mut self.outputs {
            output.advance(buffer, self.attached, outbound);
        }
        self.tell_interrupted(outbound);
        if let Some(control) = self.control.as_mut().filter(|_| self.attached) {
            control.send(outbound, &self.outputs[0], &self.outputs[1]);
        }
    }

    /// Sent before the program's own message about the interrupt.
    fn tell_interrupted(&mut self, outbound: &mut Outbound) {
        let rung = self.alarm.rung();
        if let Some(call) = rung.filter(|_| self.attached && rung != self.told.interrupted) {
            outbound.message(&FromGuest::Interrupted { exec: self.number, call });
            self.told.interrupted = rung;
        }
    }

    pub fn tell_credit(&mut self, outbound: &mut Outbound) {
        let owed = if self.attached { std::mem::take(&mut self.input.owed) } else { 0 };
        if owed > 0 {
            outbound.message(&FromGuest::Credit { channel: self.channel(StreamKind::Stdin), bytes: owed });
        }
    }

    fn tell_start(&mut self, outbound: &mut Outbound) {
        if !self.attached || self.told.start {
            return;
        }
        let exec = self.number;
        match (&self.phase, self.pid) {
            (Phase::Starting(_), _) | (Phase::Started, None) => return,
            (Phase::Started, Some(pid)) => {
                outbound.beginning(&FromGuest::Started { exec, pid: pid.as_raw_nonzero().get() as u32 });
            }
            (Phase::Failed { step, errno }, _) => {
                outbound.message(&FromGuest::StartFailed { exec, step: step.clone(), errno: *errno });
            }
        }
        self.told.start = true;
    }

    /// The end is told after the last byte that the process itself can have written. The end of its streams is told
    /// when no process holds them any more.
    pub fn report_end(&mut self, outbound: &mut Outbound, usage: impl FnOnce() -> WorkUsage) {
        if self.attached && self.deadline_passed && !self.told.deadline {
            self.told.deadline = true;
            outbound.message(&FromGuest::DeadlinePassed { exec: self.number });
        }
        let gone = self.status.is_some() || self.pid.is_none();
        if !gone || matches!(self.phase, Phase::Starting(_)) {
            return;
        }
        let usage = *self.usage.get_or_insert_with(usage);
        if !self.attached {
            return;
        }
        let control = self.control.as_ref();
        let at_rest = control.is_none_or(Control::is_at_rest) && self.outputs.iter().all(Output::is_at_rest);
        if !self.told.end && at_rest {
            self.told.end = true;
            if let (Some(status), Phase::Started) = (self.status, &self.phase) {
                outbound.message(&FromGuest::Exited { exec: self.number, status, usage });
            }
        }
        let closed = control.is_none_or(Control::is_closed) && self.outputs.iter().all(Output::is_closed);
        if self.told.end && !self.told.closed && closed {
            self.told.closed = true;
            outbound.message(&FromGuest::Closed { exec: self.number });
        }
    }

    /// True if it was the last exec, and its end has been told.
    pub fn ends_the_sandbox(&self) -> bool {
        self.last && self.told.end && matches!(self.phase, Phase::Started)
    }

    /// Everything was told, and no host will ask again.
    pub fn is_finished(&self) -> bool {
        self.told.closed
    }
}
