//! What whoever watches a run is told, as it happens.

use crate::turn::Usage;
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A piece of what the model says.
    Text { text: String },
    /// What it said so far is void: it is asked again.
    Retry { attempt: u32, error: String, wait_ms: u64 },
    /// It wants this to be done.
    Call { id: String, tool: String, arguments: String },
    /// What came of it.
    Result { id: String, is_error: bool, text: String },
    /// One reply of the model is over.
    Step { step: u32, usage: Usage, total: Usage },
}
