//! One request over the server's unix socket, by hand: the suite uses no client of ours. It speaks the version of HTTP
//! whose answers last until the end of the connection, so no pieces have to be put together.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest that any one answer may take: the first sandbox of a size boots a VM, perhaps on a busy host.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// The server's own words for an operation that this backend does not support.
#[derive(Debug, thiserror::Error)]
#[error("the server says that it is not supported: {0}")]
pub struct Unsupported(pub String);

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", self.text()))
    }

    pub fn expect(self, status: u16) -> Result<Answer> {
        let error = if self.status >= 400 { self.json().unwrap_or_default() } else { Value::Null };
        if error["code"] == "unsupported" {
            return Err(Unsupported(error["message"].as_str().unwrap_or_default().to_string()).into());
        }
        let shown: String = self.text().chars().take(300).collect();
        ensure!(self.status == status, "{} instead of {status}: {shown}", self.status);
        Ok(self)
    }
}

pub fn send(socket: &Path, method: &str, target: &str, kind: &str, body: &[u8]) -> Result<UnixStream> {
    let mut stream = UnixStream::connect(socket).context("the server's socket")?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let length = body.len();
    let kind = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
    let head =
        format!("{method} {target} HTTP/1.0\r\nHost: localhost\r\n{kind}Content-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body].concat())?;
    Ok(stream)
}

pub fn receive(mut stream: UnixStream) -> Result<Answer> {
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    ensure!(read.is_ok() || !bytes.is_empty(), "no answer: {read:?}");
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").context("no head")?;
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    Ok(Answer { status, body: bytes.split_off(split + 4) })
}

/// Reads a stream that does not end until `wanted` has come by.
pub fn wait_for(stream: &mut UnixStream, wanted: &str) -> Result<()> {
    let until = Instant::now() + ANSWER_TIMEOUT;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    let (mut seen, mut block) = (Vec::new(), [0u8; 4096]);
    while !String::from_utf8_lossy(&seen).contains(wanted) {
        ensure!(Instant::now() < until, "no {wanted:?} in {:?}", String::from_utf8_lossy(&seen));
        match stream.read(&mut block) {
            Ok(0) => anyhow::bail!("ended without {wanted:?}: {:?}", String::from_utf8_lossy(&seen)),
            Ok(count) => seen.extend_from_slice(&block[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
