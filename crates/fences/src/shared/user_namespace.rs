//! User namespaces: the maps of their ids, one without a process for mounts, and why a host refuses them.

use super::child::Child;
use crate::error::CreateError;
use crate::host_limit::HostLimit;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Inside id, host id, count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line(pub u32, pub u32, pub u32);

/// A user namespace with these maps and no process in it, for mounts whose owners have to be mapped.
pub fn user_namespace(users: &[Line], groups: &[Line]) -> Result<OwnedFd> {
    let mut pidfd: RawFd = -1;
    let mut stack = vec![0u8; HOLDER_STACK].into_boxed_slice();
    let flags = libc::CLONE_NEWUSER | libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
    let end = stack.as_mut_ptr_range().end;
    let top = end.wrapping_sub(end.addr() % 16).cast();
    let engine = std::ptr::without_provenance_mut(std::process::id() as usize);
    // SAFETY: the child shares our memory, so that none of it is copied; it uses its own stack, which outlives it, and
    // waits in one system call until it is killed. `pidfd` is where the kernel stores the descriptor.
    let pid = unsafe { libc::clone(wait_to_be_killed, top, flags, engine, &raw mut pidfd) };
    if pid < 0 {
        return Err(Error::last_os_error());
    }
    // Dropped, and with that killed and collected, before the stack is.
    // SAFETY: the kernel stored a descriptor that nobody else owns.
    let _holder = Child::new(unsafe { OwnedFd::from_raw_fd(pidfd) }, None);
    write_maps(pid as u32, users, groups)?;
    Ok(File::open(format!("/proc/{pid}/ns/user"))?.into())
}

/// The same for a step of a create.
pub fn user_namespace_to(
    step: &str,
    users: &[Line],
    groups: &[Line],
) -> std::result::Result<OwnedFd, CreateError> {
    user_namespace(users, groups).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOSPC) => HostLimit::Namespaces("user").refused(error),
        _ => CreateError::Host { step: step.into(), source: error },
    })
}

const HOLDER_STACK: usize = 8 * 1024;

/// `engine`: the number of the process that made it.
extern "C" fn wait_to_be_killed(engine: *mut libc::c_void) -> libc::c_int {
    // SAFETY: system calls only; after a wake it waits again. It dies with the thread that made it, so that a killed
    // engine leaves nothing.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() as usize != engine.addr() {
            libc::_exit(0);
        }
        // It holds nothing of the engine's while it waits.
        libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0);
        loop {
            libc::syscall(
                libc::SYS_ppoll,
                std::ptr::null::<libc::pollfd>(),
                0,
                std::ptr::null::<libc::timespec>(),
                std::ptr::null::<libc::sigset_t>(),
                8,
            );
        }
    }
}

pub fn write_maps(pid: u32, users: &[Line], groups: &[Line]) -> Result<()> {
    for (file, lines) in [("uid_map", users), ("gid_map", groups)] {
        std::fs::write(format!("/proc/{pid}/{file}"), map_text(lines))
            .map_err(|error| Error::new(error.kind(), format!("{file}: {error}")))?;
    }
    Ok(())
}

pub fn map_text(lines: &[Line]) -> String {
    lines.iter().map(|l| format!("{} {} {}\n", l.0, l.1, l.2)).collect()
}

/// The error of a create that could not clone.
pub fn no_user_namespaces(error: &std::io::Error) -> CreateError {
    let (why, remedy) = why_no_user_namespaces();
    CreateError::Unavailable {
        missing: format!("new namespaces ({error}): {why}"),
        remedy: Some(remedy.into()),
    }
}

/// A limit of 0 is an order, and not one that was reached.
pub fn forbids_user_namespaces() -> bool {
    let limit = std::fs::read_to_string("/proc/sys/user/max_user_namespaces");
    limit.is_ok_and(|text| text.trim() == "0")
}

pub fn why_no_user_namespaces() -> (&'static str, &'static str) {
    let setting = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
    if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
        return (
            "AppArmor forbids them to unprivileged programs (Ubuntu 23.10 and later)",
            "run as root: printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile paddock /usr/local/bin/paddock \
             flags=(unconfined) {\\n  userns,\\n}\\n' > /etc/apparmor.d/paddock && apparmor_parser -r /etc/apparmor.d/paddock \
             (with the path of your paddock), or: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        );
    }
    if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        return ("this kernel keeps them for root", "run as root: sysctl kernel.unprivileged_userns_clone=1");
    }
    if forbids_user_namespaces() {
        return ("their number is limited to 0", "run as root: sysctl user.max_user_namespaces=65536");
    }
    (
        "the kernel or a container around us refuses them",
        "inside Docker: docker run --privileged, or --security-opt seccomp=unconfined --security-opt systempaths=unconfined; \
         else run paddock as root",
    )
}
