//! The guest agent's executable. Everything is in the library.
//!
//! Entered as a C program: the Rust runtime's own start-up reads /proc/self/maps and sets up handlers that PID 1
//! of a sandbox has no use for.
#![no_main]

use std::ffi::{c_char, c_int};

/// # Safety
/// Called once, by the C runtime, with the arguments of the process.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: passed on as the C runtime gave them.
    unsafe { paddock_guest::main(count, arguments) }
}
