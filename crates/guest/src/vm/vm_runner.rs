//! The VM runner: PID 1 of a fence in which a VM runs. The VM's process is fenced in as all work is; it has only its files
//! and one end of its port. It passes the host's connections through that port, one at a time.

use super::net::{Network, Proxy};
use super::process::{self, Machine, SAID};
use super::silence::{Commands, Wish};
use super::wire::{Frame, Kind, PIECE, Wire};
use crate::agent::{Entrance, Host};
use crate::enter::Inside;
use crate::failure::{During, Failure, Outcome};
use crate::system;
use paddock_protocol::{BE_SILENT, FromGuest, SHELTER, VERSION, VmBeginning, VmPlan};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{WaitOptions, wait};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Above this the VM is not read until the host has taken the waiting bytes.
const MOST_WAITING: usize = 256 * 1024;
/// The host takes the last messages within this time, or does not want them.
const LAST_WORDS: Duration = Duration::from_secs(2);
const PAUSE_BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Runs until the VM ends, or until a host goes that no other can follow.
pub fn serve(host: &mut Host, mut inside: Inside, plan: VmPlan) -> Outcome<()> {
    let gone = || Failure { step: "the host went away".into(), errno: Errno::PIPE };
    let commands = plan.commands.map(|place| process::copy(&inside, place)).transpose()?.map(Commands::new);
    let children = system::signal_descriptor(libc::SIGCHLD).during(|| "watch for ended processes".into())?;
    let awaited = inside.awaited.first_mut().and_then(Option::take);
    let is_to_come = awaited.is_some();
    let (machine, port) = match awaited {
        Some(streams) => Machine::to_come(streams)?,
        None => start(&inside, &plan)?,
    };
    rustix::io::ioctl_fionbio(&port, true).during(|| "unblock the VM's port".into())?;
    let listener = match inside.listener.take() {
        Some(Entrance::Listener(listener)) => Some(listener),
        _ => None,
    };
    let network = match inside.network.as_mut().and_then(|ends| ends.near.take()) {
        Some(near) => Some(Network::new(near, Proxy::Gate(proxy_of(&inside)?))?),
        None => None,
    };
    let control = host.control.take().ok_or_else(gone)?;
    rustix::io::ioctl_fionbio(&control, true).during(|| "unblock the host's stream".into())?;
    let mut runner = VmRunner {
        port,
        children,
        machine,
        wire: Wire::default(),
        host: Some(control),
        connection: plan.connection,
        waiting: Vec::new(),
        listener,
        commands,
        beginning: Some(plan.beginning),
        network,
        is_open: false,
        heard: false,
        ended: false,
        shelters: false,
        inside,
    };
    if is_to_come {
        // The host brings it now.
        runner.tell_that_it_waits();
    }
    let served = runner.serve();
    if served.is_err() {
        host.control = runner.host.take();
    }
    served
}

fn start(inside: &Inside, plan: &VmPlan) -> Outcome<(Machine, OwnedFd)> {
    let (port, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .during(|| "make the VM's port".into())?;
    Ok((Machine::start(inside, plan, theirs)?, port))
}

fn proxy_of(inside: &Inside) -> Outcome<OwnedFd> {
    let ends = inside.network.as_ref().ok_or(Errno::NOTCONN).during(|| "find the link".into())?;
    ends.proxy.try_clone().during(|| "copy a descriptor".into())
}

struct VmRunner {
    port: OwnedFd,
    children: OwnedFd,
    machine: Machine,
    wire: Wire,
    host: Option<OwnedFd>,
    /// The number of the host's connection.
    connection: u32,
    /// Bytes for the host.
    waiting: Vec<u8>,
    /// The socket on which the next host comes. Without one, the VM ends with the first host.
    listener: Option<OwnedFd>,
    commands: Option<Commands>,
    /// The first message to the VM.
    beginning: Option<VmBeginning>,
    /// The network link of the VM.
    network: Option<Network>,
    /// True if the VM passes on the host's messages.
    is_open: bool,
    /// True once the VM has sent anything.
    heard: bool,
    ended: bool,
    /// Other sandboxes nest in this fence: it stays when the VM ends.
    shelters: bool,
    inside: Inside,
}

impl VmRunner {
    fn serve(&mut self) -> Outcome<()> {
        let mut buffer = vec![0; PIECE];
        // A copy of a VM that waited, or that had its orders, says nothing by itself.
        match self.beginning.take() {
            Some(VmBeginning::Orders(orders)) => {
                self.wire.put_piece(Kind::Orders, self.connection, &orders);
                self.is_open = true;
            }
            Some(VmBeginning::Renewal(renewal)) => {
                self.wire.put(Kind::Renew, &renewal);
                self.is_open = true;
            }
            waits => self.beginning = waits,
        }
        loop {
            if self.wire.flush(&self.port).is_err() {
                self.ended = true;
            }
            self.feed();
            if self.ended && self.shelters {
                let _ = self.end();
                return self.stay();
            }
            if self.ended {
                return self.end();
            }
            if self.host.is_none() && self.listener.is_none() && self.waiting.is_empty() {
                return Ok(());
            }
            self.wait_for_something(&mut buffer)?;
            self.reap()?;
        }
    }

    fn wait_for_something(&mut self, buffer: &mut [u8]) -> Outcome<()> {
        let hears_host = self.is_open && !self.wire.is_full();
        let hears_vm = self.waiting.len() < MOST_WAITING && !self.wire.is_overfull();
        let none = PollFlags::empty();
        let wanted = |wanted: bool, flag: PollFlags| if wanted { flag } else { none };
        let port = wanted(hears_vm, PollFlags::IN) | wanted(self.wire.has_to_send(), PollFlags::OUT);
        let host = wanted(hears_host, PollFlags::IN) | wanted(!self.waiting.is_empty(), PollFlags::OUT);
        let mut polled = vec![PollFd::new(&self.children, PollFlags::IN), PollFd::new(&self.port, port)];
        let mut places = [None; 5];
        let optional = [
            self.host.as_ref().map(|socket| (socket, host)),
            self.listener.as_ref().map(|socket| (socket, PollFlags::IN)),
            self.commands.as_ref().map(|commands| (commands.descriptor(), PollFlags::IN)),
            self.machine.complaints()[0].map(|pipe| (pipe, PollFlags::IN)),
            self.machine.complaints()[1].map(|pipe| (pipe, PollFlags::IN)),
        ];
        for (place, (socket, events)) in
            optional.iter().enumerate().filter_map(|(place, one)| one.map(|one| (place, one)))
        {
            places[place] = Some(polled.len());
            polled.push(PollFd::new(socket, events));
        }
        let own = polled.len();
        let full = self.wire.is_full();
        let leading_out = self.network.iter().flat_map(|network| network.descriptors(full));
        polled.extend(leading_out.map(|(descriptor, events)| PollFd::new(descriptor, events)));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure { step: "poll".into(), errno }),
        }
        let woken: Vec<PollFlags> = polled[own..].iter().map(PollFd::revents).collect();
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let is = |place: usize| polled.get(place).is_some_and(|p| p.revents().intersects(readable));
        let optional = places.map(|place| place.is_some_and(is));
        let from_port = is(1);
        drop(polled);
        if let Some(network) = self.network.as_mut().filter(|_| !full && self.is_open) {
            network.serve(&woken, &mut self.wire);
        }
        if from_port && hears_vm {
            self.hear_vm(buffer)?;
        }
        if optional[0] && (hears_host || !self.is_open) {
            self.hear_host(buffer);
        }
        if optional[1] {
            self.admit();
        }
        if optional[2] {
            self.hear_wish();
        }
        if optional[3] || optional[4] {
            self.machine.hear_complaints(buffer);
        }
        Ok(())
    }

    fn hear_vm(&mut self, buffer: &mut [u8]) -> Outcome<()> {
        match rustix::io::read(&self.port, &mut *buffer) {
            Ok(0) => self.ended = true,
            Ok(count) => self.wire.push(&buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.ended = true,
        }
        while let Some(frame) = self.wire.next()? {
            self.heard = true;
            self.handle(&frame)?;
        }
        Ok(())
    }

    fn handle(&mut self, frame: &Frame) -> Outcome<()> {
        match frame.kind {
            Kind::Waiting => {
                if self.beginning.take().is_some() {
                    self.wire.put(Kind::BeSilent, b"");
                }
            }
            Kind::Data => {
                if let Some((number, bytes)) = frame.piece()
                    && number == self.connection
                    && self.host.is_some()
                {
                    self.waiting.extend_from_slice(bytes);
                }
            }
            Kind::Close => {
                if frame.piece().is_some_and(|(number, _)| number == self.connection) {
                    self.feed();
                    self.host = None;
                }
            }
            Kind::Silent => match &self.commands {
                Some(commands) => commands.answer(BE_SILENT),
                None => self.tell_that_it_waits(),
            },
            Kind::Failed => {
                let (errno, step) = frame.piece().unwrap_or((0, b"an unknown step"));
                let step = String::from_utf8_lossy(step).escape_debug().to_string();
                let errno = i32::try_from(errno).map_or(Errno::IO, Errno::from_raw_os_error);
                return Err(Failure { step: format!("in the VM: {step}"), errno });
            }
            Kind::Ended => self.ended = true,
            Kind::Link | Kind::ProxyOpen | Kind::ProxyData | Kind::ProxyEnd | Kind::ProxyCredit => {
                if let Some(network) = &mut self.network {
                    network.handle(frame, &mut self.wire);
                }
            }
            Kind::Clock => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
                self.wire.put(Kind::Clock, &now.to_le_bytes());
            }
            Kind::Orders | Kind::Open | Kind::BeSilent | Kind::Renew | Kind::GoOn => {}
        }
        Ok(())
    }

    /// Tells the host, which wants to keep the VM's memory of this moment.
    fn tell_that_it_waits(&mut self) {
        let ready = FromGuest::Ready {
            version: VERSION,
            landlock_abi: 0,
            time_namespace: true,
            ready_at: 0,
            shares_system: false,
        };
        let _ = paddock_protocol::encode_message(&ready, &mut self.waiting);
    }

    fn hear_host(&mut self, buffer: &mut [u8]) {
        let Some(host) = &self.host else { return };
        if !self.is_open {
            // Nothing is read before the VM can take it; but the end of the connection is seen.
            if is_gone(host) {
                self.host = None;
            }
            return;
        }
        match rustix::io::read(host, &mut *buffer) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(count) if count > 0 => self.wire.put_piece(Kind::Data, self.connection, &buffer[..count]),
            _ => {
                self.host = None;
                self.waiting.clear();
                self.wire.put_piece(Kind::Close, self.connection, b"");
            }
        }
    }

    fn admit(&mut self) {
        let Some(Ok(next)) = self.listener.as_ref().map(system::accept) else { return };
        if self.inside.network.as_ref().is_some_and(|network| network.hand_over(&next).is_err()) {
            return;
        }
        self.host = Some(next);
        self.waiting.clear();
        self.connection = self.connection.wrapping_add(1);
        self.wire.put_piece(Kind::Open, self.connection, b"");
    }

    fn hear_wish(&mut self) {
        match self.commands.as_mut().and_then(Commands::hear) {
            Some(Wish::Silence) => self.wire.put(Kind::BeSilent, b""),
            Some(Wish::GoOn) => self.wire.put(Kind::GoOn, b""),
            Some(Wish::Shelter) => {
                self.shelters = true;
                if let Some(commands) = &self.commands {
                    commands.answer(SHELTER);
                }
            }
            None => {}
        }
    }

    /// Sends the waiting bytes to the host.
    fn feed(&mut self) {
        while let Some(host) = self.host.as_ref().filter(|_| !self.waiting.is_empty()) {
            match rustix::io::write(host, &self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.host = None;
                    self.waiting.clear();
                    self.wire.put_piece(Kind::Close, self.connection, b"");
                }
            }
        }
        if self.host.is_none() {
            self.waiting.clear();
        }
    }

    /// Collects ended processes. If the VM ends before it was of any use, that is a failure, told with its error
    /// output.
    fn reap(&mut self) -> Outcome<()> {
        let mut drain = [0; 512];
        while rustix::io::read(&self.children, &mut drain).is_ok_and(|count| count > 0) {}
        let (mut over, mut any) = (false, false);
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let ended = status.exit_status().is_some() || status.terminating_signal().is_some();
                    any |= ended;
                    over |= ended && self.machine.is(pid);
                }
                Ok(None) => break,
                // The pid of a VM that came from outside is not known; but only its process stays here.
                Err(_) => {
                    over |= any && self.machine.is_unnumbered();
                    break;
                }
            }
        }
        if !over {
            return Ok(());
        }
        self.ended = true;
        let mut buffer = vec![0; SAID];
        self.machine.hear_complaints(&mut buffer);
        if self.heard { Ok(()) } else { Err(self.machine.why_it_ended()) }
    }

    /// From here on no host can reach this guest. It ends when the host ends it.
    fn stay(&mut self) -> Outcome<()> {
        (self.host, self.listener, self.commands, self.network) = (None, None, None, None);
        self.machine.close();
        // The first kept file holds its place and stays. Behind it are the VM's files, the socket of its monitor among
        // them.
        self.inside.kept.truncate(1);
        loop {
            let mut polled = [PollFd::new(&self.children, PollFlags::IN)];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(Failure { step: "poll".into(), errno }),
            }
            // The end of the VM was told already.
            let _ = self.reap();
        }
    }

    /// A connected host gets the last messages.
    fn end(&mut self) -> Outcome<()> {
        let deadline = Instant::now() + LAST_WORDS;
        // The VM's port closes a moment before its process ends, and before all its error output was read.
        let mut buffer = vec![0; SAID];
        while !self.heard && Instant::now() < deadline {
            self.machine.hear_complaints(&mut buffer);
            self.reap()?;
            std::thread::sleep(PAUSE_BETWEEN_LOOKS);
        }
        if !self.heard {
            return Err(self.machine.why_it_ended());
        }
        while !self.waiting.is_empty() && Instant::now() < deadline {
            self.feed();
            let Some(host) = &self.host else { break };
            let moment = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let _ = poll(&mut [PollFd::new(host, PollFlags::OUT)], Some(&moment));
        }
        Ok(())
    }
}

/// True if the other end has closed. Reads nothing.
fn is_gone(socket: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = poll(&mut polled, Some(&now));
    polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}
