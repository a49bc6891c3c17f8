//! B: the guest (process 1), other processes, terminals.

use super::system::{call, check, fact, fork, text, wait};
use crate::attack::{Attack, Finding, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

pub const ATTACKS: &[Attack] = &[
    Attack::plain("B1-ptrace-init", "PTRACE_ATTACH to process 1", ptrace_attach),
    Attack::plain("B1-ptrace-seize-init", "PTRACE_SEIZE of process 1", ptrace_seize),
    Attack::number("B1-vm-read-init", "process_vm_readv of process 1", vm, libc::SYS_process_vm_readv),
    Attack::number("B1-vm-write-init", "process_vm_writev of process 1", vm, libc::SYS_process_vm_writev),
    Attack::plain("B1-pidfd-getfd-init", "a descriptor out of process 1", pidfd_getfd),
    Attack::plain("B1-kcmp-init", "kcmp with process 1", kcmp),
    Attack::plain("B2-signal-host", "a signal to a process of the host", signal_host).on_host(),
    Attack::number("B2-kill-init", "SIGKILL to process 1", signal_init, libc::SIGKILL as i64)
        .alone()
        .effect_only(),
    Attack::number("B2-stop-init", "SIGSTOP to process 1", signal_init, libc::SIGSTOP as i64)
        .alone()
        .effect_only(),
    Attack::number("B2-term-init", "SIGTERM to process 1", signal_init, libc::SIGTERM as i64)
        .alone()
        .effect_only(),
    Attack::number("B2-kill-all", "kill(-1, SIGKILL)", signal_all, libc::SIGKILL as i64)
        .alone()
        .effect_only(),
    Attack::number("B2-stop-all", "kill(-1, SIGSTOP)", signal_all, libc::SIGSTOP as i64)
        .alone()
        .effect_only(),
    Attack::plain("B2-every-signal", "each of 64 signals to process 1", every_signal).alone().effect_only(),
    Attack::plain("B3-host-processes", "the victim's name in /proc", host_processes).on_host(),
    Attack::text("B5-init-mem-read", "reading /proc/1/mem", open_read_only, "/proc/1/mem"),
    Attack::text("B5-init-mem-write", "writing /proc/1/mem", open_write, "/proc/1/mem"),
    Attack::text("B5-init-environ", "/proc/1/environ", read_some, "/proc/1/environ"),
    Attack::text("B5-init-cmdline", "/proc/1/cmdline", read_some, "/proc/1/cmdline"),
    Attack::text("B5-init-maps", "/proc/1/maps", read_some, "/proc/1/maps"),
    Attack::text("B5-init-auxv", "/proc/1/auxv", read_some, "/proc/1/auxv"),
    Attack::text("B5-init-syscall", "/proc/1/syscall", read_some, "/proc/1/syscall"),
    Attack::text("B5-init-stack", "/proc/1/stack", read_some, "/proc/1/stack"),
    Attack::text("B5-init-fd", "the list of /proc/1/fd", list, "/proc/1/fd"),
    Attack::text("B5-init-root", "the list of /proc/1/root", list, "/proc/1/root/"),
    Attack::text("B5-init-cwd", "the list of /proc/1/cwd", list, "/proc/1/cwd/"),
    Attack::text("B5-init-exe", "reading process 1's program", open_read_only, "/proc/1/exe"),
    Attack::text("B5-init-exe-write", "writing process 1's program", open_write, "/proc/1/exe"),
    Attack::text("B5-init-oom-score", "process 1 first to die", write_score, "500"),
    Attack::plain("B8-tiocsti", "TIOCSTI into a terminal", tiocsti),
    Attack::number("B8-tioclinux", "TIOCLINUX", terminal_ioctl, 0x541c),
    Attack::plain("B10-pass-descriptor", "SCM_RIGHTS out through stdin, stdout, stderr", pass_descriptor),
    Attack::plain("B11-limit-init", "prlimit on process 1", limit_init),
    Attack::call("B11-priority-init", libc::SYS_setpriority, [0, 1, 1, 0, 0, 0]),
    Attack::plain("B11-affinity-init", "sched_setaffinity of process 1", affinity_init),
    Attack::call("B11-ioprio-init", libc::SYS_ioprio_set, [1, 1, 2 << 13 | 7, 0, 0, 0]),
    Attack::plain("B11-scheduler-init", "SCHED_BATCH for process 1", scheduler_init),
    Attack::plain("B16-clone-parent", "CLONE_PARENT: a child for process 1", clone_parent)
        .alone()
        .effect_only(),
    Attack::plain("B17-close-all", "every descriptor closed", close_all).alone().effect_only(),
];

fn ptrace(request: libc::c_uint, what: &str) -> Finding {
    let attached = call(libc::SYS_ptrace, [i64::from(request), 1, 0, 0, 0, 0]);
    if attached.is_ok() && request == libc::PTRACE_ATTACH {
        // SAFETY: waits for the stop that the attach causes, then lets go; status may be null.
        unsafe { libc::waitpid(1, std::ptr::null_mut(), libc::__WALL) };
    }
    if attached.is_ok() {
        let _ = call(libc::SYS_ptrace, [i64::from(libc::PTRACE_DETACH), 1, 0, 0, 0, 0]);
    }
    Finding::of(attached, what)
}

fn ptrace_attach() -> Finding {
    ptrace(libc::PTRACE_ATTACH, "PTRACE_ATTACH")
}

fn ptrace_seize() -> Finding {
    ptrace(libc::PTRACE_SEIZE, "PTRACE_SEIZE")
}

fn vm(number: i64) -> Finding {
    let mut local = [0u8; 8];
    let here = libc::iovec { iov_base: local.as_mut_ptr().cast(), iov_len: 8 };
    // The address means nothing there: being told so (EFAULT) already takes the right to look. Null is never
    // mapped, so even the writing form writes nothing.
    let there = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 8 };
    Finding::reached(
        call(number, [1, &raw const here as i64, 1, &raw const there as i64, 1, 0]),
        "process_vm",
    )
}

fn pidfd_getfd() -> Finding {
    match call(libc::SYS_pidfd_open, [1, 0, 0, 0, 0, 0]) {
        Ok(pidfd) => Finding::of(call(libc::SYS_pidfd_getfd, [pidfd, 0, 0, 0, 0, 0]), "pidfd_getfd"),
        Err(error) => Finding::of(Err::<(), _>(error), "pidfd_open"),
    }
}

fn kcmp() -> Finding {
    let own = i64::from(std::process::id());
    Finding::of(call(libc::SYS_kcmp, [1, own, 2, 0, 0, 0]), "kcmp")
}

fn signal_host() -> Finding {
    let pid = fact("victim_pid").parse().unwrap_or(0);
    // A number may by chance be a process inside: only the victim's name proves that it is the host's.
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    match call(libc::SYS_kill, [pid, 0, 0, 0, 0, 0]) {
        Ok(_) if name.trim() != fact("victim_name") => Finding::new(Outcome::Hidden, "another process"),
        result => Finding::of(result, "kill"),
    }
}

fn signal_init(signal: i64) -> Finding {
    let sent = call(libc::SYS_kill, [1, signal, 0, 0, 0, 0]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    Finding::of(sent, "kill(1)")
}

/// Signals that process 1 handles itself get through to it where others are dropped by the kernel.
fn every_signal() -> Finding {
    let sent = (1..=64).filter(|signal| call(libc::SYS_kill, [1, *signal, 0, 0, 0, 0]).is_ok()).count();
    std::thread::sleep(std::time::Duration::from_millis(100));
    Finding::new(if sent == 0 { Outcome::Denied } else { Outcome::Done }, format!("{sent} of 64 taken"))
}

fn signal_all(signal: i64) -> Finding {
    let sent = call(libc::SYS_kill, [-1, signal, 0, 0, 0, 0]);
    std::thread::sleep(std::time::Duration::from_millis(100));
    Finding::of(sent, "kill(-1)")
}

fn host_processes() -> Finding {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Finding::new(Outcome::Error, "no /proc");
    };
    let mut names = Vec::new();
    for entry in entries.flatten() {
        if let Ok(name) = fs::read_to_string(entry.path().join("comm")) {
            names.push(name.trim().to_string());
        }
    }
    let outcome = if names.contains(&fact("victim_name")) { Outcome::Done } else { Outcome::Hidden };
    Finding::new(outcome, format!("{} processes", names.len()))
}

fn open_read_only(path: &'static str) -> Finding {
    Finding::of(File::open(path), path)
}

fn open_write(path: &'static str) -> Finding {
    match OpenOptions::new().write(true).open(path) {
        // Process 1's program is busy being run: the right to write it was there all the same.
        Err(error) if error.raw_os_error() == Some(libc::ETXTBSY) => Finding::new(Outcome::Done, "text busy"),
        result => Finding::of(result, path),
    }
}

fn write_score(score: &'static str) -> Finding {
    let file = OpenOptions::new().write(true).open("/proc/1/oom_score_adj");
    Finding::of(file.and_then(|mut file| file.write_all(score.as_bytes())), "/proc/1/oom_score_adj")
}

fn read_some(path: &'static str) -> Finding {
    let mut buffer = [0u8; 256];
    Finding::of(File::open(path).and_then(|mut file| file.read(&mut buffer)), path)
}

fn list(path: &'static str) -> Finding {
    match fs::read_dir(path).map(|entries| entries.count()) {
        Ok(count) => Finding::new(Outcome::Done, format!("{path}: {count} entries")),
        Err(error) => Finding::of(Err::<(), _>(error), path),
    }
}

/// A terminal of our own, made the controlling one: the answer is the same as for any other.
fn own_terminal() -> std::io::Result<i32> {
    // SAFETY: no memory is involved; this process is a child made for this attack.
    unsafe { libc::setsid() };
    // SAFETY: as above.
    let master = check(i64::from(unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) }))? as i32;
    let mut unlock = 0;
    // SAFETY: unlock outlives the call.
    check(i64::from(unsafe { libc::ioctl(master, libc::TIOCSPTLCK, &raw mut unlock) }))?;
    // SAFETY: the request takes open flags by value and returns the other end.
    let peer = check(i64::from(unsafe { libc::ioctl(master, libc::TIOCGPTPEER, libc::O_RDWR) }));
    // A kernel without that request has the other end by its name only.
    let slave = peer.or_else(|_| slave_by_name(master))? as i32;
    // SAFETY: takes its argument by value.
    check(i64::from(unsafe { libc::ioctl(slave, libc::TIOCSCTTY, 0) }))?;
    Ok(slave)
}

fn slave_by_name(master: i32) -> std::io::Result<i64> {
    let mut number = 0i32;
    // SAFETY: number outlives the call.
    check(i64::from(unsafe { libc::ioctl(master, libc::TIOCGPTN, &raw mut number) }))?;
    let name = text(&format!("/dev/pts/{number}"));
    // SAFETY: the name outlives the call.
    check(i64::from(unsafe { libc::open(name.as_ptr(), libc::O_RDWR | libc::O_NOCTTY) }))
}

fn tiocsti() -> Finding {
    match own_terminal() {
        Ok(slave) => {
            let byte = b'x';
            // SAFETY: byte outlives the call.
            let pushed = check(i64::from(unsafe { libc::ioctl(slave, libc::TIOCSTI, &raw const byte) }));
            Finding::of(pushed, "TIOCSTI")
        }
        Err(error) => Finding::new(Outcome::Error, format!("no terminal to try on: {error}")),
    }
}

fn terminal_ioctl(request: i64) -> Finding {
    match own_terminal() {
        Ok(slave) => {
            let subcode = [6u8, 0];
            let at = subcode.as_ptr() as i64;
            Finding::reached(call(libc::SYS_ioctl, [i64::from(slave), request, at, 0, 0, 0]), "ioctl")
        }
        Err(error) => Finding::new(Outcome::Error, format!("no terminal to try on: {error}")),
    }
}

fn pass_descriptor() -> Finding {
    // Not one of the three: in flight it would keep the reader of that one waiting.
    let Ok(passed) = File::open("/dev/null") else {
        return Finding::new(Outcome::Error, "no /dev/null");
    };
    let byte = [0u8; 1];
    let mut part = libc::iovec { iov_base: byte.as_ptr().cast_mut().cast(), iov_len: 1 };
    let mut space = [0u64; 4];
    for fd in 0..=2 {
        // SAFETY: an all-zero msghdr is a valid empty one.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = space.as_mut_ptr().cast();
        // SAFETY: pure arithmetic.
        message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as usize;
        // SAFETY: control points to enough aligned space for one header and one descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(passed.as_raw_fd());
        }
        // SAFETY: the message and its parts outlive the call.
        let sent = check(unsafe { libc::sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) } as i64);
        if sent.is_ok() {
            return Finding::new(Outcome::Done, format!("through descriptor {fd}"));
        }
    }
    Finding::new(Outcome::Denied, "none of the three is a socket that takes it")
}

fn limit_init() -> Finding {
    let limit = libc::rlimit { rlim_cur: 512, rlim_max: 512 };
    let (kind, at) = (i64::from(libc::RLIMIT_NOFILE), &raw const limit as i64);
    Finding::of(call(libc::SYS_prlimit64, [1, kind, at, 0, 0, 0]), "prlimit")
}

fn affinity_init() -> Finding {
    let mask = [1u64; 1];
    Finding::of(call(libc::SYS_sched_setaffinity, [1, 8, mask.as_ptr() as i64, 0, 0, 0]), "sched_setaffinity")
}

fn scheduler_init() -> Finding {
    let none = 0i32;
    let batch = i64::from(libc::SCHED_BATCH);
    Finding::of(
        call(libc::SYS_sched_setscheduler, [1, batch, &raw const none as i64, 0, 0, 0]),
        "SCHED_BATCH",
    )
}

fn clone_parent() -> Finding {
    let flags = i64::from(libc::CLONE_PARENT | libc::SIGCHLD);
    match call(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) {
        // SAFETY: the child of a raw clone without shared memory is a plain copy.
        Ok(0) => unsafe { libc::_exit(9) },
        result => {
            std::thread::sleep(std::time::Duration::from_millis(50));
            Finding::of(result, "CLONE_PARENT")
        }
    }
}

fn close_all() -> Finding {
    // The line is said by a child with the descriptors still open; this process then goes on without any.
    let child = fork(|| {
        super::say("B17-close-all", &Finding::new(Outcome::Done, "closed"));
        0
    });
    let _ = child.and_then(wait);
    let _ = call(libc::SYS_close_range, [0, i64::from(u32::MAX), 0, 0, 0, 0]);
    let nowhere = text("/dev/null");
    let _ = call(libc::SYS_openat, [0, nowhere.as_ptr() as i64, i64::from(libc::O_WRONLY), 0, 0, 0]);
    Finding::new(Outcome::Done, "closed")
}
