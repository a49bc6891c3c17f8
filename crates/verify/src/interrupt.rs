//! Ctrl-C and SIGTERM end the suite as an error does, so that its processes and canaries are taken away.

use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

pub fn watch() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let handler = note as extern "C" fn(libc::c_int);
        // SAFETY: the handler only stores to an atomic, which is safe at any point of the program.
        unsafe { libc::signal(signal, handler as libc::sighandler_t) };
    }
}

pub fn noticed() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

pub fn check() -> Result<()> {
    if noticed() {
        bail!("interrupted");
    }
    Ok(())
}

extern "C" fn note(_signal: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}
