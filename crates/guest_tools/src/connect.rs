//! A connection to a port inside, byte for byte in both directions, each closed on its own.

use super::streams;
use paddock_guest_system::failure::{During, Failure, Outcome};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

const CHUNK: usize = 64 * 1024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub fn connect(port: u16) -> Outcome<()> {
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let mut refused = Errno::CONNREFUSED;
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return shuttle(stream),
            // Without IPv6 the second answer says nothing about the port.
            Err(error) if address.is_ipv4() => {
                refused = Errno::from_io_error(&error).unwrap_or(Errno::TIMEDOUT);
            }
            Err(_) => {}
        }
    }
    Err(Failure { step: format!("nothing answers at port {port}"), errno: refused })
}

fn shuttle(stream: TcpStream) -> Outcome<()> {
    let _ = stream.set_nodelay(true);
    let input: OwnedFd = streams::input().during(|| "open the input".into())?.into();
    let output = streams::Answers::open()?;
    let mut output = output;
    output.put(&())?;
    let output: OwnedFd = output.into_output()?.into();
    let socket: OwnedFd = stream.try_clone().during(|| "copy the connection".into())?.into();
    for descriptor in [&input, &output, &socket] {
        rustix::io::ioctl_fionbio(descriptor, true).during(|| "unblock a stream".into())?;
    }
    let mut inwards = Direction::new(input, socket.try_clone().during(|| "copy the connection".into())?);
    let mut outwards = Direction::new(socket, output);
    let mut told = false;
    loop {
        inwards.advance();
        outwards.advance();
        if inwards.is_done() && !told {
            told = true;
            let _ = stream.shutdown(Shutdown::Write);
        }
        // The reader outside has gone, or the program inside has sent its last byte.
        if outwards.is_done() {
            return Ok(());
        }
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        inwards.add_to_poll(&mut polled);
        outwards.add_to_poll(&mut polled);
        polled.push(PollFd::new(&outwards.to, PollFlags::empty()));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).during(|| "wait".into()),
        }
        let broken = polled.last().is_some_and(|p| p.revents().intersects(PollFlags::ERR | PollFlags::HUP));
        if broken {
            return Ok(());
        }
    }
}

struct Direction {
    from: OwnedFd,
    to: OwnedFd,
    buffer: Vec<u8>,
    filled: usize,
    written: usize,
    ended: bool,
}

impl Direction {
    fn new(from: OwnedFd, to: OwnedFd) -> Direction {
        Direction { from, to, buffer: vec![0; CHUNK], filled: 0, written: 0, ended: false }
    }

    fn is_done(&self) -> bool {
        self.ended && self.written == self.filled
    }

    fn add_to_poll<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        if self.written < self.filled {
            polled.push(PollFd::new(&self.to, PollFlags::OUT));
        } else if !self.ended {
            polled.push(PollFd::new(&self.from, PollFlags::IN));
        }
    }

    fn advance(&mut self) {
        loop {
            while self.written < self.filled {
                match rustix::io::write(&self.to, &self.buffer[self.written..self.filled]) {
                    Ok(count) => self.written += count,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return,
                    Err(_) => {
                        self.ended = true;
                        self.written = self.filled;
                    }
                }
            }
            if self.ended {
                return;
            }
            match rustix::io::read(&self.from, &mut self.buffer[..]) {
                Ok(0) => self.ended = true,
                Ok(count) => (self.filled, self.written) = (count, 0),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.ended = true,
            }
        }
    }
}
