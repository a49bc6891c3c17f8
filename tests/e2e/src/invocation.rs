//! One start of a program: input in, output collected as it comes, never longer than our patience.

use crate::wait::{PATIENCE, until};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

pub struct Invocation {
    command: Command,
    input: Vec<u8>,
}

impl Invocation {
    pub fn new(command: Command) -> Invocation {
        Invocation { command, input: Vec::new() }
    }

    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub fn arguments<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Gives the input and closes it, and waits for the end.
    pub fn finish(mut self) -> Result<Finished> {
        let input = std::mem::take(&mut self.input);
        let mut running = self.start()?;
        let stdin = running.child.stdin.take().context("stdin is not ours")?;
        // Written by a thread: a program may write before it has read everything. It need not read at all either.
        let writer = std::thread::spawn(move || {
            let mut stdin = stdin;
            let _ = stdin.write_all(&input);
        });
        let finished = running.finish();
        let _ = writer.join();
        finished
    }

    /// Leaves stdin open.
    pub fn start(mut self) -> Result<Running> {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().with_context(|| format!("{:?}", self.command.get_program()))?;
        let stdout = Collected::from(child.stdout.take().context("stdout is not ours")?);
        let stderr = Collected::from(child.stderr.take().context("stderr is not ours")?);
        Ok(Running { child, stdout, stderr })
    }
}

/// Ended by force when it is dropped before its end.
pub struct Running {
    child: Child,
    stdout: Collected,
    stderr: Collected,
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let stdin = self.child.stdin.as_mut().context("stdin is closed")?;
        stdin.write_all(bytes)?;
        Ok(stdin.flush()?)
    }

    pub fn close_input(&mut self) {
        self.child.stdin = None;
    }

    /// Waits until stdout holds this text.
    pub fn wait_for(&mut self, text: &str) -> Result<()> {
        let seen = until(PATIENCE, &format!("{text:?} on stdout"), || {
            let found = self.stdout.text().contains(text);
            (found || self.has_ended()).then_some(found)
        });
        // The last bytes may be read only after the end was seen.
        if seen? || (self.stdout.complete() && self.stdout.text().contains(text)) {
            return Ok(());
        }
        bail!(
            "ended without {text:?}; stdout {:?}, stderr {:?}",
            shortened(self.stdout.text()),
            shortened(self.stderr.text())
        )
    }

    pub fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let id = Pid::from_raw(self.child.id() as i32).context("no process id")?;
        Ok(kill_process(id, signal)?)
    }

    /// Its output so far, for a message.
    pub fn said(&self) -> String {
        format!("stdout {:?}, stderr {:?}", shortened(self.stdout.text()), shortened(self.stderr.text()))
    }

    /// All of its stderr so far.
    pub fn errors(&self) -> String {
        self.stderr.text()
    }

    pub fn finish(mut self) -> Result<Finished> {
        self.close_input();
        let status = until(PATIENCE, "the end of the program", || self.child.try_wait().transpose())
            .with_context(|| {
                format!(
                    "stdout {:?}, stderr {:?}",
                    shortened(self.stdout.text()),
                    shortened(self.stderr.text())
                )
            })??;
        ensure!(self.stdout.complete() && self.stderr.complete(), "somebody still holds the output open");
        Ok(Finished { code: code(status), stdout: self.stdout.take(), stderr: self.stderr.take() })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The exit code in a shell's form.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

#[derive(Debug)]
pub struct Finished {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

impl Finished {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Exit code 0; gives stdout.
    pub fn success(&self) -> Result<String> {
        self.exited(0)?;
        Ok(self.out())
    }

    pub fn exited(&self, code: i32) -> Result<&Finished> {
        ensure!(
            self.code == code,
            "exit code {}, not {code}; stdout {:?}, stderr {:?}",
            self.code,
            shortened(self.out()),
            shortened(self.err())
        );
        Ok(self)
    }

    /// Paddock refused: exit code 125, nothing on stdout, and a message with all these words.
    pub fn refused(&self, words: &[&str]) -> Result<()> {
        self.exited(125)?;
        ensure!(self.stdout.is_empty(), "output of a refused run: {:?}", shortened(self.out()));
        let message = self.err();
        for word in words {
            ensure!(message.contains(word), "no {word:?} in the message {:?}", shortened(message));
        }
        Ok(())
    }

    pub fn json(&self) -> Result<serde_json::Value> {
        serde_json::from_slice(&self.stdout)
            .with_context(|| format!("not one JSON object: {:?}, stderr {:?}", self.out(), self.err()))
    }
}

fn shortened(text: String) -> String {
    const KEPT: usize = 2000;
    if text.len() <= KEPT {
        text
    } else {
        format!("{}... ({} bytes)", &text[..text.floor_char_boundary(KEPT)], text.len())
    }
}

/// Everything that came out so far.
struct Collected {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Collected {
    fn from(mut source: impl Read + Send + 'static) -> Collected {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let shared = bytes.clone();
        let reader = std::thread::spawn(move || {
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                shared.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..count]);
            }
        });
        Collected { bytes, reader: Some(reader) }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// True if the other end is closed and everything was read.
    fn complete(&mut self) -> bool {
        let closed = |reader: &JoinHandle<()>| reader.is_finished().then_some(());
        match self.reader.take() {
            Some(reader) if until(PATIENCE, "end of output", || closed(&reader)).is_ok() => {
                reader.join().is_ok()
            }
            Some(_) => false,
            None => true,
        }
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
