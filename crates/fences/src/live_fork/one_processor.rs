//! Tracer and tracee on one processor: they run in turns, a hundred times and more, and waking another processor takes
//! longer than all their steps.

/// The processors that a process may run on, as it was before.
pub struct OneProcessor {
    pid: i32,
    before: libc::cpu_set_t,
}

impl OneProcessor {
    /// Binds this thread to the processor that it runs on, until it is dropped.
    pub fn bind_this() -> Option<OneProcessor> {
        OneProcessor::bind(0)
    }

    /// Binds another process to the processor of this thread.
    ///
    /// Precondition: this thread is bound.
    pub fn bind(pid: i32) -> Option<OneProcessor> {
        // SAFETY: a set is plain bits, for which zero is a value; the kernel reads and writes exactly its size.
        unsafe {
            let mut before: libc::cpu_set_t = std::mem::zeroed();
            let size = size_of::<libc::cpu_set_t>();
            let processor = usize::try_from(libc::sched_getcpu()).ok()?;
            if processor >= 8 * size || libc::sched_getaffinity(pid, size, &raw mut before) != 0 {
                return None;
            }
            let mut only: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut only);
            (libc::sched_setaffinity(pid, size, &raw const only) == 0).then_some(OneProcessor { pid, before })
        }
    }

    /// Lets another process run where this one may.
    pub fn release(&self, pid: i32) {
        // SAFETY: as above. A process that has ended need not be released.
        unsafe { libc::sched_setaffinity(pid, size_of::<libc::cpu_set_t>(), &raw const self.before) };
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        self.release(self.pid);
    }
}
