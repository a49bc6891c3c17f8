//! One session over a pair of streams: one message per line, from the client's hello to the end of its input.

use crate::handler::Handler;
use paddock_tools::Host;
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};

/// A line that is longer is dropped unread.
const LONGEST_LINE: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("the client broke the protocol before it said hello")]
    Hello(#[source] Box<ServerInitializeError>),
    #[error("the server of the session broke")]
    Broken,
}

/// Returns when the client's input has ended. The caller ends the session.
pub async fn serve_streams<H: Host>(
    handler: Handler<H>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), ServeError> {
    let transport = AsyncRwTransport::new_server(input, output).with_max_line_length(LONGEST_LINE);
    let running = match handler.serve(transport).await {
        Ok(running) => running,
        // Input that ended without a word is no mistake.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Hello(Box::new(error))),
    };
    running.waiting().await.map(|_| ()).map_err(|_| ServeError::Broken)
}
