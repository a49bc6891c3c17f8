//! The init of a VM: its first process. It prepares the VM as ordered, starts the guest that does the work, and
//! passes bytes between the VM's port and that guest. It never looks at the bytes that it passes.

use super::net::{Network, Proxy};
use super::prepare::Prepared;
use super::wire::{Frame, Kind, PIECE, Wire};
use super::{boot, launch, prepare, rename, renew};
use crate::failure::{During, Failure, Outcome};
use crate::system;
use paddock_protocol::{Renewal, VmOrders, decode_record};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, wait};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Above this the guest is not given more than it has taken.
const MOST_WAITING: usize = 256 * 1024;
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Runs until the VM is ended: its first process never returns.
pub fn run() -> ! {
    let ended = serve();
    if let Err(failure) = ended {
        eprintln!("paddock: {failure}");
    }
    // SAFETY: takes a plain integer; the VM ends.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    loop {
        std::thread::sleep(LAST_WORDS);
    }
}

fn serve() -> Outcome<()> {
    let executable = openat(CWD, "/init", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .during(|| "open the guest".into())?;
    boot::boot()?;
    let port = boot::open_port()?;
    let children = system::signal_descriptor(libc::SIGCHLD).during(|| "watch for ended processes".into())?;
    let mut init = VmInit {
        executable,
        port,
        children,
        wire: Wire::of_the_vm(),
        guest: None,
        stream: None,
        connection: 0,
        waiting: Vec::new(),
        network: None,
        silent: false,
        ended: false,
        announced: false,
    };
    init.wire.put(Kind::Waiting, b"");
    init.serve()
}

struct VmInit {
    executable: OwnedFd,
    port: OwnedFd,
    children: OwnedFd,
    wire: Wire,
    guest: Option<Pid>,
    /// To the guest, of the connection with this number.
    stream: Option<OwnedFd>,
    connection: u32,
    /// Bytes for the guest.
    waiting: Vec<u8>,
    network: Option<Network>,
    /// True while the memory is kept: nothing is sent.
    silent: bool,
    /// True if the guest has ended, and if that was told.
    ended: bool,
    announced: bool,
}

impl VmInit {
    fn serve(&mut self) -> Outcome<()> {
        let mut buffer = vec![0; PIECE];
        loop {
            if self.ended && self.stream.is_none() && !self.silent && !self.announced {
                self.wire.put(Kind::Ended, b"");
                self.announced = true;
            }
            self.wire.flush(&self.port).during(|| "write to the port".into())?;
            self.feed();
            if self.announced && !self.wire.has_to_send() {
                return Ok(());
            }
            let (from_port, from_guest) = self.wait_for_something()?;
            if from_port {
                self.receive(&mut buffer)?;
            }
            if from_guest {
                self.collect(&mut buffer);
            }
            self.reap();
        }
    }

    fn wait_for_something(&mut self) -> Outcome<(bool, bool)> {
        let mut polled = vec![PollFd::new(&self.children, PollFlags::IN)];
        let mut events = PollFlags::empty();
        events.set(PollFlags::IN, self.waiting.len() < MOST_WAITING);
        events.set(PollFlags::OUT, self.wire.has_to_send());
        polled.push(PollFd::new(&self.port, events));
        if let Some(stream) = &self.stream {
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, !self.silent && !self.wire.is_full());
            events.set(PollFlags::OUT, !self.waiting.is_empty());
            polled.push(PollFd::new(stream, events));
        }
        let own = polled.len();
        let full = self.silent || self.wire.is_full();
        let leading_out = self.network.iter().flat_map(|network| network.descriptors(full));
        polled.extend(leading_out.map(|(descriptor, events)| PollFd::new(descriptor, events)));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure { step: "poll".into(), errno }),
        }
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let is = |place: usize| place < own && polled[place].revents().intersects(readable);
        let (from_port, from_guest) = (is(1), is(2));
        let woken: Vec<PollFlags> = polled[own..].iter().map(PollFd::revents).collect();
        drop(polled);
        if let Some(network) = self.network.as_mut().filter(|_| !full) {
            network.serve(&woken, &mut self.wire);
        }
        // The guest's end counts only when it may be read: until then poll reports it again and again.
        let may_read = !self.silent && !self.wire.is_full();
        Ok((from_port, from_guest && may_read))
    }

    fn receive(&mut self, buffer: &mut [u8]) -> Outcome<()> {
        match rustix::io::read(&self.port, &mut *buffer) {
            // The other end is closed for a moment.
            Ok(0) => std::thread::sleep(Duration::from_millis(1)),
            Ok(count) => self.wire.push(&buffer[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(errno).during(|| "read from the port".into()),
        }
        while let Some(frame) = self.wire.next()? {
            self.obey(&frame)?;
        }
        Ok(())
    }

    fn obey(&mut self, frame: &Frame) -> Outcome<()> {
        match frame.kind {
            Kind::Orders => {
                self.silent = false;
                self.wire.put(Kind::Clock, b"");
                let (connection, body) = frame.piece().ok_or(Errno::PROTO).during(|| "orders".into())?;
                self.connection = connection;
                if let Err(failure) = self.begin(body) {
                    let mut said = failure.errno.raw_os_error().to_le_bytes().to_vec();
                    said.extend(failure.step.bytes().take(PIECE));
                    self.wire.put(Kind::Failed, &said);
                    self.ended = true;
                }
            }
            Kind::Open => {
                let number = frame.piece().map_or(0, |(number, _)| number);
                self.waiting.clear();
                self.stream = self.connect().and_then(unblocked).ok();
                self.connection = number;
                if self.stream.is_none() {
                    self.wire.put_piece(Kind::Close, number, b"");
                }
            }
            Kind::Data => {
                if let Some((number, bytes)) = frame.piece()
                    && number == self.connection
                    && self.stream.is_some()
                {
                    self.waiting.extend_from_slice(bytes);
                }
            }
            Kind::Close => {
                if frame.piece().is_some_and(|(number, _)| number == self.connection) {
                    self.stream = None;
                    self.waiting.clear();
                }
            }
            Kind::BeSilent => {
                prepare::flush_disk();
                self.wire.put(Kind::Silent, b"");
                self.silent = true;
            }
            Kind::GoOn => self.silent = false,
            Kind::Renew => {
                self.silent = false;
                self.wire.put(Kind::Clock, b"");
                if let Some(network) = &mut self.network {
                    network.forget_connections();
                }
                let renewal: Renewal = decode(&frame.payload)?;
                // Before the clock is set: the new name files are then older than every file that the sandbox itself
                // will write.
                if let (Some(guest), Some(names)) = (self.guest, &renewal.names) {
                    rename::rename(guest, names)?;
                }
                renew::renew(&renewal)?;
            }
            Kind::Link | Kind::ProxyOpen | Kind::ProxyData | Kind::ProxyEnd | Kind::ProxyCredit => {
                if let Some(network) = &mut self.network {
                    network.handle(frame, &mut self.wire);
                }
            }
            // The time in the first message is too old by the time that the VM took to begin.
            Kind::Clock => {
                if let Ok(now) = <[u8; 8]>::try_from(frame.payload.as_slice()) {
                    renew::set_clock(u64::from_le_bytes(now))?;
                }
            }
            Kind::Waiting | Kind::Silent | Kind::Failed | Kind::Ended => {}
        }
        Ok(())
    }

    fn begin(&mut self, body: &[u8]) -> Outcome<()> {
        let orders: VmOrders = decode(body)?;
        renew::renew(&orders.renewal)?;
        let prepared = prepare::prepare(&orders)?;
        let Prepared { descriptors, handover } = prepared;
        let (guest, stream) = launch::launch(&self.executable, &orders.plan, &descriptors)?;
        self.guest = Some(guest);
        self.stream = Some(stream);
        drop(descriptors);
        // A guest that made no link tells the reason itself.
        if orders.network
            && let Ok((link, proxy)) = prepare::handed_over(&handover)
        {
            self.network = Some(Network::new(link, Proxy::Listener(proxy))?);
        }
        Ok(())
    }

    /// Another host's connection to the guest. The guest hands its link over first on each connection; that one is
    /// ours.
    fn connect(&self) -> Outcome<OwnedFd> {
        let stream = prepare::connect()?;
        if self.network.is_some() {
            prepare::handed_over(&stream)?;
        }
        Ok(stream)
    }

    /// Sends the waiting bytes to the guest. Bytes for a connection that has ended are dropped.
    fn feed(&mut self) {
        while let Some(stream) = self.stream.as_ref().filter(|_| !self.waiting.is_empty()) {
            match rustix::io::write(stream, &self.waiting) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.waiting.clear(),
            }
        }
    }

    fn collect(&mut self, buffer: &mut [u8]) {
        let Some(stream) = &self.stream else { return };
        match rustix::io::read(stream, &mut *buffer) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(count) if count > 0 => {
                self.wire.put_piece(Kind::Data, self.connection, &buffer[..count]);
            }
            _ => {
                self.wire.put_piece(Kind::Close, self.connection, b"");
                self.stream = None;
            }
        }
    }

    fn reap(&mut self) {
        let mut drain = [0; 512];
        while rustix::io::read(&self.children, &mut drain).is_ok_and(|count| count > 0) {}
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            let over = status.exit_status().is_some() || status.terminating_signal().is_some();
            self.ended |= over && self.guest == Some(pid);
        }
    }
}

fn unblocked(stream: OwnedFd) -> Outcome<OwnedFd> {
    rustix::io::ioctl_fionbio(&stream, true).during(|| "unblock a stream".into())?;
    Ok(stream)
}

fn decode<T: serde::de::DeserializeOwned>(body: &[u8]) -> Outcome<T> {
    decode_record(body).map_err(|error| Failure { step: error.to_string(), errno: Errno::PROTO })
}
