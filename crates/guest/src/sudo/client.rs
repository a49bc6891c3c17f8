//! The process that a program inside calls `sudo`. It has the caller's rights and no others: it hands the request to the guest's
//! socket, passes signals on, and ends as the command ended.

use super::options::{self, Command, Wanted};
use super::program::{Caller, Program};
use super::request::{self, News, Request};
use super::terminal::Relay;
use super::{REFUSED, accounts, complain, root};
use crate::system;
use paddock_protocol::SUDO_DOOR;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Signal, kill_process};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

/// The signals that are for the command.
const PASSED_ON: [i32; 10] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGWINCH,
];

const UNKNOWN: &str = "the sandbox answered in an unknown way";

pub fn run(arguments: &[Vec<u8>]) -> i32 {
    let wanted = match options::parse(arguments) {
        Ok(wanted) => wanted,
        Err(reason) => return complain(&reason),
    };
    let uid = rustix::process::getuid().as_raw();
    let say = |text: &str| {
        let _ = std::io::Write::write_all(&mut std::io::stdout(), text.as_bytes());
        0
    };
    let command = match wanted {
        Wanted::Run(command) => command,
        Wanted::Nothing => return 0,
        Wanted::List => {
            return say(&format!("User {} may run: (ALL) NOPASSWD: ALL\n", accounts::name_of(uid)));
        }
        Wanted::Version => return say("Sudo of Paddock's sandboxes\n"),
        Wanted::Help => return say(options::HELP),
    };
    let variables: Vec<Vec<u8>> = std::env::vars_os()
        .map(|(name, value)| [name.into_vec(), b"=".to_vec(), value.into_vec()].concat())
        .collect();
    if uid == 0 {
        let caller = Caller { uid, gid: rustix::process::getgid().as_raw() };
        let program = Program::of(&command, caller, &variables);
        return complain(&program.map_or_else(|reason| reason, |program| root::execute_here(&program)));
    }
    match ask(command, variables) {
        Ok(code) => code,
        Err(reason) => complain(&reason),
    }
}

fn ask(command: Command, variables: Vec<Vec<u8>>) -> Result<i32, String> {
    let connection = reach().map_err(|errno| match errno {
        Errno::NOENT | Errno::CONNREFUSED => {
            "in this sandbox no user becomes root: it was made without `become_root`".to_string()
        }
        errno => format!("the sandbox cannot be asked: {errno}"),
    })?;
    let failed = |errno: Errno| format!("the sandbox cannot be asked: {errno}");
    let relay = Relay::find();
    let directory = rustix::fs::open(".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
    let request = Request {
        command,
        variables,
        terminal: relay.as_ref().map(Relay::size),
        replaced: relay.as_ref().map(|relay| relay.replaced).unwrap_or_default(),
    };
    let (input, output, error) = (std::io::stdin(), std::io::stdout(), std::io::stderr());
    let descriptors: [BorrowedFd<'_>; request::DESCRIPTORS] =
        [input.as_fd(), output.as_fd(), error.as_fd(), directory.as_fd()];
    // Nothing is begun before the last byte, so that until then each signal has its usual effect on this process.
    let bytes = request.encode();
    let (all, last) = bytes.split_at(bytes.len().saturating_sub(1));
    // A guest that refuses this user closes the connection, maybe before all was sent.
    let sent = request::send(&connection, all, &descriptors);
    let signals = system::signals_descriptor(&PASSED_ON).map_err(failed)?;
    let _ = sent.and_then(|()| request::send(&connection, last, &[]));
    wait_for_turn(&connection, &signals)?;
    let mut brought = Vec::new();
    match news(&connection, &mut brought)? {
        News::Began => {}
        News::Failed(length) => {
            let mut reason = vec![0; (length as usize).min(request::LONGEST)];
            request::receive(&connection, &mut reason, &mut brought).map_err(failed)?;
            return Err(String::from_utf8_lossy(&reason).into_owned());
        }
        ended => return Ok(end_as(ended)),
    }
    let controlling = brought.pop();
    if let Some(controlling) = &controlling {
        rustix::io::ioctl_fionbio(controlling, true).map_err(failed)?;
    }
    let mut session = Session { connection, signals, relay, controlling };
    let ended = session.attend();
    session.finish();
    ended.map(end_as)
}

fn reach() -> rustix::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrUnix::new(SUDO_DOOR)?)?;
    Ok(socket)
}

/// Until the process of root has taken the request. More wait than may run at a time: a signal that comes meanwhile has its usual
/// effect on this process, and if that is its end, the request is taken back.
fn wait_for_turn(connection: &OwnedFd, signals: &OwnedFd) -> Result<(), String> {
    while !system::is_ready(connection, PollFlags::IN) {
        let mut polled = [PollFd::new(connection, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) if polled[0].revents().is_empty() => {
                system::signals_of(signals).into_iter().for_each(system::deliver);
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(format!("poll: {errno}")),
        }
    }
    match news(connection, &mut Vec::new())? {
        News::Taken => Ok(()),
        _ => Err(UNKNOWN.into()),
    }
}

fn news(connection: &OwnedFd, brought: &mut Vec<OwnedFd>) -> Result<News, String> {
    let mut bytes = [0; 5];
    let gone = |_| "the sandbox did not let this user become root, or has ended the command".to_string();
    request::receive(connection, &mut bytes, brought).map_err(gone)?;
    News::read(bytes).ok_or_else(|| UNKNOWN.into())
}

/// As the command ended: with its code, or by its signal.
fn end_as(ended: News) -> i32 {
    match ended {
        News::Exited(code) => code as i32,
        News::Killed(number) => {
            let number = number as i32;
            // The signal may be blocked here; the default action of each of them ends this process.
            system::reset_signals();
            if let Some(signal) = Signal::from_named_raw(number) {
                let _ = kill_process(rustix::process::getpid(), signal);
            }
            128 + number
        }
        _ => REFUSED,
    }
}

/// One command that runs.
struct Session {
    connection: OwnedFd,
    signals: OwnedFd,
    relay: Option<Relay>,
    /// The controlling side of the command's terminal.
    controlling: Option<OwnedFd>,
}

impl Session {
    /// Until the command has ended.
    fn attend(&mut self) -> Result<News, String> {
        if let Some(relay) = &mut self.relay {
            relay.begin();
        }
        loop {
            let (connection, signals) = (&self.connection, &self.signals);
            let mut polled =
                vec![PollFd::new(connection, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
            if let (Some(relay), Some(controlling)) = (&self.relay, &self.controlling) {
                polled.extend(relay.polled(controlling));
            }
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(format!("poll: {errno}")),
            }
            let ready: Vec<bool> = polled.iter().map(|one| !one.revents().is_empty()).collect();
            drop(polled);
            // A new size comes before the keys that were typed after it.
            if ready[1] {
                self.pass_signals_on();
            }
            if let (Some(relay), Some(controlling)) = (&mut self.relay, &self.controlling) {
                relay.carry(controlling);
            }
            if !ready[0] {
                continue;
            }
            match news(&self.connection, &mut Vec::new())? {
                News::Stopped(_) => self.stop(),
                ended => return Ok(ended),
            }
        }
    }

    fn pass_signals_on(&mut self) {
        for number in system::signals_of(&self.signals) {
            match number {
                libc::SIGWINCH => {
                    if let (Some(relay), Some(controlling)) = (&self.relay, &self.controlling) {
                        relay.resize(controlling);
                    }
                }
                libc::SIGCONT => {
                    self.relay.iter_mut().for_each(Relay::begin);
                    self.signal(libc::SIGCONT);
                }
                number => self.signal(number),
            }
        }
    }

    fn signal(&self, number: i32) {
        // A command that has ended already is told by the connection.
        let _ = request::send(&self.connection, &[number as u8], &[]);
    }

    /// The command has stopped: so does this process, for the shell that waits for it, until it is to go on.
    fn stop(&mut self) {
        self.relay.iter_mut().for_each(Relay::pause);
        let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        self.relay.iter_mut().for_each(Relay::begin);
        self.signal(libc::SIGCONT);
    }

    fn finish(&mut self) {
        if let (Some(relay), Some(controlling)) = (&mut self.relay, &self.controlling) {
            relay.drain(controlling);
        }
        self.relay.iter_mut().for_each(Relay::pause);
    }
}
