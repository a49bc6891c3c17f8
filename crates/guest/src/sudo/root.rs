//! The process of root behind one `sudo`. The guest has started it with the rights of a command of root and with the connection of
//! the caller: it reads what the caller wants, starts it, and tells how it ends. Nothing that it reads can give it more than it has.

use super::LOST;
use super::program::{Caller, Program};
use super::request::{self, News, Request};
use crate::system;
use crate::work::{FINISHED, last_errno, resize};
use paddock_protocol::WindowSize;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use std::ffi::CString;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// A caller sends its request at once.
const PATIENCE_SECONDS: u32 = 10;

/// The three arguments behind the name are the number of the connection, and the ids of the caller.
pub fn run(arguments: &[Vec<u8>]) -> i32 {
    let numbers: Vec<u32> =
        arguments.iter().filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok()).collect();
    let [connection, uid, gid] = numbers[..] else { return LOST };
    let Some(connection) = i32::try_from(connection).ok().filter(|number| *number > 2) else { return LOST };
    // SAFETY: the guest left this one descriptor open for this process alone, and named it; nothing else here owns it.
    let connection = unsafe { OwnedFd::from_raw_fd(connection) };
    serve(&connection, Caller { uid, gid }).unwrap_or(LOST)
}

fn serve(connection: &OwnedFd, caller: Caller) -> rustix::io::Result<i32> {
    rustix::io::fcntl_setfd(connection, rustix::io::FdFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(connection, false)?;
    // Ends this process if the request is not whole by then.
    // SAFETY: a plain integer; no handler is set, so that the signal ends the process.
    unsafe { libc::alarm(PATIENCE_SECONDS) };
    // Nothing has begun, so that nothing can be left behind.
    let Ok((request, descriptors)) = request::receive_request(connection) else { return Ok(FINISHED) };
    // SAFETY: as above; zero takes the alarm back.
    unsafe { libc::alarm(0) };
    let ended = system::signal_descriptor(libc::SIGCHLD)?;
    // From here on signals for the caller are the command's. A caller that has gone while it waited gets none.
    if request::send(connection, &News::Taken.bytes(), &[]).is_err() {
        return Ok(FINISHED);
    }
    let begun = Program::of(&request.command, caller, &request.variables)
        .and_then(|program| begin(&request, &program, descriptors, connection));
    match begun {
        Ok((leader, terminal)) => {
            let controlling = terminal.as_ref().map(|terminal| terminal.controlling.as_fd());
            let sent = request::send(connection, &News::Began.bytes(), controlling.as_slice());
            // The caller alone keeps the controlling side, so that the terminal hangs up with it.
            let _kept = terminal.map(|terminal| terminal.own);
            sent?;
            Ok(watch(connection, &ended, leader))
        }
        Err(reason) => {
            request::send(connection, &News::Failed(reason.len() as u32).bytes(), &[])?;
            request::send(connection, reason.as_bytes(), &[])?;
            Ok(FINISHED)
        }
    }
}

struct Terminal {
    controlling: OwnedFd,
    own: OwnedFd,
}

/// Precondition: this process leads its session, and has no terminal.
fn make_terminal((rows, columns): (u16, u16)) -> rustix::io::Result<Terminal> {
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let controlling = openpt(flags)?;
    unlockpt(&controlling)?;
    let own = ioctl_tiocgptpeer(&controlling, flags)?;
    resize(&controlling, WindowSize { rows, columns })?;
    rustix::process::ioctl_tiocsctty(&own)?;
    Ok(Terminal { controlling, own })
}

/// Everything that the child needs, made before the fork.
struct Child<'a> {
    program: &'a Program,
    /// Standard input, output and error, and the directory of the caller.
    descriptors: [OwnedFd; request::DESCRIPTORS],
    terminal: Option<&'a OwnedFd>,
    replaced: [bool; 3],
    caller: Option<&'a OwnedFd>,
}

fn begin(
    request: &Request,
    program: &Program,
    descriptors: [OwnedFd; request::DESCRIPTORS],
    caller: &OwnedFd,
) -> Result<(Pid, Option<Terminal>), String> {
    become_user(program)?;
    let terminal = request.terminal.map(make_terminal).transpose();
    let terminal = terminal.map_err(|errno| format!("no terminal could be made: {errno}"))?;
    let own = terminal.as_ref().map(|terminal| &terminal.own);
    let (replaced, caller) = (request.replaced, Some(caller));
    let child = Child { program, descriptors, terminal: own, replaced, caller };
    let leader = child.start()?;
    Ok((leader, terminal))
}

/// This process becomes the user itself, so that it may signal the command.
fn become_user(program: &Program) -> Result<(), String> {
    use rustix::process::{Gid, Uid};
    use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
    let account = &program.account;
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if (account.uid, program.group) == (uid, gid) {
        return Ok(());
    }
    let groups: Vec<Gid> = program.groups.iter().map(|group| Gid::from_raw(*group)).collect();
    let (uid, gid) = (Uid::from_raw(account.uid), Gid::from_raw(program.group));
    let switched = set_thread_groups(&groups)
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid));
    switched.map_err(|_| {
        let name = &account.name;
        format!("root of this sandbox cannot become {name}: that takes `root_may_install`")
    })
}

impl Child<'_> {
    fn start(&self) -> Result<Pid, String> {
        let failed = |errno: Errno| format!("the command could not be started: {errno}");
        let (report, report_child) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(failed)?;
        // SAFETY: this process has one thread; the child runs on a copy of its memory and never returns from here.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let reason = self.run();
            let _ = rustix::io::write(&report_child, reason.as_bytes());
            // SAFETY: ends the child at once, without the exit handlers of its parent.
            unsafe { libc::_exit(127) }
        }
        drop(report_child);
        let leader = Pid::from_raw(pid.max(0)).ok_or_else(|| failed(last_errno()))?;
        // Both sides do it, so that it is done for whichever comes first.
        let _ = rustix::process::setpgid(Some(leader), Some(leader));
        let mut reason = Vec::new();
        let mut piece = [0; 512];
        loop {
            match rustix::io::read(&report, &mut piece) {
                Ok(0) => break,
                Ok(count) => reason.extend_from_slice(&piece[..count]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        match reason.is_empty() {
            true => Ok(leader),
            false => Err(String::from_utf8_lossy(&reason).into_owned()),
        }
    }

    /// Returns only if the program could not be executed.
    fn run(&self) -> String {
        match self.prepare() {
            Ok(()) => self.execute(),
            Err(reason) => reason,
        }
    }

    fn prepare(&self) -> Result<(), String> {
        let failed = |errno: Errno| format!("the command could not be started: {errno}");
        rustix::process::setpgid(None, None).map_err(failed)?;
        if let Some(terminal) = self.terminal {
            // A process in the background that takes the foreground is stopped unless it ignores that.
            // SAFETY: SIG_IGN is always a valid disposition; it is taken back below.
            unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
            rustix::termios::tcsetpgrp(terminal, rustix::process::getpid()).map_err(failed)?;
        }
        let directory = &self.descriptors[3];
        let chosen = |at: usize| match self.terminal.filter(|_| self.replaced[at]) {
            Some(terminal) => terminal,
            None => &self.descriptors[at],
        };
        rustix::stdio::dup2_stdin(chosen(0)).map_err(failed)?;
        rustix::stdio::dup2_stdout(chosen(1)).map_err(failed)?;
        rustix::stdio::dup2_stderr(chosen(2)).map_err(failed)?;
        match &self.program.directory {
            Some(path) => rustix::process::chdir(path.as_str())
                .map_err(|errno| format!("unable to change to {path}: {errno}"))?,
            None => rustix::process::fchdir(directory)
                .map_err(|errno| format!("unable to change to the working directory: {errno}"))?,
        }
        rustix::process::umask(Mode::from_raw_mode(0o022));
        system::close_on_exec_from(3).map_err(failed)?;
        system::reset_signals();
        // As late as can be: a command does not begin behind the end of the exec that wanted it.
        match self.caller.is_some_and(|caller| system::is_ready(caller, PollFlags::RDHUP)) {
            true => Err("the caller has gone".into()),
            false => Ok(()),
        }
    }

    fn execute(&self) -> String {
        let pointers = |strings: &[CString]| {
            strings.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
        };
        let (argv, environment) = (pointers(&self.program.argv), pointers(&self.program.environment));
        let name = self.program.candidates.last().map(|path| path.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        let mut worst = Errno::NOENT;
        for candidate in &self.program.candidates {
            if let Err(Errno::NOENT | Errno::NOTDIR) = rustix::fs::access(candidate, Access::EXISTS) {
                continue;
            }
            // SAFETY: all strings are NUL-terminated and both arrays end with a null pointer; they outlive the call.
            unsafe { libc::execve(candidate.as_ptr(), argv.as_ptr(), environment.as_ptr()) };
            worst = last_errno();
            if !matches!(worst, Errno::ACCESS | Errno::NOENT | Errno::NOTDIR) {
                break;
            }
        }
        let name = match self.program.candidates.len() {
            1 => name.as_str(),
            _ => name.rsplit('/').next().unwrap_or_default(),
        };
        match worst {
            Errno::NOENT | Errno::NOTDIR => format!("{name}: command not found"),
            errno => format!("unable to execute {name}: {errno}"),
        }
    }
}

/// Until the command has ended, or the caller has gone. A caller that goes takes the command with it.
fn watch(connection: &OwnedFd, ended: &OwnedFd, leader: Pid) -> i32 {
    loop {
        let mut polled = [PollFd::new(connection, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return LOST,
        }
        let [spoke, news] = [0, 1].map(|at| !polled[at].revents().is_empty());
        if news {
            let mut drained = [0; 512];
            let _ = rustix::io::read(ended, &mut drained);
            match tell(connection, leader) {
                Ok(Some(code)) => return code,
                Ok(None) => {}
                Err(_) => return give_up(leader),
            }
        }
        if spoke && !forward(connection, leader) {
            return give_up(leader);
        }
    }
}

/// Tells everything that has happened to the command. `Some` once it is over.
fn tell(connection: &OwnedFd, leader: Pid) -> rustix::io::Result<Option<i32>> {
    while let Some((_, status)) = waitpid(Some(leader), WaitOptions::NOHANG | WaitOptions::UNTRACED)? {
        let number = |found: Option<i32>| found.unwrap_or_default() as u32;
        if let Some(signal) = status.stopping_signal() {
            request::send(connection, &News::Stopped(signal as u32).bytes(), &[])?;
            continue;
        }
        let news = match status.terminating_signal() {
            Some(signal) => News::Killed(signal as u32),
            None => News::Exited(number(status.exit_status())),
        };
        // A caller that has gone meanwhile has no more use for it.
        let _ = request::send(connection, &news.bytes(), &[]);
        return Ok(Some(FINISHED));
    }
    Ok(None)
}

/// Each byte of the caller is a signal for the command. `false` when it has gone.
fn forward(connection: &OwnedFd, leader: Pid) -> bool {
    let mut signals = [0; 64];
    match rustix::io::read(connection, &mut signals) {
        Ok(0) => false,
        Ok(count) => {
            let named = signals[..count].iter().filter_map(|number| Signal::from_named_raw((*number).into()));
            named.for_each(|signal| {
                let _ = kill_process_group(leader, signal);
            });
            true
        }
        Err(Errno::INTR) => true,
        Err(_) => false,
    }
}

/// The guest kills the rest of the session, also processes that are another user's by now.
fn give_up(leader: Pid) -> i32 {
    let _ = kill_process_group(leader, Signal::KILL);
    LOST
}

/// A caller who is root already needs no other process. Returns only if the program could not be executed.
pub fn execute_here(program: &Program) -> String {
    let copy = |result: std::io::Result<OwnedFd>| result.map_err(|error| error.to_string());
    let made = || -> Result<Child<'_>, String> {
        become_user(program)?;
        let directory = rustix::fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| format!("unable to open the working directory: {errno}"))?;
        let descriptors = [
            copy(std::io::stdin().as_fd().try_clone_to_owned())?,
            copy(std::io::stdout().as_fd().try_clone_to_owned())?,
            copy(std::io::stderr().as_fd().try_clone_to_owned())?,
            directory,
        ];
        Ok(Child { program, descriptors, terminal: None, replaced: [false; 3], caller: None })
    };
    match made() {
        Ok(child) => child.execute_in_place(),
        Err(reason) => reason,
    }
}

impl Child<'_> {
    fn execute_in_place(&self) -> String {
        if let Some(path) = &self.program.directory
            && let Err(errno) = rustix::process::chdir(path.as_str())
        {
            return format!("unable to change to {path}: {errno}");
        }
        system::reset_signals();
        self.execute()
    }
}
