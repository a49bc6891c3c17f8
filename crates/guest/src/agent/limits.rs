//! The limits that the guest holds itself: deadlines always, and memory where no kernel does; and the memory kills of
//! the VM's own kernel.

use super::exec::Exec;
use super::{Agent, is_alone};
use crate::usage;
use paddock_protocol::{FromGuest, Kills};
use std::time::{Duration, Instant};

impl Agent {
    /// The limits that the guest holds itself: deadlines always, memory where the kernel does not. `false` when its
    /// own time is over and no other sandbox nests in it.
    pub(super) fn hold_limits(&mut self) -> bool {
        let connected = self.host.control.is_some();
        if self.lifetime.is_over(connected) {
            if !self.shelters {
                return false;
            }
            self.hold();
        }
        if self.is_for_others() && !connected {
            if is_alone() {
                return false;
            }
            if self.holds {
                // No engine ends the cgroup of a sandbox whose time ended without one. Work that outran the first look ends here.
                crate::work::kill_all_but_nested();
            }
        }
        let now = Instant::now();
        let frozen = self.frozen.is_some();
        let passed = |exec: &Exec| !frozen && exec.deadline.is_some_and(|deadline| deadline <= now);
        if self.execs.iter().any(|exec| passed(exec) && exec.kills == Kills::Everything) {
            self.end_all_work();
        }
        let mut killed = Vec::new();
        for exec in self.execs.iter_mut().filter(|exec| passed(exec)) {
            exec.pass_deadline();
            if exec.kills == Kills::Exec {
                killed.push(exec.number);
            }
        }
        for exec in self.execs.iter_mut().filter(|exec| !frozen && exec.alarm.is_due(now)) {
            killed.extend(exec.ring().then_some(exec.number));
        }
        killed.into_iter().for_each(|exec| self.kill(exec));
        let Some(watch) = self.watch.filter(|_| now >= self.next_look && !self.execs.is_empty()) else {
            return true;
        };
        self.next_look = now + Duration::from_millis(watch.interval_ms);
        let bytes = match watch.own_kernel {
            true => usage::memory_of_own_kernel(&self.inside.counters),
            false => self.census.count(&self.inside.counters, watch.limit_bytes),
        };
        self.most_memory = self.most_memory.max(bytes);
        if bytes > watch.limit_bytes {
            self.end_all_work();
            self.host.outbound.message(&FromGuest::MemoryExceeded { bytes });
        }
        true
    }

    /// Told before the ends that it explains.
    pub(super) fn look_for_memory_kills(&mut self) {
        let Some(events) = &self.inside.memory_events else { return };
        let kills = usage::memory_kills(events);
        if kills > std::mem::replace(&mut self.memory_kills, kills) {
            self.host.outbound.message(&FromGuest::MemoryExceeded { bytes: 0 });
        }
    }
}
