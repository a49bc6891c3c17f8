//! The parts that depend on the processor: the other calling conventions of its kernel, and calls only it has.

use crate::attack::Attack;

#[cfg(target_arch = "x86_64")]
pub const ATTACKS: &[Attack] = &[
    Attack::plain("C21-int80", "the 32-bit door: int 0x80 getpid", x86_64::int80),
    Attack::plain("C21-x32", "the x32 door: getpid with bit 30", x86_64::x32),
    Attack::call("C13-iopl", libc::SYS_iopl, [99, 0, 0, 0, 0, 0]),
    Attack::call("C13-ioperm", libc::SYS_ioperm, [-1, 1, 1, 0, 0, 0]),
    Attack::call("C14-modify-ldt", libc::SYS_modify_ldt, [0, -4096, 16, 0, 0, 0]),
];

#[cfg(not(target_arch = "x86_64"))]
pub const ATTACKS: &[Attack] = &[];

/// Of group H.
#[cfg(target_arch = "x86_64")]
pub const OWN_ATTACKS: &[Attack] =
    &[Attack::plain("H52-traced-call", "a call that a tracer changes on its way in", x86_64::traced_call)];

#[cfg(not(target_arch = "x86_64"))]
pub const OWN_ATTACKS: &[Attack] = &[];

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::super::system::{End, call, fork, wait};
    use crate::attack::{Finding, Outcome};
    use std::io;

    const GETPID_32: i64 = 20;
    const X32_BIT: i64 = 0x4000_0000;

    pub fn int80() -> Finding {
        let mut result = GETPID_32;
        // SAFETY: getpid touches no memory; the 32-bit entry may clobber r8 to r11.
        unsafe {
            std::arch::asm!("int 0x80", inlateout("rax") result,
                lateout("r8") _, lateout("r9") _, lateout("r10") _, lateout("r11") _);
        }
        match result as i32 {
            pid if pid as u32 == std::process::id() => Finding::new(Outcome::Done, "answered"),
            error => Finding::of(Err::<(), _>(std::io::Error::from_raw_os_error(-error)), "int 0x80"),
        }
    }

    pub fn x32() -> Finding {
        Finding::of(call(X32_BIT | libc::SYS_getpid, [0; 6]), "x32 getpid")
    }

    /// The child asks for its number; before the kernel looks, its tracer makes unshare of it. Old kernels asked
    /// the filter first.
    pub fn traced_call() -> Finding {
        let child = fork(|| {
            // SAFETY: takes no memory that is used; stops until the tracer has seen it.
            unsafe {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::raise(libc::SIGSTOP);
            }
            let answered = call(libc::SYS_getpgid, [i64::from(libc::CLONE_NEWUTS), 0, 0, 0, 0, 0]);
            answered.map_or_else(|error| error.raw_os_error().unwrap_or(255), |_| 0)
        });
        let child = match child {
            Ok(child) => child,
            Err(error) => return Finding::new(Outcome::Error, format!("fork: {error}")),
        };
        rewrite_first(child, libc::SYS_getpgid as u64, libc::SYS_unshare as u64);
        match wait(child) {
            Ok(End::Exited(0)) => Finding::new(Outcome::Done, "unshare went through"),
            Ok(End::Exited(errno)) => {
                Finding::of(Err::<(), _>(io::Error::from_raw_os_error(errno)), "unshare")
            }
            _ => Finding::new(Outcome::Error, "the child died"),
        }
    }

    /// Lets the child run from call to call until it makes `from`, which becomes `to`; then lets it go.
    fn rewrite_first(child: i32, from: u64, to: u64) {
        let step = |request: libc::c_uint, data: i64| {
            let none = std::ptr::null_mut::<libc::c_void>();
            // SAFETY: the data of these requests is a number, or memory that outlives the call.
            unsafe { libc::ptrace(request, child, none, data) }
        };
        let mut status = 0;
        for _ in 0..64 {
            // SAFETY: the status outlives the call.
            unsafe { libc::waitpid(child, &raw mut status, libc::__WALL) };
            if !libc::WIFSTOPPED(status) {
                return;
            }
            // SAFETY: an all-zero set of registers is valid.
            let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
            step(libc::PTRACE_GETREGS, &raw mut registers as i64);
            if registers.orig_rax == from {
                registers.orig_rax = to;
                step(libc::PTRACE_SETREGS, &raw mut registers as i64);
                step(libc::PTRACE_DETACH, 0);
                return;
            }
            step(libc::PTRACE_SYSCALL, 0);
        }
    }
}
