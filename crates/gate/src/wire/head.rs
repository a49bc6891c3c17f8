//! The head of a request to the proxy: where it wants to go.

use super::Incomplete;
use super::host::Host;

pub const LONGEST_HEAD: usize = 32 << 10;
const MOST_HEADERS: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Head {
    /// CONNECT: the bytes after the head, from `used` on, belong to the tunnel.
    Tunnel { host: Host, port: u16, used: usize },
    /// Any other request with a whole URL.
    Forward,
}

pub fn parse(bytes: &[u8]) -> Result<Head, Incomplete> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Err(Incomplete::More),
        _ => return Err(Incomplete::Malformed),
    };
    if request.method != Some("CONNECT") {
        return Ok(Head::Forward);
    }
    // A body would be read as the first bytes of the tunnel by one and not by the other.
    let has_body = request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("content-length") && header.value != b"0"
            || header.name.eq_ignore_ascii_case("transfer-encoding")
    });
    match request.path.and_then(authority) {
        Some((host, Some(port))) if !has_body => Ok(Head::Tunnel { host, port, used }),
        _ => Err(Incomplete::Malformed),
    }
}

/// `name`, `name:port`, `1.2.3.4:port`, `[::1]:port`.
pub fn authority(text: &str) -> Option<(Host, Option<u16>)> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (inside, port) = rest.split_once(']')?;
            let address: std::net::Ipv6Addr = inside.parse().ok()?;
            (Host::Address(address.into()), port.strip_prefix(':').or(port.is_empty().then_some(""))?)
        }
        None => {
            let (name, port) = text.split_once(':').unwrap_or((text, ""));
            let found = Host::parse(name.as_bytes())?;
            (found, port)
        }
    };
    if port.is_empty() {
        return Some((name, None));
    }
    let number = port.parse().ok().filter(|number| *number > 0 && port.bytes().all(|b| b.is_ascii_digit()));
    number.map(|number| (name, Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::DomainName;

    fn name(text: &str) -> Host {
        Host::Name(DomainName::parse(text).unwrap())
    }

    #[test]
    fn tunnels_and_the_rest() {
        let head = b"CONNECT Api.example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03";
        let tunnel = Head::Tunnel { host: name("api.example.com"), port: 443, used: head.len() - 2 };
        assert_eq!(parse(head), Ok(tunnel));
        for end in 0..head.len() - 2 {
            assert_eq!(parse(&head[..end]), Err(Incomplete::More), "{end}");
        }
        assert_eq!(parse(b"GET http://a.example/ HTTP/1.1\r\n\r\n"), Ok(Head::Forward));
        for bad in [
            &b"CONNECT a.example HTTP/1.1\r\n\r\n"[..],
            b"CONNECT a.example:0 HTTP/1.1\r\n\r\n",
            b"CONNECT a.example:+80 HTTP/1.1\r\n\r\n",
            b"CONNECT http://a.example:80/ HTTP/1.1\r\n\r\n",
            b"CONNECT user@a.example:80 HTTP/1.1\r\n\r\n",
            b"CONNECT a.example:80 HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /",
            b"CONNECT a.example:80 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"\x00\x01\x02",
        ] {
            assert_eq!(parse(bad), Err(Incomplete::Malformed), "{}", String::from_utf8_lossy(bad));
        }
        assert_eq!(parse(&[b'A'; LONGEST_HEAD]), Err(Incomplete::Malformed));
    }

    #[test]
    fn authorities() {
        assert_eq!(authority("a.example"), Some((name("a.example"), None)));
        assert_eq!(authority("a.example:"), Some((name("a.example"), None)));
        let six = Host::Address("::1".parse().unwrap());
        assert_eq!(authority("[::1]:80"), Some((six.clone(), Some(80))));
        assert_eq!(authority("[::1]"), Some((six, None)));
        for bad in
            ["", ":80", "a b", "a:b", "a:99999", "::1", "[::1", "[::1]x", "[a]:1", "a.example/x", "127.1:80"]
        {
            assert_eq!(authority(bad), None, "{bad}");
        }
    }
}
