//! What depends on the processor: the other calling conventions of its kernel, and calls only it has.

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

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::super::system::call;
    use crate::attack::{Finding, Outcome};

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
}
