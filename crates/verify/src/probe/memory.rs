//! E2: memory of every kind that a limit has to count. Each part fills it and then holds it, so that a watcher has time to see
//! it too; outside, where nothing watches, it is let go at once.

use super::resources::counted;
use super::system::{End, check, fork, text, wait};
use crate::attack::{Finding, Outcome};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// In the place of a directory: the part need not wait for a watcher.
pub const AT_ONCE: &str = "at-once";

const MEBIBYTE: usize = 1 << 20;

fn hold(place: &str) {
    if place != AT_ONCE {
        std::thread::sleep(Duration::from_millis(1500));
    }
}

/// Touched page by page and then held, so that a watcher has time to see it too.
pub fn memory(mebibytes: u64) -> Finding {
    let mut held = Vec::new();
    for _ in 0..mebibytes {
        held.push(std::hint::black_box(vec![1u8; 1 << 20]));
    }
    std::thread::sleep(Duration::from_millis(1500));
    Finding::new(Outcome::Done, format!("{} MiB", held.len()))
}

pub fn memory_in_child(mebibytes: u64) -> Finding {
    let child = fork(|| {
        std::hint::black_box(memory(mebibytes));
        0
    });
    match child.and_then(wait) {
        Ok(End::Exited(0)) => Finding::new(Outcome::Done, "the child had it all"),
        Ok(_) => Finding::new(Outcome::Bounded, "the child was killed, its parent lives"),
        Err(error) => Finding::of(Err::<(), _>(error), "fork"),
    }
}

pub fn memfd(mebibytes: u64) -> Finding {
    let mut file = match anonymous_file() {
        Ok(file) => file,
        Err(error) => return Finding::of(Err::<(), _>(error), "memfd_create"),
    };
    let chunk = vec![1u8; 1 << 20];
    let mut made = 0;
    while made < mebibytes {
        if let Err(error) = file.write_all(&chunk) {
            return counted(made, mebibytes, Some(error));
        }
        made += 1;
    }
    std::thread::sleep(Duration::from_millis(1500));
    counted(made, mebibytes, None)
}

/// Segments that are filled and let go of: they hold memory, and no process has it.
pub fn system_v(mebibytes: u64) -> Finding {
    for made in 0..mebibytes {
        // SAFETY: takes no memory.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, 1 << 20, libc::IPC_CREAT | 0o600) };
        if id < 0 {
            return counted(made, mebibytes, Some(io::Error::last_os_error()));
        }
        // SAFETY: the segment was just made with this size; it is attached, filled and detached.
        unsafe {
            let at = libc::shmat(id, std::ptr::null(), 0);
            if at as isize == -1 {
                return counted(made, mebibytes, Some(io::Error::last_os_error()));
            }
            at.cast::<u8>().write_bytes(1, 1 << 20);
            libc::shmdt(at);
        }
    }
    std::thread::sleep(Duration::from_millis(1500));
    counted(mebibytes, mebibytes, None)
}

/// Half without a file, half of /dev/zero: the kernel makes an unnamed file in memory for each.
pub fn shared(mebibytes: u64, place: &str) -> Finding {
    let half = mebibytes as usize / 2 * MEBIBYTE;
    let zero = File::options().read(true).write(true).open("/dev/zero");
    let mapped =
        map_filled(half, -1, libc::MAP_ANONYMOUS).and_then(|()| map_filled(half, zero?.as_raw_fd(), 0));
    hold(place);
    counted(if mapped.is_ok() { mebibytes } else { 0 }, mebibytes, mapped.err())
}

pub fn memfd_mapped(mebibytes: u64, place: &str) -> Finding {
    let bytes = mebibytes as usize * MEBIBYTE;
    let mapped = anonymous_file().and_then(|file| {
        file.set_len(bytes as u64)?;
        map_filled(bytes, file.as_raw_fd(), 0)
    });
    hold(place);
    counted(if mapped.is_ok() { mebibytes } else { 0 }, mebibytes, mapped.err())
}

/// A quarter at `place`, the rest in /tmp; outside, all at `place`.
pub fn deleted_files(mebibytes: u64, place: &str) -> Finding {
    let inside = place == "/dev/shm";
    let rest = if inside { "/tmp" } else { place };
    let mut held = Vec::new();
    for (place, mebibytes) in [(place, mebibytes / 4), (rest, mebibytes - mebibytes / 4)] {
        match removed_file(place, mebibytes) {
            Ok(file) => held.push(file),
            Err(error) => return counted(0, mebibytes, Some(error)),
        }
    }
    hold(if inside { place } else { AT_ONCE });
    counted(mebibytes, mebibytes, None)
}

fn removed_file(place: &str, mebibytes: u64) -> io::Result<File> {
    let path = format!("{place}/probe-removed");
    let mut file = File::create(&path)?;
    fs::remove_file(&path)?;
    let chunk = vec![1u8; MEBIBYTE];
    for _ in 0..mebibytes {
        file.write_all(&chunk)?;
    }
    Ok(file)
}

pub fn shm_and_heap(mebibytes: u64, place: &str) -> Finding {
    const IN_FILES: u64 = 24;
    let file = match removed_file(place, IN_FILES) {
        Ok(file) => file,
        Err(error) => return counted(0, mebibytes, Some(error)),
    };
    let held = vec![1u8; mebibytes as usize * MEBIBYTE];
    std::hint::black_box(&held);
    hold(if place == "/dev/shm" { place } else { AT_ONCE });
    drop(file);
    counted(mebibytes + IN_FILES, mebibytes + IN_FILES, None)
}

/// Maps and fills; the mapping stays for as long as the process lives.
fn map_filled(bytes: usize, descriptor: i32, more: i32) -> io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at a place that the kernel chooses, which nothing else refers to; it is filled within its bounds.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), bytes, rights, libc::MAP_SHARED | more, descriptor, 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        at.cast::<u8>().write_bytes(1, bytes);
    }
    Ok(())
}

fn anonymous_file() -> io::Result<File> {
    let name = text("probe");
    // SAFETY: name outlives the call; the descriptor was just made and nobody else has it.
    unsafe {
        let made = check(i64::from(libc::memfd_create(name.as_ptr(), 0)))?;
        Ok(<File as std::os::fd::FromRawFd>::from_raw_fd(made as i32))
    }
}
