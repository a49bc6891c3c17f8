//! The name that a TLS client asks for, from its first bytes (RFC 8446, RFC 6066).
//!
//! Written by hand: the connection is passed on unopened, so the bytes must stay as they are. rustls reads a hello too,
//! but only as the beginning of a handshake of its own, and it refuses hellos (of versions and extensions that it does
//! not have) that the real server would accept. A fuzz target covers it.

use super::Incomplete;
use paddock_model::net::DomainName;

/// The largest that is waited for: those of browsers with post-quantum keys have 2 KiB.
pub const LONGEST_HELLO: usize = 16 << 10;
pub const HANDSHAKE: u8 = 22;
pub const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;

/// True if a connection that begins so speaks TLS.
pub fn is_tls(first: &[u8]) -> bool {
    first.first() == Some(&HANDSHAKE)
}

/// `Ok(None)`: the client names no server.
pub fn server_name(bytes: &[u8]) -> Result<Option<DomainName>, Incomplete> {
    name_in(&handshake(bytes)?).ok_or(Incomplete::Malformed)
}

/// The name in the body of a ClientHello; `None` where it is none.
pub fn name_in(message: &[u8]) -> Option<Option<DomainName>> {
    let mut hello = Reader(message);
    // Version and random.
    hello.take(34)?;
    let session = hello.byte()?;
    hello.take(usize::from(session))?;
    let suites = hello.short()?;
    hello.take(usize::from(suites))?;
    let compressions = hello.byte()?;
    hello.take(usize::from(compressions))?;
    if hello.0.is_empty() {
        return Some(None);
    }
    let length = hello.short()?;
    let mut extensions = Reader(hello.take(usize::from(length))?);
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.short()?;
        let length = extensions.short()?;
        let body = extensions.take(usize::from(length))?;
        if kind == SERVER_NAME {
            // Two of them, and the server may take the other one.
            if found.is_some() {
                return None;
            }
            found = Some(host_name(body)?);
        }
    }
    Some(found)
}

/// The body of the ClientHello, put together from as many records as it was cut into.
fn handshake(bytes: &[u8]) -> Result<Vec<u8>, Incomplete> {
    let mut rest = bytes;
    let mut message = Vec::new();
    loop {
        if !rest.is_empty() && !is_tls(rest) {
            return Err(Incomplete::Malformed);
        }
        if rest.len() < 5 {
            return Err(Incomplete::More);
        }
        let length = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
        if rest[1] != 3 || length == 0 || length > LONGEST_HELLO {
            return Err(Incomplete::Malformed);
        }
        let have = &rest[5..rest.len().min(5 + length)];
        message.extend_from_slice(have);
        if let [kind, high, middle, low, ..] = message[..] {
            let whole = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
            if kind != CLIENT_HELLO || whole > LONGEST_HELLO {
                return Err(Incomplete::Malformed);
            }
            if message.len() >= 4 + whole {
                return Ok(message[4..4 + whole].to_vec());
            }
        }
        if bytes.len() > 2 * LONGEST_HELLO {
            return Err(Incomplete::Malformed);
        }
        rest = rest.get(5 + length..).ok_or(Incomplete::More)?;
    }
}

/// A list with exactly one host name.
fn host_name(body: &[u8]) -> Option<DomainName> {
    let mut body = Reader(body);
    let length = body.short()?;
    let mut list = Reader(body.take(usize::from(length))?);
    if list.byte()? != 0 {
        return None;
    }
    let length = list.short()?;
    let name = list.take(usize::from(length))?;
    if !list.0.is_empty() || !body.0.is_empty() {
        return None;
    }
    DomainName::from_wire(name).ok()
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }
}

/// A ClientHello in records of at most `piece` bytes; for tests and as a seed for the fuzzer.
#[doc(hidden)]
pub fn client_hello(name: Option<&[u8]>, piece: usize) -> Vec<u8> {
    let short = |length: usize| (length as u16).to_be_bytes();
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend_from_slice(&[0, 2, 0x13, 1, 1, 0]);
    let mut extensions = vec![0, 23, 0, 0];
    if let Some(name) = name {
        extensions.extend_from_slice(&[0, 0]);
        extensions.extend_from_slice(&short(name.len() + 5));
        extensions.extend_from_slice(&short(name.len() + 3));
        extensions.push(0);
        extensions.extend_from_slice(&short(name.len()));
        extensions.extend_from_slice(name);
    }
    body.extend_from_slice(&short(extensions.len()));
    body.extend_from_slice(&extensions);
    let mut message = vec![CLIENT_HELLO, 0];
    message.extend_from_slice(&short(body.len()));
    message.extend_from_slice(&body);
    let mut records = Vec::new();
    for part in message.chunks(piece.max(1)) {
        records.extend_from_slice(&[HANDSHAKE, 3, 1]);
        records.extend_from_slice(&short(part.len()));
        records.extend_from_slice(part);
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_found_however_it_is_cut() {
        for piece in [1, 3, 4, 7, 50, 4096] {
            let hello = client_hello(Some(b"API.example.com"), piece);
            for end in 0..hello.len() {
                assert_eq!(server_name(&hello[..end]), Err(Incomplete::More), "{piece} {end}");
            }
            let name = server_name(&hello).unwrap().unwrap();
            assert_eq!(name.as_str(), "api.example.com");
        }
        assert_eq!(server_name(&client_hello(None, 4096)), Ok(None));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for name in [&b"127.0.0.1"[..], b"a\0b.org", b"", b"[::1]", b"b\xc3\xbccher.example"] {
            assert_eq!(server_name(&client_hello(Some(name), 4096)), Err(Incomplete::Malformed));
        }
        assert_eq!(server_name(b"GET / HTTP/1.1"), Err(Incomplete::Malformed));
        let mut other = client_hello(None, 4096);
        other[5] = 2;
        assert_eq!(server_name(&other), Err(Incomplete::Malformed));
    }

    #[test]
    fn a_length_that_never_ends_is_not_waited_for() {
        let mut hello = client_hello(None, 4096);
        hello[6] = 1;
        assert_eq!(server_name(&hello), Err(Incomplete::Malformed));
        // An endless row of tiny records of a message that is never whole.
        let mut records = vec![HANDSHAKE, 3, 1, 0, 4, CLIENT_HELLO, 0, 0x3f, 0xff];
        while records.len() < 3 * LONGEST_HELLO {
            records.extend_from_slice(&[HANDSHAKE, 3, 1, 0, 1, 0]);
        }
        assert_eq!(server_name(&records), Err(Incomplete::Malformed));
    }

    #[test]
    fn two_names_are_none() {
        let mut hello = client_hello(Some(b"a.example"), 4096);
        // The other extension, of no length, becomes a second one of the same kind.
        let at = hello.windows(4).position(|w| w == [0, 23, 0, 0]).unwrap();
        hello[at + 1] = 0;
        assert_eq!(server_name(&hello), Err(Incomplete::Malformed));
    }
}
