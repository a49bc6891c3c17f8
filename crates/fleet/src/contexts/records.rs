//! What a job is besides a plain command, in the store.

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

/// The interpreter of a context. The newest of a context is the one it has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunnerRecord {
    pub context: String,
    pub language: String,
    pub default: bool,
    pub cwd: Option<String>,
    pub env: BTreeMap<String, String>,
    /// The context was deleted.
    #[serde(default)]
    pub deleted: bool,
}

/// Code that runs in a context.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallRecord {
    pub context: String,
    /// Set when its turn came.
    pub turn: Option<Turn>,
    /// How the interpreter before it had ended, where it got a new one.
    pub restarted: Option<ExecCause>,
    /// Its interpreter ended under it, in these words.
    pub died: Option<String>,
}

/// Where its interpreter's streams stood when the call was handed to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    pub runner: u32,
    /// Known to the host and to the code of this call alone, until another call begins.
    pub nonce: String,
    pub at: Position,
    /// Of what the interpreter printed between calls.
    pub log_stdout: u64,
    pub log_stderr: u64,
    /// Where the call stands in the interpreter's input, and how long it is.
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
