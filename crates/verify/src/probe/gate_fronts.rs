//! D, with network rules: an allowed front, asked for a host that is not allowed.

use crate::attack::{Finding, Outcome};
use paddock_model::net::place::PROXY_PORT;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The front's answer to every client.
pub const REACHED: &str = "the front was reached";

/// `WHAT PORT`: through the proxy to the front on the host's loopback; done where it answers.
pub fn ask(what: &str, port: u16) -> Finding {
    let mut found = Finding::new(Outcome::Error, format!("no such question: {what}"));
    for (name, bytes) in questions(port) {
        if !name.starts_with(what) {
            continue;
        }
        found = match answer(&bytes, port) {
            Ok(text) if text.contains(REACHED) => return Finding::new(Outcome::Done, name),
            Ok(text) => Finding::new(Outcome::Denied, text.lines().last().unwrap_or_default()),
            Err(error) => Finding::new(Outcome::Denied, error.to_string()),
        };
    }
    found
}

/// Questions of one kind begin with the same word.
fn questions(port: u16) -> Vec<(&'static str, Vec<u8>)> {
    let get = |host: &str, more: &str| {
        format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n").into_bytes()
    };
    let own = format!("127.0.0.1:{port}");
    let twice =
        [format!("HEAD / HTTP/1.1\r\nHost: {own}\r\n\r\n").into_bytes(), get("evil.test", "")].concat();
    vec![
        ("fine request", get(&own, "")),
        ("fine hello", hello("fine.test")),
        ("host in a header", get("evil.test", "")),
        ("host in a header, with other letters", get("EVIL.Test.", "")),
        ("host in a header, behind an empty line", [b"\r\n".to_vec(), get("evil.test", "")].concat()),
        ("host in the hello", hello("evil.test")),
        (
            "host in the hello, behind an alert",
            [b"\x15\x03\x01\0\x02\x01\0".to_vec(), hello("evil.test")].concat(),
        ),
        (
            "host in the hello, behind a change of cipher",
            [b"\x14\x03\x03\0\x01\x01".to_vec(), hello("evil.test")].concat(),
        ),
        ("host in the hello, cut to pieces", pieces(&hello("evil.test"))),
        ("host in a header, of a second request", twice),
        ("method in a header", get(&own, "X-HTTP-Method-Override: DELETE\r\n")),
        ("method in another header", get(&own, "X-Method-Override: delete\r\n")),
        (
            "method as a parameter",
            format!("GET /?_method=DELETE HTTP/1.1\r\nHost: {own}\r\n\r\n").into_bytes(),
        ),
    ]
}

fn answer(sent: &[u8], port: u16) -> io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", PROXY_PORT))?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let target = format!("127.0.0.1:{port}");
    stream.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes())?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"HTTP/1.1 200") {
        return Err(io::Error::other(String::from_utf8_lossy(&head).lines().next().unwrap_or_default()));
    }
    stream.write_all(sent)?;
    let mut seen = Vec::new();
    let _ = stream.read_to_end(&mut seen);
    Ok(String::from_utf8_lossy(&seen).into_owned())
}

/// A ClientHello with this name, in one record.
fn hello(name: &str) -> Vec<u8> {
    let short = |length: usize| (length as u16).to_be_bytes();
    let mut extension = short(name.len() + 3).to_vec();
    extension.push(0);
    extension.extend(short(name.len()));
    extension.extend(name.as_bytes());
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 1, 1, 0]);
    body.extend(short(extension.len() + 4));
    body.extend([0, 0]);
    body.extend(short(extension.len()));
    body.extend(extension);
    let mut record = vec![22, 3, 1];
    record.extend(short(body.len() + 4));
    record.extend([1, 0]);
    record.extend(short(body.len()));
    record.extend(body);
    record
}

/// The same message in records of three bytes.
fn pieces(record: &[u8]) -> Vec<u8> {
    record[5..].chunks(3).flat_map(|part| [&[22, 3, 1, 0, part.len() as u8][..], part].concat()).collect()
}
