//! The ordinary user's way to root: connections to the socket of a sandbox with `become_root`. The guest looks at the user who
//! connects, and starts a process of root that reads the rest. It reads nothing from the connection itself.
//!
//! Code inside may connect as often as it likes. The guest's own time for all of it is an [`Allowance`]: while that is used up, no
//! connection is taken, and callers wait in the kernel's queue.

use super::Agent;
use super::allowance::{Allowance, used};
use crate::enter::Door;
use crate::system::{accept, is_ready};
use crate::work::{self, FINISHED, kill_sessions, sessions_left};
use paddock_protocol::ExitKind;
use rustix::event::PollFlags;
use rustix::net::sockopt::socket_peercred;
use rustix::process::Pid;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Commands of root at a time; more wait in the kernel's queue, and then in their callers. As many more may have ended and left
/// processes behind.
const MOST: usize = 64;
/// Connections for which one round of the loop has time.
const IN_ONE_ROUND: usize = 8;
/// The guest's time for one connection beside what is measured: the fork until it is in the work's cgroup, and its end.
const FOR_ONE: Duration = Duration::from_micros(200);
/// The least time between two looks at what ended commands have left behind.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Killed sessions whose callers may wait in the queue; the kernel's queue is shorter.
const MOST_KILLED: usize = 256;

/// One `sudo`.
struct Visit {
    /// The process of root, which leads a session.
    root: Pid,
    /// The session of the process that called.
    caller: Pid,
    /// It has ended, and may have left processes behind that go on.
    ended: bool,
}

#[derive(Default)]
pub struct Visits {
    door: Option<Door>,
    /// Those that have ended are in the order of their ends.
    visits: Vec<Visit>,
    /// Processes of root that did not end by themselves since the last [`Visits::settle`].
    lost: Vec<Pid>,
    /// Sessions that were killed while connections waited: theirs may be among these.
    killed: Vec<Pid>,
    last_look: Option<Instant>,
    allowance: Allowance,
}

impl Visits {
    pub fn new(door: Option<Door>) -> Visits {
        Visits { door, ..Visits::default() }
    }

    /// The socket, while another caller can be let in. A process that joins a frozen cgroup would stand still before it is confined.
    pub fn awaits(&self, frozen: bool) -> Option<&OwnedFd> {
        let door = self.door.as_ref()?;
        let running = self.visits.len() - self.ended();
        (running < MOST && !frozen && self.rest().is_none()).then_some(&door.socket)
    }

    /// The time until callers are let in again.
    pub fn rest(&self) -> Option<Duration> {
        Some(self.allowance.rest(Instant::now())).filter(|rest| !rest.is_zero())
    }

    /// No user becomes root any more.
    pub fn close(&mut self) {
        *self = Visits::default();
    }

    /// A process was collected.
    pub fn note_end(&mut self, pid: Pid, how: ExitKind) {
        let Some(place) = self.visits.iter().position(|visit| !visit.ended && visit.root == pid) else {
            return;
        };
        let visit = self.visits.remove(place);
        self.visits.push(Visit { ended: true, ..visit });
        // Processes that a command left in the background go on, unless the command was ended from outside.
        if how != ExitKind::Exited(FINISHED) {
            self.lost.push(pid);
        }
    }

    /// Once in each round of the loop, after the ends of processes: kills what lost commands have left behind, and forgets commands
    /// that have left nothing. However many have ended, the processes are looked at together.
    pub fn settle(&mut self) {
        if self.lost.is_empty() && self.ended() == 0 {
            return;
        }
        let (before, now) = (used(), Instant::now());
        let is_due = self.last_look.is_none_or(|last| now >= last + BETWEEN_LOOKS);
        if self.ended() > MOST || (is_due && self.allowance.is_unused(now)) {
            self.forget_gone(now);
        }
        let more = self.ended().saturating_sub(MOST);
        let last = self.visits.iter().rev().filter(|visit| visit.ended).take(more);
        self.lost.extend(last.map(|visit| visit.root));
        let lost = std::mem::take(&mut self.lost);
        self.visits.retain(|visit| !visit.ended || !lost.contains(&visit.root));
        kill_sessions(&lost.into_iter().map(|root| (root, false)).collect::<Vec<_>>());
        self.allowance.spend(used().saturating_sub(before), now);
    }

    fn ended(&self) -> usize {
        self.visits.iter().filter(|visit| visit.ended).count()
    }

    /// The number of an ended command's session may be another's as soon as no process is left of it.
    fn forget_gone(&mut self, now: Instant) {
        let ended = self.visits.iter().filter(|visit| visit.ended).map(|visit| visit.root).collect();
        let left = sessions_left(ended);
        self.visits.retain(|visit| !visit.ended || left.contains(&visit.root));
        self.last_look = Some(now);
    }

    /// Kills the commands of root that processes of this session have begun, and those that these have begun.
    pub fn kill_below(&mut self, session: Pid) {
        let Some(door) = &self.door else { return };
        let is_awaited = is_ready(&door.socket, PollFlags::IN);
        self.forget_gone(Instant::now());
        let (mut callers, mut found) = (vec![session], Vec::new());
        while let Some(caller) = callers.pop() {
            self.killed.extend(is_awaited.then_some(caller));
            self.visits.retain(|visit| {
                let is_of_it = visit.caller == caller;
                if is_of_it {
                    found.push((visit.root, !visit.ended));
                    callers.push(visit.root);
                }
                !is_of_it
            });
        }
        let forgotten = self.killed.len().saturating_sub(MOST_KILLED);
        self.killed.drain(..forgotten);
        kill_sessions(&found);
    }
}

impl Agent {
    /// Callers who wait. One who is neither the ordinary user nor root is sent away.
    pub(super) fn let_visitors_in(&mut self) {
        let before = used();
        for _ in 0..IN_ONE_ROUND {
            let Some(accepted) = self.visits.awaits(self.frozen.is_some()).map(accept) else { break };
            let Ok(connection) = accepted else {
                // None waits any more, also none of a killed session.
                self.visits.killed.clear();
                break;
            };
            let _ = self.let_in(connection);
            self.visits.allowance.spend(FOR_ONE, Instant::now());
        }
        self.visits.allowance.spend(used().saturating_sub(before), Instant::now());
    }

    /// Kills an exec, with the commands of root that its processes have begun.
    pub(super) fn kill(&mut self, number: u32) {
        if let Some(exec) = self.execs.iter_mut().find(|e| e.number == number) {
            exec.kill();
            exec.pid.into_iter().for_each(|leader| self.visits.kill_below(leader));
        }
    }

    /// Signals an exec. What kills its processes ends their commands of root too; every other signal they pass on themselves.
    pub(super) fn signal(&mut self, number: u32, signal: i32) {
        if let Some(exec) = self.execs.iter_mut().find(|e| e.number == number) {
            exec.signal(signal);
            let killed = exec.pid.filter(|_| signal == libc::SIGKILL);
            killed.into_iter().for_each(|leader| self.visits.kill_below(leader));
        }
    }

    fn let_in(&mut self, connection: OwnedFd) -> Option<()> {
        let peer = socket_peercred(&connection).ok()?;
        let (uid, gid) = (peer.uid.as_raw(), peer.gid.as_raw());
        let door = self.visits.door.as_ref()?;
        let is_let_in = uid == door.user || uid == 0;
        // A caller that has gone already wants nothing any more.
        if !is_let_in || is_ready(&connection, PollFlags::RDHUP) {
            return None;
        }
        let caller = session_of(peer.pid).filter(|caller| !self.visits.killed.contains(caller))?;
        self.has_worked = true;
        self.inside.confinement.share_domain().ok()?;
        let root =
            work::spawn_root_for(connection, (uid, gid), &door.program, &self.inside.confinement).ok()?;
        self.visits.visits.push(Visit { root, caller, ended: false });
        Some(())
    }
}

/// None also when the leader is outside of this PID namespace: the kernel says 0 then, which rustix's `getsid` takes for a number.
fn session_of(process: Pid) -> Option<Pid> {
    // SAFETY: the call takes a number and touches no memory.
    let session = unsafe { libc::getsid(process.as_raw_pid()) };
    (session > 0).then(|| Pid::from_raw(session)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    fn visits(visits: Vec<Visit>) -> Visits {
        let (socket, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let door = Door { socket: socket.into(), user: 1000, program: String::new() };
        Visits { visits, ..Visits::new(Some(door)) }
    }

    /// A process that leads a session.
    fn leader() -> (Child, Pid) {
        let child = Command::new("setsid").args(["sleep", "1000"]).spawn().unwrap();
        let pid = Pid::from_child(&child);
        while session_of(pid) != Some(pid) {
            std::thread::yield_now();
        }
        (child, pid)
    }

    fn ended(root: Pid, caller: Pid) -> Visit {
        Visit { root, caller, ended: true }
    }

    #[test]
    fn the_new_owner_of_a_number_is_not_killed_for_the_former() {
        let ((mut other, number), (mut running, root)) = (leader(), leader());
        let caller = Pid::from_raw(i32::MAX).unwrap();
        let of_other = || Visit { root, caller: number, ended: false };
        // A command has ended, and another process has its number, leads a session and uses `sudo`.
        let mut known = visits(vec![ended(number, caller), of_other()]);
        known.kill_below(caller);
        assert!(other.try_wait().unwrap().is_none() && running.try_wait().unwrap().is_none());
        assert_eq!(known.visits.len(), 1);
        // The control: a command that runs, and one that it has begun.
        let mut known = visits(vec![Visit { root: number, caller, ended: false }, of_other()]);
        known.kill_below(caller);
        assert!(!other.wait().unwrap().success() && !running.wait().unwrap().success());
        assert!(known.visits.is_empty());
    }

    #[test]
    fn ended_commands_are_looked_at_together_and_not_in_every_round() {
        let gone = |number: i32| Pid::from_raw(i32::MAX - number).unwrap();
        let of = |count| visits((1..=count).map(|number| ended(gone(number), gone(0))).collect());
        let mut known = of(MOST as i32);
        known.last_look = Some(Instant::now());
        known.settle();
        assert_eq!(known.visits.len(), MOST);
        (known.last_look, known.allowance) = (None, Allowance::default());
        known.settle();
        assert!(known.visits.is_empty());
        // More than are kept are looked at in any case.
        let mut known = of(MOST as i32 + 1);
        known.last_look = Some(Instant::now());
        known.settle();
        assert!(known.visits.is_empty());
    }
}
