//! Starts one program: streams or a terminal, then the layers, then exec.

use crate::failure::{During, Failure, Outcome};
use crate::work::Confinement;
use paddock_protocol::{CONTROL_VARIABLE, Start, WindowSize, ZYGOTE_VARIABLE};
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use rustix::pty::{OpenptFlags, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A process that has been forked; `report` tells if it could be executed.
pub struct Spawned {
    pub pid: Pid,
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    pub control: Option<OwnedFd>,
    /// Ends empty when exec worked; else carries the error number and the step.
    /// Absent for one that runs already.
    pub report: Option<OwnedFd>,
}

/// The child's ends of the streams.
pub struct Streams {
    pub stdin: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    /// Descriptors that stay open in the program, under their numbers here: a control stream, a zygote's socket, a VM's
    /// files.
    kept: Vec<OwnedFd>,
    terminal: bool,
}

struct Program {
    candidates: Vec<CString>,
    argv: Vec<CString>,
    env: Vec<CString>,
    cwd: CString,
    uid: u32,
    gid: u32,
    zygote: bool,
}

/// A program that inherits these descriptors, under the numbers that they have here.
pub fn spawn_with(start: &Start, confinement: &Confinement, inherited: Vec<OwnedFd>) -> Outcome<Spawned> {
    let program = Program::resolve(start, confinement)?;
    let (report, report_child) = pipe("the start report")?;
    let (mut streams, stdin, stdout, stderr) = pipes(false, program.uid, program.gid)?;
    streams.kept = inherited;
    let child = Child { program: &program, streams: &streams, confinement, report: &report_child };
    let spawned = Spawned { pid: child.start()?, stdin, stdout, stderr, control: None, report: Some(report) };
    unblock(&spawned)?;
    Ok(spawned)
}

/// `zygote`: the socket of a zygote to its host.
pub fn spawn(start: &Start, confinement: &Confinement, zygote: Option<&OwnedFd>) -> Outcome<Spawned> {
    let mut program = Program::resolve(start, confinement)?;
    let (report, report_child) = pipe("the start report")?;
    let (mut streams, mut stdin, stdout, stderr) = match start.tty {
        Some(size) => terminal(size, program.uid)?,
        None => pipes(start.stdin && !start.control, program.uid, program.gid)?,
    };
    if start.zygote {
        let socket = zygote.ok_or_else(|| Failure {
            step: "start a zygote in a sandbox that is not for one".into(),
            errno: Errno::INVAL,
        })?;
        let socket = socket.try_clone().during(|| "copy a descriptor".into())?;
        program.env.push(variable(ZYGOTE_VARIABLE, &socket)?);
        streams.kept.push(socket);
        program.zygote = true;
    }
    let mut control = None;
    if start.control {
        let (host, child) = control_pair()?;
        program.env.push(variable(CONTROL_VARIABLE, &child)?);
        stdin = Some(host.try_clone().during(|| "copy a descriptor".into())?);
        control = Some(host);
        streams.kept.push(child);
    }
    let child = Child { program: &program, streams: &streams, confinement, report: &report_child };
    let spawned = Spawned { pid: child.start()?, stdin, stdout, stderr, control, report: Some(report) };
    unblock(&spawned)?;
    Ok(spawned)
}

/// The host's end and the program's.
fn control_pair() -> Outcome<(OwnedFd, OwnedFd)> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .during(|| "make a control stream".into())
}

fn variable(name: &str, end: &OwnedFd) -> Outcome<CString> {
    CString::new(format!("{name}={}", end.as_raw_fd()))
        .map_err(|_| Failure { step: format!("name the stream {name}"), errno: Errno::INVAL })
}

pub fn unblock(spawned: &Spawned) -> Outcome<()> {
    let streams = [&spawned.stdin, &spawned.stdout, &spawned.stderr, &spawned.control].into_iter().flatten();
    for stream in streams.chain(&spawned.report) {
        rustix::io::ioctl_fionbio(stream, true).during(|| "unblock a stream".into())?;
    }
    Ok(())
}

/// The data of the child, in memory that it shares with its parent until it executes.
struct Child<'a> {
    program: &'a Program,
    streams: &'a Streams,
    confinement: &'a Confinement,
    report: &'a OwnedFd,
}

const STACK: usize = 256 * 1024;

impl Child<'_> {
    /// As vfork: no copy of the memory is made, and this process stands still until the child has executed its
    /// program or failed to.
    fn start(&self) -> Outcome<Pid> {
        let pid = match self.clone(libc::CLONE_VM | libc::CLONE_VFORK) {
            // Older kernels do not let a process share memory across time namespaces, however short.
            Err(Errno::INVAL) => self.clone(libc::CLONE_VFORK),
            made => made,
        };
        pid.during(|| "fork".into())
    }

    fn clone(&self, flags: libc::c_int) -> rustix::io::Result<Pid> {
        let mut stack = Vec::<u8>::with_capacity(STACK);
        // SAFETY: the stack grows down from its end, cut to the alignment that the processor wants, and outlives the
        // child's use of it, as does `self`, because CLONE_VFORK returns only after the child's exec or exit. This
        // process has one thread, so no other code touches the memory meanwhile.
        let pid = unsafe {
            let end = stack.as_mut_ptr().add(STACK);
            let top = end.sub(end.addr() % 16).cast::<libc::c_void>();
            libc::clone(in_child, top, flags | libc::SIGCHLD, std::ptr::from_ref(self).cast_mut().cast())
        };
        Pid::from_raw(pid.max(0)).ok_or_else(last_errno)
    }
}

extern "C" fn in_child(child: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `start` passed a reference to a `Child` that lives until this process has executed or exited.
    let child = unsafe { &*child.cast::<Child>() };
    let failure = run(child.program, child.streams, child.confinement);
    tell(child.report.as_raw_fd(), &failure);
    // SAFETY: ends the child at once, without the exit handlers of the memory it shares.
    unsafe { libc::_exit(127) }
}

pub fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

pub fn pipe(what: &str) -> Outcome<(OwnedFd, OwnedFd)> {
    pipe_with(PipeFlags::CLOEXEC).during(|| format!("make a pipe for {what}"))
}

pub type Ends = (Streams, Option<OwnedFd>, Option<OwnedFd>, Option<OwnedFd>);

pub fn pipes(wants_stdin: bool, uid: u32, gid: u32) -> Outcome<Ends> {
    let (stdin, stdin_host) = if wants_stdin {
        let (child, host) = pipe("stdin")?;
        (child, Some(host))
    } else {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        (rustix::fs::open("/dev/null", flags, Mode::empty()).during(|| "open /dev/null".into())?, None)
    };
    let (stdout_host, stdout) = pipe("stdout")?;
    let (stderr_host, stderr) = pipe("stderr")?;
    // So that /dev/stdout and /dev/stderr can be opened again by the program that has them.
    for end in [&stdin, &stdout, &stderr] {
        let owner = (Some(rustix::fs::Uid::from_raw(uid)), Some(rustix::fs::Gid::from_raw(gid)));
        let _ = rustix::fs::fchown(end, owner.0, owner.1);
    }
    let streams = Streams { stdin, stdout, stderr, kept: Vec::new(), terminal: false };
    Ok((streams, stdin_host, Some(stdout_host), Some(stderr_host)))
}

fn terminal(size: WindowSize, uid: u32) -> Outcome<Ends> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let host = openpt(flags).during(|| "open a terminal".into())?;
    unlockpt(&host).during(|| "unlock the terminal".into())?;
    let child = other_side(&host, flags).during(|| "open the terminal's other side".into())?;
    let _ = rustix::fs::fchown(&child, Some(rustix::fs::Uid::from_raw(uid)), None);
    resize(&host, size).during(|| "size the terminal".into())?;
    let copy = |end: &OwnedFd| end.try_clone().during(|| "copy a descriptor".into());
    let streams = Streams {
        stdin: copy(&child)?,
        stdout: copy(&child)?,
        stderr: child,
        kept: Vec::new(),
        terminal: true,
    };
    Ok((streams, Some(copy(&host)?), Some(host), None))
}

fn other_side(host: &OwnedFd, flags: OpenptFlags) -> rustix::io::Result<OwnedFd> {
    match rustix::pty::ioctl_tiocgptpeer(host, flags) {
        // A kernel in user space without that call: /dev is that kernel's, so the name can be trusted.
        Err(Errno::NOTTY) => {
            let name = rustix::pty::ptsname(host, Vec::new())?;
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            rustix::fs::openat(rustix::fs::CWD, name, flags, Mode::empty())
        }
        opened => opened,
    }
}

pub fn resize(terminal: &OwnedFd, size: WindowSize) -> rustix::io::Result<()> {
    tcsetwinsize(terminal, Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 })
}

impl Program {
    fn resolve(start: &Start, confinement: &Confinement) -> Outcome<Program> {
        let refuse =
            |what: &str| Failure { step: format!("{what} is empty or has a NUL"), errno: Errno::INVAL };
        let (uid, gid, home) = user(start, confinement)?;
        let text = |bytes: &[u8], what| CString::new(bytes).map_err(|_| refuse(what));
        let argv = start.argv.iter().map(|a| text(a, "argument")).collect::<Outcome<Vec<_>>>()?;
        let mut env = start.env.iter().map(|e| text(e, "variable")).collect::<Outcome<Vec<_>>>()?;
        if !start.env.iter().any(|e| e.starts_with(b"HOME=")) {
            env.push(text(format!("HOME={home}").as_bytes(), "home")?);
        }
        let name = start.argv.first().filter(|n| !n.is_empty()).ok_or_else(|| refuse("command"))?;
        let cwd = text(start.cwd.as_deref().unwrap_or("/").as_bytes(), "directory")?;
        Ok(Program { candidates: candidates(name, &start.env)?, argv, env, cwd, uid, gid, zygote: false })
    }
}

/// Ids and home directory.
pub fn user(start: &Start, confinement: &Confinement) -> Outcome<(u32, u32, String)> {
    use paddock_protocol::Who;
    let known = match &start.user {
        Who::Name(name) => crate::enter::find_user_by_name(name)
            .ok_or_else(|| Failure { step: format!("no user {name} in the image"), errno: Errno::NOENT })?,
        Who::Ids { uid, gid } => {
            let home = crate::enter::find_user_by_id(*uid).map(|user| user.home);
            crate::enter::KnownUser { uid: *uid, gid: *gid, home: home.unwrap_or_else(|| "/".into()) }
        }
    };
    if known.uid > confinement.ids.highest || known.gid > confinement.ids.highest {
        return Err(Failure {
            step: format!("user {}: id is not in the sandbox", known.uid),
            errno: Errno::PERM,
        });
    }
    Ok((known.uid, known.gid, known.home))
}

/// The places where the shell would look for the command.
fn candidates(name: &[u8], env: &[serde_bytes::ByteBuf]) -> Outcome<Vec<CString>> {
    let refuse = |_| Failure { step: "command has a NUL".into(), errno: Errno::INVAL };
    if name.contains(&b'/') {
        return Ok(vec![CString::new(name).map_err(refuse)?]);
    }
    let path =
        env.iter().rev().find_map(|e| e.strip_prefix(b"PATH=")).unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
    path.split(|b| *b == b':')
        .filter(|directory| !directory.is_empty())
        .map(|directory| CString::new([directory, b"/", name].concat()).map_err(refuse))
        .collect()
}

/// In the child. Returns only when something failed.
fn run(program: &Program, streams: &Streams, confinement: &Confinement) -> Failure {
    match prepare(program, streams, confinement) {
        Ok(()) => execute(program),
        Err(failure) => failure,
    }
}

fn prepare(program: &Program, streams: &Streams, confinement: &Confinement) -> Outcome<()> {
    confinement.join_cgroups()?;
    rustix::process::setsid().during(|| "start a session".into())?;
    if streams.terminal {
        rustix::process::ioctl_tiocsctty(&streams.stdin).during(|| "take the terminal".into())?;
    }
    rustix::stdio::dup2_stdin(&streams.stdin).during(|| "set stdin".into())?;
    rustix::stdio::dup2_stdout(&streams.stdout).during(|| "set stdout".into())?;
    rustix::stdio::dup2_stderr(&streams.stderr).during(|| "set stderr".into())?;
    if !crate::weaken::without("descriptors") {
        crate::system::close_on_exec_from(3).during(|| "mark descriptors to be closed".into())?;
    }
    for kept in &streams.kept {
        rustix::io::fcntl_setfd(kept, rustix::io::FdFlags::empty()).during(|| "keep a stream".into())?;
    }
    crate::system::reset_signals();
    rustix::process::umask(Mode::from_raw_mode(0o022));
    if program.zygote {
        confinement.put_on_for_a_zygote(program.uid, program.gid)?;
    } else {
        confinement.put_on(program.uid, program.gid)?;
    }
    // As the user: a directory that it may not enter is not entered.
    rustix::process::chdir(program.cwd.as_c_str())
        .during(|| format!("enter the directory {}", program.cwd.to_string_lossy()))
}

fn execute(program: &Program) -> Failure {
    let pointers = |strings: &[CString]| {
        strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    let (argv, env) = (pointers(&program.argv), pointers(&program.env));
    let mut worst = Errno::NOENT;
    for candidate in &program.candidates {
        // An attempt to execute makes all of a process's memory before it looks for the file.
        if let Err(Errno::NOENT | Errno::NOTDIR) = rustix::fs::access(candidate, Access::EXISTS) {
            continue;
        }
        // SAFETY: all strings are NUL-terminated and both arrays end with a null pointer; they outlive the call.
        unsafe { libc::execve(candidate.as_ptr(), argv.as_ptr(), env.as_ptr()) };
        match last_errno() {
            Errno::NOENT | Errno::NOTDIR => {}
            // Remembered, but a later directory may have one that can be run.
            Errno::ACCESS => worst = Errno::ACCESS,
            errno => return Failure { step: "execute".into(), errno },
        }
    }
    Failure { step: "execute".into(), errno: worst }
}

pub fn tell(report: RawFd, failure: &Failure) {
    let mut message = failure.errno.raw_os_error().to_ne_bytes().to_vec();
    message.extend_from_slice(failure.step.as_bytes());
    message.truncate(512);
    // SAFETY: the buffer lives across the call; a lost report shows as an exit with 127.
    unsafe { libc::write(report, message.as_ptr().cast(), message.len()) };
}
