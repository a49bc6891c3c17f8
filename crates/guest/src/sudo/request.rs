//! The bytes between the caller's process and the process of root: one request with four descriptors, then signals in one direction
//! and news of the command in the other. Both ends are the same executable.

use super::options::Command;
use rustix::io::{Errno, Result};
use std::os::fd::{BorrowedFd, OwnedFd};

/// More than the kernel takes for the words and variables of one program.
pub const LONGEST: usize = 4 << 20;

/// Standard input, output and error, and the working directory.
pub const DESCRIPTORS: usize = 4;

#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Request {
    pub command: Command,
    pub variables: Vec<Vec<u8>>,
    /// Rows and columns, if the command gets a terminal of its own.
    pub terminal: Option<(u16, u16)>,
    /// The descriptors that are then replaced by it.
    pub replaced: [bool; 3],
}

/// News of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// The request is read. The command has not begun.
    Taken,
    /// It could not be started; a text of this length follows.
    Failed(u32),
    /// It runs. The controlling side of its terminal comes along, if it has one.
    Began,
    Exited(u32),
    Killed(u32),
    Stopped(u32),
}

impl News {
    pub fn bytes(self) -> [u8; 5] {
        let (kind, number) = match self {
            News::Taken => (b'r', 0),
            News::Failed(length) => (b'f', length),
            News::Began => (b'b', 0),
            News::Exited(code) => (b'x', code),
            News::Killed(signal) => (b'k', signal),
            News::Stopped(signal) => (b't', signal),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    pub fn read(bytes: [u8; 5]) -> Option<News> {
        let number = u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]);
        Some(match bytes[0] {
            b'r' => News::Taken,
            b'f' => News::Failed(number),
            b'b' => News::Began,
            b'x' => News::Exited(number),
            b'k' => News::Killed(number),
            b't' => News::Stopped(number),
            _ => return None,
        })
    }
}

impl Request {
    pub fn encode(&self) -> Vec<u8> {
        let command = &self.command;
        let flags =
            [command.keeps_all, command.sets_home, command.login, command.shell, self.terminal.is_some()];
        let mut out = vec![0; 4];
        out.extend(flags.iter().chain(&self.replaced).map(|flag| u8::from(*flag)));
        let (rows, columns) = self.terminal.unwrap_or_default();
        out.extend(rows.to_le_bytes());
        out.extend(columns.to_le_bytes());
        let directory: Vec<Vec<u8>> = command.directory.iter().map(|text| text.clone().into()).collect();
        let keeps: Vec<Vec<u8>> = command.keeps.iter().map(|text| text.clone().into()).collect();
        let users = vec![command.user.clone().into(), command.group.clone().into()];
        for list in [&users, &directory, &keeps, &command.variables, &command.words, &self.variables] {
            out.extend((list.len() as u32).to_le_bytes());
            for word in list {
                out.extend((word.len() as u32).to_le_bytes());
                out.extend(word);
            }
        }
        let length = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// `bytes`: without the length in front.
    pub fn decode(bytes: &[u8]) -> Option<Request> {
        let mut rest = bytes;
        let head = take(&mut rest, 12)?;
        let flag = |at: usize| head[at] != 0;
        let size = (u16::from_le_bytes([head[8], head[9]]), u16::from_le_bytes([head[10], head[11]]));
        let mut lists = Vec::new();
        for _ in 0..6 {
            lists.push(list(&mut rest)?);
        }
        let [users, directory, keeps, assigned, words, variables] =
            <[Vec<Vec<u8>>; 6]>::try_from(lists).ok()?;
        let text = |bytes: &Vec<u8>| String::from_utf8(bytes.clone()).ok();
        let command = Command {
            user: text(users.first()?)?,
            group: text(users.get(1)?)?,
            keeps_all: flag(0),
            keeps: keeps.iter().map(text).collect::<Option<_>>()?,
            sets_home: flag(1),
            login: flag(2),
            shell: flag(3),
            directory: directory.first().map(text).map_or(Some(None), |found| found.map(Some))?,
            variables: assigned,
            words,
        };
        let terminal = flag(4).then_some(size);
        Some(Request { command, variables, terminal, replaced: [flag(5), flag(6), flag(7)] })
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, after) = rest.split_at_checked(count)?;
    *rest = after;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let bytes = take(rest, 4)?;
    Some(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
}

/// Every word takes four bytes at least, so that no list is longer than its bytes.
fn list(rest: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    let count = number(rest)?;
    let mut found = Vec::new();
    for _ in 0..count {
        let length = number(rest)?;
        found.push(take(rest, length)?.to_vec());
    }
    Some(found)
}

/// Sends all of `bytes`, the descriptors with the first of them.
pub fn send(connection: &OwnedFd, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(Errno::NOBUFS);
    }
    let mut sent = sendmsg(connection, &[std::io::IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    while sent < bytes.len() {
        match rustix::net::send(connection, &bytes[sent..], SendFlags::NOSIGNAL) {
            Ok(count) => sent += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Reads exactly this much, and collects what comes along.
pub fn receive(connection: &OwnedFd, buffer: &mut [u8], descriptors: &mut Vec<OwnedFd>) -> Result<()> {
    let mut read = 0;
    while read < buffer.len() {
        match crate::system::receive_with_descriptors(connection, &mut buffer[read..], descriptors) {
            Ok(0) => return Err(Errno::PIPE),
            Ok(count) => read += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

pub fn receive_request(connection: &OwnedFd) -> Result<(Request, [OwnedFd; DESCRIPTORS])> {
    let (mut length, mut descriptors) = ([0; 4], Vec::new());
    receive(connection, &mut length, &mut descriptors)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(Errno::TOOBIG);
    }
    let mut bytes = vec![0; length];
    receive(connection, &mut bytes, &mut descriptors)?;
    let request = Request::decode(&bytes).ok_or(Errno::PROTO)?;
    let descriptors = <[OwnedFd; DESCRIPTORS]>::try_from(descriptors).map_err(|_| Errno::PROTO)?;
    Ok((request, descriptors))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let command = Command {
            user: "web".into(),
            keeps: vec!["A".into()],
            login: true,
            directory: Some("/tmp".into()),
            variables: vec![b"B=c".to_vec()],
            words: vec![b"id".to_vec(), vec![0xff], Vec::new()],
            ..Command::default()
        };
        let variables = vec![b"X=y".to_vec()];
        Request { command, variables, terminal: Some((24, 80)), replaced: [true, true, false] }
    }

    #[test]
    fn a_request_arrives_as_it_was_sent() {
        let bytes = request().encode();
        assert_eq!(bytes[..4], ((bytes.len() - 4) as u32).to_le_bytes());
        assert_eq!(Request::decode(&bytes[4..]), Some(request()));
        let plain = Request::default();
        assert_eq!(Request::decode(&plain.encode()[4..]), Some(plain));
        let others = [News::Failed(7), News::Exited(255), News::Killed(9), News::Stopped(19)];
        for news in others.into_iter().chain([News::Taken, News::Began]) {
            assert_eq!(News::read(news.bytes()), Some(news));
        }
        assert_eq!(News::read([0; 5]), None);
    }

    #[test]
    fn a_request_that_is_cut_off_or_lies_is_none() {
        let bytes = request().encode();
        for end in 4..bytes.len() {
            assert_eq!(Request::decode(&bytes[4..end]), None, "{end}");
        }
        // Lists and words that say that they are longer than all there is.
        for at in 16..bytes.len() - 4 {
            let mut lie = bytes.clone();
            lie[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let _ = Request::decode(&lie[4..]);
        }
    }

    /// 50,000 inputs, the same every time: requests of which some bytes are changed, and bytes of no kind at all.
    #[test]
    fn bytes_of_any_kind_are_read_without_a_panic_and_become_no_more_than_they_were() {
        let mut state = 7u64;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let whole = request().encode().split_off(4);
        let mut read = 0;
        for _ in 0..50_000 {
            let mut bytes = match next(2) {
                0 => whole.clone(),
                _ => (0..next(300)).map(|_| [0, 1, 2, 3, 255][next(5)]).collect(),
            };
            for _ in 0..next(6).min(bytes.len()) {
                let (at, value) = (next(bytes.len()), [0, 1, 4, 127, 255, next(256)][next(6)]);
                bytes[at] = value as u8;
            }
            bytes.truncate(bytes.len() - next(4).min(bytes.len()));
            if let Some(request) = Request::decode(&bytes) {
                read += 1;
                assert!(request.encode().len() <= bytes.len() + 4, "{bytes:?}");
            }
        }
        assert!(read > 1000, "{read} of them were requests");
    }
}
