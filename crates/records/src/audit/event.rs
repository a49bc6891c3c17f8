//! The events of a timeline. Values from outside are bounded, and a value that is cut has its digest beside it.

use super::KeptOutput;
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::time::SystemTime;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditActor {
    pub tenant: String,
    /// A token's id, `owner` for the host's owner, `server` for the server itself.
    pub token: String,
}

impl AuditActor {
    pub fn server() -> AuditActor {
        AuditActor { tenant: String::new(), token: "server".into() }
    }
}

/// An event, its actor and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    pub at_ms: u64,
    pub actor: AuditActor,
    pub event: AuditEvent,
}

impl AuditEntry {
    /// An entry with the present time.
    pub fn new(actor: AuditActor, event: AuditEvent) -> AuditEntry {
        let at_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis() as u64);
        AuditEntry { at_ms, actor, event }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", content = "detail", rename_all = "snake_case")]
pub enum AuditEvent {
    /// Always the first entry; the timeline itself writes it.
    Opened {
        sandbox: String,
        public_key: String,
    },
    /// A server was killed while it wrote; the timeline itself writes this entry.
    Recovered {
        set_aside_bytes: u64,
        set_aside_sha256: Option<String>,
        entries_beyond_head: u64,
    },
    /// A call without a kind of its own: `operation` as in `move_file`.
    Call {
        operation: String,
        arguments: Text,
    },
    /// An exec: a command, or code with its language as its command.
    Exec {
        exec: u32,
        argv: Vec<Text>,
        /// Names only: values are secrets more often than not.
        env_names: Vec<Text>,
        cwd: Option<Text>,
        user: Option<Text>,
        stdin: Option<Digested>,
        code: Option<Text>,
    },
    ExecEnded {
        exec: u32,
        exit_code: Option<i32>,
        cause: Text,
        stdout: Digested,
        stderr: Digested,
        /// Both streams, as far as they are kept, and the results of code.
        output: KeptOutput,
    },
    /// Code with findings of the scan before it ran.
    Scanned {
        mode: &'static str,
        language: Text,
        /// True if the code was kept from running. If it ran, the entry that follows tells of it.
        denied: bool,
        /// The findings as JSON.
        findings: Text,
        findings_missing: u64,
        code: Digested,
        denied_code: Option<Text>,
    },
    /// A decision of the gate.
    Network {
        verdict: &'static str,
        way: &'static str,
        name: Option<Text>,
        address: Option<String>,
        port: Option<u16>,
        reason: Text,
        sent_bytes: Option<u64>,
        received_bytes: Option<u64>,
        count: u64,
    },
    FileWritten {
        path: Text,
        content: Digested,
    },
    /// `created`, `paused`, `resumed`, `hibernated`, `woken`, `snapshot`, `forked`, `merged`, ...
    Lifecycle {
        change: String,
        detail: Option<Text>,
    },
    /// Always the last entry.
    Ended {
        cause: Text,
        reason: Text,
    },
}

/// The length and the digest of a value that is not in the timeline itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Digested {
    pub bytes: u64,
    pub sha256: String,
}

impl Digested {
    pub fn of(bytes: &[u8]) -> Digested {
        Digested { bytes: bytes.len() as u64, sha256: super::line::hex(&Sha256::digest(bytes)) }
    }
}

/// The text, or its beginning with the length and digest of the whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Text {
    Whole(String),
    Cut { beginning: String, whole: Digested },
}

const LONGEST: usize = 256 * 1024;
/// The most arguments that are listed one by one.
const MOST: usize = 1024;

impl Text {
    /// A text of up to 256 KiB.
    pub fn new(text: &str) -> Text {
        Text::within(text, LONGEST)
    }

    pub fn within(text: &str, longest: usize) -> Text {
        if text.len() <= longest {
            return Text::Whole(text.to_string());
        }
        let beginning = text[..text.floor_char_boundary(longest)].to_string();
        Text::Cut { beginning, whole: Digested::of(text.as_bytes()) }
    }

    /// Up to 256 KiB in all; the values that do not fit become one last value, joined by NUL.
    pub fn list<'a>(values: impl IntoIterator<Item = &'a str>) -> Vec<Text> {
        let mut room = LONGEST;
        let mut list = Vec::new();
        let mut values = values.into_iter().peekable();
        while let Some(value) = values.next_if(|value| list.len() < MOST && value.len() <= room) {
            room -= value.len();
            list.push(Text::Whole(value.to_string()));
        }
        if values.peek().is_some() {
            let rest = values.collect::<Vec<_>>().join("\0");
            let beginning = rest[..rest.floor_char_boundary(room)].to_string();
            list.push(Text::Cut { beginning, whole: Digested::of(rest.as_bytes()) });
        }
        list
    }
}
