//! The loop: messages from the host in, output and ends of processes out. One thread, level-triggered poll.
//!
//! - [`host`]: the connection, and where the next one comes from
//! - [`exec`], [`output`]: one command, and one of its streams
//! - [`control`], [`alarm`]: for a program that serves many calls, its messages to the host alone, and their time
//!   limits
//! - [`frozen`]: the work stands still, and commands that come meanwhile
//! - [`visits`]: how the ordinary user becomes root; [`allowance`]: the guest's time that this may take
//! - [`clock`]: when the guest itself has to act; [`limits`]: the limits that the guest holds itself

mod alarm;
mod allowance;
mod clock;
mod control;
mod exec;
mod frozen;
mod host;
mod limits;
mod output;
mod visits;

use crate::enter::{Inside, enter, enter_built_root};
use crate::failure::{During, Failure, Outcome};
use crate::memory::Census;
use crate::outbound::Outbound;
use crate::{files, sentry, system, vm, work};
use clock::Lifetime;
use exec::Exec;
use frozen::Deferred;
use host::CHUNK;
pub use host::{Entrance, Host};
use paddock_protocol::{
    ExitKind, Frame, FromGuest, MemoryWatch, Plan, Start, ToGuest, Tool, VERSION, decode_to_guest,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, wait};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};
use visits::Visits;

/// Nothing has happened for this long: it may be long before something does.
const QUIET: Duration = Duration::from_millis(100);
/// Time for killed processes to die. It is less than the host waits for the last messages.
const DYING: Duration = Duration::from_millis(150);

/// In a VM, the message that a command has begun may wait this long for the command's end or its first output. Each
/// message from there goes through two processes and a device, and takes the processor from the command.
const TOLD_TOGETHER: Duration = Duration::from_millis(8);

/// How often a guest that has no host and stays for nested sandboxes checks that some are left.
const LONELY: Duration = Duration::from_secs(2);

/// Runs until the host goes away, or, with a listener, until its time is over. PID 1's end is the end of everything
/// in its namespace.
pub fn run(control: OwnedFd) -> Outcome<()> {
    let number = control.as_raw_fd();
    let mut host = Host::new(control);
    let (mut plan, passed) = host.wait_for_plan()?;
    if let Some(sentry) = plan.sentry.take() {
        return sentry::serve(&mut host, plan, sentry, passed).map_err(|failure| tell(host, failure));
    }
    if let Some(plan_of_vm) = plan.vm.take() {
        let inside = enter(plan, passed, number);
        let served = inside.and_then(|inside| vm::serve(&mut host, inside, plan_of_vm));
        return served.map_err(|failure| tell(host, failure));
    }
    let watch = plan.watch_memory;
    begin(host, enter(plan, passed, number), watch)
}

/// The same for a guest that stands in its root already, behind a kernel in user space.
pub fn run_on_built_root(control: OwnedFd, plan: Plan, built: &[u8]) -> Outcome<()> {
    let watch = plan.watch_memory;
    begin(Host::new(control), enter_built_root(&plan, built), watch)
}

fn begin(host: Host, inside: Outcome<Inside>, watch: Option<MemoryWatch>) -> Outcome<()> {
    match inside {
        Ok(inside) => Agent::new(host, inside, watch)?.serve(),
        Err(failure) => Err(tell(host, failure)),
    }
}

fn refuse(step: &str) -> Outcome<()> {
    Err(Failure { step: step.into(), errno: Errno::PROTO })
}

fn tell(mut host: Host, failure: Failure) -> Failure {
    let errno = failure.errno.raw_os_error();
    host.outbound.message(&FromGuest::EnterFailed { step: failure.step.clone(), errno });
    host.flush();
    failure
}

struct Agent {
    host: Host,
    inside: Inside,
    children: OwnedFd,
    execs: Vec<Exec>,
    visits: Visits,
    watch: Option<MemoryWatch>,
    next_look: Instant,
    census: Census,
    /// The last command has ended.
    over: bool,
    /// The most that any look has seen.
    most_memory: u64,
    /// The number of processes that the VM's kernel has killed for want of memory so far.
    memory_kills: u64,
    lifetime: Lifetime,
    /// The time at which the work was frozen.
    frozen: Option<Instant>,
    /// Commands that came meanwhile.
    deferred: Deferred,
    /// Other sandboxes nest in this one, or may.
    shelters: bool,
    /// This sandbox has ended; the guest stays for the sandboxes that nest in it.
    holds: bool,
    /// True if anything but the host has acted inside.
    has_worked: bool,
    /// True if the memory that an idle guest does not need was given back.
    trimmed: bool,
    buffer: Vec<u8>,
}

/// The sources that woke the agent.
struct Woken {
    by_host: bool,
    by_next_host: bool,
    by_visitor: bool,
}

impl Agent {
    fn new(mut host: Host, mut inside: Inside, watch: Option<MemoryWatch>) -> Outcome<Agent> {
        let children =
            system::signal_descriptor(libc::SIGCHLD).during(|| "watch for ended processes".into())?;
        if let Some(control) = &host.control {
            rustix::io::ioctl_fionbio(control, true).during(|| "unblock the host's stream".into())?;
        }
        host.listener = inside.listener.take();
        let visits = Visits::new(inside.sudo.take());
        if inside.confinement.awaits_cgroups() {
            host.take_descriptors();
        }
        if inside.is_in_a_vm() {
            host.outbound = Outbound::with_patience(TOLD_TOGETHER);
        }
        host.outbound.message(&FromGuest::Ready {
            version: VERSION,
            landlock_abi: inside.confinement.landlock_abi,
            time_namespace: inside.time_namespace,
            ready_at: inside.ready_at,
            shares_system: inside.trees.shares_system,
        });
        Ok(Agent {
            host,
            inside,
            children,
            execs: Vec::new(),
            visits,
            watch,
            next_look: Instant::now(),
            census: Census::default(),
            over: false,
            most_memory: 0,
            memory_kills: 0,
            lifetime: Lifetime::default(),
            frozen: None,
            deferred: Deferred::default(),
            shelters: false,
            holds: false,
            has_worked: false,
            trimmed: false,
            buffer: vec![0; CHUNK],
        })
    }

    fn serve(mut self) -> Outcome<()> {
        // The first command came right behind the plan. It is started before anything is answered: the host has
        // nothing to do in between, and waking it would only take time from the command.
        if !self.receive()? {
            return Ok(());
        }
        loop {
            let heard = self.handle_frames();
            if heard.is_err() || !self.host.flush() {
                // A host that breaks the protocol loses its connection; one that will not come back ends the guest.
                if !self.host.is_lasting() {
                    return heard;
                }
                if heard.is_ok() {
                    self.hear_out();
                }
                self.lose_host();
            }
            if self.over && self.host.outbound.is_empty() {
                return Ok(());
            }
            let woken = self.wait_for_something()?;
            if woken.by_host && !self.receive().unwrap_or(false) {
                if !self.host.is_lasting() {
                    return Ok(());
                }
                self.lose_host();
            }
            if woken.by_next_host {
                // The former host's clients count on all that it had sent; none of that may be lost.
                self.hear_out();
                if self.host.accept() {
                    self.forget_connection();
                    self.hand_link_over();
                }
            }
            self.reap();
            self.visits.settle();
            if woken.by_visitor {
                self.let_visitors_in();
            }
            self.look_for_memory_kills();
            self.move_bytes();
            if !self.hold_limits() {
                return Ok(());
            }
            self.report_ends();
        }
    }

    /// Handles all messages that the host has sent until now. A host that breaks the protocol is heard no further.
    fn hear_out(&mut self) {
        while self.handle_frames().is_ok() && self.host.has_more() && self.receive().unwrap_or(false) {}
    }

    fn handle_frames(&mut self) -> Outcome<()> {
        while let Some(frame) = self.host.next_frame()? {
            self.handle(frame)?;
        }
        Ok(())
    }

    fn lose_host(&mut self) {
        if self.inside.zygote.is_some() {
            // No new host forks this zygote. The sandboxes that were forked from it go on.
            self.end_all_work();
        }
        self.host.disconnect();
        self.forget_connection();
    }

    /// Sent before anything else: the new host serves the network link.
    fn hand_link_over(&mut self) {
        if let (Some(network), Some(control)) = (&self.inside.network, &self.host.control) {
            // A host that is gone again already is noticed by the next send.
            let _ = network.hand_over(control);
        }
    }

    /// Tools end with the connection that asked for them: their streams close. Work goes on.
    fn forget_connection(&mut self) {
        self.execs.retain(|exec| !exec.is_tool());
        self.execs.iter_mut().for_each(Exec::detach);
    }

    fn receive(&mut self) -> Outcome<bool> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let alive = self.host.receive(&mut buffer);
        self.buffer = buffer;
        alive
    }

    fn wait_for_something(&mut self) -> Outcome<Woken> {
        let full = self.host.outbound.is_full();
        let mut polled = Vec::with_capacity(3 + 4 * self.execs.len());
        polled.push(PollFd::new(&self.children, PollFlags::IN));
        if let Some(control) = &self.host.control {
            let writable = if self.host.outbound.is_due() { PollFlags::OUT } else { PollFlags::empty() };
            polled.push(PollFd::new(control, PollFlags::IN | writable));
        }
        if let Some(listener) = &self.host.listener {
            polled.push(PollFd::new(listener, PollFlags::IN));
        }
        let door = self.visits.awaits(self.frozen.is_some());
        polled.extend(door.map(|door| PollFd::new(door, PollFlags::IN)));
        for exec in &self.execs {
            exec.add_to_poll(&mut polled, full);
        }
        let backlog = !full && self.execs.iter().any(Exec::has_backlog);
        let timeout = if backlog { Some(Duration::ZERO) } else { self.next_timeout() };
        let timeout = timeout.into_iter().chain(self.host.outbound.rest()).min();
        let quiet = (!self.trimmed && timeout.is_none_or(|timeout| timeout > QUIET)).then_some(QUIET);
        let timeout = quiet.or(timeout);
        let timeout =
            timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
        match poll(&mut polled, timeout.as_ref()) {
            Ok(0) if quiet.is_some() => {
                system::give_memory_back();
                self.trimmed = true;
            }
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => self.trimmed = false,
            Err(errno) => return Err(Failure { step: "poll".into(), errno }),
        }
        let mut answers = polled[1..]
            .iter()
            .map(|p| p.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR));
        let by_host = self.host.control.is_some() && answers.next().unwrap_or(false);
        let by_next_host = self.host.listener.is_some() && answers.next().unwrap_or(false);
        let by_visitor = door.is_some() && answers.next().unwrap_or(false);
        Ok(Woken { by_host, by_next_host, by_visitor })
    }

    fn next_timeout(&self) -> Option<Duration> {
        let awake = self.execs.iter().filter(|_| self.frozen.is_none());
        let deadlines = awake.flat_map(|exec| exec.deadline.into_iter().chain(exec.alarm.next()));
        let look = self.watch.filter(|_| !self.execs.is_empty()).map(|_| self.next_look);
        let now = Instant::now();
        let next = deadlines.chain(look).min().map(|at| at.saturating_duration_since(now));
        let connected = self.host.control.is_some();
        let alone = (self.is_for_others() && !connected).then_some(LONELY);
        next.into_iter()
            .chain(self.lifetime.next_look(connected))
            .chain(alone)
            .chain(self.visits.rest())
            .min()
    }

    fn handle(&mut self, frame: Frame) -> Outcome<()> {
        let body = match frame {
            Frame::Data { channel, bytes } => {
                if let Some(bytes) = self.deferred.keep_input(channel, bytes) {
                    self.feed(channel, bytes);
                }
                return Ok(());
            }
            Frame::Message(body) => body,
        };
        let message =
            decode_to_guest(&body).map_err(|e| Failure { step: e.to_string(), errno: Errno::PROTO })?;
        if !self.host.known && !matches!(message, ToGuest::Resume) {
            return refuse("a host that has not said that it takes over");
        }
        self.deferred.keep_message(message).map_or(Ok(()), |message| self.obey(message))
    }

    fn feed(&mut self, channel: u32, bytes: Vec<u8>) {
        if let Some(exec) = self.execs.iter_mut().find(|e| e.takes_input_from(channel)) {
            exec.queue_input(bytes);
            exec.tell_credit(&mut self.host.outbound);
        }
    }

    fn obey(&mut self, message: ToGuest) -> Outcome<()> {
        match message {
            ToGuest::Enter(_) => return refuse("a second plan"),
            ToGuest::Resume => {
                // The new host has let the work go on, whatever the former host was doing.
                self.freeze(false, false)?;
                // The new host knows of no exec, new or old, until it asks.
                self.execs.iter_mut().for_each(Exec::detach);
                self.introduce();
            }
            ToGuest::Cgroups { descriptors } => {
                let entrances = self.host.passed(descriptors)?;
                self.inside.confinement.set_cgroups(entrances);
            }
            // This guest is not a sandbox any more.
            ToGuest::Start(_) | ToGuest::TakeIn { .. } if self.holds => {}
            ToGuest::Start(start) if self.has_to_wait(&start) => {
                self.deferred.defer(start.exec, ToGuest::Start(start));
            }
            ToGuest::Start(start) => self.start(&start),
            ToGuest::Continue { exec, stdout, stderr, control } => {
                self.with(exec, |e| e.go_on_from(stdout, stderr, control));
                self.advance(exec);
            }
            ToGuest::Forget { exec } => self.execs.retain(|e| e.number != exec),
            ToGuest::CloseStdin { exec } => self.with(exec, Exec::close_input),
            ToGuest::Resize { exec, size } => self.with(exec, |e| e.resize(size)),
            ToGuest::Signal { exec, signal } => self.signal(exec, signal),
            ToGuest::Kill { exec } => self.kill(exec),
            ToGuest::Credit { channel, bytes } => {
                self.execs.iter_mut().for_each(|exec| exec.grant(channel, bytes));
            }
            ToGuest::Alarm { exec, call, ms, grace_ms } => {
                self.with(exec, |e| e.alarm.set(call, ms, grace_ms));
            }
            ToGuest::TakeIn { exec, pid, place, filters, is_limited } => {
                self.take_in(exec, work::Newcomer { pid, filters, is_limited }, place);
            }
            ToGuest::Shelter => self.shelters = true,
            ToGuest::Describe { request, exec } => {
                let exec = self.execs.iter().find(|known| known.number == exec);
                let (pid, stdout, stderr) = exec.and_then(Exec::describe).unwrap_or_default();
                self.host.outbound.message(&FromGuest::Described { request, pid, stdout, stderr });
            }
            ToGuest::Hold { request } => {
                self.hold();
                self.host.outbound.message(&FromGuest::Done { request, errno: 0 });
            }
            ToGuest::Deadline { ms } => self.lifetime.set(ms),
            ToGuest::Limits { pids, files, memory } => {
                self.inside.confinement.set_limits(pids, files);
                if let (Some(watch), Some(bytes)) = (&mut self.watch, memory) {
                    watch.limit_bytes = bytes;
                }
            }
            ToGuest::Freeze { request, on, signals } => {
                self.freeze(on, signals)?;
                self.host.outbound.message(&FromGuest::Done { request, errno: 0 });
            }
            ToGuest::WriteFile { request, path, mode, append, content } => {
                let ids = self.inside.confinement.ids;
                let owner = (ids.work, ids.work_group);
                let result = files::write_file(&path, mode, append, &content, owner);
                let errno = result.map_or_else(|e| e.raw_os_error(), |()| 0);
                self.host.outbound.message(&FromGuest::Done { request, errno });
            }
            ToGuest::Stop => {
                self.end_all_work();
                self.reap_killed();
                let usage = self.inside.counters.read(self.most_memory);
                self.host.outbound.message(&FromGuest::Stopped { usage });
            }
        }
        Ok(())
    }

    fn introduce(&mut self) {
        self.host.known = true;
        let execs = self.execs.iter().map(Exec::state).collect();
        let ready_at = self.inside.ready_at;
        self.host.outbound.message(&FromGuest::Resumed { version: VERSION, ready_at, execs });
    }

    fn with(&mut self, number: u32, action: impl FnOnce(&mut Exec)) {
        if let Some(exec) = self.execs.iter_mut().find(|e| e.number == number) {
            action(exec);
        }
    }

    /// Sends the available output of one exec at once.
    fn advance(&mut self, number: u32) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let (counters, most) = (&self.inside.counters, self.most_memory);
        if let Some(exec) = self.execs.iter_mut().find(|e| e.number == number) {
            exec.read_output(&mut buffer, &mut self.host.outbound);
            exec.report_end(&mut self.host.outbound, || counters.read(most));
        }
        self.buffer = buffer;
    }

    /// A number that is known already is the same exec, asked for twice.
    fn start(&mut self, start: &Start) {
        if self.execs.iter().any(|e| e.number == start.exec) {
            return;
        }
        let lasting = self.host.is_lasting();
        let import = start.tool == Some(Tool::Import);
        let spawned = if import && self.has_worked {
            Err(Failure { step: "import a disk that is in use".into(), errno: Errno::BUSY })
        } else if !import && (lasting || start.tool.is_some()) {
            // A tool keeps no descriptor of the guest's, the rules' among them: it has to be in the domain already.
            self.has_worked = true;
            self.inside.confinement.share_domain()
        } else {
            Ok(())
        };
        let spawned = spawned.and_then(|()| match &start.tool {
            Some(tool) => work::spawn_tool(start, tool, &self.inside.confinement, &self.inside.trees),
            None => work::spawn(start, &self.inside.confinement, self.inside.zygote.as_ref()),
        });
        let failed = spawned.is_err();
        self.execs.push(Exec::new(start, spawned, lasting));
        if failed {
            self.advance(start.exec);
        }
    }

    /// Once for each place: the streams are of one process.
    fn take_in(&mut self, number: u32, newcomer: work::Newcomer, place: usize) {
        if self.execs.iter().any(|e| e.number == number) {
            return;
        }
        self.has_worked = true;
        let streams = self.inside.awaited.get_mut(place).and_then(Option::take);
        let taken = newcomer.take_in(streams, &self.inside.confinement);
        self.execs.push(Exec::taken_in(number, taken));
        self.advance(number);
    }

    /// Collects every ended child, the work's orphans included: PID 1 is the last parent of all. Returns true if any
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
            self.visits.note_end(pid, ended);
            // A number may be used again once its process was collected.
            if let Some(exec) = self.execs.iter_mut().find(|e| e.pid == Some(pid) && e.status.is_none()) {
                exec.status = Some(ended);
            }
        }
    }

    /// Precondition: everything was killed. The use of a process counts only once it is collected, and dying takes a
    /// moment; a process that hangs in the kernel is not waited for.
    fn reap_killed(&mut self) {
        let patience = Instant::now() + DYING;
        while self.reap() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The sandbox ends, and this process stays: the kernel would end the sandboxes that nest here with it.
    fn hold(&mut self) {
        self.holds = true;
        self.lifetime.set(None);
        self.deferred.clear();
        self.end_all_work();
        self.reap_killed();
        self.visits.close();
        self.execs.clear();
    }

    /// A host that ends the sandbox by force asks afterwards for its use, so the guest stays for that.
    fn end_all_work(&mut self) {
        self.execs.iter_mut().for_each(|exec| exec.last = false);
        if self.shelters || self.is_for_others() {
            // A kill of everything would hit the sandboxes that nest here, too.
            self.execs.iter_mut().for_each(Exec::kill);
            work::kill_all_but_nested();
        } else {
            signal_everything(libc::SIGKILL);
        }
    }

    /// True if this guest is there for the sake of the sandboxes that nest in it.
    fn is_for_others(&self) -> bool {
        self.holds || self.inside.zygote.is_some()
    }

    fn move_bytes(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        for exec in &mut self.execs {
            exec.read_start_report();
            exec.write_input();
            exec.read_output(&mut buffer, &mut self.host.outbound);
        }
        self.buffer = buffer;
    }

    fn report_ends(&mut self) {
        let (counters, most) = (&self.inside.counters, self.most_memory);
        for exec in &mut self.execs {
            exec.report_end(&mut self.host.outbound, || counters.read(most));
        }
        self.over |= self.execs.iter().any(Exec::ends_the_sandbox);
        // A lasting guest remembers how an exec ended until the host says that it does.
        let lasting = self.host.is_lasting();
        self.execs.retain(|exec| !exec.is_finished() || (lasting && !exec.is_tool()));
    }
}

/// True if no other process is in the namespace, or in one below it.
fn is_alone() -> bool {
    // SAFETY: plain integers; signal 0 only looks, and -1 means all others of the namespace.
    unsafe { libc::kill(-1, 0) != 0 && crate::work::last_errno() == Errno::SRCH }
}

fn signal_everything(number: i32) {
    // SAFETY: plain integers; -1 from PID 1 means all others of its namespace.
    unsafe { libc::kill(-1, number) };
}

fn signal_group(leader: Pid, number: i32) {
    if let Some(signal) = Signal::from_named_raw(number) {
        let _ = kill_process_group(leader, signal);
    }
}
