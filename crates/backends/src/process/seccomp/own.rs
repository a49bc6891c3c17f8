//! The system calls that the engine's own thread gives up once the sandbox stands. The thread reads messages that
//! hostile code may shape, and has no more use for the calls that would turn a mistake of ours into control of the
//! host.
//!
//! It costs nothing: the engine waits for the guest meanwhile. It even saves a little, because the memory that the kernel
//! makes for the first compiled filter of a host (2 MiB, filled byte by byte) is then there for the work's.

use super::program::Verdict;
use crate::process::seccomp::{calls, program};
use std::io::{Error, Result};

/// For this thread and its children. Precondition: it creates no further sandbox.
pub fn give_up_calls() -> Result<()> {
    load(&program::refuse(calls::ENGINE_GIVES_UP, calls::ARCHITECTURE))
}

/// Keeps only these calls, for this thread and its children: every other call does not exist (ENOSYS).
pub fn keep_only_calls(kept: &[libc::c_long]) -> Result<()> {
    let verdicts = kept.iter().map(|call| (*call as u32, Verdict::Allow)).collect();
    load(&program::compile(&verdicts, calls::ARCHITECTURE))
}

fn load(filter: &[u8]) -> Result<()> {
    let loaded = libc::sock_fprog {
        len: u16::try_from(filter.len() / size_of::<libc::sock_filter>()).map_err(Error::other)?,
        filter: filter.as_ptr().cast_mut().cast(),
    };
    // SAFETY: PR_SET_NO_NEW_PRIVS takes plain integers. The filter's bytes are laid out as the kernel's instructions,
    // whose fields it reads byte by byte, and live across the call.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const loaded)
    };
    if result == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_kept_does_not_exist() {
        let after = std::thread::spawn(|| {
            let kept =
                [libc::SYS_write, libc::SYS_exit, libc::SYS_futex, libc::SYS_munmap, libc::SYS_madvise];
            keep_only_calls(&[&kept[..], &[libc::SYS_rt_sigprocmask, libc::SYS_sigaltstack]].concat())
                .unwrap();
            // SAFETY: plain system calls on numbers.
            unsafe {
                let written = libc::write(-1, std::ptr::null(), 0);
                (written, libc::syscall(libc::SYS_getppid), *libc::__errno_location())
            }
        });
        assert_eq!(after.join().unwrap(), (-1, -1, libc::ENOSYS));
    }

    #[test]
    fn nothing_is_executed_afterwards_and_the_rest_works() {
        // The filter is the thread's, so this test keeps to one of its own.
        let after = std::thread::spawn(|| {
            give_up_calls().unwrap();
            let executed = std::process::Command::new("/bin/true").status().map_err(|error| error.kind());
            (executed.map(drop), std::fs::metadata("/").is_ok())
        });
        assert_eq!(after.join().unwrap(), (Err(std::io::ErrorKind::PermissionDenied), true));
    }
}
