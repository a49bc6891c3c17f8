//! A new sandbox: placed, tried elsewhere where the first node surely did not make it, and never made twice.
//!
//! Every create has an idempotency key on its way to the node: the client's, or one of the gateway's own. So an answer that was lost is
//! asked for again, at the same node, with the same key. If the node does not come back, the caller is told that it is not known whether the
//! sandbox was made, and no other node is asked. A client may send its key again later: the home remembers the node ([`crate::keys`]).

use crate::asked::{self, Asked, Words};
use crate::failures;
use crate::forward::{self, Answered, Ask};
use crate::gateway::Gateway;
use crate::keys::KeptPlace;
use crate::link::LinkError;
use crate::node::Node;
use crate::placement::{self, Candidate, Wanted};
use crate::resolve::{self, Kind};
use crate::who::Who;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use paddock_fleet::{FleetError, REQUEST_UNDER_WAY};
use paddock_model::NodeNumber;
use paddock_model::api::NodeReport;
use paddock_server::front::{self, App, Failure, Peer, RequestId};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A create waits for room in its tenant's quota and for images, within bounds of the node's. A node that falls silent meanwhile is given up
/// earlier ([`crate::forward`]).
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
    let read = front::whole_body(body, app).await?;
    let body = read.bytes.clone();
    // A create may wait for an hour. Its bytes are kept for a second try, and take no room from requests of other kinds meanwhile.
    let _room = gateway.creates.room(body.len(), app.limits().body_timeout).await?;
    drop(read);
    let asked = Asked::read(words, &body);
    let wanted = Wanted { tenant: who.actor.tenant.clone(), ..asked::place_in_headers(&parts.headers)? };
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
        body,
        caller: who.header.clone(),
        request_id: parts.extensions.get().cloned(),
        peer: parts.extensions.get().copied(),
    };
    let Some(key) = client_key else {
        let order = places(gateway, who, words, &asked, wanted).await?;
        return try_in_turn(&order, &creation, None).await;
    };
    let tenant = who.actor.tenant.as_str();
    let _turn = gateway.keys.begin(tenant, &key).ok_or_else(failures::key_under_way)?;
    let rows = app.fleet().create_places();
    if let Some(number) = rows.node_of(tenant, &key).map_err(FleetError::from)? {
        return asked_before(gateway, number, &creation).await;
    }
    let order = places(gateway, who, words, &asked, wanted).await?;
    try_in_turn(&order, &creation, Some(KeptPlace::new(&rows, tenant, &key))).await
}

/// The nodes to ask, in order.
async fn places(
    gateway: &Gateway,
    who: &Who,
    words: Words,
    asked: &Asked,
    mut wanted: Wanted,
) -> Result<Vec<Arc<Node>>, Failure> {
    match bound_to(gateway, who, words, asked, &mut wanted).await? {
        Some(node) => Ok(vec![node]),
        None => order(gateway, &wanted),
    }
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
    wanted.require.clone_from(&asked.require);
    let source = match (&asked.snapshot, &asked.template) {
        (Some(snapshot), _) => Some(resolve_snapshot(gateway, who, snapshot).await?),
        // To E2B's clients a snapshot is a template.
        (None, Some(template)) if words == Words::E2b && may_be_snapshot(gateway, template) => {
            match resolve_snapshot(gateway, who, template).await {
                Ok(node) => Some(node),
                Err(failure) if failure.code == "snapshot_not_found" => None,
                Err(failure) => return Err(failure),
            }
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

fn may_be_snapshot(gateway: &Gateway, template: &str) -> bool {
    !front::E2B_BUILT_IN.contains(&template) && !gateway.knows_template(template)
}

async fn resolve_snapshot(gateway: &Gateway, who: &Who, snapshot: &str) -> Result<Arc<Node>, Failure> {
    resolve::node_of(&gateway.nodes, Some(&who.header), Kind::Snapshot, snapshot).await
}

/// By load, among those that can have it.
fn order(gateway: &Gateway, wanted: &Wanted) -> Result<Vec<Arc<Node>>, Failure> {
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
    let mut lot = |below: usize| RandomState::new().hash_one(below) as usize % below.max(1);
    let places = placement::order(wanted, &candidates, eligible, &mut lot);
    Ok(places.into_iter().filter_map(|place| fresh.get(place)).map(|(_, node, _)| node.clone()).collect())
}

async fn try_in_turn(
    nodes: &[Arc<Node>],
    creation: &Creation,
    mut place: Option<KeptPlace<'_>>,
) -> Result<Response, Failure> {
    let mut last: Option<Result<Response, Failure>> = None;
    for node in nodes {
        if let Some(place) = &mut place {
            place.goes_to(node)?;
        }
        match creation.send(node).await {
            Err(LinkError::NotSent(detail)) => {
                tracing::warn!(node = node.title(), detail, "a create goes to another node");
                last = Some(Err(failures::not_sent(node, &detail)));
            }
            Err(LinkError::Lost(detail)) => {
                tracing::warn!(node = node.title(), detail, "the answer to a create was lost");
                return asked_again(node, creation).await;
            }
            Ok(answer) if answer.status == StatusCode::UNAUTHORIZED => {
                last = Some(Err(failures::refuses_gateway(node)));
            }
            Ok(answer) if may_be_tried_elsewhere(&answer) => {
                tracing::info!(node = node.title(), code = answer.code(), "a create goes to another node");
                last = Some(Ok(answer.into_response()));
            }
            Ok(answer) => {
                if let Some(place) = place.filter(|_| is_refused_for_good(&answer)) {
                    place.made_nothing();
                }
                return Ok(answer.into_response());
            }
        }
    }
    if let Some(place) = place {
        place.made_nothing();
    }
    last.unwrap_or_else(|| Err(failures::no_place("none could be asked")))
}

/// A create whose key was sent to a node by an earlier request. That node may have made the sandbox, so no other is asked.
async fn asked_before(gateway: &Gateway, number: u16, creation: &Creation) -> Result<Response, Failure> {
    let number = NodeNumber::try_from(number).map_err(|_| Failure::internal())?;
    let mut found = gateway.nodes.numbered(number);
    let node = match (found.pop(), found.is_empty()) {
        (Some(node), true) => node,
        _ => return Err(failures::node_of_key(&format!("node {number}"))),
    };
    match creation.send(&node).await {
        Err(LinkError::NotSent(detail)) => {
            tracing::warn!(node = node.title(), detail, "the node of a create that was sent before is away");
            Err(failures::node_of_key(&node.title()))
        }
        Ok(answer) if !is_under_way(&answer) => told(&node, answer),
        _ => asked_again(&node, creation).await,
    }
}

/// The same node is asked again with the same key: it answers with what it made, or makes it now. While it says that the first is still
/// under way, the answer of the first is waited for.
async fn asked_again(node: &Node, creation: &Creation) -> Result<Response, Failure> {
    let began = Instant::now();
    let mut silent_since = began;
    while silent_since.elapsed() < LOST_FOR && began.elapsed() < PATIENCE {
        match creation.send(node).await {
            Ok(answer) if is_under_way(&answer) => silent_since = Instant::now(),
            Ok(answer) => return told(node, answer),
            Err(_) => {}
        }
        tokio::time::sleep(STEP).await;
    }
    Err(failures::lost_during_create(node))
}

fn told(node: &Node, answer: Answered) -> Result<Response, Failure> {
    match answer.status {
        StatusCode::UNAUTHORIZED => Err(failures::refuses_gateway(node)),
        _ => Ok(answer.into_response()),
    }
}

/// The node says that it makes the sandbox of this key at this moment.
fn is_under_way(answer: &Answered) -> bool {
    answer.status == StatusCode::CONFLICT && answer.code() == REQUEST_UNDER_WAY
}

fn may_be_tried_elsewhere(answer: &Answered) -> bool {
    answer.status == StatusCode::SERVICE_UNAVAILABLE && TRY_ANOTHER.contains(&answer.code().as_str())
}

/// The request itself was refused, and the key is free again. A conflict may be about the key.
fn is_refused_for_good(answer: &Answered) -> bool {
    answer.status.is_client_error() && answer.status != StatusCode::CONFLICT
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
    use crate::fake_node::{FakeNode, Say, dead};
    use crate::keys::tests::MemoryRows;

    const MADE: Say = Say::Answer(201, r#"{"id":"sb-0020000000000000"}"#);
    const CORDONED: Say = Say::Answer(503, r#"{"code":"node_cordoned","message":"cordoned"}"#);

    fn creation() -> Creation {
        Creation {
            target: "/v1/sandboxes".into(),
            headers: HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
            caller: HeaderValue::from_static("caller"),
            request_id: None,
            peer: None,
        }
    }

    /// The status of the answer to a create with the key `k`, and the node that the key has afterwards.
    async fn tried(nodes: &[Arc<Node>], rows: &MemoryRows) -> (u16, Option<u16>) {
        let answer = try_in_turn(nodes, &creation(), Some(KeptPlace::new(rows, "a", "k"))).await;
        let status = answer.map_or_else(|failure| failure.status, |answer| answer.status()).as_u16();
        (status, rows.0.lock().expect("rows").get("k").copied())
    }

    #[tokio::test]
    async fn a_key_keeps_the_node_that_was_asked_last() {
        let (full, free) = (FakeNode::start(1, &[CORDONED]).await, FakeNode::start(2, &[MADE]).await);
        let rows = MemoryRows::default();
        let nodes = [dead(3).await, full.node.clone(), free.node.clone()];
        assert_eq!(tried(&nodes, &rows).await, (201, Some(2)));
        // A second request for the key would have been sent to node 2 alone; by this way it is refused.
        assert_eq!(tried(&nodes, &rows).await, (409, Some(2)));
        assert_eq!((full.asked(), free.asked()), (1, 1));
    }

    #[tokio::test]
    async fn a_key_that_surely_made_nothing_is_free_again() {
        let rows = MemoryRows::default();
        let full = FakeNode::start(1, &[CORDONED]).await;
        assert_eq!(tried(&[full.node.clone(), dead(3).await], &rows).await, (503, None));
        let invalid = FakeNode::start(1, &[Say::Answer(400, "{}")]).await;
        assert_eq!(tried(std::slice::from_ref(&invalid.node), &rows).await, (400, None));
        // The node may have made something before it failed.
        let broken = FakeNode::start(1, &[Say::Answer(500, "{}")]).await;
        assert_eq!(tried(std::slice::from_ref(&broken.node), &rows).await, (500, Some(1)));
    }

    #[tokio::test]
    async fn a_lost_answer_is_waited_for_where_it_was_lost() {
        const UNDER_WAY: Say = Say::Answer(
            409,
            r#"{"code":"request_under_way","message":"a request with this idempotency key is under way"}"#,
        );
        let first = FakeNode::start(1, &[Say::Close, UNDER_WAY, Say::Close, UNDER_WAY, MADE]).await;
        let second = FakeNode::start(2, &[MADE]).await;
        let rows = MemoryRows::default();
        assert_eq!(tried(&[first.node.clone(), second.node.clone()], &rows).await, (201, Some(1)));
        assert_eq!((first.asked(), second.asked()), (5, 0));
        let misused =
            r#"{"code":"wrong_state","message":"this idempotency key was used for another request"}"#;
        let says = vec![Say::Close, Say::Answer(409, misused)].leak();
        let other = FakeNode::start(1, says).await;
        assert_eq!(tried(std::slice::from_ref(&other.node), &MemoryRows::default()).await, (409, Some(1)));
    }

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
