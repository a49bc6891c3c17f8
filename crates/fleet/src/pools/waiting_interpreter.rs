//! An interpreter that waits in a sandbox for its first call.

use crate::contexts::{Frame, Position};
use paddock_engine::Exec;
use std::collections::BTreeMap;

/// The number of its exec: it is the first.
pub const NUMBER: u32 = 1;

pub struct WaitingInterpreter {
    pub exec: Exec,
    /// The variables that it began with.
    pub env: BTreeMap<String, String>,
    pub cwd: String,
    /// Bytes that were sent to it already, and the position of its own streams.
    pub sent: u64,
    pub said: Position,
}

impl WaitingInterpreter {
    /// The message that makes it as if it had been started with these; empty if it was.
    pub fn setup(&self, env: &BTreeMap<String, String>, cwd: Option<&str>) -> Vec<u8> {
        let mut frame = Frame::new("setup");
        let mut differs = false;
        for (name, value) in env.iter().filter(|(name, value)| self.env.get(*name) != Some(value)) {
            frame = frame.with("env", format!("{name}={value}"));
            differs = true;
        }
        if let Some(cwd) = cwd.filter(|cwd| *cwd != self.cwd) {
            frame = frame.with("cwd", cwd);
            differs = true;
        }
        if differs { frame.encode() } else { Vec::new() }
    }

    pub fn lives(&self) -> bool {
        !self.exec.has_ended()
    }
}
