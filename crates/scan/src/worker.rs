//! A scan in a process of its own. The parser is C, and the code that it reads is hostile. A mistake in the parser, or
//! code made to keep it busy, meets a process with no files, no network, no memory of ours and 5 seconds of processor
//! time.

use super::{LARGEST, ScanInput, scan};
use paddock_model::{Finding, FindingKind, ScanReport};
use std::io::{Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first argument by which an executable knows that it is to be the scanner.
const MARK: &str = "--be-the-scanner";
/// The processor time of one scan, and its memory.
const CPU_SECONDS: u64 = 5;
const MEMORY: u64 = 1 << 30;
/// The longest wait for a scan, on a busy host too.
const SCAN_TIMEOUT: Duration = Duration::from_secs(20);
/// More bytes than a hundred findings take.
const LARGEST_ANSWER: u64 = 1 << 20;
const MOST_FINDINGS: usize = 100;
const LONGEST_TEXT: usize = 1000;

/// The system calls that a parser needs: for memory, and for its input and output.
const CALLS: [libc::c_long; 19] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_getrandom,
    libc::SYS_clock_gettime,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_sched_yield,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// True if this executable can be started as a scanner.
static ENABLED: AtomicBool = AtomicBool::new(false);

#[derive(Debug, thiserror::Error)]
pub enum ScanFailure {
    #[error("this program cannot scan code: it was not built to start a scanner")]
    NoScanner,
    #[error("the scanner cannot be started")]
    Start(#[source] std::io::Error),
}

/// An executable that embeds the engine calls this first in `main`. It does not return in a scanner.
pub fn serve_if_asked() {
    if std::env::args_os().nth(1).is_some_and(|first| first == MARK) {
        std::process::exit(match serve() {
            Ok(()) => 0,
            Err(_) => 1,
        });
    }
    ENABLED.store(true, Ordering::Relaxed);
}

/// Blocks until the scanner has ended; must not be called on an async thread. Code that cannot be scanned is a finding.
pub fn run(input: &ScanInput, code: &[u8]) -> Result<ScanReport, ScanFailure> {
    // Code without a parser, or too large for one, needs no process to say so.
    if code.len() > LARGEST || super::tree::Grammar::of(&input.language).is_none() {
        return Ok(scan(input, code));
    }
    if !ENABLED.load(Ordering::Relaxed) {
        return Err(ScanFailure::NoScanner);
    }
    let mut child = start(input, code).map_err(ScanFailure::Start)?;
    let answer = listen(&mut child);
    if answer.is_none() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(ScanFailure::Start)?;
    let report = answer.filter(|_| status.success()).and_then(|answer| serde_json::from_slice(&answer).ok());
    Ok(report.map_or_else(|| gave_up(status), within_bounds))
}

fn start(input: &ScanInput, code: &[u8]) -> std::io::Result<Child> {
    // The request is in memory, so that a scanner that does not read blocks no writer.
    let request = rustix::fs::memfd_create("paddock-scan", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut request = std::fs::File::from(request);
    serde_json::to_writer(&mut request, input)?;
    request.write_all(b"\n")?;
    request.write_all(code)?;
    request.rewind()?;
    Command::new("/proc/self/exe")
        .arg0("paddock-scanner")
        .arg(MARK)
        .env_clear()
        .current_dir("/")
        .stdin(request)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // A Ctrl-C at the terminal is meant for the process that waits, not for the scanner.
        .process_group(0)
        .spawn()
}

/// All output until the scanner ends; `None` if that takes too long, or is too much.
fn listen(child: &mut Child) -> Option<Vec<u8>> {
    let mut stdout = child.stdout.take()?;
    let deadline = Instant::now() + SCAN_TIMEOUT;
    let mut answer = Vec::new();
    loop {
        let left = deadline.checked_duration_since(Instant::now())?;
        let mut polled = [rustix::event::PollFd::new(&stdout, rustix::event::PollFlags::IN)];
        let timeout = rustix::event::Timespec::try_from(left).ok()?;
        match rustix::event::poll(&mut polled, Some(&timeout)) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
        }
        let mut piece = [0; 16 * 1024];
        match stdout.read(&mut piece).ok()? {
            0 => return Some(answer),
            count => answer.extend_from_slice(&piece[..count]),
        }
        if answer.len() as u64 > LARGEST_ANSWER {
            return None;
        }
    }
}

fn gave_up(status: ExitStatus) -> ScanReport {
    let words = match status.signal() {
        Some(libc::SIGXCPU | libc::SIGKILL) => "the parser found no end in the time that it has".to_string(),
        Some(libc::SIGABRT | libc::SIGSEGV) => {
            "the parser failed, or needed more memory than it has".to_string()
        }
        _ => "the parser failed".to_string(),
    };
    let finding = Finding { kind: FindingKind::NotParsed, line: 1, column: 1, text: words };
    ScanReport { findings: vec![finding], findings_missing: 0 }
}

/// Bounds the report: a scanner that hostile code took over may say anything.
fn within_bounds(mut report: ScanReport) -> ScanReport {
    let beyond = report.findings.len().saturating_sub(MOST_FINDINGS) as u64;
    report.findings_missing = report.findings_missing.saturating_add(beyond);
    report.findings.truncate(MOST_FINDINGS);
    for finding in &mut report.findings {
        finding.text.truncate(finding.text.floor_char_boundary(LONGEST_TEXT));
    }
    report
}

fn serve() -> std::io::Result<()> {
    confine()?;
    let mut request = Vec::new();
    std::io::stdin().lock().take(LARGEST as u64 + LARGEST_ANSWER).read_to_end(&mut request)?;
    let end = request.iter().position(|byte| *byte == b'\n').ok_or(std::io::ErrorKind::InvalidData)?;
    let input: ScanInput = serde_json::from_slice(&request[..end])?;
    let answer = serde_json::to_vec(&scan(&input, &request[end + 1..]))?;
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(&answer)?;
    stdout.flush()
}

/// Takes all rights away, before the first byte of the code is read.
fn confine() -> std::io::Result<()> {
    let limits = [
        (libc::RLIMIT_AS, MEMORY, MEMORY),
        // The signal of the soft limit, SIGXCPU, tells that the time was up.
        (libc::RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 1),
        (libc::RLIMIT_CORE, 0, 0),
        (libc::RLIMIT_FSIZE, 0, 0),
    ];
    for (resource, soft, hard) in limits {
        let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
        // SAFETY: the limit lives across the call, and is only read.
        if unsafe { libc::setrlimit(resource, &raw const limit) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    // SAFETY: plain system calls on numbers. The scanner ends with its parent, and has a low priority.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, 5);
    }
    paddock_backends::keep_only_calls(&CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_a_scanner_says_so_and_passes_nothing() {
        let input = ScanInput { language: "python".into(), ..ScanInput::default() };
        assert!(matches!(run(&input, b"1"), Err(ScanFailure::NoScanner)));
        let other = ScanInput { language: "bash".into(), ..ScanInput::default() };
        let report = run(&other, b"rm -rf /").unwrap();
        assert_eq!(report.findings[0].kind, FindingKind::NotScanned);
        assert_eq!(report.findings[0].text, "there is no parser for bash");
        let report = run(&input, &vec![b' '; LARGEST + 1]).unwrap();
        assert_eq!(report.findings[0].kind, FindingKind::NotParsed);
    }

    #[test]
    fn what_a_scanner_says_is_cut_to_its_bounds() {
        let finding = Finding { kind: FindingKind::Socket, line: 1, column: 1, text: "ä".repeat(5000) };
        let report = within_bounds(ScanReport { findings: vec![finding; 150], findings_missing: u64::MAX });
        assert_eq!((report.findings.len(), report.findings_missing), (MOST_FINDINGS, u64::MAX));
        assert!(report.findings.iter().all(|finding| finding.text.len() <= LONGEST_TEXT));
    }

    #[test]
    fn a_scanner_that_died_is_a_finding() {
        for (status, words) in [(libc::SIGXCPU, "time"), (libc::SIGABRT, "memory"), (0x100, "failed")] {
            let report = gave_up(ExitStatus::from_raw(status));
            assert_eq!(report.findings[0].kind, FindingKind::NotParsed);
            assert!(report.findings[0].text.contains(words), "{}", report.findings[0].text);
        }
    }
}
