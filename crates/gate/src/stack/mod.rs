//! TCP/IP of the gate's end of a link. A program inside that connects to anything meets the same verdict as a client of
//! the proxy.
//!
//! - here: packets from the link, sorted
//! - `table`: the connections, each with a TCP of its own
//! - `stream`: one connection as a stream
//! - `device`: between TCP and the link

mod device;
mod stream;
mod table;

use crate::flows::Target;
use crate::forward;
use crate::link::Link;
use crate::place::{GATE_4, GATE_6};
use crate::session;
use crate::shared::Shared;
use crate::wire::dns::LONGEST_QUERY;
use crate::wire::host::Host;
use crate::wire::packet::{self, Key, Packet};
use paddock_model::net::{Denial, NetOutcome, Way};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use stream::Stream;
use table::{Delivery, Table};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub struct Stack {
    shared: Arc<Shared>,
    table: Arc<Table>,
}

const NAME_SERVICE: u16 = 53;
/// The port of `http://` where the URL names none.
const CLEAR_HTTP: u16 = 80;
/// Packets before others get their turn.
const AT_ONCE: usize = 64;
/// A client of the name service that says nothing.
const NAME_CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs until the link breaks, or until it is dropped.
pub async fn serve(shared: Arc<Shared>, link: Link) {
    let table = Arc::new(Table::new(Arc::new(link)));
    let stack = Arc::new(Stack { shared, table: table.clone() });
    tokio::select! {
        () = receive(stack) => {}
        () = table.keep_time() => {}
    }
}

async fn receive(stack: Arc<Stack>) {
    let link = stack.table.link().clone();
    loop {
        let received = link.receive(AT_ONCE, |bytes| stack.take(bytes)).await;
        if let Err(error) = received {
            // The sandbox's namespace is gone, or its device is: nothing comes any more.
            if !matches!(error.raw_os_error(), Some(libc::ENETDOWN | libc::EINTR | libc::ENOBUFS)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::task::yield_now().await;
    }
}

impl Stack {
    fn take(self: &Arc<Self>, bytes: &[u8]) {
        match packet::parse(bytes) {
            None => {}
            Some(Packet::Tcp { key, opens }) => match self.table.deliver(&key, opens, bytes) {
                Delivery::Done => {}
                Delivery::Opens => self.open(key, bytes),
            },
            Some(Packet::Udp { key, payload }) if key.to.port() == NAME_SERVICE => {
                let answer = self.shared.answer_dns(payload);
                if !answer.is_empty()
                    && let Some(packet) = packet::datagram(&key, &answer)
                {
                    self.send(&packet);
                }
            }
            Some(Packet::Udp { key, .. }) => self.forbid(bytes, key.to.ip(), Some(key.to.port()), Way::Udp),
            Some(Packet::Other { to, protocol: 1 | 58 }) => self.forbid(bytes, to, None, Way::Icmp),
            Some(Packet::Other { to, .. }) => self.forbid(bytes, to, None, Way::Other),
        }
    }

    /// The first packet of a connection. It is answered when the other side has answered, so that a program inside sees
    /// the same as without a gate.
    fn open(self: &Arc<Self>, key: Key, first: &[u8]) {
        if key.to.port() == NAME_SERVICE {
            let stack = self.clone();
            if let Some(stream) = Table::accept(&self.table, key, first) {
                self.shared.spawn(async move { stack.serve_names(stream).await });
            }
            return;
        }
        let target = Target {
            host: self.shared.meant(Host::Address(key.to.ip())),
            port: key.to.port(),
            way: Way::Connect,
        };
        let denied = self.shared.verdict(&target).err();
        if let Some(denial) = &denied {
            self.shared.deny(&target, None, denial.clone());
        }
        let refused = match denied {
            None => None,
            // A program that sends a placeholder there is told to use TLS, which a closed port would not say.
            Some(denial)
                if target.port == CLEAR_HTTP && self.shared.secrets().bound_to(&target.host).is_some() =>
            {
                Some(denial)
            }
            Some(_) => return self.refuse(first),
        };
        if !self.table.reserve(key) {
            return;
        }
        let (stack, first) = (self.clone(), first.to_vec());
        if let Some(denial) = refused {
            let Some(stream) = Table::accept(&self.table, key, &first) else { return self.refuse(&first) };
            let shared = self.shared.clone();
            return self.shared.spawn(forward::serve_refusals(shared, stream, Vec::new(), target, denial));
        }
        self.shared.spawn(async move {
            let opened = stack.shared.open(target).await;
            let stream = opened.map(|upstream| (Table::accept(&stack.table, key, &first), upstream));
            match stream {
                Ok((Some(stream), upstream)) => {
                    session::run(stack.shared.clone(), stream, Vec::new(), upstream).await;
                }
                Ok((None, _)) | Err(_) => {
                    stack.table.release(&key);
                    stack.refuse(&first);
                }
            }
        });
    }

    fn refuse(&self, first: &[u8]) {
        if let Some(packet) = packet::reset(first) {
            self.send(&packet);
        }
    }

    fn forbid(&self, bytes: &[u8], to: IpAddr, port: Option<u16>, way: Way) {
        let gate = if to.is_ipv4() { IpAddr::V4(GATE_4) } else { IpAddr::V6(GATE_6) };
        let Some(answer) = packet::forbidden(bytes, gate) else { return };
        self.send(&answer);
        let mut subject = match self.shared.meant(Host::Address(to)) {
            Host::Name(name) => crate::events::Subject { name: Some(name), ..Default::default() },
            Host::Address(address) => crate::events::Subject { address: Some(address), ..Default::default() },
        };
        subject.port = port;
        self.shared.events.tell(way, subject, NetOutcome::Denied(Denial::Protocol));
    }

    fn send(&self, packet: &[u8]) {
        self.table.link().send(packet.len(), |out| out.copy_from_slice(packet));
    }

    /// Questions one after the other, each with its length before it.
    async fn serve_names(&self, mut stream: Stream) {
        let mut question = vec![0; LONGEST_QUERY];
        loop {
            let Ok(Ok(length)) = tokio::time::timeout(NAME_CLIENT_TIMEOUT, stream.read_u16()).await else {
                return;
            };
            let Some(space) = question.get_mut(..usize::from(length)) else { return };
            let Ok(Ok(_)) = tokio::time::timeout(NAME_CLIENT_TIMEOUT, stream.read_exact(space)).await else {
                return;
            };
            let answer = self.shared.answer_dns(space);
            let Ok(length) = u16::try_from(answer.len()) else { return };
            let message = [&length.to_be_bytes()[..], &answer].concat();
            if answer.is_empty() || stream.write_all(&message).await.is_err() {
                return;
            }
        }
    }
}
