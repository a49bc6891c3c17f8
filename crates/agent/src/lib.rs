//! The loop of an agent: a model proposes, a sandbox runs, the answer goes back, until the model has no more to ask.
//!
//! - [`Endpoint`]: where the model is, and in which of two wire formats it is spoken to
//! - [`Client`]: one request and its streamed reply; `anthropic` and `openai` have a file each, `stream` reads the events
//! - `retries`: which requests are repeated, when, and how often
//! - [`run`]: the loop, within its [`Budget`]
//! - [`Turn`]: the conversation, the same for both; [`Transcript`]: the conversation on disk
//! - [`Event`]: the events for a watcher
//!
//! The key stays here, and goes to the endpoint alone: nothing of it enters the sandbox or the transcript.

mod anthropic;
mod budget;
mod client;
mod endpoint;
mod error;
mod event;
mod openai;
mod reply;
mod retries;
mod run;
mod stream;
mod transcript;
mod turn;

pub use budget::Budget;
pub use client::Client;
pub use endpoint::{Dialect, Endpoint, EndpointError, Key};
pub use error::ModelError;
pub use event::Event;
pub use retries::Patience;
pub use run::{Agent, End, run};
pub use transcript::{Transcript, TranscriptError, mended};
pub use turn::{Call, Result as CallResult, Turn, Usage};
