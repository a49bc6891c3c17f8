//! The loop: output out, input in, signals and the size of the terminal between them.

use super::Place;
use super::input::Input;
use super::output::{Output, Piece, Start};
use crate::client::{Client, ClientError};
use paddock_model::api::{Exec, StreamName, TerminalSize};
use paddock_model::format_bytes;
use paddock_terminal::signals::Signals;
use paddock_terminal::streams::Stream;
use paddock_terminal::terminal::{self, Raw};
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

pub struct Conversation {
    pub client: Arc<Client>,
    pub place: Place,
    pub from: Start,
    pub stdin: bool,
    /// The command has a terminal, and so does the caller.
    pub tty: bool,
    /// Another client may have typed to this command before.
    pub attached: bool,
    /// Standard output is in use for other data.
    pub all_to_stderr: bool,
}

#[derive(Debug)]
pub enum Finish {
    Ended(Box<Exec>),
    Detached,
    /// The reader of our output has gone, or a second signal came: the command was killed.
    Killed {
        signal: i32,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the caller's streams cannot be used")]
    Streams(#[source] io::Error),
}

enum Control {
    Resize,
    Signal(i32),
}

impl Conversation {
    pub async fn hold(self) -> Result<Finish, LiveError> {
        let streams = LiveError::Streams;
        let mut signals = Signals::listen().map_err(streams)?;
        let stdout = Stream::stdout().map_err(streams)?;
        let stderr = Stream::stderr().map_err(streams)?;
        let raw = if self.tty { Some(Raw::enter().map_err(streams)?) } else { None };
        let mut detached = self.pass_input().await?;
        let controls = self.control();
        let mut output = Output::read(self.client.clone(), self.place.clone(), self.from, true);
        let mut signalled = false;
        let finish = loop {
            tokio::select! {
                biased;
                number = signals.next() => {
                    if number == libc::SIGWINCH {
                        let _ = controls.try_send(Control::Resize);
                    } else if std::mem::replace(&mut signalled, true) {
                        break Finish::Killed { signal: number };
                    } else {
                        let _ = controls.try_send(Control::Signal(number));
                    }
                }
                () = &mut detached => break Finish::Detached,
                piece = output.next() => {
                    let (stream, bytes) = match piece? {
                        Some(Piece::Bytes { stream, bytes }) => (stream, bytes),
                        Some(Piece::Gap { stream, bytes }) => (StreamName::Stderr, gap(stream, bytes, self.tty)),
                        Some(Piece::Ended(exec)) => break Finish::Ended(exec),
                        None => return Err(ClientError::Lost("the output ended before the command".into()).into()),
                    };
                    let to = if stream == StreamName::Stderr || self.all_to_stderr { &stderr } else { &stdout };
                    if let Some(signal) = write_all(to, &bytes, &mut signals, &controls).await {
                        break Finish::Killed { signal };
                    }
                }
            }
        };
        drop(raw);
        if let Finish::Killed { .. } = finish {
            // It may have ended meanwhile, which is as good.
            let _ = self.client.kill_exec(&self.place.sandbox, self.place.exec).await;
        }
        Ok(finish)
    }

    /// Resolves when the caller types the keys to detach.
    async fn pass_input(&self) -> Result<std::pin::Pin<Box<dyn Future<Output = ()> + Send>>, LiveError> {
        if !self.stdin {
            return Ok(Box::pin(std::future::pending()));
        }
        let mut input = Input::new(self.client.clone(), self.place.clone());
        if self.attached && input.find_offset().await.is_err() {
            // It has no input, or its input is closed: there is nothing to type to.
            return Ok(Box::pin(std::future::pending()));
        }
        let (sender, receiver) = oneshot::channel();
        let stdin = Stream::stdin().map_err(LiveError::Streams)?;
        tokio::spawn(input.pass(stdin, self.tty.then_some(sender)));
        Ok(Box::pin(async move {
            if receiver.await.is_err() {
                std::future::pending().await
            }
        }))
    }

    /// Calls about the command, one after the other, beside the loop.
    fn control(&self) -> mpsc::Sender<Control> {
        let (sender, mut receiver) = mpsc::channel(16);
        let (client, place, tty) = (self.client.clone(), self.place.clone(), self.tty);
        if tty && self.attached {
            let _ = sender.try_send(Control::Resize);
        }
        tokio::spawn(async move {
            while let Some(control) = receiver.recv().await {
                // A command that has just ended takes neither; the output says so.
                let _ = match control {
                    Control::Resize if !tty => Ok(()),
                    Control::Resize => client.resize_exec(&place.sandbox, place.exec, size()).await,
                    Control::Signal(number) => client.signal_exec(&place.sandbox, place.exec, number).await,
                };
            }
        });
        sender
    }
}

pub fn size() -> TerminalSize {
    let size = terminal::size();
    TerminalSize { rows: size.rows, columns: size.columns }
}

/// A reader that takes its time must not make us deaf. Gives the signal that ends the conversation.
async fn write_all(
    stream: &Stream,
    mut bytes: &[u8],
    signals: &mut Signals,
    controls: &mpsc::Sender<Control>,
) -> Option<i32> {
    while !bytes.is_empty() {
        tokio::select! {
            biased;
            written = stream.write_some(bytes) => match written {
                Ok(count) => bytes = &bytes[count..],
                Err(_) => return Some(libc::SIGPIPE),
            },
            number = signals.next() => match number {
                libc::SIGWINCH => drop(controls.try_send(Control::Resize)),
                number => return Some(number),
            },
        }
    }
    None
}

fn gap(stream: StreamName, bytes: u64, tty: bool) -> Vec<u8> {
    let name = if stream == StreamName::Stdout { "stdout" } else { "stderr" };
    let end = if tty { "\r\n" } else { "\n" };
    let mut line = Vec::new();
    // Writing to memory cannot fail.
    let _ = write!(line, "paddock: {} of {name} were not kept{end}", format_bytes(bytes));
    line
}
