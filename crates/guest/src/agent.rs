//! The loop: messages from the host in, output and ends of processes out. One thread, level-triggered poll.

mod exec;

use crate::enter::{Inside, enter};
use crate::failure::{During, Failure, Outcome};
use crate::outbound::Outbound;
use crate::{files, system, usage, work};
use exec::Exec;
use paddock_protocol::{
    Decoder, ExitKind, Frame, FromGuest, MemoryWatch, Plan, Start, ToGuest, VERSION, decode_to_guest,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// How much is read at once, from the host and from the work.
const CHUNK: usize = 64 * 1024;
/// How long the killed may take to die; less than the host waits for last words.
const DYING: Duration = Duration::from_millis(150);

/// Runs until the host goes away. PID 1's end is the end of everything in its namespace.
pub fn run(control: OwnedFd) -> Outcome<()> {
    let mut host = Host { control, decoder: Decoder::new(), outbound: Outbound::default() };
    let (plan, passed) = host.wait_for_plan()?;
    let watch = plan.watch_memory;
    match enter(plan, passed, host.control.as_raw_fd()) {
        Ok(inside) => Agent::new(host, inside, watch)?.serve(),
        Err(failure) => {
            let errno = failure.errno.raw_os_error();
            host.outbound.message(&FromGuest::EnterFailed { step: failure.step.clone(), errno });
            host.outbound.flush(host.control.as_fd()).during(|| "report to the host".into())?;
            Err(failure)
        }
    }
}

struct Host {
    control: OwnedFd,
    decoder: Decoder,
    outbound: Outbound,
}

impl Host {
    /// `Ok(false)` when the host has gone.
    fn receive(&mut self, buffer: &mut [u8]) -> Outcome<bool> {
        match rustix::io::read(&self.control, &mut *buffer) {
            Ok(0) => Ok(false),
            Ok(count) => {
                self.decoder.push(&buffer[..count]);
                Ok(true)
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(Errno::CONNRESET) => Ok(false),
            Err(errno) => Err(Failure { step: "read from the host".into(), errno }),
        }
    }

    fn next_frame(&mut self) -> Outcome<Option<Frame>> {
        self.decoder.next_frame().map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })
    }

    /// The plan comes first, and with it the descriptors that it speaks of.
    fn wait_for_plan(&mut self) -> Outcome<(Plan, Vec<OwnedFd>)> {
        let mut buffer = vec![0; CHUNK];
        let mut passed = Vec::new();
        loop {
            if let Some(Frame::Message(body)) = self.next_frame()? {
                return match decode_to_guest(&body) {
                    Ok(ToGuest::Enter(plan)) => Ok((*plan, passed)),
                    _ => Err(Failure { step: "expected a plan".into(), errno: Errno::PROTO }),
                };
            }
            let count = system::receive_with_descriptors(&self.control, &mut buffer, &mut passed)
                .during(|| "read the plan".into())?;
            if count == 0 {
                return Err(Failure {
                    step: "the host went away before it sent a plan".into(),
                    errno: Errno::PIPE,
                });
            }
            self.decoder.push(&buffer[..count]);
        }
    }
}

struct Agent {
    host: Host,
    inside: Inside,
    children: OwnedFd,
    execs: Vec<Exec>,
    watch: Option<MemoryWatch>,
    next_look: Instant,
    /// The most that any look has seen.
    most_memory: u64,
    buffer: Vec<u8>,
}

impl Agent {
    fn new(mut host: Host, inside: Inside, watch: Option<MemoryWatch>) -> Outcome<Agent> {
        let children =
            system::signal_descriptor(libc::SIGCHLD).during(|| "watch for ended processes".into())?;
        rustix::io::ioctl_fionbio(&host.control, true).during(|| "unblock the host's stream".into())?;
        host.outbound.message(&FromGuest::Ready {
            version: VERSION,
            landlock_abi: inside.confinement.landlock_abi,
            time_namespace: inside.time_namespace,
        });
        Ok(Agent {
            host,
            inside,
            children,
            execs: Vec::new(),
            watch,
            next_look: Instant::now(),
            most_memory: 0,
            buffer: vec![0; CHUNK],
        })
    }

    fn serve(mut self) -> Outcome<()> {
        loop {
            while let Some(frame) = self.host.next_frame()? {
                self.handle(frame)?;
            }
            if self.host.outbound.flush(self.host.control.as_fd()).is_err() {
                return Ok(());
            }
            let readable = self.wait_for_something()?;
            if readable && !self.receive()? {
                return Ok(());
            }
            self.reap();
            self.move_bytes();
            self.hold_limits();
            self.report_ends();
        }
    }

    fn receive(&mut self) -> Outcome<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let alive = self.host.receive(&mut buffer);
        self.buffer = buffer;
        alive
    }

    /// Whether the host has sent something.
    fn wait_for_something(&mut self) -> Outcome<bool> {
        let full = self.host.outbound.is_full();
        let mut polled = Vec::with_capacity(2 + 4 * self.execs.len());
        let writable = if self.host.outbound.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        polled.push(PollFd::new(&self.host.control, PollFlags::IN | writable));
        polled.push(PollFd::new(&self.children, PollFlags::IN));
        for exec in &self.execs {
            exec.add_to_poll(&mut polled, full);
        }
        let timeout = self.next_timeout();
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure { step: "poll".into(), errno }),
        }
        Ok(polled[0].revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR))
    }

    fn next_timeout(&self) -> Option<Timespec> {
        let deadline = self.execs.iter().filter_map(|exec| exec.deadline).min();
        let look = self.watch.filter(|_| !self.execs.is_empty()).map(|_| self.next_look);
        let next = deadline.into_iter().chain(look).min()?;
        let rest = next.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: rest.as_secs() as i64, tv_nsec: rest.subsec_nanos().into() })
    }

    fn handle(&mut self, frame: Frame) -> Outcome<()> {
        let body = match frame {
            Frame::Data { channel, bytes } => {
                if let Some(exec) = self.execs.iter_mut().find(|e| e.takes_input_from(channel)) {
                    exec.queue_input(bytes);
                }
                return Ok(());
            }
            Frame::Message(body) => body,
        };
        let message =
            decode_to_guest(&body).map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })?;
        match message {
            ToGuest::Enter(_) => return Err(Failure { step: "a second plan".into(), errno: Errno::PROTO }),
            ToGuest::Start(start) => self.start(&start),
            ToGuest::CloseStdin { exec } => self.with(exec, Exec::close_input),
            ToGuest::Resize { exec, size } => self.with(exec, |e| e.resize(size)),
            ToGuest::Signal { exec, signal } => self.with(exec, |e| e.signal(signal)),
            ToGuest::Credit { channel, bytes } => {
                self.execs.iter_mut().for_each(|exec| exec.grant(channel, bytes));
            }
            ToGuest::WriteFile { request, path, mode, append, content } => {
                let ids = self.inside.confinement.ids;
                let owner = (ids.work, ids.work_group);
                let result = files::write_file(&path, mode, append, &content, owner);
                let errno = result.map_or_else(|e| e.raw_os_error(), |()| 0);
                self.host.outbound.message(&FromGuest::Done { request, errno });
            }
            ToGuest::Stop => {
                kill_everything();
                self.reap_killed();
                let usage = self.inside.counters.read(self.most_memory);
                self.host.outbound.message(&FromGuest::Stopped { usage });
            }
        }
        Ok(())
    }

    fn with(&mut self, number: u32, action: impl FnOnce(&mut Exec)) {
        if let Some(exec) = self.execs.iter_mut().find(|e| e.number == number) {
            action(exec);
        }
    }

    fn start(&mut self, start: &Start) {
        match work::spawn(start, &self.inside.confinement) {
            Ok(spawned) => self.execs.push(Exec::new(start, spawned)),
            Err(failure) => self.host.outbound.message(&FromGuest::StartFailed {
                exec: start.exec,
                step: failure.step,
                errno: failure.errno.raw_os_error(),
            }),
        }
    }

    /// Collects every ended child, the work's orphans included: PID 1 is everybody's last parent. Whether any
    /// child is left.
    fn reap(&mut self) -> bool {
        let mut drain = [0; 512];
        while rustix::io::read(&self.children, &mut drain).is_ok_and(|count| count > 0) {}
        loop {
            let (pid, status) = match wait(WaitOptions::NOHANG) {
                Ok(Some(ended)) => ended,
                Ok(None) => return true,
                Err(_) => return false,
            };
            let ended = match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => ExitKind::Exited(code),
                (None, Some(signal)) => ExitKind::Signaled(signal),
                (None, None) => continue,
            };
            if let Some(exec) = self.execs.iter_mut().find(|e| e.pid == pid) {
                exec.status = Some(ended);
            }
        }
    }

    /// Precondition: everything was killed. What a process used counts only once it is collected, and dying takes
    /// a moment; one that hangs in the kernel is not waited for.
    fn reap_killed(&mut self) {
        let patience = Instant::now() + DYING;
        while self.reap() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn move_bytes(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for exec in &mut self.execs {
            exec.read_start_report(&mut self.host.outbound);
            exec.write_input(&mut self.host.outbound);
            exec.read_output(&mut buffer, &mut self.host.outbound);
        }
        self.buffer = buffer;
    }

    /// The limits that the guest holds itself: deadlines always, memory where the kernel does not.
    fn hold_limits(&mut self) {
        let now = Instant::now();
        for exec in self.execs.iter_mut().filter(|e| e.deadline.is_some_and(|d| d <= now)) {
            exec.deadline = None;
            kill_everything();
            self.host.outbound.message(&FromGuest::DeadlinePassed { exec: exec.number });
        }
        let Some(watch) = self.watch.filter(|_| now >= self.next_look && !self.execs.is_empty()) else {
            return;
        };
        self.next_look = now + Duration::from_millis(watch.interval_ms);
        let bytes = usage::memory_in_use(&self.inside.counters);
        self.most_memory = self.most_memory.max(bytes);
        if bytes > watch.limit_bytes {
            kill_everything();
            self.host.outbound.message(&FromGuest::MemoryExceeded { bytes });
        }
    }

    fn report_ends(&mut self) {
        let (counters, most) = (&self.inside.counters, self.most_memory);
        for exec in &mut self.execs {
            exec.report_end(&mut self.host.outbound, || counters.read(most));
        }
        self.execs.retain(|exec| !exec.is_finished());
    }
}

/// Everything in the namespace but this process.
fn kill_everything() {
    // SAFETY: plain integers; -1 from PID 1 means all others of its namespace.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

fn signal_group(leader: Pid, number: i32) {
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = kill_process_group(leader, signal);
    }
}
