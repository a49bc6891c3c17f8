//! The conversation with one guest. One task reads and hands every frame to its exec; another writes. The guest is not
//! trusted: more output than was granted, or a frame that does not decode, ends the conversation.

use crate::error::EngineError;
use crate::exec_event::ExecEvent;
use crate::inbox::Inbox;
use crate::secrets::Mask;
use paddock_backends::Interpreter;
use paddock_protocol::{
    Channel, Decoder, ExecState, FIRST_TOOL, Frame, FrameError, FromGuest, OLDEST, StreamKind, ToGuest,
    VERSION, WINDOW, WorkUsage, decode_from_guest, encode_data, encode_message, encode_message_within,
    most_to_guest,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

const CHUNK: usize = 128 * 1024;
/// The most bytes that are gathered before they are written.
const BATCH: usize = 64 * 1024;

#[derive(Clone)]
pub struct Link {
    shared: Arc<Mutex<Shared>>,
    outgoing: mpsc::UnboundedSender<Outgoing>,
    closing: Arc<Notify>,
    known: Arc<Known>,
}

#[derive(Default)]
struct Known {
    /// The values that must not be seen in the output of execs.
    mask: RwLock<Option<Mask>>,
    /// Set once, and read without a lock: the version that the guest speaks, once it has told. A guest of another build is one that was adopted.
    guest: OnceLock<u32>,
}

enum Outgoing {
    Bytes(Vec<u8>),
    /// The descriptors go with the first byte.
    Passing(Vec<u8>, Vec<OwnedFd>),
    /// Answered once everything before it is with the kernel.
    Flush(oneshot::Sender<()>),
    /// Nothing more is sent from this side.
    End,
}

/// The layers that a ready guest reports.
#[derive(Debug, Clone, Copy)]
pub struct Layers {
    pub landlock_abi: u32,
    pub time_namespace: bool,
    pub ready_at: u64,
    pub shares_system: bool,
}

/// The answer of a guest to a host that takes over.
#[derive(Debug)]
pub struct Resumed {
    pub version: u32,
    pub ready_at: u64,
    pub execs: Vec<ExecState>,
}

/// Why a guest did not become ready.
#[derive(Debug)]
pub enum Greeting {
    Failed { step: String, errno: i32 },
    Version(u32),
    Lost(String),
}

#[derive(Default)]
struct Shared {
    greeting: Option<Result<Layers, Greeting>>,
    greeted: Arc<Notify>,
    greeted_once: bool,
    execs: HashMap<u32, Listener>,
    answers: HashMap<u32, oneshot::Sender<i32>>,
    described: HashMap<u32, oneshot::Sender<Interpreter>>,
    stopped: Option<oneshot::Sender<WorkUsage>>,
    resumed: Option<oneshot::Sender<Resumed>>,
    lost: Option<String>,
    ended: Arc<Notify>,
    next_number: u32,
    next_tool: u32,
}

struct Listener {
    inbox: Arc<Inbox>,
    input: Arc<Semaphore>,
    /// Bytes that the guest may still send, for stdout, stderr and control.
    granted: [u32; 3],
    /// The messages that may come once only, and have come.
    said: Said,
}

#[derive(Default)]
struct Said {
    start: bool,
    end: bool,
    deadline: bool,
    memory: bool,
}

/// An exec as the link sees it from the outside.
pub struct Heard {
    pub inbox: Arc<Inbox>,
    pub input: Arc<Semaphore>,
}

impl Link {
    fn start(stream: UnixStream) -> Link {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (reader, writer) = stream.into_split();
        let link = Link { shared: Arc::default(), outgoing, closing: Arc::default(), known: Arc::default() };
        tokio::spawn(write_all(writer, queue));
        tokio::spawn(read_all(reader, link.clone()));
        link
    }

    /// Precondition: called on a tokio runtime.
    pub fn over(stream: std::os::unix::net::UnixStream) -> Result<Link, EngineError> {
        let lost = |error: std::io::Error| EngineError::Lost { detail: error.to_string() };
        stream.set_nonblocking(true).map_err(lost)?;
        Ok(Link::start(UnixStream::from_std(stream).map_err(lost)?))
    }

    /// A guest that has not told yet is of this build.
    pub fn guest_version(&self) -> u32 {
        *self.known.guest.get().unwrap_or(&VERSION)
    }

    /// Fails if the message is larger than this guest takes.
    pub fn send(&self, message: &ToGuest) -> Result<(), FrameError> {
        let mut bytes = Vec::new();
        let most = most_to_guest(self.guest_version());
        encode_message_within(most, message, &mut bytes)?;
        // If the guest has gone, the reader reports it.
        let _ = self.outgoing.send(Outgoing::Bytes(bytes));
        Ok(())
    }

    /// The same, with descriptors.
    pub fn send_passing(&self, message: &ToGuest, descriptors: Vec<OwnedFd>) -> Result<(), FrameError> {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes)?;
        let _ = self.outgoing.send(Outgoing::Passing(bytes, descriptors));
        Ok(())
    }

    /// Returns when everything sent so far is with the kernel: the guest gets it even if this process is killed.
    pub async fn flushed(&self) {
        let (sender, written) = oneshot::channel();
        let _ = self.outgoing.send(Outgoing::Flush(sender));
        let _ = written.await;
    }

    /// Holds for all output that has not been handed out yet.
    ///
    /// Precondition: no exec could have one of its values before.
    pub fn set_mask(&self, mask: Mask) {
        *self.known.mask.write().unwrap_or_else(PoisonError::into_inner) = Some(mask);
    }

    pub fn mask(&self) -> Option<Mask> {
        self.known.mask.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the conversation from this side.
    pub fn close(&self) {
        self.closing.notify_one();
    }

    /// Sends nothing more, and waits until the guest has closed the connection.
    pub async fn part(&self) {
        let _ = self.outgoing.send(Outgoing::End);
        self.lost().await;
    }

    pub fn send_data(&self, channel: Channel, data: &[u8]) {
        let mut bytes = Vec::with_capacity(data.len() + 8);
        encode_data(channel.number(), data, &mut bytes);
        let _ = self.outgoing.send(Outgoing::Bytes(bytes));
    }

    pub fn next_number(&self) -> u32 {
        let mut shared = self.shared();
        shared.next_number += 1;
        shared.next_number
    }

    /// Reserves a number that a caller chose; it is not given out again.
    pub fn reserve_number(&self, number: u32) {
        let mut shared = self.shared();
        shared.next_number = shared.next_number.max(number);
    }

    pub fn next_tool(&self) -> u32 {
        let mut shared = self.shared();
        let number = FIRST_TOOL + shared.next_tool;
        shared.next_tool = (shared.next_tool + 1) % FIRST_TOOL;
        number
    }

    /// `queued` bytes of its input are under way already.
    pub fn listen(&self, exec: u32, queued: u32) -> Heard {
        let inbox = Arc::new(Inbox::default());
        let input = Arc::new(Semaphore::new(WINDOW.saturating_sub(queued) as usize));
        let mut shared = self.shared();
        if let Some(detail) = &shared.lost {
            inbox.push(ExecEvent::Lost { detail: detail.clone() });
            input.close();
        }
        let listener = Listener {
            inbox: inbox.clone(),
            input: input.clone(),
            granted: [WINDOW; 3],
            said: Said::default(),
        };
        shared.execs.insert(exec, listener);
        Heard { inbox, input }
    }

    /// Drops all later messages of the guest about this exec.
    pub fn ignore(&self, exec: u32) {
        self.shared().execs.remove(&exec);
    }

    /// Why the conversation ended, once it has.
    pub async fn lost(&self) -> String {
        let ended = self.shared().ended.clone();
        loop {
            let notified = ended.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if let Some(detail) = &self.shared().lost {
                return detail.clone();
            }
            notified.await;
        }
    }

    /// Sends the first message of a host that takes over; `None` when the guest has gone.
    pub async fn resume(&self) -> Option<Resumed> {
        let (sender, answer) = oneshot::channel();
        {
            let mut shared = self.shared();
            if shared.lost.is_some() {
                return None;
            }
            // The guest has greeted another host before.
            shared.greeted_once = true;
            shared.resumed = Some(sender);
        }
        self.send(&ToGuest::Resume).ok()?;
        answer.await.ok()
    }

    /// Lets the guest send this many bytes more.
    pub fn grant(&self, channel: Channel, bytes: u32) {
        if let Some(listener) = self.shared().execs.get_mut(&channel.exec) {
            let granted = &mut listener.granted[output_index(channel.stream)];
            *granted = granted.saturating_add(bytes).min(WINDOW);
        }
        let _ = self.send(&ToGuest::Credit { channel: channel.number(), bytes });
    }

    /// The guest's greeting, once it has come. To be called once.
    pub async fn greeting(&self) -> Result<Layers, Greeting> {
        loop {
            let greeted = self.shared().greeted.clone();
            if let Some(greeting) = self.shared().greeting.take() {
                return greeting;
            }
            greeted.notified().await;
        }
    }

    /// The error number of a request that the guest answers with `Done`; `None` when it has gone.
    pub async fn ask(&self, request: u32, message: &ToGuest) -> Option<i32> {
        let (sender, answer) = oneshot::channel();
        {
            let mut shared = self.shared();
            if shared.lost.is_some() {
                return None;
            }
            shared.answers.insert(request, sender);
        }
        self.send(message).ok()?;
        answer.await.ok()
    }

    /// The place of an exec's process; `None` when the guest has gone.
    pub async fn describe(&self, exec: u32) -> Option<Interpreter> {
        let request = self.next_number();
        let (sender, answer) = oneshot::channel();
        {
            let mut shared = self.shared();
            if shared.lost.is_some() {
                return None;
            }
            shared.described.insert(request, sender);
        }
        self.send(&ToGuest::Describe { request, exec }).ok()?;
        answer.await.ok()
    }

    /// Asks the guest to end all work and to report its use.
    pub async fn stop(&self) -> Option<WorkUsage> {
        let (sender, answer) = oneshot::channel();
        {
            let mut shared = self.shared();
            if shared.lost.is_some() {
                return None;
            }
            shared.stopped = Some(sender);
        }
        self.send(&ToGuest::Stop).ok()?;
        answer.await.ok()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lose(&self, detail: String) {
        let mut shared = self.shared();
        for listener in shared.execs.values() {
            listener.inbox.push(ExecEvent::Lost { detail: detail.clone() });
            listener.input.close();
        }
        shared.answers.clear();
        shared.described.clear();
        shared.stopped = None;
        shared.resumed = None;
        if !shared.greeted_once {
            shared.greet(Err(Greeting::Lost(detail.clone())));
        }
        shared.lost = Some(detail);
        shared.ended.notify_waiters();
    }

    fn dispatch(&self, frame: Frame) -> Result<(), String> {
        let mut shared = self.shared();
        let message = match frame {
            Frame::Data { channel, bytes } => return shared.output(channel, bytes),
            Frame::Message(body) => decode_from_guest(&body).map_err(|error| error.to_string())?,
        };
        match message {
            FromGuest::Started { exec, .. } => {
                return shared.tell_once(exec, |said| &mut said.start, ExecEvent::Started);
            }
            FromGuest::StartFailed { exec, step, errno } => {
                let event = ExecEvent::StartFailed { step, errno };
                return shared.tell_once(exec, |said| &mut said.start, event);
            }
            FromGuest::Exited { exec, status, usage } => {
                let event = ExecEvent::Exited { status, usage };
                return shared.tell_once(exec, |said| &mut said.end, event);
            }
            FromGuest::Closed { exec } => {
                if let Some(listener) = shared.execs.remove(&exec) {
                    listener.inbox.push(ExecEvent::Closed);
                }
            }
            FromGuest::DeadlinePassed { exec } => {
                return shared.tell_once(exec, |said| &mut said.deadline, ExecEvent::DeadlinePassed);
            }
            FromGuest::Interrupted { exec, call } => {
                if let Some(listener) = shared.execs.get_mut(&exec) {
                    listener.inbox.push(ExecEvent::Interrupted { call });
                }
            }
            FromGuest::MemoryExceeded { bytes } => {
                for listener in shared.execs.values_mut() {
                    if !std::mem::replace(&mut listener.said.memory, true) {
                        listener.inbox.push(ExecEvent::MemoryExceeded { bytes });
                    }
                }
            }
            FromGuest::Credit { channel, bytes } => {
                let listener = Channel::from_number(channel).and_then(|c| shared.execs.get(&c.exec));
                // The input never has more room than a window, whatever the guest grants.
                if let Some(input) = listener.map(|l| &l.input) {
                    let room = (WINDOW as usize).saturating_sub(input.available_permits());
                    input.add_permits((bytes as usize).min(room));
                }
            }
            FromGuest::Done { request, errno } => {
                if let Some(answer) = shared.answers.remove(&request) {
                    let _ = answer.send(errno);
                }
            }
            FromGuest::Described { request, pid, stdout, stderr } => {
                if let Some(answer) = shared.described.remove(&request) {
                    let _ = answer.send(Interpreter { pid, stdout, stderr });
                }
            }
            FromGuest::Stopped { usage } => {
                if let Some(answer) = shared.stopped.take() {
                    let _ = answer.send(usage);
                }
            }
            FromGuest::Resumed { version, ready_at, execs } => {
                let answer = shared.resumed.take().ok_or("it answered what nobody asked")?;
                let _ = self.known.guest.set(version);
                let _ = answer.send(Resumed { version, ready_at, execs });
            }
            FromGuest::Ready { .. } | FromGuest::EnterFailed { .. } if shared.greeted_once => {
                return Err("it greeted twice".into());
            }
            FromGuest::Ready {
                version: version @ OLDEST..=VERSION,
                landlock_abi,
                time_namespace,
                ready_at,
                shares_system,
            } => {
                let _ = self.known.guest.set(version);
                shared.greet(Ok(Layers { landlock_abi, time_namespace, ready_at, shares_system }));
            }
            FromGuest::Ready { version, .. } => shared.greet(Err(Greeting::Version(version))),
            FromGuest::EnterFailed { step, errno } => shared.greet(Err(Greeting::Failed { step, errno })),
        }
        Ok(())
    }
}

impl Shared {
    fn greet(&mut self, greeting: Result<Layers, Greeting>) {
        self.greeted_once = true;
        self.greeting = Some(greeting);
        self.greeted.notify_one();
    }

    /// A guest that repeats a message that can come once only is not trusted any more.
    fn tell_once(
        &mut self,
        exec: u32,
        what: impl FnOnce(&mut Said) -> &mut bool,
        event: ExecEvent,
    ) -> Result<(), String> {
        let Some(listener) = self.execs.get_mut(&exec) else { return Ok(()) };
        if std::mem::replace(what(&mut listener.said), true) {
            return Err("it told the same of a command twice".into());
        }
        listener.inbox.push(event);
        Ok(())
    }

    fn output(&mut self, channel: u32, bytes: Vec<u8>) -> Result<(), String> {
        let channel = Channel::from_number(channel).ok_or("it wrote to a stream that does not exist")?;
        if channel.stream == StreamKind::Stdin {
            return Err("it wrote to a command's input".into());
        }
        // The exec was given up: its last output is dropped.
        let Some(listener) = self.execs.get_mut(&channel.exec) else { return Ok(()) };
        let granted = &mut listener.granted[output_index(channel.stream)];
        *granted = granted.checked_sub(bytes.len() as u32).ok_or("it sent more output than was granted")?;
        if !bytes.is_empty() {
            listener.inbox.push(ExecEvent::Output { stream: channel.stream, bytes });
        }
        Ok(())
    }
}

fn output_index(stream: StreamKind) -> usize {
    match stream {
        StreamKind::Stdin | StreamKind::Stdout => 0,
        StreamKind::Stderr => 1,
        StreamKind::Control => 2,
    }
}

async fn write_all(
    mut writer: tokio::net::unix::OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Outgoing>,
) {
    // A message that brings descriptors is the first of its write.
    let mut held_back = None;
    loop {
        let first = match held_back.take() {
            Some(outgoing) => Some(outgoing),
            None => queue.recv().await,
        };
        let Some(outgoing) = first else { return };
        // All waiting messages go in one write: the guest is woken once for them.
        let mut batch = Vec::new();
        let mut passed = Vec::new();
        let mut flushed = Vec::new();
        let mut next = Some(outgoing);
        let mut last = false;
        while let Some(outgoing) = next {
            match outgoing {
                Outgoing::Passing(bytes, descriptors) if batch.is_empty() => {
                    (batch, passed) = (bytes, descriptors)
                }
                passing @ Outgoing::Passing(..) => {
                    held_back = Some(passing);
                    break;
                }
                Outgoing::Bytes(bytes) if batch.is_empty() => batch = bytes,
                Outgoing::Bytes(bytes) => batch.extend_from_slice(&bytes),
                Outgoing::Flush(written) => flushed.push(written),
                Outgoing::End => last = true,
            }
            next = if batch.len() < BATCH { queue.try_recv().ok() } else { None };
        }
        let sent = match passed.is_empty() {
            true => 0,
            false => match pass(&writer, &batch, &passed).await {
                Ok(sent) => sent,
                Err(_) => return,
            },
        };
        if writer.write_all(&batch[sent..]).await.is_err() {
            return;
        }
        for written in flushed {
            let _ = written.send(());
        }
        if last {
            return;
        }
    }
}

/// Sends some of the bytes, and with the first of them the descriptors. Returns how many bytes.
async fn pass(
    writer: &tokio::net::unix::OwnedWriteHalf,
    bytes: &[u8],
    descriptors: &[OwnedFd],
) -> std::io::Result<usize> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let stream: &UnixStream = writer.as_ref();
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    let send = || {
        let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(borrowed.len()))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(ErrorKind::InvalidInput.into());
        }
        Ok(sendmsg(stream, &[std::io::IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?)
    };
    stream.async_io(tokio::io::Interest::WRITABLE, send).await
}

thread_local! {
    /// One buffer for all guests that this thread reads from. A buffer for each guest would be most of the memory that
    /// an idle sandbox takes in the server.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

async fn read_all(reader: tokio::net::unix::OwnedReadHalf, link: Link) {
    let mut decoder = Decoder::new();
    let detail = loop {
        tokio::select! {
            // An error here is also an error of the read.
            _ = reader.readable() => {}
            () = link.closing.notified() => break "this engine let go of it".to_string(),
        }
        let read = READ.with_borrow_mut(|buffer| {
            let read = reader.try_read(buffer);
            decoder.push(&buffer[..*read.as_ref().unwrap_or(&0)]);
            read
        });
        match read {
            Ok(0) => break "it closed the connection".to_string(),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => break error.to_string(),
        }
        if let Err(detail) = drain(&mut decoder, &link) {
            break detail;
        }
        // A guest that never pauses does not keep the thread from others.
        tokio::task::coop::consume_budget().await;
    };
    link.lose(detail);
}

fn drain(decoder: &mut Decoder, link: &Link) -> Result<(), String> {
    while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
        link.dispatch(frame)?;
    }
    Ok(())
}
