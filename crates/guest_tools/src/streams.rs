//! The tool's standard streams: plain bytes, and records.

use paddock_guest_system::failure::{During, Failure, Outcome};
use paddock_protocol::{MAX_RECORD, encode_record};
use rustix::io::Errno;
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};

const FULL: usize = 64 * 1024;

pub fn input() -> std::io::Result<File> {
    Ok(rustix::stdio::stdin().try_clone_to_owned()?.into())
}

pub fn output() -> std::io::Result<File> {
    Ok(rustix::stdio::stdout().try_clone_to_owned()?.into())
}

pub fn error() -> std::io::Result<File> {
    Ok(rustix::stdio::stderr().try_clone_to_owned()?.into())
}

/// Records on their way out, a few at a time.
pub struct Answers {
    output: File,
    waiting: Vec<u8>,
}

impl Answers {
    pub fn open() -> Outcome<Answers> {
        Ok(Answers { output: output().during(|| "open the output".into())?, waiting: Vec::new() })
    }

    pub fn put<T: Serialize>(&mut self, record: &T) -> Outcome<()> {
        encode_record(record, &mut self.waiting)
            .map_err(|error| Failure { step: error.to_string(), errno: Errno::MSGSIZE })?;
        if self.waiting.len() >= FULL { self.flush() } else { Ok(()) }
    }

    pub fn flush(&mut self) -> Outcome<()> {
        let written = self.output.write_all(&self.waiting);
        self.waiting.clear();
        written.during(|| "answer".into())
    }

    pub fn into_output(mut self) -> Outcome<File> {
        self.flush()?;
        Ok(self.output)
    }
}

/// One answer, and the end.
pub fn answer<T: Serialize>(record: &T) -> Outcome<()> {
    let mut answers = Answers::open()?;
    answers.put(record)?;
    answers.flush()
}

/// Four bytes of length before a piece; `None` at the end of the input.
pub fn read_length(input: &mut File) -> Outcome<Option<usize>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error).during(|| "read the input".into()),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_RECORD {
        return Err(Failure { step: format!("a piece of {length} bytes"), errno: Errno::MSGSIZE });
    }
    Ok(Some(length))
}
