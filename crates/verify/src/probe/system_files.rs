//! C20: how the host and other sandboxes use programs, settings and devices that all of them have. The host holds a lock on each
//! of these files for as long as the suite runs, and opens them again and again ([`crate::host`]).

use super::system::{call, text};
use crate::attack::{Attack, Finding, Outcome};
use crate::host::{DEVICES_OF_ALL, USED_BY_ALL};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

pub const ATTACKS: &[Attack] = &[
    Attack::plain("C20-watch-system", "opens of the host's programs, seen by inotify", watch).on_host(),
    Attack::plain("C20-lock-system", "a lock of the host's on a program", lock).on_host(),
    Attack::plain("C20-watch-devices", "opens of /dev/null by the host, seen by inotify", watch_devices)
        .on_host(),
    Attack::plain("C20-lock-devices", "a lock of the host's on a device", lock_devices).on_host(),
];

/// Longest wait for an event: the host makes one every 20 milliseconds.
const EVENT_TIMEOUT: Duration = Duration::from_secs(2);

fn watch() -> Finding {
    watch_all(&USED_BY_ALL)
}

fn watch_devices() -> Finding {
    watch_all(&DEVICES_OF_ALL)
}

fn lock() -> Finding {
    lock_all(&USED_BY_ALL)
}

fn lock_devices() -> Finding {
    lock_all(&DEVICES_OF_ALL)
}

fn watch_all(files: &[&str]) -> Finding {
    let flags = i64::from(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
    let watcher = match call(libc::SYS_inotify_init1, [flags, 0, 0, 0, 0, 0]) {
        Ok(watcher) => watcher,
        Err(error) => return Finding::of(Err::<(), _>(error), "inotify_init1"),
    };
    let mut watched = 0;
    for path in files {
        let (path, events) = (text(path), i64::from(libc::IN_OPEN));
        let added = call(libc::SYS_inotify_add_watch, [watcher, path.as_ptr() as i64, events, 0, 0, 0]);
        watched += u32::from(added.is_ok());
    }
    if watched == 0 {
        return Finding::new(Outcome::Hidden, "none of the files is here");
    }
    let until = Instant::now() + EVENT_TIMEOUT;
    let mut event = [0u8; 4096];
    while Instant::now() < until {
        if call(libc::SYS_read, [watcher, event.as_mut_ptr() as i64, event.len() as i64, 0, 0, 0]).is_ok() {
            return Finding::new(Outcome::Done, "somebody outside opened one of them");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Finding::new(Outcome::Hidden, format!("no event of {watched} files"))
}

fn lock_all(files: &[&str]) -> Finding {
    let mut locked = 0;
    for path in files {
        let Ok(file) = File::open(path) else { continue };
        // SAFETY: the descriptor is open for as long as the file.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            locked += 1;
            continue;
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() == Some(libc::EWOULDBLOCK) {
            return Finding::new(Outcome::Done, format!("somebody outside holds a lock on {path}"));
        }
        // Devices of another kernel may take no locks at all.
        if error.raw_os_error() != Some(libc::ENOLCK) {
            return Finding::of(Err::<(), _>(error), path);
        }
    }
    Finding::new(Outcome::Hidden, format!("{locked} files, no lock of others"))
}
