//! Scripts with annotations: from a file as it is to a sandbox, a command and a result. Pure: nothing is read, made or
//! started here; the caller carries out the [`Plan`].
//!
//! - [`header`]: which lines are annotations, and which are comments; [`annotation`]: their meaning
//! - [`arguments`]: one JSON object, and the values of its references; [`resource`]: those
//! - [`interpolate`]: names of volumes that hold arguments
//! - [`plan`]: all of it together: the sandbox, the command, where the result is
//! - [`runners`]: how each language calls `main`, with the wrappers of `wrappers/`; [`bash`], [`golang`]: the needs of
//!   those two
//! - [`interpreter`]: the program that a template needs for a language; [`agents`]: templates of agents, and scripts to
//!   begin with
//! - [`outcome`]: the files and output of a script -> its result, or a [`Failure`]
//! - [`language`], [`error`]
//!
//! `tests/usage.rs` shows how the command, the server and jobs use it.

mod agents;
mod annotation;
mod arguments;
mod bash;
mod error;
mod golang;
mod header;
mod interpolate;
mod interpreter;
mod language;
mod outcome;
mod plan;
mod resource;
mod runners;
#[cfg(test)]
mod tests;

pub use agents::{STARTERS, Starter, agent_template};
pub use annotation::{AnnotationError, Annotations, MOST_VOLUMES, SecretLine, VolumeLine};
pub use arguments::{Arguments, LARGEST_ARGUMENTS, parse_arguments, parse_value};
pub use error::ScriptError;
pub use interpreter::not_started;
pub use language::Language;
pub use outcome::{Failure, Form, LARGEST_RESULT, ResultFile, ResultPlan};
pub use plan::{Context, Plan, check, needs, plan};
pub use resource::{Reference, ReferenceError, Resource, check_resource_name, field};
pub use runners::{DIRECTORY, NODE_TYPES, OWN_DIRECTORY, PlannedFile};

pub const LARGEST_SOURCE: usize = 1 << 20;
