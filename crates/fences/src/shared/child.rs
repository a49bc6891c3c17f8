//! A process of ours that is killed and collected when it is dropped.

use std::io::Result;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Killed and collected when dropped, so that no path of an error leaves it behind.
pub struct Child {
    pidfd: OwnedFd,
    ended: bool,
    /// The part of our memory that it uses until it executes.
    _memory: Option<Box<dyn Send + Sync>>,
}

impl Child {
    /// A child that was just cloned, and uses `memory` until it executes.
    pub fn new(pidfd: OwnedFd, memory: Option<Box<dyn Send + Sync>>) -> Child {
        Child { pidfd, ended: false, _memory: memory }
    }

    /// The guest of a sandbox that another engine made, unless it has ended.
    pub fn found(pid: u32, started: u64) -> Option<Child> {
        let number = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
        let pidfd = rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).ok()?;
        // Looked at after the descriptor is held: from here on the number is not given to another.
        (super::slot::start_time(pid) == Some(started)).then_some(())?;
        Some(Child { pidfd, ended: false, _memory: None })
    }

    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// The number that it has here, unless it has ended.
    pub fn number(&self) -> Option<u32> {
        let path = format!("/proc/self/fdinfo/{}", self.pidfd.as_raw_fd());
        let info = std::fs::read_to_string(path).ok()?;
        info.lines().find_map(|line| line.strip_prefix("Pid:"))?.trim().parse().ok()
    }

    /// Precondition: the child has executed the guest, and uses nothing of our memory any more.
    pub fn has_executed(&mut self) {
        self._memory = None;
    }

    /// Lets go of it, alive.
    pub fn leave(mut self) {
        self.ended = true;
    }

    /// Precondition of its promise: [`Child::wait`] follows.
    pub fn kill(&mut self) -> Result<()> {
        if !self.ended {
            // A process that the kernel does not find any more has ended.
            match rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL) {
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// True if it has ended by then; it must still be waited for.
    pub fn ends_within(&self, patience: std::time::Duration) -> Result<bool> {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let time = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
        let ended =
            rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&time)))?;
        Ok(ended > 0)
    }

    /// Kills it unless it has ended by itself within a moment.
    pub fn end_soon(&mut self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
        let ended = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&moment)).unwrap_or(0);
        if ended == 0 {
            let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
        }
    }

    /// The exit code of a child that has ended, if it ended by itself.
    pub fn exit_code(&mut self) -> Option<i32> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let status = waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED).ok()??;
        self.ended = true;
        status.exit_status()
    }

    /// Waits for the end. The kernel ends everything else in the namespace before it lets PID 1 be collected.
    pub fn wait(&mut self) -> Result<()> {
        use rustix::io::Errno;
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        if self.ended {
            return Ok(());
        }
        match waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
            // The child of another process: it is not ours to collect.
            Err(Errno::CHILD) => while rustix::io::retry_on_intr(|| readable(&self.pidfd))? == 0 {},
            collected => drop(collected?),
        }
        self.ended = true;
        Ok(())
    }
}

fn readable(descriptor: &OwnedFd) -> rustix::io::Result<usize> {
    use rustix::event::{PollFd, PollFlags, poll};
    poll(&mut [PollFd::new(descriptor, PollFlags::IN)], None)
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.kill();
        let _ = self.wait();
    }
}
