//! The work stands still: a snapshot is taken, or the sandbox is paused. Commands that come meanwhile are kept, with the
//! later messages about them: a command that joins a frozen cgroup would block the guest, which waits for its start. So a
//! command starts when the work goes on, and then gets its input, its signals and everything else in the order in which
//! they came.

use super::{Agent, signal_everything};
use crate::failure::Outcome;
use paddock_protocol::{Channel, Start, ToGuest};
use std::time::Instant;

#[derive(Default)]
pub struct Deferred {
    execs: Vec<u32>,
    /// The host sends at most one window of input for each command.
    later: Vec<Later>,
}

enum Later {
    Message(ToGuest),
    Input { channel: u32, bytes: Vec<u8> },
}

impl Deferred {
    /// Keeps the start of this command, and from now on every message about it.
    pub fn defer(&mut self, exec: u32, start: ToGuest) {
        self.execs.push(exec);
        self.later.push(Later::Message(start));
    }

    /// Keeps a message about a deferred command. Returns every other one.
    pub fn keep_message(&mut self, message: ToGuest) -> Option<ToGuest> {
        if !exec_of(&message).is_some_and(|exec| self.execs.contains(&exec)) {
            return Some(message);
        }
        self.later.push(Later::Message(message));
        None
    }

    /// Keeps input of a deferred command. Returns every other one's.
    pub fn keep_input(&mut self, channel: u32, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let exec = Channel::from_number(channel).map(|channel| channel.exec);
        if !exec.is_some_and(|exec| self.execs.contains(&exec)) {
            return Some(bytes);
        }
        self.later.push(Later::Input { channel, bytes });
        None
    }

    pub fn clear(&mut self) {
        *self = Deferred::default();
    }

    /// All messages, in the order in which they came.
    fn take(&mut self) -> Vec<Later> {
        std::mem::take(self).later
    }
}

impl Agent {
    /// True for a command that is new and came while the work stands still. Tools go on meanwhile.
    pub(super) fn has_to_wait(&self, start: &Start) -> bool {
        let is_new = self.execs.iter().all(|exec| exec.number != start.exec);
        self.frozen.is_some() && start.tool.is_none() && is_new
    }

    pub(super) fn freeze(&mut self, on: bool, signals: bool) -> Outcome<()> {
        if signals {
            signal_everything(if on { libc::SIGSTOP } else { libc::SIGCONT });
            for tool in self.execs.iter_mut().filter(|e| on && e.is_tool()) {
                tool.signal(libc::SIGCONT);
            }
        }
        if on && self.inside.is_in_a_vm() {
            // The disk belongs to the VM: data must be written to it before it can be seen from outside.
            rustix::fs::sync();
        }
        match (on, self.frozen) {
            (true, None) => self.frozen = Some(Instant::now()),
            (false, Some(since)) => {
                self.frozen = None;
                for deadline in self.execs.iter_mut().filter_map(|e| e.deadline.as_mut()) {
                    *deadline += since.elapsed();
                }
                self.execs.iter_mut().for_each(|e| e.alarm.shift(since.elapsed()));
                for later in self.deferred.take() {
                    match later {
                        Later::Message(message) => self.obey(message)?,
                        Later::Input { channel, bytes } => self.feed(channel, bytes),
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}

fn exec_of(message: &ToGuest) -> Option<u32> {
    match message {
        ToGuest::Start(start) => Some(start.exec),
        ToGuest::CloseStdin { exec }
        | ToGuest::Resize { exec, .. }
        | ToGuest::Signal { exec, .. }
        | ToGuest::Kill { exec }
        | ToGuest::Continue { exec, .. }
        | ToGuest::Forget { exec }
        | ToGuest::Alarm { exec, .. }
        | ToGuest::Describe { exec, .. }
        | ToGuest::TakeIn { exec, .. } => Some(*exec),
        ToGuest::Credit { channel, .. } => Channel::from_number(*channel).map(|channel| channel.exec),
        ToGuest::Enter(_)
        | ToGuest::Cgroups { .. }
        | ToGuest::WriteFile { .. }
        | ToGuest::Stop
        | ToGuest::Resume
        | ToGuest::Deadline { .. }
        | ToGuest::Limits { .. }
        | ToGuest::Freeze { .. }
        | ToGuest::Shelter
        | ToGuest::Hold { .. } => None,
    }
}
