//! Signed URLs: what they claim names the sandbox, and so the node, which checks the seal.

use crate::forward::{self, Pass};
use crate::gateway::Gateway;
use crate::resolve::{self, Kind};
use crate::who::{self, Holder};
use axum::extract::Request;
use axum::response::Response;
use paddock_server::front::{App, Failure};

pub async fn pass(gateway: &Gateway, app: &App, right: &str, request: Request) -> Result<Response, Failure> {
    let claim = who::claim(right);
    let Some(sandbox) = &claim.sandbox else { return Err(refused()) };
    let node = resolve::node_of(&gateway.nodes, None, Kind::Sandbox, sandbox).await;
    let node = node.map_err(|failure| if failure.status.as_u16() == 404 { refused() } else { failure })?;
    let known = who::admitted(app, claim.token.as_deref()).await;
    let holder = known.and_then(|known| Holder::new(app, known, &request));
    Ok(forward::pass(app, &node, request, Pass::of_holder(holder)).await)
}

fn refused() -> Failure {
    Failure::forbidden("this URL is not signed by a node of this gateway").hint("Ask for a new one.")
}
