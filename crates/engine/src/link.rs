//! The conversation with one guest. A task reads and hands every frame to the command it belongs to; another
//! writes. The guest is not believed: more output than was granted, or a frame that does not decode, ends the
//! conversation.

use crate::exec::ExecEvent;
use paddock_protocol::{
    Channel, Decoder, Frame, FrameError, FromGuest, StreamKind, ToGuest, VERSION, WINDOW, WorkUsage,
    decode_from_guest, encode_data, encode_message,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot};

const CHUNK: usize = 128 * 1024;

#[derive(Clone)]
pub struct Link {
    shared: Arc<Mutex<Shared>>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
}

/// What a guest that is ready says of the layers it has put up.
#[derive(Debug, Clone, Copy)]
pub struct Layers {
    pub landlock_abi: u32,
    pub time_namespace: bool,
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
    stopped: Option<oneshot::Sender<WorkUsage>>,
    lost: Option<String>,
    next_number: u32,
}

struct Listener {
    events: mpsc::UnboundedSender<ExecEvent>,
    input: Arc<Semaphore>,
    /// Bytes that the guest may still send, for stdout and stderr.
    granted: [u32; 2],
}

impl Link {
    pub fn start(stream: UnixStream) -> Link {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let (reader, writer) = stream.into_split();
        let link = Link { shared: Arc::default(), outgoing };
        tokio::spawn(write_all(writer, queue));
        tokio::spawn(read_all(reader, link.clone()));
        link
    }

    /// Precondition: the message is within the protocol's bound, which its builder checked.
    pub fn send(&self, message: &ToGuest) -> Result<(), FrameError> {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes)?;
        // A guest that has gone is told of by the reader.
        let _ = self.outgoing.send(bytes);
        Ok(())
    }

    pub fn send_data(&self, channel: Channel, data: &[u8]) {
        let mut bytes = Vec::with_capacity(data.len() + 8);
        encode_data(channel.number(), data, &mut bytes);
        let _ = self.outgoing.send(bytes);
    }

    pub fn next_number(&self) -> u32 {
        let mut shared = self.shared();
        shared.next_number += 1;
        shared.next_number
    }

    pub fn listen(&self, exec: u32) -> (mpsc::UnboundedReceiver<ExecEvent>, Arc<Semaphore>) {
        let (events, receiver) = mpsc::unbounded_channel();
        let input = Arc::new(Semaphore::new(WINDOW as usize));
        let mut shared = self.shared();
        if let Some(detail) = &shared.lost {
            let _ = events.send(ExecEvent::Lost { detail: detail.clone() });
        }
        shared.execs.insert(exec, Listener { events, input: input.clone(), granted: [WINDOW; 2] });
        (receiver, input)
    }

    /// Lets the guest send so many bytes more.
    pub fn grant(&self, channel: Channel, bytes: u32) {
        if let Some(listener) = self.shared().execs.get_mut(&channel.exec) {
            listener.granted[output_index(channel.stream)] += bytes;
        }
        let _ = self.send(&ToGuest::Credit { channel: channel.number(), bytes });
    }

    /// How the guest greeted, once it has. To be asked once.
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

    /// Asks the guest to end all work and to say what it used.
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
            let _ = listener.events.send(ExecEvent::Lost { detail: detail.clone() });
            listener.input.close();
        }
        shared.answers.clear();
        shared.stopped = None;
        if !shared.greeted_once {
            shared.greet(Err(Greeting::Lost(detail.clone())));
        }
        shared.lost = Some(detail);
    }

    fn dispatch(&self, frame: Frame) -> Result<(), String> {
        let mut shared = self.shared();
        let message = match frame {
            Frame::Data { channel, bytes } => return shared.output(channel, bytes),
            Frame::Message(body) => decode_from_guest(&body).map_err(|error| error.to_string())?,
        };
        match message {
            FromGuest::Started { exec, .. } => shared.tell(exec, ExecEvent::Started),
            FromGuest::StartFailed { exec, step, errno } => {
                shared.tell(exec, ExecEvent::StartFailed { step, errno })
            }
            FromGuest::Exited { exec, status, usage } => {
                shared.tell(exec, ExecEvent::Exited { status, usage })
            }
            FromGuest::Closed { exec } => {
                shared.tell(exec, ExecEvent::Closed);
                shared.execs.remove(&exec);
            }
            FromGuest::DeadlinePassed { exec } => shared.tell(exec, ExecEvent::DeadlinePassed),
            FromGuest::MemoryExceeded { bytes } => {
                for listener in shared.execs.values() {
                    let _ = listener.events.send(ExecEvent::MemoryExceeded { bytes });
                }
            }
            FromGuest::Credit { channel, bytes } => {
                let listener = Channel::from_number(channel).and_then(|c| shared.execs.get(&c.exec));
                // Never more than a window, whatever the guest says.
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
            FromGuest::Stopped { usage } => {
                if let Some(answer) = shared.stopped.take() {
                    let _ = answer.send(usage);
                }
            }
            FromGuest::Ready { .. } | FromGuest::EnterFailed { .. } if shared.greeted_once => {
                return Err("it greeted twice".into());
            }
            FromGuest::Ready { version: VERSION, landlock_abi, time_namespace } => {
                shared.greet(Ok(Layers { landlock_abi, time_namespace }));
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

    fn tell(&mut self, exec: u32, event: ExecEvent) {
        if let Some(listener) = self.execs.get(&exec) {
            let _ = listener.events.send(event);
        }
    }

    fn output(&mut self, channel: u32, bytes: Vec<u8>) -> Result<(), String> {
        let channel = Channel::from_number(channel).ok_or("it wrote to a stream that does not exist")?;
        if channel.stream == StreamKind::Stdin {
            return Err("it wrote to a command's input".into());
        }
        // A command that was given up: its last words are dropped.
        let Some(listener) = self.execs.get_mut(&channel.exec) else { return Ok(()) };
        let granted = &mut listener.granted[output_index(channel.stream)];
        *granted = granted.checked_sub(bytes.len() as u32).ok_or("it sent more output than was granted")?;
        let _ = listener.events.send(ExecEvent::Output { stream: channel.stream, bytes });
        Ok(())
    }
}

fn output_index(stream: StreamKind) -> usize {
    usize::from(stream == StreamKind::Stderr)
}

async fn write_all(
    mut writer: tokio::net::unix::OwnedWriteHalf,
    mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
) {
    while let Some(bytes) = queue.recv().await {
        if writer.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn read_all(mut reader: tokio::net::unix::OwnedReadHalf, link: Link) {
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; CHUNK];
    let detail = loop {
        match reader.read(&mut buffer).await {
            Ok(0) => break "it closed the connection".to_string(),
            Ok(count) => decoder.push(&buffer[..count]),
            Err(error) => break error.to_string(),
        }
        if let Err(detail) = drain(&mut decoder, &link) {
            break detail;
        }
    };
    link.lose(detail);
}

fn drain(decoder: &mut Decoder, link: &Link) -> Result<(), String> {
    while let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
        link.dispatch(frame)?;
    }
    Ok(())
}
