//! The protocol of a client, read from its first bytes: TLS, HTTP in the clear, or something that names no host.

use super::{Incomplete, hello};
use paddock_model::net::DomainName;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Opening {
    /// With the name that the client asks for.
    Tls(Option<DomainName>),
    /// HTTP/1 in the clear: each of its requests names a host.
    Http,
    /// HTTP/2 in the clear. Its requests cannot be read here.
    ClearHttp2,
    Other,
}

/// A first line that is longer is refused, not passed on unread.
pub const LONGEST_LINE: usize = 64 << 10;
/// No method is longer.
const LONGEST_METHOD: usize = 64;
/// Types of TLS records: change of cipher, alert, handshake, application data, heartbeat.
const RECORD_TYPES: std::ops::RangeInclusive<u8> = 20..=24;
const LONGEST_RECORD: usize = (16 << 10) + 2048;
/// Headers that tell a server another client than the one that talks to it (PROXY protocol).
const PROXY_1: &[u8] = b"PROXY ";
const PROXY_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// `spoken`: the server has said something already, as no server of TLS or HTTP does.
pub fn opening(bytes: &[u8], spoken: bool) -> Result<Opening, Incomplete> {
    let Some(first) = bytes.first() else { return Err(Incomplete::More) };
    if hello::is_tls(bytes) {
        return hello::server_name(bytes).map(Opening::Tls);
    }
    if spoken {
        return Ok(Opening::Other);
    }
    if RECORD_TYPES.contains(first) {
        return other_record(bytes);
    }
    if bytes.starts_with(PROXY_1) || bytes.len() >= 5 && bytes.starts_with(&PROXY_2[..5]) {
        return Err(Incomplete::Malformed);
    }
    request_line(bytes)
}

/// A record of TLS that comes before the ClientHello. No client sends one, and some servers skip it: the records behind
/// it would not be looked at.
fn other_record(bytes: &[u8]) -> Result<Opening, Incomplete> {
    let [_, major, rest @ ..] = bytes else { return Err(Incomplete::More) };
    if *major != 3 {
        return Ok(Opening::Other);
    }
    let [minor, high, low, ..] = rest else { return Err(Incomplete::More) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    match *minor <= 4 && length <= LONGEST_RECORD {
        true => Err(Incomplete::Malformed),
        false => Ok(Opening::Other),
    }
}

/// Servers skip empty lines before a request. A method, a space, and `HTTP/` at the end of the line make one.
fn request_line(bytes: &[u8]) -> Result<Opening, Incomplete> {
    let more = if bytes.len() < LONGEST_LINE { Incomplete::More } else { Incomplete::Malformed };
    let Some(start) = bytes.iter().position(|byte| !matches!(byte, b'\r' | b'\n')) else { return Err(more) };
    let line = &bytes[start..];
    let method = line.iter().take_while(|byte| is_token(**byte)).count();
    match line.get(method) {
        None if method < LONGEST_METHOD => return Err(Incomplete::More),
        Some(b' ' | b'\t') if (1..LONGEST_METHOD).contains(&method) => {}
        _ => return Ok(Opening::Other),
    }
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else { return Err(more) };
    let line = line[..end].to_ascii_uppercase();
    let is_version = |at: usize| at > 0 && matches!(line[at - 1], b' ' | b'\t' | b'\r' | 0x0b | 0x0c);
    match memchr::memmem::find_iter(&line, b"HTTP/").find(|at| is_version(*at)) {
        Some(at) if line.starts_with(b"PRI ") && line[at..].starts_with(b"HTTP/2") => Ok(Opening::ClearHttp2),
        Some(_) => Ok(Opening::Http),
        None => Ok(Opening::Other),
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hello::client_hello;

    #[test]
    fn requests_are_known_however_they_are_cut() {
        for request in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"\r\n\r\nGET / HTTP/1.1\r\n",
            b"get\t/x y z HTTP/1.1 \n",
            b"POST http://evil.test/ http/1.0\r\n",
            b"M-SEARCH * HTTP/1.1\r\n",
        ] {
            for end in 0..request.len() {
                assert_eq!(opening(&request[..end], false), Err(Incomplete::More), "{end}");
            }
            assert_eq!(opening(request, false), Ok(Opening::Http), "{}", String::from_utf8_lossy(request));
        }
        assert_eq!(opening(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", false), Ok(Opening::ClearHttp2));
    }

    #[test]
    fn other_protocols_are_not_held() {
        for first in [
            &b"SSH-2.0-x\r\n"[..],
            b"*1\r\n$4\r\nPING\r\n",
            b"PING\r\n",
            b"EHLO x\r\n",
            b"NICK someone\r\n",
            b"OPTIONS rtsp://x RTSP/1.0\r\n",
            b"\0\0\0\x08\x04\xd2\x16\x2f",
            b"A\0\0\0",
            b"<stream>",
            b"\x15\x01\0\0",
            b"\x17\x03\x09\0\0",
            b"\x80\x2e\x01\x03\x01",
        ] {
            assert_eq!(opening(first, false), Ok(Opening::Other), "{first:?}");
        }
        assert_eq!(opening(&[b'A'; LONGEST_METHOD], false), Ok(Opening::Other));
        // A server that speaks first is none of HTTP or TLS.
        assert_eq!(opening(b"GET / HTTP/1.1\r\n", true), Ok(Opening::Other));
        assert_eq!(opening(b"\x15\x03\x01\x00\x02", true), Ok(Opening::Other));
    }

    #[test]
    fn nothing_of_tls_comes_before_the_client_hello() {
        let hello = client_hello(Some(b"evil.test"), 4096);
        for before in [
            &b"\x15\x03\x01\x00\x02\x01\x00"[..],
            b"\x15\x03\x03\x00\x02\x01\x5a",
            b"\x14\x03\x03\x00\x01\x01",
            b"\x17\x03\x03\x00\x01\x00",
            b"\x18\x03\x03\x00\x03\x01\x00\x00",
            b"\x15\x03\x01\x00\x00",
        ] {
            let bytes = [before, &hello].concat();
            for end in 0..5 {
                assert_eq!(opening(&bytes[..end], false), Err(Incomplete::More), "{before:?}");
            }
            assert_eq!(opening(&bytes, false), Err(Incomplete::Malformed), "{before:?}");
        }
        // Nor an empty record of the handshake itself, nor the header of a proxy.
        for bad in [&b"\x16\x03\x01\x00\x00"[..], b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", PROXY_2] {
            assert_eq!(opening(&[bad, &hello].concat(), false), Err(Incomplete::Malformed), "{bad:?}");
        }
        for piece in [1, 5, 4096] {
            let Ok(Opening::Tls(Some(name))) = opening(&client_hello(Some(b"a.test"), piece), false) else {
                panic!("{piece}")
            };
            assert_eq!(name.as_str(), "a.test");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut line = b"GET /".to_vec();
        line.resize(LONGEST_LINE, b'a');
        assert_eq!(opening(&line, false), Err(Incomplete::Malformed));
        assert_eq!(opening(&vec![b'\n'; LONGEST_LINE], false), Err(Incomplete::Malformed));
    }
}
