//! The inside halves of the floods: resources that the host has once for all users, or a user once for all its
//! processes.

use crate::attack::{Finding, Outcome};
use crate::probe::resources::counted;
use crate::probe::system::{End, call, check, fork, wait};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::Duration;

/// Descriptors are not closed before the end: their resources are held until then.
fn hold(wanted: u64, mut take: impl FnMut() -> io::Result<i64>) -> Finding {
    for made in 0..wanted {
        if let Err(error) = take() {
            return counted(made, wanted, Some(error));
        }
    }
    counted(wanted, wanted, None)
}

pub fn inotify(wanted: u64) -> Finding {
    hold(wanted, || call(libc::SYS_inotify_init1, [0; 6]))
}

pub fn terminals(wanted: u64) -> Finding {
    // SAFETY: takes no memory.
    hold(wanted, || check(i64::from(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) })))
}

/// Each timer has a place in the queue of signals, which all of a user's processes share.
pub fn timers(wanted: u64) -> Finding {
    hold(wanted, || {
        let mut timer = 0i32;
        call(libc::SYS_timer_create, [1, 0, &raw mut timer as i64, 0, 0, 0])
    })
}

fn pair_of(make: i64, arguments: [i64; 3]) -> io::Result<(i64, i64)> {
    let mut pair = [0i32; 2];
    let at = pair.as_mut_ptr() as i64;
    match make {
        libc::SYS_pipe2 => call(make, [at, i64::from(libc::O_NONBLOCK), 0, 0, 0, 0])?,
        _ => call(make, [arguments[0], arguments[1], arguments[2], at, 0, 0])?,
    };
    Ok((i64::from(pair[0]), i64::from(pair[1])))
}

/// Memory that no process has mapped: bytes that wait in pipes or sockets. Held for a moment, for a watcher to see.
fn in_flight(mebibytes: u64, make: i64, arguments: [i64; 3]) -> Finding {
    let block = vec![1u8; 64 << 10];
    let wanted = mebibytes << 20;
    let mut held = 0;
    while held < wanted {
        let (_, writer) = match pair_of(make, arguments) {
            Ok(pair) => pair,
            Err(error) => return counted(held >> 20, mebibytes, Some(error)),
        };
        let before = held;
        while let Ok(written) =
            call(libc::SYS_write, [writer, block.as_ptr() as i64, block.len() as i64, 0, 0, 0])
        {
            held += written as u64;
        }
        if held == before {
            return counted(held >> 20, mebibytes, Some(io::Error::last_os_error()));
        }
    }
    std::thread::sleep(Duration::from_millis(1500));
    counted(mebibytes, mebibytes, None)
}

pub fn pipes(mebibytes: u64) -> Finding {
    in_flight(mebibytes, libc::SYS_pipe2, [0; 3])
}

pub fn sockets(mebibytes: u64) -> Finding {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK;
    in_flight(mebibytes, libc::SYS_socketpair, [i64::from(libc::AF_UNIX), i64::from(kind), 0])
}

/// Pages of one file mapped one by one: each is a structure of the kernel.
pub fn mappings(wanted: u64) -> Finding {
    let Ok(file) = File::open("/proc/self/exe") else {
        return Finding::new(Outcome::Error, "no program of one's own");
    };
    let fd = i64::from(std::os::fd::AsRawFd::as_raw_fd(&file));
    let (read, private) = (i64::from(libc::PROT_READ), i64::from(libc::MAP_PRIVATE));
    hold(wanted, || call(libc::SYS_mmap, [0, 4096, read, private, fd, 0]))
}

pub fn symlinks(place: &str, wanted: u64) -> Finding {
    let long = "x".repeat(1000);
    for made in 0..wanted {
        if let Err(error) = symlink(&long, format!("{place}/probe-link-{made}")) {
            return counted(made, wanted, Some(error));
        }
    }
    counted(wanted, wanted, None)
}

/// Names that a careless reader takes for several lines, for an end, for another directory.
pub fn odd_names(place: &str) -> Finding {
    let names: [&[u8]; 6] =
        [b"a\nb", b"\x1b[2J", b"\xff\xfe", b"-rf", b"{\"attack\":\"x\"}", b"\xe2\x80\xae.exe"];
    for name in names {
        let path = std::path::Path::new(place).join(OsStr::from_bytes(name));
        if let Err(error) = fs::write(&path, "odd") {
            return Finding::of(Err::<(), _>(error), "odd name");
        }
        // Said aloud too: the report has to keep its form.
        let _ = io::stdout().write_all(name).and_then(|()| io::stdout().write_all(b"\n"));
    }
    Finding::new(Outcome::Done, format!("{} names", names.len()))
}

/// Short lives, one after the other, as fast as they come.
pub fn short_lives(wanted: u64) -> Finding {
    for made in 0..wanted {
        match fork(|| 0).and_then(wait) {
            Ok(End::Exited(0)) => {}
            Ok(_) => return counted(made, wanted, Some(io::Error::other("a child was killed"))),
            Err(error) => return counted(made, wanted, Some(error)),
        }
    }
    counted(wanted, wanted, None)
}
