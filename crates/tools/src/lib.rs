//! A sandbox as tools of a model: what a model is told of them, and answers to what it calls.
//!
//! - `definitions`: the tools in the shapes of the providers; their texts are the Python SDK's own file
//! - `facts`: what the texts say of one sandbox: network, limits, time
//! - `arguments`: what a model wrote, checked
//! - [`Toolbox`]: does what one call asks
//! - [`Operations`]: what that needs of a sandbox; a client of the API or the engine implements it
//! - [`Host`]: where sandboxes come from, for those who make and end them
//! - [`loopstack`]: ten tools in another product's words
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
mod toolbox;

pub use arguments::{Arguments, BadCall};
pub use definitions::{Definition, Format, UnknownTool, definitions, render, tool_names};
pub use facts::{Facts, NetworkFacts};
pub use host::{FileOperations, Host};
pub use operations::{OperationError, Operations};
pub use outputs::OUTPUT_BUDGET;
pub use toolbox::{Answer, Picture, Toolbox, ToolboxOptions};
