//! The `paddock` executable. Everything is in the library.
//!
//! Entered as a C program: the Rust runtime's own start-up reads /proc/self/maps and sets up a handler for
//! stack overflows, which costs a run more than the parsing of its arguments.
#![no_main]

use std::ffi::{c_char, c_int};

/// Called once, by the C runtime. The arguments are taken from the standard library, which keeps them.
#[unsafe(no_mangle)]
pub extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    paddock_cli::main()
}
