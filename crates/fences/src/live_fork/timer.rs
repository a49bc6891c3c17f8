//! A signal in every second to the tracing thread. The thread can then wait for its tracee without polling, and still
//! notices that its time is over.

use std::io::{Error, Result};
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::OnceLock;

const SECONDS: libc::time_t = 1;

/// A timer that runs until this is dropped.
pub struct Timer(libc::timer_t);

impl Timer {
    /// A timer for this thread.
    pub fn of_this() -> Result<Timer> {
        static HEARD: OnceLock<std::result::Result<(), i32>> = OnceLock::new();
        HEARD.get_or_init(hear).map_err(Error::from_raw_os_error)?;
        // SAFETY: both structures are plain integers, for which zero is a value, and live across the calls; the signal has a
        // handler, and goes to a thread of this process: to this one.
        unsafe {
            let mut event: libc::sigevent = zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signal();
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = null_mut();
            if libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) != 0 {
                return Err(Error::last_os_error());
            }
            let own = Timer(timer);
            let every = libc::timespec { tv_sec: SECONDS, tv_nsec: 0 };
            let times = libc::itimerspec { it_interval: every, it_value: every };
            match libc::timer_settime(own.0, 0, &raw const times, null_mut()) {
                0 => Ok(own),
                _ => Err(Error::last_os_error()),
            }
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by `of_this`, and deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// A signal that no other part of the engine uses.
fn signal() -> i32 {
    libc::SIGRTMIN() + 7
}

/// The handler does nothing; the signal only interrupts the call that waits.
fn hear() -> std::result::Result<(), i32> {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the handler does nothing, which it may do at any moment; a structure as above.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        let done = libc::sigaction(signal(), &raw const action, null_mut()) == 0;
        if done { Ok(()) } else { Err(Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_interrupted() {
        let _timer = Timer::of_this().unwrap();
        let (silent, _kept) = rustix::pipe::pipe().unwrap();
        let read = rustix::io::read(&silent, &mut [0]);
        assert_eq!(read, Err(rustix::io::Errno::INTR));
    }
}
