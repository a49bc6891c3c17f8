//! The events of a run, for a watcher, as they happen.

use crate::turn::Usage;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A piece of the model's words.
    Text { text: String },
    /// The model's words so far are void: it is asked again.
    Retry { attempt: u32, error: String, wait_ms: u64 },
    /// The model wants this call to be carried out.
    Call { id: String, tool: String, arguments: String },
    /// The result of the call.
    Result { id: String, is_error: bool, text: String },
    /// One reply of the model is over.
    Step { step: u32, usage: Usage, total: Usage },
}
