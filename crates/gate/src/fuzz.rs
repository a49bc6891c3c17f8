//! The entries that the fuzz targets and the short runs in `make test` both call: bytes as a hostile sandbox could send
//! them.

use crate::place::{GATE_4, GATE_6};
use crate::wire::opening::{LONGEST_LINE, opening};
use crate::wire::records::ClientRecords;
use crate::wire::{Incomplete, dns, head, hello, packet, socks};

pub fn fuzz_dns(data: &[u8]) {
    match dns::parse(data) {
        Ok(query) => {
            let addresses = [GATE_4.into(), GATE_6.into()];
            for answer in [query.answer(&addresses), query.refusal(dns::Code::NoSuchName)] {
                assert!(
                    answer.len() <= dns::LONGEST_QUERY + 28,
                    "an answer is hardly longer than its question"
                );
                assert!(dns::parse(&answer).is_err_and(|reply| reply.is_empty()), "no answer is a question");
            }
        }
        Err(reply) => assert!(reply.len() <= 12, "what is no question gets a bare header"),
    }
}

pub fn fuzz_hello(data: &[u8]) {
    let verdict = hello::server_name(data);
    if data.len() > 2 * hello::LONGEST_HELLO {
        assert_ne!(verdict, Err(Incomplete::More), "nothing is waited for without end");
    }
    // A decision stays: more bytes change nothing.
    if verdict != Err(Incomplete::More) {
        let mut more = data.to_vec();
        more.extend_from_slice(&[0x16, 3, 1, 0, 1, 0]);
        if more.len() <= 2 * hello::LONGEST_HELLO {
            assert_eq!(hello::server_name(&more), verdict);
        }
    }
}

/// The first bytes of a client, and its TLS records wherever they are cut.
pub fn fuzz_opening(data: &[u8]) {
    for spoken in [false, true] {
        let verdict = opening(data, spoken);
        if data.len() > LONGEST_LINE {
            assert_ne!(verdict, Err(Incomplete::More), "nothing is waited for without end");
        }
    }
    let whole = ClientRecords::default().feed(data);
    let mut records = ClientRecords::default();
    let cut: Vec<_> = data.chunks(3).flat_map(|part| records.feed(part)).collect();
    assert_eq!(cut, whole, "a cut changes nothing");
}

pub fn fuzz_head(data: &[u8]) {
    match head::parse(data) {
        Ok(head::Head::Tunnel { used, port, .. }) => assert!(used <= data.len() && port > 0),
        Ok(head::Head::Forward) | Err(Incomplete::Malformed) => {}
        Err(Incomplete::More) => assert!(data.len() < head::LONGEST_HEAD),
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = head::authority(text);
    }
}

pub fn fuzz_socks(data: &[u8]) {
    for verdict in [socks::greeting(data).map(|found| found.0), socks::request(data).map(|found| found.0)] {
        match verdict {
            Ok(used) => assert!(used <= data.len() && used <= socks::LONGEST),
            Err(Incomplete::More) => assert!(data.len() < socks::LONGEST),
            Err(Incomplete::Malformed) => {}
        }
    }
}

pub fn fuzz_packet(data: &[u8]) {
    if let Some(packet::Packet::Udp { key, payload }) = packet::parse(data) {
        assert!(payload.len() <= data.len());
        let _ = packet::datagram(&key, payload);
    }
    for gate in [GATE_4.into(), GATE_6.into()] {
        let answer = packet::forbidden(data, gate);
        assert!(answer.is_none_or(|answer| answer.len() <= data.len() + 48), "no answer is much larger");
    }
    let _ = packet::reset(data);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20,000 inputs: random ones, and good ones with a few bytes changed, cut or doubled.
    fn run(entry: fn(&[u8]), seeds: &[Vec<u8>]) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for seed in seeds {
            entry(seed);
        }
        for round in 0..20_000 {
            let mut input: Vec<u8> = match round % 3 {
                0 => (0..next() % 96).map(|_| next() as u8).collect(),
                _ => seeds[next() as usize % seeds.len()].clone(),
            };
            for _ in 0..next() % 5 {
                if input.is_empty() {
                    break;
                }
                let at = next() as usize % input.len();
                match next() % 4 {
                    0 => input.truncate(at),
                    1 => input.extend_from_within(at..),
                    2 => input[at] ^= 1 << (next() % 8),
                    _ => input[at] = next() as u8,
                }
            }
            entry(&input);
        }
    }

    #[test]
    fn arbitrary_questions() {
        let long = ["abcdefghijklmno"; 16].join(".");
        run(
            fuzz_dns,
            &[
                dns::question(1, "api.example.com", 1),
                dns::question(2, "x.org", 28),
                dns::question(3, &long, 65),
            ],
        );
    }

    #[test]
    fn arbitrary_hellos() {
        let seeds = [
            hello::client_hello(Some(b"api.example.com"), 4096),
            hello::client_hello(Some(b"x.org"), 9),
            hello::client_hello(None, 40),
        ];
        run(fuzz_hello, &seeds);
    }

    #[test]
    fn arbitrary_openings() {
        let hello = hello::client_hello(Some(b"api.example.com"), 9);
        let twice = [&hello[..], b"\x14\x03\x03\x00\x01\x01", &hello].concat();
        let request = b"\r\nGET / HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec();
        run(fuzz_opening, &[hello, twice, request, b"PRI * HTTP/2.0\r\n\r\n".to_vec()]);
    }

    #[test]
    fn arbitrary_heads() {
        let seeds = [
            b"CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\nProxy-Connection: x\r\n\r\n".to_vec(),
            b"GET http://a.example/path?x HTTP/1.1\r\nHost: a.example\r\n\r\n".to_vec(),
            b"CONNECT [2001:db8::1]:443 HTTP/1.0\r\n\r\n".to_vec(),
        ];
        run(fuzz_head, &seeds);
    }

    #[test]
    fn arbitrary_socks() {
        let name = [&[5, 1, 0, 3, 9][..], b"a.example", &[1, 187]].concat();
        run(fuzz_socks, &[vec![5, 2, 0, 2], name, vec![5, 1, 0, 1, 1, 2, 3, 4, 0, 80], vec![5, 1, 0, 4, 0]]);
    }

    #[test]
    fn arbitrary_packets() {
        let key = |from: &str, to: &str| packet::Key { from: from.parse().unwrap(), to: to.parse().unwrap() };
        let four = packet::datagram(&key("10.0.2.15:1", "10.0.2.2:53"), b"hello").unwrap();
        let six = packet::datagram(&key("[fd50::1]:1", "[fd50::2]:53"), b"hello").unwrap();
        let error = packet::forbidden(&four, GATE_4.into()).unwrap();
        run(fuzz_packet, &[four, six, error]);
    }
}
