//! Starts the process of root behind a `sudo`: a copy of this process that gives up everything, as before a command of root, and then
//! executes the sandbox's `sudo` under its other name, with the caller's connection.
//!
//! It is a fork and no vfork: the guest does not wait for a process whose time the code inside may use up.

use crate::failure::{During, Outcome};
use crate::work::Confinement;
use crate::work::spawn::last_errno;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

/// The name under which the sandbox's `sudo` is the process of root.
pub const ROOT: &str = "paddock-become-root";

/// How that process ends if its command has ended by itself. After any other end the guest kills what is left.
pub const FINISHED: i32 = 0;

/// `caller`: its ids. The connection stays open in the new process alone.
pub fn spawn_root_for(
    connection: OwnedFd,
    caller: (u32, u32),
    program: &str,
    confinement: &Confinement,
) -> Outcome<Pid> {
    let text = |text: String| CString::new(text).map_err(std::io::Error::other);
    let argv =
        [ROOT.to_string(), connection.as_raw_fd().to_string(), caller.0.to_string(), caller.1.to_string()];
    let argv = argv.into_iter().map(text).collect::<std::io::Result<Vec<_>>>();
    let argv = argv.during(|| "name the process of root".into())?;
    let program = text(program.into()).during(|| "name sudo".into())?;
    // SAFETY: this process has one thread; the child runs on a copy of its memory and never returns from here.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let _ = run(&connection, &program, &argv, confinement);
        // SAFETY: ends the child at once, without the exit handlers of its parent.
        unsafe { libc::_exit(127) }
    }
    Pid::from_raw(pid.max(0)).ok_or_else(last_errno).during(|| "fork".into())
}

/// In the child. Returns only when something failed; the caller sees that its connection is closed.
fn run(connection: &OwnedFd, program: &CString, argv: &[CString], confinement: &Confinement) -> Outcome<()> {
    confinement.join_cgroups()?;
    rustix::process::setsid().during(|| "start a session".into())?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .during(|| "open /dev/null".into())?;
    rustix::stdio::dup2_stdin(&nothing).during(|| "set stdin".into())?;
    rustix::stdio::dup2_stdout(&nothing).during(|| "set stdout".into())?;
    rustix::stdio::dup2_stderr(&nothing).during(|| "set stderr".into())?;
    crate::system::close_on_exec_from(3).during(|| "mark descriptors to be closed".into())?;
    rustix::io::fcntl_setfd(connection, rustix::io::FdFlags::empty())
        .during(|| "keep the connection".into())?;
    crate::system::reset_signals();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    confinement.put_on(0, 0)?;
    rustix::process::chdir("/").during(|| "go to /".into())?;
    let pointers = argv.iter().map(|word| word.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let environment = [std::ptr::null::<libc::c_char>()];
    // SAFETY: all strings are NUL-terminated and both arrays end with a null pointer; they outlive the call.
    unsafe { libc::execve(program.as_ptr(), pointers.as_ptr(), environment.as_ptr()) };
    Err(last_errno()).during(|| "execute sudo".into())
}
