//! One exec inside a sandbox: its command, its output and its input.

use crate::exec_event::ExecEvent;
use crate::inbox::Inbox;
use crate::link::{Heard, Link};
use crate::secrets::Masked;
use paddock_model::User;
use paddock_protocol::{Channel, FIRST_TOOL, Kills, StreamKind, ToGuest, Who, WindowSize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The command of an exec. By default without a terminal, input, deadline or private stream.
#[derive(Debug, Clone, Default)]
pub struct Command {
    pub argv: Vec<String>,
    /// The whole environment; nothing is added from the host.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub user: User,
    pub tty: Option<WindowSize>,
    pub stdin: bool,
    /// The guest's own backstop, in case that the engine does not stop it.
    pub deadline: Option<Duration>,
    /// True if the sandbox ends with this exec.
    pub last: bool,
    /// A private stream to and from the host, in the place of standard input.
    pub control: bool,
    /// A zygote: an interpreter that is forked into other sandboxes.
    pub zygote: bool,
}

/// A process that came into a sandbox from outside.
#[derive(Debug, Clone, Copy)]
pub struct Newcomer {
    /// Its process id inside.
    pub pid: u32,
    /// Its place among those that the guest awaits.
    pub place: usize,
    /// The number of seccomp filters that it must have.
    pub filters: u32,
    /// True if it is in the sandbox's cgroups already.
    pub is_limited: bool,
}

pub struct Exec {
    number: u32,
    link: Link,
    inbox: Arc<Inbox>,
    input: Arc<Semaphore>,
    /// Output handed to the caller that the guest has not been granted again.
    owed: Option<(StreamKind, u32)>,
    /// Bytes that may be the beginning of a secret value.
    masked: [(StreamKind, Masked); 3],
    /// An event that comes after the bytes that are held back.
    later: Option<ExecEvent>,
}

/// Bytes that look like the beginning of a secret value and do not go on are passed on after this time.
const HELD: Duration = Duration::from_millis(200);

impl Exec {
    /// Starts the only exec of a sandbox: its deadline ends everything.
    pub(crate) fn start(link: &Link, command: Command) -> Result<Exec, paddock_protocol::FrameError> {
        Exec::begin(link, link.next_number(), command, Kills::Everything)
    }

    /// Starts one of many execs: its deadline ends only its own processes.
    pub(crate) fn start_numbered(
        link: &Link,
        number: u32,
        command: Command,
    ) -> Result<Exec, paddock_protocol::FrameError> {
        link.reserve_number(number);
        Exec::begin(link, number, command, Kills::Exec)
    }

    /// Takes in a process that came from outside.
    pub(crate) fn take_in(
        link: &Link,
        number: u32,
        newcomer: Newcomer,
    ) -> Result<Exec, paddock_protocol::FrameError> {
        link.reserve_number(number);
        let exec = Exec::listen(link, number, 0);
        let Newcomer { pid, place, filters, is_limited } = newcomer;
        link.send(&ToGuest::TakeIn { exec: number, pid, place, filters, is_limited })?;
        Ok(exec)
    }

    /// True if the exec has ended or the sandbox was lost, and the caller has not taken that event yet.
    pub fn has_ended(&self) -> bool {
        self.inbox.holds_an_end()
    }

    fn begin(
        link: &Link,
        number: u32,
        command: Command,
        deadline_kills: Kills,
    ) -> Result<Exec, paddock_protocol::FrameError> {
        let exec = Exec::listen(link, number, 0);
        let bytes = |text: String| serde_bytes::ByteBuf::from(text.into_bytes());
        let sent = link.send(&ToGuest::Start(Box::new(paddock_protocol::Start {
            exec: number,
            argv: command.argv.into_iter().map(bytes).collect(),
            env: command.env.into_iter().map(|(name, value)| bytes(format!("{name}={value}"))).collect(),
            cwd: command.cwd,
            user: who(command.user),
            tty: command.tty,
            stdin: command.stdin,
            deadline_ms: command.deadline.map(|d| d.as_millis() as u64),
            deadline_kills,
            tool: None,
            last: command.last,
            control: command.control,
            zygote: command.zygote,
        })));
        if sent.is_err() {
            link.ignore(number);
        }
        sent.map(|()| exec)
    }

    /// `queued` bytes of its input are under way already.
    pub(crate) fn listen(link: &Link, number: u32, queued: u32) -> Exec {
        let Heard { inbox, input } = link.listen(number, queued);
        let masked = [StreamKind::Stdout, StreamKind::Stderr, StreamKind::Control]
            .map(|stream| (stream, Masked::default()));
        Exec { number, link: link.clone(), inbox, input, owed: None, masked, later: None }
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    /// The next event. The call says that the output handed out before is dealt with, and lets the guest send as much
    /// anew. A caller that does not ask stops the exec's output, not the engine.
    pub async fn next(&mut self) -> ExecEvent {
        if let Some((stream, bytes)) = self.owed.take() {
            self.link.grant(Channel { exec: self.number, stream }, bytes);
        }
        let event = self.next_masked().await;
        if let ExecEvent::Output { stream, bytes } = &event {
            self.owed = Some((*stream, bytes.len() as u32));
        }
        event
    }

    /// The next event of the inbox, with secret values masked. May be dropped at any point without a loss.
    async fn next_masked(&mut self) -> ExecEvent {
        // Answers of the guest's own tools are no output.
        if self.number >= FIRST_TOOL {
            return self.inbox.next().await;
        }
        loop {
            if self.later.is_some()
                && let Some(event) = self.rest().or_else(|| self.later.take())
            {
                return event;
            }
            let event = match self.masked.iter().any(|(_, masked)| masked.holds()) {
                false => self.inbox.next().await,
                true => match tokio::time::timeout(HELD, self.inbox.next()).await {
                    Ok(event) => event,
                    Err(_) => match self.rest() {
                        Some(rest) => return rest,
                        None => continue,
                    },
                },
            };
            match event {
                ExecEvent::Output { stream, bytes } => {
                    let bytes = self.pass(stream, bytes);
                    if !bytes.is_empty() {
                        return ExecEvent::Output { stream, bytes };
                    }
                }
                ExecEvent::Exited { .. } | ExecEvent::Closed | ExecEvent::Lost { .. } => {
                    self.later = Some(event)
                }
                other => return other,
            }
        }
    }

    fn pass(&mut self, stream: StreamKind, bytes: Vec<u8>) -> Vec<u8> {
        let own = self.masked.iter_mut().find(|(kind, _)| *kind == stream);
        match (own, self.link.mask()) {
            (Some((_, masked)), Some(mask)) => masked.push(&mask, bytes),
            _ => bytes,
        }
    }

    /// The bytes that are held back of one stream.
    fn rest(&mut self) -> Option<ExecEvent> {
        let (stream, masked) = self.masked.iter_mut().find(|(_, masked)| masked.holds())?;
        Some(ExecEvent::Output { stream: *stream, bytes: masked.rest() })
    }

    pub fn input(&self) -> Input {
        Input { exec: self.number, link: self.link.clone(), room: self.input.clone() }
    }

    pub fn resize(&self, size: WindowSize) {
        let _ = self.link.send(&ToGuest::Resize { exec: self.number, size });
    }

    /// Ends the exec, its process group and its session.
    pub fn kill(&self) {
        let _ = self.link.send(&ToGuest::Kill { exec: self.number });
    }

    /// Sends a signal to the exec and everything in its process group.
    pub fn signal(&self, signal: i32) {
        let _ = self.link.send(&ToGuest::Signal { exec: self.number, signal });
    }
}

pub(crate) fn who(user: User) -> Who {
    match user {
        User::Agent => Who::Ids { uid: 1000, gid: 1000 },
        User::Root | User::Installer => Who::Ids { uid: 0, gid: 0 },
        User::Ids { uid, gid } => Who::Ids { uid, gid },
        User::Name(name) => Who::Name(name),
    }
}

/// The exec's standard input.
#[derive(Clone)]
pub struct Input {
    exec: u32,
    link: Link,
    room: Arc<Semaphore>,
}

impl Input {
    /// The bytes of one message: a dropped write of at most this many is sent whole or not at all.
    pub const PIECE: usize = 32 * 1024;

    /// Waits while the exec does not read. `false` when the sandbox has gone.
    pub async fn write(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let (piece, rest) = bytes.split_at(bytes.len().min(Self::PIECE));
            let Ok(permit) = self.room.acquire_many(piece.len() as u32).await else { return false };
            permit.forget();
            self.link.send_data(Channel { exec: self.exec, stream: StreamKind::Stdin }, piece);
            bytes = rest;
        }
        true
    }

    pub fn close(&self) {
        let _ = self.link.send(&ToGuest::CloseStdin { exec: self.exec });
    }
}
