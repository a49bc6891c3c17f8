//! The agent that runs as PID 1 inside every fence and does all the work there.
//!
//! - [`enter`]: builds the inside of the fence from the backend's plan, then gives up the rights it needed
//! - [`work`]: starts processes behind every layer: ids, capabilities, limits, Landlock, seccomp
//! - [`agent`]: the loop between the host's byte stream and the processes
//! - [`sentry`]: instead of all that, runs a kernel in user space with another guest behind it; [`door`]: how a later
//!   host reaches that guest
//! - [`vm`]: runs a VM with a kernel of its own, and is the VM's first process
//! - [`outbound`]: messages that wait to be sent, bounded
//! - [`files`]: a new file for the host, before any work
//! - [`sudo`]: how the ordinary user of a sandbox becomes root, where its settings allow that
//! - [`usage`]: the resources that the work used
//! - [`memory`]: the memory watch for hosts where no kernel holds the limit
//!
//! Everything else that the host wants done inside is in `paddock_guest_tools`, each time in a process of its own. The parts that both
//! stand on are in `paddock_guest_system`, and are named at the root here as modules of this crate are.
//!
//! One thread, no runtime: the whole agent stays within a megabyte and a half.

mod agent;
mod door;
mod enter;
mod files;
mod memory;
mod outbound;
mod sentry;
mod sudo;
mod usage;
mod vm;
mod work;

use paddock_guest_system::{failure, system, trees, weaken};
use std::ffi::{CStr, c_char, c_int};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// Exit codes that are seen only when no message could be sent.
const BAD_START: c_int = 70;
const ENDED: c_int = 0;

/// The first argument of a process that the runtime of a kernel in user space starts: a process that brings a
/// connection to the guest, or the guest itself. The stream to the host is its input.
const BRING: &str = "bring";
const STAND: &str = "stand";

/// The name that a VM's kernel gives to the first process that it starts.
const FIRST: &str = "/init";

/// The first argument is the number of the inherited descriptor that leads to the host; or one of the two words above.
/// The second argument of the latter is the directory with the guest's plan.
///
/// # Safety
/// `arguments` are `count` C strings that outlive the call.
pub unsafe fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    let argument = |place: c_int| {
        // SAFETY: by the caller's promise there are `count` strings, and one is looked at only if it is there.
        let text = (count > place).then(|| unsafe { CStr::from_ptr(*arguments.add(place as usize)) });
        text.and_then(|text| text.to_str().ok())
    };
    system::ignore_broken_pipes();
    if argument(0) == Some(FIRST) && rustix::process::getpid().is_init() {
        vm::run_vm_init();
    }
    match argument(0).map(|name| name.rsplit('/').next().unwrap_or(name)) {
        // SAFETY: passed on with the caller's promise.
        Some(sudo::CLIENT) => return sudo::run_client(&unsafe { words(count, arguments) }),
        // SAFETY: likewise.
        Some(work::ROOT) => return sudo::run_root(&unsafe { words(count, arguments) }),
        _ => {}
    }
    let ended = match (argument(1), argument(2)) {
        (Some(BRING), None) => door::bring(std::io::stdin().as_fd()),
        (Some(STAND), Some(plan)) => sentry::run_inner_guest(plan),
        (Some(number), None) => match number.parse::<i32>().ok().filter(|number| *number > 2) {
            // SAFETY: the backend opened this descriptor for us alone and named it on our command line; nothing else
            // in this process owns it.
            Some(number) => agent::run(unsafe { OwnedFd::from_raw_fd(number) }),
            None => return nothing_by_hand(),
        },
        _ => return nothing_by_hand(),
    };
    match ended {
        Ok(()) => ENDED,
        Err(failure) => {
            eprintln!("paddock-guest: {failure}");
            BAD_START
        }
    }
}

fn nothing_by_hand() -> c_int {
    eprintln!("paddock-guest is started by paddock, inside a sandbox; there is nothing to run by hand");
    BAD_START
}

/// The words behind the name.
///
/// # Safety
/// As of [`main`].
unsafe fn words(count: c_int, arguments: *const *const c_char) -> Vec<Vec<u8>> {
    // SAFETY: by the caller's promise there are `count` strings.
    let word = |place: c_int| unsafe { CStr::from_ptr(*arguments.add(place as usize)) };
    (1..count).map(|place| word(place).to_bytes().to_vec()).collect()
}
