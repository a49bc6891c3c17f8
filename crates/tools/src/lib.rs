//! A sandbox as tools of a model: the descriptions of the tools for a model, and the answers to its calls.
//!
//! - `definitions`: the tools in the shapes of the providers; their texts are the Python SDK's own file
//! - `facts`: the facts about one sandbox in the texts: network, limits, time
//! - `arguments`: a model's arguments, checked
//! - [`Toolbox`]: carries out one call
//! - [`Operations`]: the operations of a sandbox that calls need; a client of the API or the engine implements it
//! - [`Host`]: the source of sandboxes, for code that makes and ends them
//! - [`loopstack`]: ten tools in another product's words
//! - [`sandbox_fusion`]: a third one's, for programs that reward a model for its code
//! - `results`, `files`: answers as texts; `outputs`: cut to a budget, the rest kept to be read on
//!
//! Words and behaviour are those of `sandbox.tools` of the Python SDK; the cases in `sdk/python/tests/tool_cases.json` hold
//! for both.

mod arguments;
#[cfg(test)]
mod cases;
mod definitions;
mod facts;
mod files;
mod host;
pub mod loopstack;
mod operations;
mod outputs;
mod results;
pub mod sandbox_fusion;
mod toolbox;

pub use arguments::{Arguments, BadCall};
pub use definitions::{Definition, Format, UnknownTool, definitions, render, tool_names};
pub use facts::{Facts, NetworkFacts};
pub use host::{FileOperations, Host};
pub use operations::{OperationError, Operations};
pub use outputs::OUTPUT_BUDGET;
pub use toolbox::{Answer, Picture, Toolbox, ToolboxOptions};
