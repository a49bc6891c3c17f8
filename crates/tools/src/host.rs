//! The source of sandboxes: a client of the API, or the server itself.

use crate::operations::{OperationError, Operations};
use paddock_model::api::{CreateSandbox, Sandbox, Snapshot};
use paddock_model::net::NetRules;

type Result<T> = std::result::Result<T, OperationError>;

/// Acts as one caller. Cheap to clone: a session hands it to the task that ends its sandboxes.
pub trait Host: Clone + Send + Sync + 'static {
    type Sandbox: FileOperations + Send + 'static;

    /// A sandbox that exists; no request is sent yet.
    fn sandbox(&self, id: &str) -> Self::Sandbox;

    fn create(&self, request: CreateSandbox) -> impl Future<Output = Result<Sandbox>> + Send;

    fn get(&self, id: &str) -> impl Future<Output = Result<Sandbox>> + Send;

    /// The live sandboxes that have this note.
    fn find(&self, key: &str, value: &str) -> impl Future<Output = Result<Vec<Sandbox>>> + Send;

    fn kill(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    /// A time to live from now.
    fn extend(&self, id: &str, seconds: f64) -> impl Future<Output = Result<()>> + Send;

    fn hibernate(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    fn fork(&self, id: &str, ttl_seconds: f64) -> impl Future<Output = Result<Sandbox>> + Send;

    fn snapshot(&self, id: &str, name: Option<String>) -> impl Future<Output = Result<Snapshot>> + Send;

    fn delete_snapshot(&self, id: &str) -> impl Future<Output = Result<()>> + Send;

    /// The rules of a sandbox behind the gate.
    fn network_rules(&self, id: &str) -> impl Future<Output = Result<Option<NetRules>>> + Send;
}

/// Further operations that the dialects of other products need.
pub trait FileOperations: Operations {
    /// With `parents`, missing directories above it are made too, and it may exist already.
    fn make_directory(&self, path: &str, parents: bool) -> impl Future<Output = Result<()>> + Send;

    /// A directory with all its entries is removed only with `recursive`.
    fn remove_file(&self, path: &str, recursive: bool) -> impl Future<Output = Result<()>> + Send;

    /// All at once or not at all, and only where its directory exists.
    fn put_file(&self, path: &str, content: Vec<u8>) -> impl Future<Output = Result<()>> + Send;
}
