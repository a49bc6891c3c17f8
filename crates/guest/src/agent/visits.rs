//! The ordinary user's way to root: connections to the socket of a sandbox with `become_root`. The guest looks at the user who
//! connects, and starts a process of root that reads the rest. It reads nothing from the connection itself.

use super::Agent;
use crate::enter::Door;
use crate::system::accept;
use crate::work::{self, FINISHED, has_left_processes, kill_session};
use paddock_protocol::ExitKind;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, getsid};
use std::os::fd::OwnedFd;

/// Commands of root at a time; more wait in the kernel's queue, and then in their callers.
const MOST: usize = 64;
/// Connections for which one round of the loop has time.
const IN_ONE_ROUND: usize = 8;

/// One `sudo`.
struct Visit {
    /// The process of root, which leads a session.
    root: Pid,
    /// The session of the process that called.
    caller: Pid,
    /// It has ended, and left processes behind that go on.
    ended: bool,
}

#[derive(Default)]
pub struct Visits {
    door: Option<Door>,
    visits: Vec<Visit>,
}

impl Visits {
    pub fn new(door: Option<Door>) -> Visits {
        Visits { door, visits: Vec::new() }
    }

    /// The socket, while another caller can be let in. A process that joins a frozen cgroup would stand still before it is confined.
    pub fn awaits(&self, frozen: bool) -> Option<&OwnedFd> {
        let running = self.visits.iter().filter(|visit| !visit.ended).count();
        self.door.as_ref().map(|door| &door.socket).filter(|_| running < MOST && !frozen)
    }

    /// No user becomes root any more.
    pub fn close(&mut self) {
        *self = Visits::default();
    }

    /// A process was collected. `true` if it was one of root's.
    pub fn note_end(&mut self, pid: Pid, how: ExitKind) {
        let Some(place) = self.visits.iter().position(|visit| !visit.ended && visit.root == pid) else {
            return;
        };
        // Processes that a command left in the background go on, unless the command was ended from outside.
        if how != ExitKind::Exited(FINISHED) || self.visits.len() > MOST {
            kill_session(pid, false);
        }
        self.visits[place].ended = true;
        if !has_left_processes(pid) {
            self.visits.swap_remove(place);
        }
    }

    /// Kills the commands of root that processes of this session have begun, and those that these have begun.
    pub fn kill_below(&mut self, session: Pid) {
        let mut sessions = vec![session];
        while let Some(session) = sessions.pop() {
            let (of_it, others) =
                std::mem::take(&mut self.visits).into_iter().partition(|visit| visit.caller == session);
            let of_it: Vec<Visit> = of_it;
            self.visits = others;
            for visit in of_it {
                kill_session(visit.root, !visit.ended);
                sessions.push(visit.root);
            }
        }
    }
}

impl Agent {
    /// Callers who wait. One who is neither the ordinary user nor root is sent away.
    pub(super) fn let_visitors_in(&mut self) {
        self.visits.visits.retain(|visit| !visit.ended || has_left_processes(visit.root));
        for _ in 0..IN_ONE_ROUND {
            let Some(Ok(connection)) = self.visits.awaits(self.frozen.is_some()).map(accept) else { return };
            let _ = self.let_in(connection);
        }
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
        if uid != door.user && uid != 0 {
            return None;
        }
        let caller = getsid(Some(peer.pid)).ok()?;
        self.has_worked = true;
        self.inside.confinement.share_domain().ok()?;
        let root =
            work::spawn_root_for(connection, (uid, gid), &door.program, &self.inside.confinement).ok()?;
        self.visits.visits.push(Visit { root, caller, ended: false });
        Some(())
    }
}
