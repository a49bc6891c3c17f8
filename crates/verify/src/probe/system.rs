//! The few things the attacks need of the kernel, with errors as `io::Error`.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

pub enum End {
    Exited(i32),
    Killed(i32),
}

pub fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

pub fn call(number: i64, a: [i64; 6]) -> io::Result<i64> {
    // SAFETY: a raw system call; callers pass pointers that are null, invalid on purpose, or to live memory.
    check(unsafe { libc::syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]) })
}

/// Runs `work` in a child and returns its pid; the child never comes back from it.
pub fn fork(work: impl FnOnce() -> i32) -> io::Result<i32> {
    // SAFETY: the probe has one thread wherever it forks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: ends the child without running the parent's exit handlers.
        0 => unsafe { libc::_exit(work()) },
        pid => Ok(pid),
    }
}

pub fn wait(pid: i32) -> io::Result<End> {
    let mut status = 0;
    loop {
        // SAFETY: status outlives the call.
        let got = unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
        if got == pid {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(if libc::WIFSIGNALED(status) {
        End::Killed(libc::WTERMSIG(status))
    } else {
        End::Exited(libc::WEXITSTATUS(status))
    })
}

pub fn alarm(seconds: u32) {
    // SAFETY: no memory is involved.
    unsafe { libc::alarm(seconds) };
}

pub fn text(path: &str) -> CString {
    CString::new(path).unwrap_or_default()
}

/// The harness's facts about the host, from the file beside the probe's executable.
pub fn fact(name: &str) -> String {
    static FACTS: OnceLock<BTreeMap<String, String>> = OnceLock::new();
    let facts = FACTS.get_or_init(|| {
        let beside = std::env::current_exe().ok().and_then(|exe| exe.parent().map(|d| d.join("facts")));
        let content = std::fs::read_to_string(beside.unwrap_or_else(|| PathBuf::from("facts")));
        let pairs = content.unwrap_or_else(|error| give_up(&format!("facts: {error}")));
        pairs
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(k, v)| (k.to_string(), v.to_string()))
            .collect()
    });
    facts.get(name).cloned().unwrap_or_else(|| give_up(&format!("no fact `{name}`")))
}

/// An attack that does not know where to aim would miss, and look held.
fn give_up(why: &str) -> ! {
    eprintln!("probe: {why}");
    std::process::exit(3)
}

/// A path below the workspace, wherever that stands for this run.
pub fn workspace(relative: &str) -> String {
    format!("{}/{relative}", fact("workspace"))
}
