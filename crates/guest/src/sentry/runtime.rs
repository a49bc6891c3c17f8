//! Calls of the runtime (`runsc`). Each is a process of its own that joins the work's cgroups first. So the limits also
//! hold the kernel in user space, which the call leaves running.

use crate::failure::{During, Failure, Outcome};
use crate::system;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use rustix::thread::CapabilitiesSecureBits;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

pub struct Runtime {
    pub executable: OwnedFd,
    pub arguments: Vec<String>,
    pub cgroups: Vec<OwnedFd>,
    /// Set if no cgroup limits the number of threads.
    pub limit_threads: Option<u64>,
}

/// The standard streams of a call.
pub struct Streams<'a> {
    pub input: BorrowedFd<'a>,
    pub output: BorrowedFd<'a>,
    pub errors: BorrowedFd<'a>,
}

impl Runtime {
    pub fn call(&self, command: &[&str], streams: &Streams<'_>) -> Outcome<Pid> {
        let words = ["runsc"]
            .into_iter()
            .chain(self.arguments.iter().map(String::as_str))
            .chain(command.iter().copied());
        let argv = words
            .map(|word| {
                CString::new(word)
                    .map_err(|_| Failure { step: "an argument has a NUL".into(), errno: Errno::INVAL })
            })
            .collect::<Outcome<Vec<CString>>>()?;
        let pointers: Vec<_> = argv.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect();
        // SAFETY: this process has one thread; the child runs on a copy of its memory and never returns from here.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let _ = self.prepare(streams);
            let env = [c"PATH=/".as_ptr(), std::ptr::null()];
            // SAFETY: strings and arrays end as they should and outlive the call, which returns only on failure; then
            // the child ends at once, without the exit handlers of its parent.
            unsafe {
                let executable = self.executable.as_raw_fd();
                let flags = libc::AT_EMPTY_PATH;
                libc::syscall(
                    libc::SYS_execveat,
                    executable,
                    c"".as_ptr(),
                    pointers.as_ptr(),
                    env.as_ptr(),
                    flags,
                );
                libc::_exit(127)
            }
        }
        Pid::from_raw(pid.max(0)).ok_or_else(crate::work::last_errno).during(|| "fork".into())
    }

    /// Runs in the child. A failure here shows as a call that fails. Without the limits nothing is run.
    fn prepare(&self, streams: &Streams<'_>) -> Outcome<()> {
        if self.cgroups.iter().any(|entrance| rustix::io::write(entrance, b"0").is_err())
            || self.limit_threads.is_some_and(|most| set_thread_limit(most).is_err())
        {
            // SAFETY: ends the child at once, without the exit handlers of its parent.
            unsafe { libc::_exit(126) }
        }
        let _ = rustix::process::setsid();
        rustix::stdio::dup2_stdin(streams.input).during(|| "set stdin".into())?;
        rustix::stdio::dup2_stdout(streams.output).during(|| "set stdout".into())?;
        rustix::stdio::dup2_stderr(streams.errors).during(|| "set stderr".into())?;
        system::close_on_exec_from(3).during(|| "mark descriptors to be closed".into())?;
        system::reset_signals();
        // The runtime is root of this user namespace, and takes its rights from that.
        rustix::thread::set_capabilities_secure_bits(CapabilitiesSecureBits::empty())
            .during(|| "reset the secure bits".into())
    }
}

/// The kernel counts them by the id that they have, which is this sandbox's alone.
fn set_thread_limit(most: u64) -> rustix::io::Result<()> {
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Nproc, limit)
}
