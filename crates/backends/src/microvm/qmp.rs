//! QEMU's monitor protocol: one JSON object a line. The work in the VM may have taken over QEMU, so both the length of
//! lines and the time to wait are bounded.
//!
//! Written by hand over serde_json: a dozen commands, one of which (`getfd`) goes with a descriptor, and both bounds are
//! needed on every line.

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Error, ErrorKind, IoSlice, Read, Result};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The longest answer of those that are asked for is far shorter.
const LONGEST: usize = 64 * 1024;
/// Events come in between; more than these are not waited through.
const MOST_EVENTS: usize = 64;
const QMP_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Qmp {
    stream: UnixStream,
    read: Vec<u8>,
}

impl Qmp {
    /// Waits for QEMU's greeting.
    pub fn greet(stream: UnixStream) -> Result<Qmp> {
        stream.set_read_timeout(Some(QMP_TIMEOUT))?;
        stream.set_write_timeout(Some(QMP_TIMEOUT))?;
        let mut qmp = Qmp { stream, read: Vec::new() };
        let greeting = qmp.line()?;
        if greeting.get("QMP").is_none() {
            return Err(Error::new(ErrorKind::InvalidData, "what answers is not QEMU's monitor"));
        }
        qmp.execute("qmp_capabilities", None)?;
        Ok(qmp)
    }

    pub fn execute(&mut self, command: &str, arguments: Option<Value>) -> Result<Value> {
        self.say(command, arguments, None)?;
        self.answer(command)
    }

    /// Executes a command that takes a file along.
    pub fn execute_with(&mut self, command: &str, arguments: Option<Value>, file: &File) -> Result<Value> {
        self.say(command, arguments, Some(file))?;
        self.answer(command)
    }

    fn say(&mut self, command: &str, arguments: Option<Value>, file: Option<&File>) -> Result<()> {
        let mut request = json!({ "execute": command });
        if let Some(arguments) = arguments {
            request["arguments"] = arguments;
        }
        let mut line = request.to_string().into_bytes();
        line.push(b'\n');
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let along: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
        if !along.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&along)) {
            return Err(ErrorKind::OutOfMemory.into());
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL)?;
        std::io::Write::write_all(&mut &self.stream, &line[sent..])
    }

    fn answer(&mut self, command: &str) -> Result<Value> {
        for _ in 0..MOST_EVENTS {
            let mut line = self.line()?;
            if let Some(answer) = line.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = line.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("it does not say why");
                return Err(Error::other(format!("QEMU refused `{command}`: {}", why.escape_debug())));
            }
        }
        Err(Error::new(ErrorKind::InvalidData, format!("QEMU never answered `{command}`")))
    }

    fn line(&mut self) -> Result<Value> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line)
                    .map_err(|error| Error::new(ErrorKind::InvalidData, format!("QEMU's monitor: {error}")));
            }
            if self.read.len() > LONGEST {
                return Err(Error::new(ErrorKind::InvalidData, "QEMU's monitor says too much"));
            }
            let mut buffer = [0; 4096];
            match (&self.stream).read(&mut buffer)? {
                0 => return Err(Error::new(ErrorKind::UnexpectedEof, "QEMU has ended")),
                count => self.read.extend_from_slice(&buffer[..count]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn answering(text: &'static [u8]) -> UnixStream {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let _ = theirs.write_all(text);
            let mut sink = Vec::new();
            let _ = theirs.read_to_end(&mut sink);
        });
        ours
    }

    #[test]
    fn events_in_between_are_passed_over_and_refusals_told() {
        let text = b"{\"QMP\":{}}\n{\"return\":{}}\n{\"event\":\"STOP\"}\n{\"return\":{\"a\":1}}\n{\"error\":{\"desc\":\"no\"}}\n";
        let mut qmp = Qmp::greet(answering(text)).unwrap();
        assert_eq!(qmp.execute("x", None).unwrap(), json!({ "a": 1 }));
        assert!(qmp.execute("y", None).unwrap_err().to_string().contains("QEMU refused `y`: no"));
    }

    #[test]
    fn what_is_no_monitor_is_told() {
        assert!(Qmp::greet(answering(b"{}\n")).is_err());
        assert!(Qmp::greet(answering(b"no json\n")).is_err());
        static LONG_LINE: [u8; 2 * LONGEST] = [b'x'; 2 * LONGEST];
        let why = Qmp::greet(answering(&LONG_LINE)).err().map(|error| error.to_string()).unwrap();
        assert!(why.contains("says too much"), "{why}");
    }
}
