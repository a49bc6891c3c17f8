//! The parts that all commands about lasting sandboxes share: a client, a runtime, and several ids with one exit code.

use super::CommandError;
use crate::caller::Caller;
use crate::client::{self, Client, ClientError};
use crate::render;
use std::sync::Arc;

/// Finds or starts the server, and does the work with it.
pub fn with_client<T>(
    caller: &mut Caller,
    work: impl AsyncFnOnce(Arc<Client>, &mut Caller) -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    let client = Arc::new(client::find(&caller.environment)?);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ClientError::Runtime)?;
    let result = runtime.block_on(work(client.clone(), caller));
    if let Some(text) = without_nodes(&client) {
        render::error::warning(&text, caller);
    }
    // A task may still wait for stdin or for the server; the command does not wait for it.
    runtime.shutdown_background();
    result
}

/// A list of a gateway that is not whole.
fn without_nodes(client: &Client) -> Option<String> {
    let missing = client.missing_nodes();
    (!missing.is_empty()).then(|| {
        format!(
            "not all nodes answered, so that what they have is not in this answer: {} (`paddock node ls` says why)",
            missing.join(", ")
        )
    })
}

/// One after the other; a failure is told and does not stop the rest.
pub async fn each<T: AsRef<str>>(
    words: &[T],
    caller: &mut Caller<'_>,
    mut work: impl AsyncFnMut(&str, &mut Caller) -> Result<(), CommandError>,
) -> Result<i32, CommandError> {
    if let [only] = words {
        return work(only.as_ref(), caller).await.map(|()| 0);
    }
    let mut code = 0;
    for word in words {
        if let Err(error) = work(word.as_ref(), caller).await {
            render::error::print(&error, error.hint().as_deref(), caller);
            code = 1;
        }
    }
    Ok(code)
}
