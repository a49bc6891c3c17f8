//! The part of an exec's record that tells a plain command, a context's interpreter and a call apart.

use paddock_model::api::ExecCause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A command of its own.
    #[default]
    Command,
    Runner(RunnerRecord),
    Call(Box<CallRecord>),
}

/// The interpreter of a context. A context has the newest one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnerRecord {
    pub context: String,
    pub language: String,
    pub default: bool,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    /// True if the context was deleted.
    #[serde(default)]
    pub deleted: bool,
}

/// Code that runs in a context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    pub context: String,
    /// Set when its turn came.
    pub turn: Option<Turn>,
    /// How the interpreter before ended, if the call got a new one.
    pub restarted: Option<ExecCause>,
    /// How its interpreter died during the call, in words.
    pub died: Option<String>,
}

/// The positions of its interpreter's streams when the call was handed over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub runner: u32,
    /// Known only to the host and to the code of this call, until another call begins.
    pub nonce: String,
    pub at: Position,
    /// The bytes of the interpreter's log, which has its output between calls.
    pub log_stdout: u64,
    pub log_stderr: u64,
    /// The offset of the call in the interpreter's input, and its length.
    pub input: u64,
    pub input_length: u64,
}

/// Bytes of an interpreter's streams that were taken over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub stdout: u64,
    pub stderr: u64,
    pub control: u64,
}
