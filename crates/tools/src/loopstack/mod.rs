//! The ten sandbox tools of Loopstack (packages sandbox-tool and sandbox-filesystem 0.7): the same names, arguments, defaults
//! and results, on sandboxes of Paddock's. `docs/reference/loopstack.md` lists the differences.
//!
//! - `arguments`: the arguments of each tool, strictly; `definitions`: the same for a model
//! - `containers`: which sandbox a `containerId` is, from `sandbox_init` to `sandbox_destroy`
//! - `commands`: `sandbox_command`; `files`: the seven tools about files
//! - `paths`: no path of a caller's leaves the root

mod arguments;
mod commands;
mod containers;
mod definitions;
mod files;
mod paths;

pub use containers::{HostPaths, LoopstackOptions};
pub use definitions::{definitions, tool_names};

use crate::host::Host;
use crate::operations::OperationError;
use containers::Containers;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// As Loopstack throws it: words, in its patterns where it has some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoopstackError {
    #[error("there is no tool '{name}'; the tools are {}", tool_names().collect::<Vec<_>>().join(", "))]
    UnknownTool { name: String },
    #[error("the arguments of {tool} are wrong: {reason}")]
    Arguments { tool: String, reason: String },
    #[error("Container '{0}' not registered. Call registerContainer() first.")]
    NotRegistered(String),
    #[error("Path traversal detected: {0}")]
    Traversal(String),
    #[error("Failed to {what} {path}: {reason}")]
    File { what: &'static str, path: String, reason: String },
    #[error("{0}")]
    Refused(String),
    #[error("{}", .0.told())]
    Operation(OperationError),
}

impl From<OperationError> for LoopstackError {
    fn from(error: OperationError) -> LoopstackError {
        LoopstackError::Operation(error)
    }
}

type Result<T> = std::result::Result<T, LoopstackError>;

/// The tools of one caller.
pub struct Loopstack<H: Host> {
    containers: Containers<H>,
}

impl<H: Host> Loopstack<H> {
    pub fn new(host: H, options: LoopstackOptions) -> Loopstack<H> {
        Loopstack { containers: Containers::new(host, options) }
    }

    /// The `data` of the tool's result.
    pub async fn call(&self, tool: &str, given: &Map<String, Value>) -> Result<Value> {
        let containers = &self.containers;
        match tool {
            "sandbox_init" => data(containers.init(read(tool, given)?).await?),
            "sandbox_destroy" => data(containers.destroy(read(tool, given)?).await?),
            "sandbox_command" => data(commands::run(containers, read(tool, given)?).await?),
            "sandbox_read_file" => data(files::read(containers, read(tool, given)?).await?),
            "sandbox_write_file" => data(files::write(containers, read(tool, given)?).await?),
            "sandbox_list_directory" => data(files::list(containers, read(tool, given)?).await?),
            "sandbox_create_directory" => {
                data(files::create_directory(containers, read(tool, given)?).await?)
            }
            "sandbox_delete" => data(files::delete(containers, read(tool, given)?).await?),
            "sandbox_exists" => data(files::exists(containers, read(tool, given)?).await?),
            "sandbox_file_info" => data(files::info(containers, read(tool, given)?).await?),
            other => Err(LoopstackError::UnknownTool { name: short(other) }),
        }
    }
}

fn read<T: DeserializeOwned>(tool: &str, given: &Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(given.clone())).map_err(|error| LoopstackError::Arguments {
        tool: tool.to_string(),
        reason: short(&error.to_string()),
    })
}

fn data(value: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(value).map_err(|error| LoopstackError::Refused(error.to_string()))
}

fn short(text: &str) -> String {
    text.chars().take(300).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
