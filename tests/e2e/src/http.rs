//! The API itself: for answers that no command shows, and requests as bytes that no client of ours would send.

use crate::Server;
use crate::wait::PATIENCE;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("no JSON: {}", self.text()))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// One value a line.
    pub fn lines(&self) -> Result<Vec<Value>> {
        let lines = self.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).context("a line is not JSON")).collect()
    }

    pub fn expect(self, status: u16) -> Result<Value> {
        ensure!(self.status == status, "{}: {}", self.status, self.text());
        if self.body.is_empty() { Ok(Value::Null) } else { self.json() }
    }

    /// A typed error: this status, this code, words for people and an id to look for in the log.
    pub fn refused(&self, status: u16, code: &str) -> Result<&Answer> {
        let error = self.json()?;
        let said = |field: &str| error[field].as_str().is_some_and(|text| !text.is_empty());
        ensure!(
            self.status == status && error["code"] == code && said("message") && said("request_id"),
            "{} {}, not {status} {code}",
            self.status,
            self.text()
        );
        Ok(self)
    }

    /// A refusal that is the caller's own mistake, whichever.
    pub fn refused_somehow(&self) -> Result<&Answer> {
        let code = self.json()?["code"].as_str().unwrap_or_default().to_string();
        ensure!((400..500).contains(&self.status), "{} {}", self.status, self.text());
        self.refused(self.status, &code)
    }

    pub fn ok(&self) -> Result<&Answer> {
        ensure!((200..300).contains(&self.status), "{} {}", self.status, self.text());
        Ok(self)
    }
}

impl Server<'_> {
    /// One request over the server's own socket.
    pub fn api(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        over_socket(self.socket(), method, path, kind, body.as_bytes())
    }
}

/// One request over a unix socket, with headers of the test's own.
pub fn over_socket(socket: &Path, method: &str, target: &str, headers: &str, body: &[u8]) -> Result<Answer> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    exchange(stream, &request(method, target, headers, body))
}

/// One request to `http://ADDRESS`.
pub fn over_tcp(url: &str, method: &str, target: &str, headers: &str, body: &[u8]) -> Result<Answer> {
    let stream = TcpStream::connect(url.trim_start_matches("http://"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    exchange(stream, &request(method, target, headers, body))
}

fn request(method: &str, target: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

fn exchange(mut stream: impl Read + Write, request: &[u8]) -> Result<Answer> {
    // A server that refuses need not read all of it.
    match stream.write_all(request) {
        Err(error) if !matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            return Err(error.into());
        }
        _ => {}
    }
    let mut bytes = Vec::new();
    let read = stream.read_to_end(&mut bytes);
    ensure!(read.is_ok() || !bytes.is_empty(), "no answer: {read:?}");
    let split = bytes.windows(4).position(|four| four == b"\r\n\r\n").context("no head")?;
    let head = String::from_utf8_lossy(&bytes[..split]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
    let mut body = bytes.split_off(split + 4);
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        body = unchunked(&body);
    }
    Ok(Answer { status, head, body })
}

/// As many bytes as came.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&bytes[..end]), 16).unwrap_or(0);
        let rest = &bytes[end + 2..];
        if size == 0 || rest.len() < size + 2 {
            break;
        }
        whole.extend_from_slice(&rest[..size]);
        bytes = &rest[size + 2..];
    }
    whole
}
