//! H33 to H41: calls and requests whose danger is in their arguments.

use crate::attack::{Attack, Finding, Outcome};
use crate::probe::system::{call, check, wait};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;

/// Never mapped: the kernel answers EFAULT when it looks.
const BAD: i64 = -4096;
const PR_SET_MM: i64 = 35;
const PR_SET_MM_BRK: i64 = 7;

pub const ATTACKS: &[Attack] = &[
    Attack::plain("H33-chosen-pid", "clone3 with a process number of one's own choice", chosen_pid),
    Attack::call("H34-clone3-bad", libc::SYS_clone3, [BAD, 88, 0, 0, 0, 0]),
    // The host has 65,536 of these for all users together.
    Attack::call("H35-io-setup", libc::SYS_io_setup, [1, BAD, 0, 0, 0, 0]),
    Attack::call("H36-memory-map", libc::SYS_prctl, [PR_SET_MM, PR_SET_MM_BRK, BAD, 0, 0, 0]),
    Attack::plain("H37-deadline", "SCHED_DEADLINE", deadline),
    Attack::plain("H38-line-discipline", "another line discipline on a terminal", line_discipline),
    Attack::plain("H39-new-address", "an address on an interface, by netlink", new_address),
    Attack::text("H40-vhost", "the kernel's own virtual machines", device, "/dev/vhost-net"),
    Attack::text("H41-userfault-device", "page faults of one's own handling", device, "/dev/userfaultfd"),
    Attack::plain("H42-core-files", "core files switched on", core_files),
];

fn chosen_pid() -> Finding {
    let wanted = [31_000i32];
    let mut arguments = [0u64; 10];
    arguments[4] = libc::SIGCHLD as u64;
    arguments[8] = wanted.as_ptr() as u64;
    arguments[9] = 1;
    match call(libc::SYS_clone3, [arguments.as_ptr() as i64, 80, 0, 0, 0, 0]) {
        // SAFETY: the child of a raw clone without shared memory is a plain copy.
        Ok(0) => unsafe { libc::_exit(0) },
        Ok(pid) => {
            let _ = wait(pid as i32);
            Finding::new(Outcome::Done, format!("process {pid}"))
        }
        Err(error) => Finding::of(Err::<(), _>(error), "clone3"),
    }
}

fn deadline() -> Finding {
    // struct sched_attr: size, policy, flags, nice, priority, runtime, deadline, period.
    let mut attributes = [0u64; 6];
    attributes[0] = 48 | 6 << 32;
    (attributes[3], attributes[4], attributes[5]) = (1_000_000, 10_000_000, 10_000_000);
    let set = call(libc::SYS_sched_setattr, [0, attributes.as_ptr() as i64, 0, 0, 0, 0]);
    let none = 0i32;
    let _ = call(libc::SYS_sched_setscheduler, [0, 0, &raw const none as i64, 0, 0, 0]);
    Finding::of(set, "SCHED_DEADLINE")
}

/// Some of them are drivers that a plain user could have the kernel load.
fn line_discipline() -> Finding {
    // SAFETY: takes no memory.
    let terminal = check(i64::from(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) }));
    match terminal {
        Ok(fd) => Finding::reached(call(libc::SYS_ioctl, [fd, 0x5423, BAD, 0, 0, 0]), "TIOCSETD"),
        Err(error) => Finding::new(Outcome::Error, format!("no terminal to try on: {error}")),
    }
}

/// RTM_NEWADDR of 192.0.2.7/32 on interface 1; the kernel's answer is an error number, 0 when it was done.
fn new_address() -> Finding {
    let asked = || -> io::Result<()> {
        let (family, kind) = (i64::from(libc::AF_NETLINK), i64::from(libc::SOCK_RAW));
        let socket = call(libc::SYS_socket, [family, kind, 0, 0, 0, 0])?;
        let mut request = Vec::new();
        request.extend_from_slice(&40u32.to_ne_bytes());
        request.extend_from_slice(&20u16.to_ne_bytes()); // RTM_NEWADDR
        request.extend_from_slice(&0x405u16.to_ne_bytes()); // request, acknowledge, create
        request.extend_from_slice(&[0; 8]);
        request.extend_from_slice(&[libc::AF_INET as u8, 32, 0, 0]);
        request.extend_from_slice(&1u32.to_ne_bytes());
        for attribute in [2u16, 1] {
            request.extend_from_slice(&8u16.to_ne_bytes());
            request.extend_from_slice(&attribute.to_ne_bytes());
            request.extend_from_slice(&[192, 0, 2, 7]);
        }
        call(libc::SYS_sendto, [socket, request.as_ptr() as i64, request.len() as i64, 0, 0, 0])?;
        let mut answer = [0u8; 256];
        let length = call(libc::SYS_recvfrom, [socket, answer.as_mut_ptr() as i64, 256, 0, 0, 0])?;
        let number = answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_ne_bytes);
        match (length, number) {
            (20.., 0) => Ok(()),
            (20.., errno) => Err(io::Error::from_raw_os_error(-errno)),
            _ => Err(io::Error::other("no answer")),
        }
    };
    Finding::of(asked(), "RTM_NEWADDR")
}

fn device(path: &'static str) -> Finding {
    Finding::of(OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path), path)
}

/// If the host's core_pattern is a pipe, a crash would start a program of the host's root.
fn core_files() -> Finding {
    let unlimited = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
    let kind = i64::from(libc::RLIMIT_CORE);
    Finding::of(call(libc::SYS_prlimit64, [0, kind, &raw const unlimited as i64, 0, 0, 0]), "RLIMIT_CORE")
}
