//! PID 1 of a fence in which a kernel in user space runs (gVisor's, the sentry). It builds the inside as ever, has the runtime
//! run that kernel on it, and watches: the work is done by another guest, behind that kernel, which has the host's stream.
//!
//! - [`runtime`]: calls of `runsc`
//! - [`memory`]: the memory of a sandbox, kept and brought back
//!
//! It outlives the host with its sandbox: a later host's connection is brought to the guest by the runtime.

mod memory;
mod runtime;

use crate::agent::Host;
use crate::enter::{Stage, enter_stage, network};
use crate::failure::{During, Failure, Outcome};
use crate::system;
use paddock_protocol::{Decoder, Frame, Plan, SENTRY_PLACE, SentryPlan, ToGuest, decode_to_guest};
use runtime::{Runtime, Streams};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, test_kill_process, wait};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The most bytes of the runtime's message about a failure that are passed on.
const SAID: usize = 600;
const BUNDLE: &str = "--bundle=/bundle";
const PID_FILE: &str = "/state/pid";
/// The error output of the runtime and its kernel: a file, since no process reads along.
const ERRORS: &str = "/state/errors";

/// Runs until the kernel in user space ends.
pub fn serve(host: &mut Host, plan: Plan, sentry: SentryPlan, passed: Vec<OwnedFd>) -> Outcome<()> {
    let gone = || Failure { step: "the host went away".into(), errno: Errno::PIPE };
    let number = host.control.as_ref().map(AsRawFd::as_raw_fd).ok_or_else(gone)?;
    let Stage { runtime, cgroups, listener, commands, handover, kept } =
        enter_stage(&plan, &sentry, passed, number)?;
    if plan.own_network {
        system::raise_loopback().during(|| "bring loopback up".into())?;
    }
    let network = match (&plan.link, handover) {
        (Some(link), Some(handover)) => {
            let ends = network::raise(link)?;
            ends.hand_over(handover).during(|| "hand the link over".into())?;
            Some(ends)
        }
        _ => None,
    };
    let children = system::signal_descriptor(libc::SIGCHLD).during(|| "watch for ended processes".into())?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    let runner = SentryRunner {
        runtime: Runtime {
            executable: runtime,
            arguments: sentry.arguments,
            cgroups,
            limit_threads: sentry.limit_threads,
        },
        id: sentry.id,
        user: format!("--user={0}:{0}", plan.ids.guest),
        null: null.during(|| "open /dev/null".into())?,
        network,
        listener,
        commands,
        children,
        kernel: None,
        ended: false,
        _kept: kept,
    };
    runner.serve(host, sentry.memory.is_some())
}

/// The guest behind the kernel: its input leads to the host, and its plan lies in `place`.
pub fn run_inner_guest(place: &str) -> Outcome<()> {
    let read = |name: &str| {
        let path = format!("{place}/{name}");
        std::fs::read(&path).during(|| format!("read {path}"))
    };
    let (plan, built) = (plan_in(&read("plan")?)?, read("built")?);
    let control =
        rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3).during(|| "keep the host's stream".into())?;
    let null = openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .during(|| "open /dev/null".into())?;
    rustix::stdio::dup2_stdin(&null).during(|| "set stdin".into())?;
    rustix::stdio::dup2_stdout(&null).during(|| "set stdout".into())?;
    rustix::stdio::dup2_stderr(&null).during(|| "set stderr".into())?;
    crate::agent::run_on_built_root(control, plan, &built)
}

fn plan_in(bytes: &[u8]) -> Outcome<Plan> {
    let mut decoder = Decoder::new();
    decoder.push(bytes);
    if let Ok(Some(Frame::Message(body))) = decoder.next_frame()
        && let Ok(ToGuest::Enter(plan)) = decode_to_guest(&body)
    {
        return Ok(*plan);
    }
    Err(Failure { step: "expected a plan".into(), errno: Errno::PROTO })
}

/// Keeps a kernel in user space running.
struct SentryRunner {
    runtime: Runtime,
    id: String,
    /// The id that brings a connection to the guest.
    user: String,
    null: OwnedFd,
    network: Option<network::Ends>,
    listener: Option<OwnedFd>,
    commands: Option<OwnedFd>,
    children: OwnedFd,
    kernel: Option<Pid>,
    ended: bool,
    _kept: Vec<OwnedFd>,
}

impl SentryRunner {
    fn serve(mut self, host: &mut Host, recall: bool) -> Outcome<()> {
        let control = host.control.take();
        let started = match &control {
            Some(control) if !recall => self.start(&["run"], control.as_fd()),
            _ => self.recall("/memory"),
        };
        if started.is_err() {
            host.control = control;
            return started;
        }
        // The guest has its own by now, and its end is to be seen.
        drop(control);
        loop {
            if self.has_ended() {
                return Ok(());
            }
            let (next_host, command) = self.wait_for_something()?;
            if next_host {
                self.admit();
            }
            if command {
                self.obey();
            }
        }
    }

    /// Runs the kernel, by one of the two ways that the runtime has.
    fn start(&mut self, how: &[&str], input: BorrowedFd<'_>) -> Outcome<()> {
        let pid_file = format!("--pid-file={PID_FILE}");
        let id = self.id.clone();
        let command: Vec<&str> =
            how.iter().copied().chain(["--detach", BUNDLE, pid_file.as_str(), id.as_str()]).collect();
        self.call(&command, input)?;
        let number = std::fs::read_to_string(PID_FILE).during(|| "read the kernel's number".into())?;
        let number = number.trim().parse().ok().and_then(Pid::from_raw);
        let kernel = number.ok_or(Errno::PROTO).during(|| "read the kernel's number".into())?;
        self.kernel = Some(kernel);
        // The kernel may have ended and been collected before its number was known.
        self.ended = test_kill_process(kernel).is_err();
        Ok(())
    }

    /// Waits for the runtime to have done it.
    fn call(&mut self, command: &[&str], input: BorrowedFd<'_>) -> Outcome<()> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::APPEND | OFlags::CLOEXEC;
        let errors =
            openat(CWD, ERRORS, flags, Mode::from_raw_mode(0o600)).during(|| format!("open {ERRORS}"))?;
        let streams = Streams { input, output: self.null.as_fd(), errors: errors.as_fd() };
        let pid = self.runtime.call(command, &streams)?;
        // The runtime may itself wait for other processes to be gone, which they are only once they are collected.
        let ended = loop {
            match rustix::io::retry_on_intr(|| wait(WaitOptions::empty()))
                .during(|| "wait for the runtime".into())?
            {
                Some((ended, status)) if ended == pid => break status,
                Some((ended, _)) if self.kernel == Some(ended) => self.ended = true,
                _ => {}
            }
        };
        match ended.exit_status() {
            Some(0) => Ok(()),
            _ => {
                let said = std::fs::read(ERRORS).unwrap_or_default();
                let said =
                    String::from_utf8_lossy(&said[said.len().saturating_sub(SAID)..]).trim().to_string();
                let what = command.first().copied().unwrap_or_default();
                Err(Failure { step: format!("runsc {what}: {said}"), errno: Errno::IO })
            }
        }
    }

    /// Collects ended processes: everything that the runtime leaves is a child of PID 1.
    fn has_ended(&mut self) -> bool {
        let mut drain = [0; 512];
        while rustix::io::read(&self.children, &mut drain).is_ok_and(|count| count > 0) {}
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let over = status.exit_status().is_some() || status.terminating_signal().is_some();
            self.ended |= over && self.kernel == Some(pid);
        }
        self.ended
    }

    fn wait_for_something(&self) -> Outcome<(bool, bool)> {
        let mut polled = vec![PollFd::new(&self.children, PollFlags::IN)];
        let sockets = self.listener.iter().chain(&self.commands);
        polled.extend(sockets.map(|socket| PollFd::new(socket, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure { step: "poll".into(), errno }),
        }
        let mut answers = polled[1..].iter().map(|socket| !socket.revents().is_empty());
        let next_host = self.listener.is_some() && answers.next().unwrap_or(false);
        let command = self.commands.is_some() && answers.next().unwrap_or(false);
        Ok((next_host, command))
    }

    /// Has the next host's connection brought to the guest. One that cannot be is closed, by which the host hears of it.
    fn admit(&self) {
        let Some(Ok(connection)) = self.listener.as_ref().map(system::accept) else { return };
        if self.network.as_ref().is_some_and(|network| network.hand_over(&connection).is_err()) {
            return;
        }
        let guest = format!("{SENTRY_PLACE}/guest");
        let command = ["exec", self.user.as_str(), self.id.as_str(), guest.as_str(), "bring"];
        let (input, null) = (connection.as_fd(), self.null.as_fd());
        let _ = self.runtime.call(&command, &Streams { input, output: null, errors: null });
    }
}
