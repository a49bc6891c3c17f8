//! The refusals of a gateway itself, beside those of a node.

use crate::link::LinkError;
use crate::node::Node;
use axum::http::StatusCode;
use paddock_server::front::{Failure, shorten};

/// The node gave no answer, or none that is one.
pub fn unreachable(node: &Node, detail: &str) -> Failure {
    let message = format!("{} cannot be reached: {}", node.title(), shorten(detail));
    with_retry(Failure::new(StatusCode::BAD_GATEWAY, "node_unreachable", message)).hint(
        "Its sandboxes go on if it lives. GET /v1/nodes shows what the gateway knows; ask again in some seconds.",
    )
}

/// 503 says that the same request may be sent again: it was not sent, or doing it twice is as good as once. 502: the node may have done it.
pub fn no_answer(node: &Node, error: &LinkError, may_repeat: bool) -> Failure {
    match error {
        LinkError::NotSent(detail) => not_sent(node, detail),
        LinkError::Lost(detail) if may_repeat => not_sent(node, detail),
        LinkError::Lost(detail) => unreachable(node, detail).hint(
            "The node may have done it: look before you send it again. Its sandboxes go on if it lives.",
        ),
    }
}

/// Nothing was sent, so that the request may be sent again, whatever it is.
pub fn not_sent(node: &Node, detail: &str) -> Failure {
    Failure { status: StatusCode::SERVICE_UNAVAILABLE, ..unreachable(node, detail) }
}

/// The node exists, and does not believe this gateway.
pub fn refuses_gateway(node: &Node) -> Failure {
    let message = format!("{} refuses the key of this gateway", node.title());
    Failure::new(StatusCode::BAD_GATEWAY, "node_refuses_gateway", message)
        .hint("Its owner starts it with --gateway-key and the same file.")
}

pub fn no_such_thing(code: &'static str, thing: &str, id: &str) -> Failure {
    let message = format!("there is no {thing} {:?}", shorten(id));
    Failure::new(StatusCode::NOT_FOUND, code, message)
}

/// An id of a node that is not among those that this gateway has heard of.
pub fn not_heard_of(id: &str, nodes: &[String]) -> Failure {
    let message = format!(
        "the node of {:?} is not known: {} may have it, and did not report since this gateway began",
        shorten(id),
        shorten(&nodes.join(", "))
    );
    with_retry(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", message))
        .hint("GET /v1/nodes shows why. The sandbox goes on if its node lives.")
}

/// No node is known at all, as before DNS has answered first.
pub fn no_nodes() -> Failure {
    with_retry(Failure::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "node_unreachable",
        "this gateway knows no node yet",
    ))
    .hint("Its log says why, if it stays so.")
}

pub fn missing_nodes(name: &str, nodes: &[String]) -> Failure {
    let message =
        format!("it is not known who has {:?}: {} did not answer", shorten(name), shorten(&nodes.join(", ")));
    with_retry(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", message))
        .hint("Use the id, which says its node, or ask again when the node is back.")
}

pub fn on_two_nodes(name: &str, nodes: &[String]) -> Failure {
    let message = format!("{:?} is a name on {}", shorten(name), shorten(&nodes.join(" and on ")));
    Failure::new(StatusCode::CONFLICT, "name_on_two_nodes", message).hint("Use the id, which says its node.")
}

pub fn not_in_cluster(operation: &str) -> Failure {
    let message = format!("a gateway does not have {operation} yet");
    Failure::new(StatusCode::NOT_IMPLEMENTED, "not_in_cluster", message)
        .hint("Ask a node directly, at its own address and with a token of its own. docs/guides/cluster.md lists what a gateway has.")
}

pub fn no_place(reason: &str) -> Failure {
    let message = format!("no node can take this sandbox: {reason}");
    with_retry(Failure::new(StatusCode::SERVICE_UNAVAILABLE, "no_node", message))
        .hint("GET /v1/nodes, or `paddock node ls`, shows the state of each.")
}

const LOST_DURING_CREATE: &str = "node_lost_during_create";

pub fn lost_during_create(node: &Node) -> Failure {
    let message =
        format!("{} was lost while it created the sandbox, and it is not known whether it did", node.title());
    with_retry(Failure::new(StatusCode::SERVICE_UNAVAILABLE, LOST_DURING_CREATE, message)).hint(
        "When the node is back, a list shows the sandbox if it was made, and the same Idempotency-Key is answered with it. \
         No other node is asked with that key.",
    )
}

/// A create was sent to this node before, and it is away now.
pub fn node_of_key(node: &str) -> Failure {
    let message = format!(
        "a create with this idempotency key was sent to {node}, which cannot be asked at this moment"
    );
    with_retry(Failure::new(StatusCode::SERVICE_UNAVAILABLE, LOST_DURING_CREATE, message)).hint(
        "Send it again when the node is back: it answers with the sandbox that it made, or makes it. A new key makes a new sandbox \
         on another node, also where the first one was made.",
    )
}

/// As a node says it.
pub fn key_under_way() -> Failure {
    let message = "a request with this idempotency key is under way";
    Failure::new(StatusCode::CONFLICT, paddock_fleet::REQUEST_UNDER_WAY, message)
        .hint("Send it again in a moment.")
}

fn with_retry(mut failure: Failure) -> Failure {
    failure.retry_after_seconds = Some(2);
    failure
}
