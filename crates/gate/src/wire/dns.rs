//! One question and its answer (RFC 1035). The rest of a message is not read.
//!
//! Written by hand: the question comes from hostile code, and a library for DNS reads everything that a message may hold
//! (records of every type, compressed names, options), where the gate needs twelve bytes and one name that is not
//! compressed. A question in another form is refused. A fuzz target covers it.

use paddock_model::net::DomainName;
use std::net::IpAddr;

pub const TYPE_A: u16 = 1;
pub const TYPE_AAAA: u16 = 28;
/// Long enough for a program that asks once and connects for minutes, short enough to follow a change of the rules.
const SECONDS_TO_LIVE: u32 = 60;
/// A question fits in far less; a longer message is not a question.
pub const LONGEST_QUERY: usize = 1024;
const HEADER: usize = 12;
const CLASS_INTERNET: u16 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    id: u16,
    recursion_desired: bool,
    /// As it was sent: the answer repeats it to the letter.
    question: Vec<u8>,
    /// `None`: not a host name; the answer only says that it is not known.
    pub name: Option<DomainName>,
    pub kind: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    Fine = 0,
    FormatError = 1,
    ServerFailure = 2,
    NoSuchName = 3,
    NotImplemented = 4,
}

/// `Err` is the whole answer to a message that is no question; empty if none is due.
pub fn parse(message: &[u8]) -> Result<Query, Vec<u8>> {
    if message.len() < HEADER || message[2] & 0x80 != 0 {
        return Err(Vec::new());
    }
    let id = u16::from_be_bytes([message[0], message[1]]);
    let recursion_desired = message[2] & 1 != 0;
    let refuse = |code| Err(header(id, recursion_desired, code, 0, 0).to_vec());
    if message.len() > LONGEST_QUERY {
        return refuse(Code::FormatError);
    }
    if message[2] >> 3 & 0xf != 0 {
        return refuse(Code::NotImplemented);
    }
    if message[4..6] != [0, 1] {
        return refuse(Code::FormatError);
    }
    let Some((name, end)) = labels(message) else { return refuse(Code::FormatError) };
    let Some([kind_high, kind_low, class_high, class_low]) = message.get(end..end + 4) else {
        return refuse(Code::FormatError);
    };
    if u16::from_be_bytes([*class_high, *class_low]) != CLASS_INTERNET {
        return refuse(Code::NotImplemented);
    }
    Ok(Query {
        id,
        recursion_desired,
        question: message[HEADER..end + 4].to_vec(),
        name: DomainName::from_wire(&name).ok(),
        kind: u16::from_be_bytes([*kind_high, *kind_low]),
    })
}

impl Query {
    /// An address of the other version than was asked for is left out: the name exists, it has none.
    pub fn answer(&self, addresses: &[IpAddr]) -> Vec<u8> {
        let fits = |address: &&IpAddr| match self.kind {
            TYPE_A => address.is_ipv4(),
            TYPE_AAAA => address.is_ipv6(),
            _ => false,
        };
        let fitting: Vec<&IpAddr> = addresses.iter().filter(fits).take(16).collect();
        let mut answer =
            header(self.id, self.recursion_desired, Code::Fine, 1, fitting.len() as u16).to_vec();
        answer.extend_from_slice(&self.question);
        for address in fitting {
            // The name of the answer is the one at the question's place.
            answer.extend_from_slice(&[0xc0, HEADER as u8]);
            answer.extend_from_slice(&self.kind.to_be_bytes());
            answer.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
            answer.extend_from_slice(&SECONDS_TO_LIVE.to_be_bytes());
            let (length, octets) = match address {
                IpAddr::V4(address) => (4u16, address.octets().to_vec()),
                IpAddr::V6(address) => (16u16, address.octets().to_vec()),
            };
            answer.extend_from_slice(&length.to_be_bytes());
            answer.extend_from_slice(&octets);
        }
        answer
    }

    pub fn refusal(&self, code: Code) -> Vec<u8> {
        let mut answer = header(self.id, self.recursion_desired, code, 1, 0).to_vec();
        answer.extend_from_slice(&self.question);
        answer
    }
}

/// The name of the first question with dots, and where it ends. A pointer cannot stand in a first name.
fn labels(message: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut name = Vec::new();
    let mut at = HEADER;
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > 63 || name.len() + length > 254 {
            return None;
        }
        let label = message.get(at..at + length)?;
        // A dot inside a label would become two labels.
        if label.contains(&b'.') {
            name.push(0);
        }
        name.extend_from_slice(label);
        name.push(b'.');
        at += length;
    }
}

fn header(id: u16, recursion_desired: bool, code: Code, questions: u16, answers: u16) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..2].copy_from_slice(&id.to_be_bytes());
    header[2] = 0x80 | u8::from(recursion_desired);
    header[3] = 0x80 | code as u8;
    header[4..6].copy_from_slice(&questions.to_be_bytes());
    header[6..8].copy_from_slice(&answers.to_be_bytes());
    header
}

/// A question as a client sends it; for tests and as a seed for the fuzzer.
#[doc(hidden)]
pub fn question(id: u16, name: &str, kind: u16) -> Vec<u8> {
    let mut message = vec![0; HEADER];
    message[..2].copy_from_slice(&id.to_be_bytes());
    message[2] = 1;
    message[5] = 1;
    for label in name.split('.').filter(|label| !label.is_empty()) {
        message.push(label.len() as u8);
        message.extend_from_slice(label.as_bytes());
    }
    message.push(0);
    message.extend_from_slice(&kind.to_be_bytes());
    message.extend_from_slice(&CLASS_INTERNET.to_be_bytes());
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_and_its_answer() {
        let query = parse(&question(7, "Api.Example.com", TYPE_A)).unwrap();
        assert_eq!(query.name.as_ref().unwrap().as_str(), "api.example.com");
        let answer = query.answer(&["198.18.0.9".parse().unwrap(), "fd00::1".parse().unwrap()]);
        assert_eq!(answer[..4], [0, 7, 0x81, 0x80]);
        assert_eq!(answer[6..8], [0, 1]);
        assert!(answer.ends_with(&[0, 4, 198, 18, 0, 9]));
        // The question is repeated with its own capitals: some clients compare them.
        assert!(answer.windows(3).any(|w| w == b"Api"));
        let six = parse(&question(7, "a.example", TYPE_AAAA)).unwrap();
        assert_eq!(six.answer(&["198.18.0.9".parse().unwrap()])[6..8], [0, 0]);
    }

    #[test]
    fn what_is_refused_has_its_code() {
        let query = parse(&question(9, "a.example", 16)).unwrap();
        assert_eq!(query.refusal(Code::NoSuchName)[3] & 0xf, 3);
        for (change, at, code) in [(0x28, 2, Code::NotImplemented), (2, 5, Code::FormatError)] {
            let mut message = question(9, "a.example", TYPE_A);
            message[at] = change;
            assert_eq!(parse(&message).unwrap_err()[3] & 0xf, code as u8);
        }
        let mut pointer = question(9, "a.example", TYPE_A);
        pointer[12] = 0xc0;
        assert_eq!(parse(&pointer).unwrap_err()[3] & 0xf, Code::FormatError as u8);
        let mut cut = question(9, "a.example", TYPE_A);
        cut.truncate(cut.len() - 1);
        assert_eq!(parse(&cut).unwrap_err()[3] & 0xf, Code::FormatError as u8);
        // An answer is not answered: two gates could talk for ever.
        let mut answer = question(9, "a.example", TYPE_A);
        answer[2] = 0x80;
        assert!(parse(&answer).unwrap_err().is_empty());
    }

    #[test]
    fn a_dot_inside_a_label_makes_no_second_label() {
        let mut message = question(1, "axexample.org", TYPE_A);
        message[14] = b'.';
        assert_eq!(parse(&message).unwrap().name, None);
    }
}
