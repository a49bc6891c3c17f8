//! A new sandbox: placed, tried elsewhere where the first node surely did not make it, and never made twice.
//!
//! Every create has an idempotency key on its way to the node: the client's, or one of the gateway's own. So an answer that was lost is
//! asked for again, at the same node, with the same key. A node that has gone for good leaves a question that nobody can answer; the caller
//! is told so, and no other node is asked.

use crate::asked::{self, Asked, Words};
use crate::failures;
use crate::forward::{self, Answered, Ask};
use crate::gateway::Gateway;
use crate::link::LinkError;
use crate::node::Node;
use crate::placement::{self, Candidate, Wanted};
use crate::resolve::{self, Kind};
use crate::who::Who;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use paddock_model::NodeNumber;
use paddock_model::api::NodeReport;
use paddock_server::front::{self, App, Failure, Peer, RequestId};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A create waits for room in its tenant's quota and for images, within bounds of the node's.
const PATIENCE: Duration = Duration::from_secs(3600);
const LARGEST_ANSWER: usize = 8 << 20;
/// A node that starts anew is back by then.
const LOST_FOR: Duration = Duration::from_secs(15);
const STEP: Duration = Duration::from_millis(250);
const KEY: &str = "idempotency-key";
/// Refusals after which a node has surely made nothing, and another may have room.
const TRY_ANOTHER: [&str; 9] = [
    "node_cordoned",
    "node_draining",
    "host_out_of_memory",
    "too_many_sandboxes",
    "too_many_open_files",
    "too_many_processes",
    "too_many_namespaces",
    "too_many_mounts",
    "too_many_cgroups",
];

/// The create as it is sent to each node that is asked.
struct Creation {
    target: String,
    headers: HeaderMap,
    body: Bytes,
    caller: HeaderValue,
    request_id: Option<RequestId>,
    peer: Option<Peer>,
}

pub async fn create(
    gateway: &Gateway,
    app: &App,
    who: &Who,
    words: Words,
    request: Request,
) -> Result<Response, Failure> {
    let (mut parts, body) = request.into_parts();
    // First of all: a client may name the key among the headers of its connection, which would take ours away too.
    front::strip_hop_by_hop(&mut parts.headers);
    let client_key = front::idempotency_key(&parts.headers)?.map(str::to_string);
    // Held while the create is under way: its bytes count among the large bodies of this server.
    let body = front::whole_body(body, app).await?;
    let asked = Asked::read(words, &body.bytes);
    let mut wanted = Wanted {
        tenant: who.actor.tenant.clone(),
        for_known_key: client_key.is_some(),
        ..asked::place_in_headers(&parts.headers)?
    };
    if asked.has_volumes && wanted.node.is_none() {
        return Err(failures::not_in_cluster("volumes in a new sandbox, which each node keeps for itself")
            .hint(
                "Name the node that has the volume with the header Paddock-Node, or ask that node directly.",
            ));
    }
    if client_key.is_none() {
        let key = format!("gw-{}", paddock_client::random_key());
        parts.headers.insert(KEY, HeaderValue::from_str(&key).map_err(|_| Failure::internal())?);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
    let creation = Creation {
        target: path,
        headers: parts.headers,
        body: body.bytes.clone(),
        caller: who.header.clone(),
        request_id: parts.extensions.get().cloned(),
        peer: parts.extensions.get().copied(),
    };
    let bound = bound_to(gateway, who, words, &asked, &mut wanted).await?;
    let order = match bound {
        Some(node) => vec![node],
        None => order(gateway, &wanted, client_key.as_deref())?,
    };
    try_in_turn(&order, &creation).await
}

/// The one node that can have it, if there is but one: where its snapshot is, or the sandbox that has its name already. That node refuses the
/// name, or recognises the key of a create that it has answered before.
async fn bound_to(
    gateway: &Gateway,
    who: &Who,
    words: Words,
    asked: &Asked,
    wanted: &mut Wanted,
) -> Result<Option<Arc<Node>>, Failure> {
    wanted.backend.clone_from(&asked.backend);
    wanted.template.clone_from(&asked.template);
    let source = match (&asked.snapshot, &asked.template) {
        (Some(snapshot), _) => Some(resolve_snapshot(gateway, who, snapshot).await?),
        // To E2B's clients a snapshot is a template.
        (None, Some(template)) if words == Words::E2b && !gateway.knows_template(template) => {
            resolve_snapshot(gateway, who, template).await.ok()
        }
        _ => None,
    };
    let named = match &asked.name {
        Some(name) => resolve::living_with_name(&gateway.nodes, &who.header, name).await,
        None => None,
    };
    let node = named.or(source);
    if let (Some(node), Some(number)) = (&node, wanted.node)
        && node.number() != Some(number)
    {
        return Err(Failure::invalid(format!(
            "Paddock-Node names node {number}, and what the request begins with, or a sandbox of that name, is on {}",
            node.title()
        )));
    }
    Ok(node)
}

async fn resolve_snapshot(gateway: &Gateway, who: &Who, snapshot: &str) -> Result<Arc<Node>, Failure> {
    resolve::node_of(&gateway.nodes, Some(&who.header), Kind::Snapshot, snapshot).await
}

/// The nodes to ask, in order.
fn order(gateway: &Gateway, wanted: &Wanted, client_key: Option<&str>) -> Result<Vec<Arc<Node>>, Failure> {
    let doubled = gateway.nodes.doubled();
    let fresh: Vec<(NodeNumber, Arc<Node>, Arc<NodeReport>)> = gateway
        .nodes
        .all()
        .into_iter()
        .filter_map(|node| {
            let seen = node.seen();
            let number = seen.number.filter(|number| !doubled.contains(number))?;
            Some((number, node, seen.fresh()?.clone()))
        })
        .collect();
    let candidates: Vec<Candidate> = fresh
        .iter()
        .map(|(number, node, report)| Candidate { number: *number, report, labels: node.labels(report) })
        .collect();
    let eligible = placement::eligible(wanted, &candidates).map_err(|reason| failures::no_place(&reason))?;
    let places = match client_key {
        None => {
            let mut lot = |below: usize| RandomState::new().hash_one(below) as usize % below.max(1);
            placement::order(wanted, &candidates, eligible, &mut lot)
        }
        Some(key) => {
            let numbers = eligible.iter().map(|place| candidates[*place].number).collect();
            let order = placement::order_of_key(&wanted.tenant, key, numbers);
            order
                .iter()
                .filter_map(|number| candidates.iter().position(|candidate| candidate.number == *number))
                .collect()
        }
    };
    Ok(places.into_iter().filter_map(|place| fresh.get(place)).map(|(_, node, _)| node.clone()).collect())
}

async fn try_in_turn(nodes: &[Arc<Node>], creation: &Creation) -> Result<Response, Failure> {
    let mut last: Option<Result<Response, Failure>> = None;
    for node in nodes {
        match creation.send(node).await {
            Err(LinkError::NotSent(detail)) => {
                tracing::warn!(node = node.title(), detail, "a create goes to another node");
                last = Some(Err(failures::unreachable(node, &detail)));
            }
            Err(LinkError::Lost(detail)) => {
                tracing::warn!(node = node.title(), detail, "the answer to a create was lost");
                return found_again(node, creation).await;
            }
            Ok(answer) if answer.status == StatusCode::UNAUTHORIZED => {
                last = Some(Err(failures::refuses_gateway(node)));
            }
            Ok(answer) if may_be_tried_elsewhere(&answer) => {
                tracing::info!(node = node.title(), code = answer.code(), "a create goes to another node");
                last = Some(Ok(answer.into_response()));
            }
            Ok(answer) => return Ok(answer.into_response()),
        }
    }
    last.unwrap_or_else(|| Err(failures::no_place("none could be asked")))
}

/// The same node is asked again with the same key: it answers with what it made, or makes it now.
async fn found_again(node: &Node, creation: &Creation) -> Result<Response, Failure> {
    let began = Instant::now();
    while began.elapsed() < LOST_FOR {
        match creation.send(node).await {
            // Whether the refusal is of the first request or of the second cannot be told apart from here; neither made anything that
            // the key does not name.
            Ok(answer) => return Ok(answer.into_response()),
            Err(_) => tokio::time::sleep(STEP).await,
        }
    }
    Err(failures::lost_during_create(node))
}

fn may_be_tried_elsewhere(answer: &Answered) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE && TRY_ANOTHER.contains(&answer.code().as_str())
}

impl Creation {
    async fn send(&self, node: &Node) -> Result<Answered, LinkError> {
        let ask = Ask {
            caller: Some(self.caller.clone()),
            headers: self.headers.clone(),
            body: self.body.clone(),
            patience: PATIENCE,
            most_bytes: LARGEST_ANSWER,
            request_id: self.request_id.clone(),
            peer: self.peer,
            ..Ask::new(Method::POST, self.target.clone())
        };
        forward::ask_carefully(node, ask).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_that_made_nothing_is_tried_elsewhere() {
        let answer = |status: u16, code: &str| Answered {
            status: StatusCode::from_u16(status).expect("a status"),
            headers: HeaderMap::new(),
            body: format!(r#"{{"code":"{code}"}}"#).into(),
        };
        assert!(may_be_tried_elsewhere(&answer(503, "node_cordoned")));
        assert!(may_be_tried_elsewhere(&answer(503, "host_out_of_memory")));
        for (status, code) in
            [(503, "guest_lost"), (500, "internal"), (429, "quota_exceeded"), (201, "node_cordoned")]
        {
            assert!(!may_be_tried_elsewhere(&answer(status, code)), "{status} {code}");
        }
        let e2b = Answered { body: r#"{"code":503,"error_code":"node_cordoned"}"#.into(), ..answer(503, "") };
        assert!(may_be_tried_elsewhere(&e2b));
    }
}
