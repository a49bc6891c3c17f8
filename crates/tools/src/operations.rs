//! The operations of a sandbox that the tools need.

use paddock_model::api::{Exec, FileEntry, FilePage, RunCode, StartExec};

/// A refusal of the sandbox or its server, for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OperationError {
    /// The code of the API, such as `file_not_found`.
    pub code: String,
    pub message: String,
    pub hint: Option<String>,
}

impl OperationError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> OperationError {
        OperationError { code: code.into(), message: message.into(), hint: None }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> OperationError {
        self.hint = Some(hint.into());
        self
    }

    /// The sandbox itself is no more.
    pub fn is_end_of_sandbox(&self) -> bool {
        matches!(self.code.as_str(), "sandbox_ended" | "sandbox_not_found")
    }

    pub fn told(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} (hint: {hint})", self.message),
            None => self.message.clone(),
        }
    }
}

/// One sandbox. A client of the API implements it, and so does the server itself.
///
/// Preconditions of an implementation: a future of [`run_code`](Operations::run_code) or
/// [`run_command`](Operations::run_command) that is dropped kills its work.
pub trait Operations: Sync {
    /// Returns when the code has ended, its output filled in.
    fn run_code(&self, request: RunCode) -> impl Future<Output = Result<Exec, OperationError>> + Send;

    /// Returns when the command has ended, its output filled in.
    fn run_command(&self, request: StartExec) -> impl Future<Output = Result<Exec, OperationError>> + Send;

    fn stat(&self, path: &str) -> impl Future<Output = Result<FileEntry, OperationError>> + Send;

    /// At most `length` bytes from the beginning.
    fn read_file(
        &self,
        path: &str,
        length: u64,
    ) -> impl Future<Output = Result<Vec<u8>, OperationError>> + Send;

    /// All at once or not at all; missing directories are made. Without `mode` the usual one.
    fn write_file(
        &self,
        path: &str,
        content: Vec<u8>,
        mode: Option<u32>,
    ) -> impl Future<Output = Result<FileEntry, OperationError>> + Send;

    fn list_files(
        &self,
        path: &str,
        recursive: bool,
        limit: usize,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<FilePage, OperationError>> + Send;
}
