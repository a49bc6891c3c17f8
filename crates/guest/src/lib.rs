//! The agent that runs as PID 1 inside every fence and does all the work there.
//!
//! - [`enter`]: builds the inside of the fence from the backend's plan, then gives up the rights it needed
//! - [`work`]: starts processes behind every layer: ids, capabilities, limits, Landlock, seccomp
//! - [`agent`]: the loop between the host's byte stream and the processes
//! - [`outbound`]: what waits to be sent, bounded
//! - [`files`]: a new file for the host, before any work
//! - [`tools`]: everything else that the host wants done inside, each time in a process of its own
//! - [`usage`]: what the work used, and the memory watch for machines without a kernel limit
//! - [`system`]: the few system calls that no crate wraps
//! - [`weaken`]: layers that a test takes away; nothing in any other build
//!
//! One thread, no runtime: the whole agent stays within a megabyte and a half.

mod agent;
mod enter;
mod failure;
mod files;
mod outbound;
mod system;
mod tools;
mod trees;
mod usage;
mod weaken;
mod work;

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{FromRawFd, OwnedFd};

/// Exit codes that are seen only when no message could be sent.
const BAD_START: c_int = 70;
const ENDED: c_int = 0;

/// The first argument is the number of the inherited descriptor that leads to the host.
///
/// # Safety
/// `arguments` are `count` C strings that outlive the call.
pub unsafe fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    // SAFETY: by the caller's promise there are `count` strings, and the second is looked at only if it is there.
    let first = (count > 1).then(|| unsafe { CStr::from_ptr(*arguments.add(1)) });
    let number = first.and_then(|text| text.to_str().ok()?.parse::<i32>().ok()).filter(|n| *n > 2);
    let Some(number) = number else {
        eprintln!("paddock-guest is started by paddock, inside a sandbox; there is nothing to run by hand");
        return BAD_START;
    };
    system::ignore_broken_pipes();
    // SAFETY: the backend opened this descriptor for us alone and named it on our command line; nothing else
    // in this process owns it.
    let control = unsafe { OwnedFd::from_raw_fd(number) };
    match agent::run(control) {
        Ok(()) => ENDED,
        Err(failure) => {
            eprintln!("paddock-guest: {failure}");
            BAD_START
        }
    }
}
