//! The values that no two VMs may have in common though their memory was the same: the kernel's random pool, and the
//! time.

use crate::failure::{During, Outcome};
use paddock_protocol::Renewal;
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::os::fd::AsRawFd;

/// The kernel's layout: the number of bits, the number of bytes, the bytes.
#[repr(C)]
struct Entropy {
    bits: libc::c_int,
    bytes: libc::c_int,
    content: [u8; ENTROPY],
}

const ENTROPY: usize = 64;
const ADD_ENTROPY: libc::Ioctl = 0x4008_5203;
const RESEED: libc::Ioctl = 0x5207;

pub fn renew(renewal: &Renewal) -> Outcome<()> {
    let pool = openat(CWD, "/dev/urandom", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .during(|| "open /dev/urandom".into())?;
    let mut entropy = Entropy { bits: 0, bytes: ENTROPY as libc::c_int, content: [0; ENTROPY] };
    for (place, byte) in entropy.content.iter_mut().zip(renewal.entropy.iter()) {
        *place = *byte;
    }
    entropy.bits = (renewal.entropy.len().min(ENTROPY) * 8) as libc::c_int;
    // SAFETY: the first reads one structure of the layout that it says, which lives across the call; the second takes
    // nothing.
    let renewed = unsafe {
        libc::ioctl(pool.as_raw_fd(), ADD_ENTROPY, &raw const entropy) == 0
            && libc::ioctl(pool.as_raw_fd(), RESEED, 0) == 0
    };
    if !renewed {
        return Err(crate::work::last_errno()).during(|| "renew the random pool".into());
    }
    set_clock(renewal.realtime_ns)
}

pub fn set_clock(realtime_ns: u64) -> Outcome<()> {
    let time = libc::timespec {
        tv_sec: (realtime_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (realtime_ns % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: reads one timespec that lives across the call.
    match unsafe { libc::clock_settime(libc::CLOCK_REALTIME, &raw const time) } {
        0 => Ok(()),
        _ => Err(crate::work::last_errno()).during(|| "set the clock".into()),
    }
}
