//! Checks that a timeline is as it was written. Needs the file, its head and the public key; no server.

use super::head::{self, Head};
use super::line::{self, Hash, NOTHING, hex};
use super::timeline::MOST_AT_ONCE;
use super::{AuditError, PublicKey};
use serde::Deserialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Verified(Verified),
    /// The line, counted from 1, at which the damage shows.
    Broken {
        line: u64,
        reason: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    pub sandbox: String,
    pub entries: u64,
    pub first_ms: u64,
    pub last_ms: u64,
    /// True if the sandbox ended; nothing can follow.
    pub closed: bool,
    /// How often a server was killed in the middle of an entry.
    pub recoveries: u64,
}

impl Verdict {
    pub(super) fn of_sandbox(self, sandbox: &str) -> Verdict {
        match self {
            Verdict::Verified(found) if found.sandbox != sandbox => Verdict::Broken {
                line: 1,
                reason: format!("it is the timeline of {}", found.sandbox.escape_debug()),
            },
            verdict => verdict,
        }
    }
}

#[derive(Deserialize)]
struct Entry {
    seq: u64,
    at_ms: u64,
    kind: String,
    detail: serde_json::Value,
    previous: String,
}

/// Longer than any entry can get, even with each of its bytes escaped.
const LONGEST_LINE: u64 = 32 << 20;

/// Verifies a timeline with its head beside it, or an exported one.
pub fn verify(path: &Path, key: &PublicKey) -> Result<Verdict, AuditError> {
    let failed = |source| AuditError::io(path, source);
    let file = BufReader::new(File::open(path).map_err(failed)?);
    let mut walk = Walk::new(key, Signatures::OfEveryLine);
    if let Some(broken) = walk.all(file).map_err(failed)? {
        return Ok(broken);
    }
    let entries = walk.found.as_ref().map_or(0, |found| found.entries);
    if walk.head.is_none() {
        match head::read(&head::path(path))?.map(|text| Head::parse(key, &text)) {
            Some(Ok(head)) => walk.head = Some(head),
            Some(Err(reason)) => return Ok(Verdict::Broken { line: entries, reason: reason.to_string() }),
            None => {}
        }
    }
    Ok(match walk.end() {
        Ok(found) => Verdict::Verified(found),
        Err(reason) => Verdict::Broken { line: entries, reason },
    })
}

/// Checks that an exported timeline hangs together up to its head. Only the head's signature is checked: it covers the
/// hash of the last line, and every line covers the hash of the one before. As fast as the file is read.
pub fn verify_links(exported: impl BufRead, key: &PublicKey) -> io::Result<Verdict> {
    let mut walk = Walk::new(key, Signatures::OfTheHead);
    if let Some(broken) = walk.all(exported)? {
        return Ok(broken);
    }
    let line = walk.found.as_ref().map_or(0, |found| found.entries);
    Ok(match walk.end() {
        Ok(found) => Verdict::Verified(found),
        Err(reason) => Verdict::Broken { line, reason },
    })
}

/// Entries that a killed server may have left without their head: those of one write, and one that a new timeline begins with.
const MOST_BEYOND: usize = MOST_AT_ONCE + 1;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Signatures {
    OfEveryLine,
    OfTheHead,
}

struct Walk<'a> {
    signatures: Signatures,
    key: &'a PublicKey,
    found: Option<Verified>,
    last: Hash,
    /// The newest lines, with their signatures: those beyond the head are judged by themselves.
    newest: VecDeque<(Hash, [u8; 64])>,
    bytes: u64,
    head: Option<Head>,
}

impl<'a> Walk<'a> {
    fn new(key: &'a PublicKey, signatures: Signatures) -> Walk<'a> {
        Walk { signatures, key, found: None, last: NOTHING, bytes: 0, newest: VecDeque::new(), head: None }
    }

    /// The place of the first break, if there is one.
    fn all(&mut self, mut lines: impl BufRead) -> io::Result<Option<Verdict>> {
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            if let Err(reason) = self.line(&line) {
                return Ok(Some(Verdict::Broken { line: number, reason }));
            }
        }
        Ok(None)
    }

    fn line(&mut self, text: &[u8]) -> Result<(), String> {
        if self.head.is_some() {
            return Err("something follows the head".into());
        }
        let line = text
            .strip_suffix(b"\n")
            .ok_or("it is incomplete: the file was cut off, or a server was killed")?;
        if line.starts_with(b"{\"head\":") {
            self.head = Some(Head::parse(self.key, text)?);
            return Ok(());
        }
        let (hash, signature) = line::hashed(line)?;
        if self.signatures == Signatures::OfEveryLine {
            line::check(self.key, &hash, &signature)?;
        }
        let entry: Entry =
            serde_json::from_slice(line).map_err(|error| format!("it is not an entry: {error}"))?;
        let entries = self.found.as_ref().map_or(0, |found| found.entries);
        if entry.seq != entries {
            return Err(format!("entry {} stands where entry {entries} belongs", entry.seq));
        }
        if entry.previous != hex(&self.last) {
            return Err("it does not follow the line before".into());
        }
        let found = match &mut self.found {
            None => self.found.insert(first(self.key, &entry)?),
            Some(found) if found.closed => return Err("something follows the end".into()),
            Some(found) => found,
        };
        found.entries += 1;
        found.last_ms = entry.at_ms;
        found.closed = entry.kind == "ended";
        found.recoveries += u64::from(entry.kind == "recovered");
        self.last = hash;
        if self.newest.len() > MOST_BEYOND {
            self.newest.pop_front();
        }
        self.newest.push_back((hash, signature));
        self.bytes += text.len() as u64;
        Ok(())
    }

    fn end(mut self) -> Result<Verified, String> {
        let found = self.found.take().ok_or("it has no entries")?;
        let head = self.head.take().ok_or("its head is gone: nothing says that this is all of it")?;
        if head.head != found.sandbox {
            return Err(format!("its head is of {}", head.head.escape_debug()));
        }
        let counted = head.seq + 1;
        let fits = if counted == found.entries {
            head.last == hex(&self.last) && head.bytes == self.bytes && head.closed == u8::from(found.closed)
        } else {
            found.entries.checked_sub(counted).is_some_and(|beyond| self.goes_on_from(&head, beyond))
        };
        if fits {
            return Ok(found);
        }
        Err(format!("its head counts {counted} entries, and {} are here", found.entries))
    }

    /// True if the head counts all but so many of the newest lines, which are signed: a server was killed between entries and
    /// their head.
    fn goes_on_from(&self, head: &Head, beyond: u64) -> bool {
        let Some(at) =
            usize::try_from(beyond).ok().and_then(|beyond| self.newest.len().checked_sub(beyond + 1))
        else {
            return false;
        };
        let signed = |(hash, signature): &(Hash, [u8; 64])| line::check(self.key, hash, signature).is_ok();
        head.last == hex(&self.newest[at].0) && self.newest.iter().skip(at + 1).all(signed)
    }
}

fn first(key: &PublicKey, entry: &Entry) -> Result<Verified, String> {
    let text = |name: &str| entry.detail.get(name).and_then(|value| value.as_str());
    let sandbox =
        text("sandbox").filter(|_| entry.kind == "opened").ok_or("it does not begin with `opened`")?;
    if text("public_key") != Some(key.text().as_str()) {
        return Err("it names another public key".into());
    }
    Ok(Verified {
        sandbox: sandbox.to_string(),
        entries: 0,
        first_ms: entry.at_ms,
        last_ms: entry.at_ms,
        closed: false,
        recoveries: 0,
    })
}
