//! Which process an interpreter is, and the check that it waits for its next call.

use super::process_facts::Status;
use super::timer::Timer;
use super::tracee::{Tracee, host};
use crate::error::LiveForkError;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often it is checked if the interpreter waits.
const TIME_BETWEEN_LOOKS: Duration = Duration::from_micros(500);

/// Found by its pid in the guest's namespace: it is a child of the guest.
pub fn find(guest: u32, inside: u32) -> Result<i32, LiveForkError> {
    let gone = || LiveForkError::Unable("it ended meanwhile".into());
    let depth = Status::of(guest as i32).map_err(|_| gone())?.numbers().len();
    let children = std::fs::read_to_string(format!("/proc/{guest}/task/{guest}/children"))
        .map_err(|source| host("list the guest's children", source))?;
    let candidates = children.split_whitespace().filter_map(|number| number.parse::<i32>().ok());
    let is_it = |pid: &i32| {
        Status::of(*pid).is_ok_and(|status| {
            let numbers = status.numbers();
            numbers.len() == depth && numbers.last() == Some(&inside)
        })
    };
    candidates.into_iter().find(is_it).ok_or_else(gone)
}

/// Stops it where it waits for its next call. It is left alone until it does.
pub fn stop_when_idle(pid: i32, guest: u32, until: Instant, timer: &Timer) -> Result<Tracee, LiveForkError> {
    loop {
        let found = if waits(pid)? { stop_if_idle(pid, guest, timer) } else { Err(busy()) };
        match found {
            Err(LiveForkError::Busy(_)) if Instant::now() < until => std::thread::sleep(TIME_BETWEEN_LOOKS),
            other => return other,
        }
    }
}

/// True if the process seems to wait. The look does not disturb it.
fn waits(pid: i32) -> Result<bool, LiveForkError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/syscall"))
        .map_err(|_| LiveForkError::Unable("it ended meanwhile".into()))?;
    let number = text.split(' ').next().and_then(|number| number.trim().parse::<i64>().ok());
    Ok(number.is_some_and(is_waiting))
}

fn is_waiting(call: i64) -> bool {
    [libc::SYS_read, libc::SYS_recvfrom].contains(&call)
}

fn stop_if_idle(pid: i32, guest: u32, timer: &Timer) -> Result<Tracee, LiveForkError> {
    let threads = |pid| Status::of(pid).ok().and_then(|status| status.number("Threads"));
    if Status::of(pid).is_ok_and(|status| status.number("TracerPid").is_some_and(|tracer| tracer != 0)) {
        return Err(LiveForkError::Busy("somebody traces it".into()));
    }
    if threads(pid) != Some(1) {
        return Err(LiveForkError::Unable("it has other threads".into()));
    }
    let tracee = Tracee::stop(pid, Instant::now() + super::STEPS_TIMEOUT, timer)?;
    // It may have started a thread in between; now it cannot.
    if threads(pid) != Some(1) {
        return Err(LiveForkError::Unable("it has other threads".into()));
    }
    match tracee.waits_in() {
        Some((call, descriptor)) if is_waiting(call) => {
            is_control(pid, descriptor, guest)?;
            is_alone(pid, guest)?;
            Ok(tracee)
        }
        _ => Err(busy()),
    }
}

/// The process must wait at the stream that the guest gave it or, if it was itself forked into its sandbox, at the
/// engine's. The kernel notes which process made a pair of sockets, and no process inside has the id of the host's
/// root.
fn is_control(pid: i32, descriptor: u64, guest: u32) -> Result<(), LiveForkError> {
    let elsewhere = || LiveForkError::Busy("it waits for something else than its next call".into());
    let number = i32::try_from(descriptor).map_err(|_| elsewhere())?;
    let own = copy_of(pid, number).map_err(|_| elsewhere())?;
    match rustix::net::sockopt::socket_peercred(&own) {
        Ok(peer) if peer.pid.as_raw_nonzero().get() as u32 == guest || peer.uid.is_root() => Ok(()),
        _ => Err(elsewhere()),
    }
}

/// Fails if another process, not only another thread, has its memory. A hostile process may get past this check by
/// starting processes all the time. It gains nothing: no value in its memory is believed. But then the copy is not a
/// copy of one moment.
fn is_alone(pid: i32, guest: u32) -> Result<(), LiveForkError> {
    let mut left = vec![guest as i32];
    while let Some(parent) = left.pop() {
        for child in children_of(parent) {
            if child != pid && shares_memory(pid, child) {
                return Err(LiveForkError::Unable("another process shares its memory".into()));
            }
            left.push(child);
        }
    }
    Ok(())
}

/// The children of a process; none if it has ended.
fn children_of(pid: i32) -> Vec<i32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| {
            list.split_whitespace().filter_map(|number| number.parse().ok()).collect::<Vec<i32>>()
        })
        .collect()
}

fn shares_memory(one: i32, other: i32) -> bool {
    const MEMORY: i32 = 1;
    // SAFETY: numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, MEMORY, 0, 0) == 0 }
}

/// A descriptor of another process, as one of ours.
pub fn copy_of(pid: i32, number: i32) -> std::io::Result<OwnedFd> {
    let process = rustix::process::Pid::from_raw(pid).ok_or(std::io::ErrorKind::NotFound)?;
    let process = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty())?;
    // SAFETY: numbers; the kernel gives a descriptor that nobody else owns.
    unsafe {
        let copied = libc::syscall(libc::SYS_pidfd_getfd, process.as_fd().as_raw_fd(), number, 0);
        let copied = i32::try_from(copied).unwrap_or(-1);
        if copied < 0 { Err(std::io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(copied)) }
    }
}

fn busy() -> LiveForkError {
    LiveForkError::Busy("it does not wait for its next call".into())
}
