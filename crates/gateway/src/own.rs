//! The gateway's word about the nodes, and about itself.

use crate::failures;
use crate::forward::{self, Ask};
use crate::gateway::Gateway;
use crate::node::{Node, state_name};
use crate::who::{self, Who};
use axum::Json;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use paddock_model::NodeNumber;
use paddock_model::api::{ClusterNode, ClusterNodes, NodeReport, SandboxCounts, ServerStatus};
use paddock_server::front::{App, Failure};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// All nodes, for those who may see numbers of the whole server.
pub fn nodes(gateway: &Gateway, who: &Who) -> Result<Response, Failure> {
    sees_nodes(who)?;
    Ok(Json(ClusterNodes { nodes: described(gateway) }).into_response())
}

/// A node takes no new sandboxes from now on, or takes them again.
pub async fn cordon(gateway: &Gateway, who: &Who, node: &str, take_new: bool) -> Result<Response, Failure> {
    sees_nodes(who)?;
    let number: NodeNumber =
        node.parse().map_err(|error: paddock_model::NodeNumberError| Failure::invalid(error.to_string()))?;
    let mut found = gateway.nodes.numbered(number);
    let node = match (found.pop(), found.is_empty()) {
        (Some(node), true) => node,
        (None, _) => return Err(failures::no_such_thing("node_not_found", "node", &number.to_string())),
        (Some(_), false) => {
            let message = format!("two nodes have the number {number}");
            return Err(Failure::new(StatusCode::CONFLICT, "node_number_twice", message)
                .hint("Give one of them another with `paddock serve --node`; until then neither gets new sandboxes."));
        }
    };
    let path = if take_new { "/v1/node/uncordon" } else { "/v1/node/cordon" };
    let answer = forward::ask(
        &node,
        Ask { caller: who::gateway_itself(), most_bytes: 4 << 20, ..Ask::new(Method::POST, path) },
    )
    .await;
    let answer = answer.map_err(|detail| failures::not_sent(&node, &detail))?;
    if answer.status == StatusCode::UNAUTHORIZED {
        return Err(failures::refuses_gateway(&node));
    }
    if answer.status == StatusCode::OK
        && let Ok(report) = serde_json::from_slice::<NodeReport>(&answer.body)
    {
        // The next create sees it, without waiting for the next report.
        node.heard(Ok(report));
    }
    Ok(answer.into_response())
}

/// It can do its work if one node at least takes new sandboxes.
pub fn ready(gateway: &Gateway, app: &App) -> Response {
    if app.ending().is_cancelled() {
        return Failure::shutting_down().into_response();
    }
    match problem(gateway) {
        None => {
            let body = serde_json::json!({ "status": "ok", "version": env!("CARGO_PKG_VERSION") });
            Json(with_doubled(gateway, body)).into_response()
        }
        Some(problem) => failures::no_place(&problem).into_response(),
    }
}

fn with_doubled(gateway: &Gateway, mut body: serde_json::Value) -> serde_json::Value {
    let doubled: Vec<u16> = gateway.nodes.doubled().into_iter().map(NodeNumber::get).collect();
    if !doubled.is_empty() {
        body["node_numbers_twice"] = doubled.into();
    }
    body
}

/// As of a server; its sandboxes are those of all nodes together.
pub fn server(gateway: &Gateway, app: &App, who: &Who) -> Response {
    let problem = problem(gateway);
    let mut status = ServerStatus {
        version: env!("CARGO_PKG_VERSION").into(),
        ready: problem.is_none(),
        problem,
        ports_domain: app.guard().domain().map(String::from),
        process: None,
        state_dir: None,
        started_at_ms: None,
        addresses: Vec::new(),
        sandboxes: None,
    };
    if who.actor.owner {
        status.process = Some(std::process::id());
        status.state_dir = Some(app.fleet().state_dir().display().to_string());
        status.started_at_ms = Some(app.started_at_ms());
        status.addresses = app.addresses().to_vec();
        status.sandboxes = Some(counted(&gateway.nodes.all()));
    }
    Json(status).into_response()
}

fn sees_nodes(who: &Who) -> Result<(), Failure> {
    match who.actor.sees_server() {
        true => Ok(()),
        false => Err(Failure::forbidden(
            "nodes are shown to the owner of the gateway, and to admins of the tenant `owner`",
        )),
    }
}

/// `None`: a create can be placed.
fn problem(gateway: &Gateway) -> Option<String> {
    let states: Vec<String> = described(gateway).into_iter().map(|node| node.state).collect();
    match states.iter().any(|state| state == "ready") {
        true => None,
        false if states.is_empty() => Some("it knows no node".into()),
        false => Some(format!("no node is ready: they are {}", states.join(", "))),
    }
}

fn counted(nodes: &[std::sync::Arc<Node>]) -> SandboxCounts {
    let mut sum = SandboxCounts { creating: 0, running: 0, paused: 0, hibernated: 0 };
    for node in nodes {
        let seen = node.seen();
        let Some(report) = seen.fresh() else { continue };
        sum.creating = sum.creating.saturating_add(report.live.creating);
        sum.running = sum.running.saturating_add(report.live.running);
        sum.paused = sum.paused.saturating_add(report.live.paused);
        sum.hibernated = sum.hibernated.saturating_add(report.live.hibernated);
    }
    sum
}

fn described(gateway: &Gateway) -> Vec<ClusterNode> {
    let doubled = gateway.nodes.doubled();
    let mut nodes: Vec<ClusterNode> = gateway.nodes.all().iter().map(|node| one(node, &doubled)).collect();
    nodes.sort_by_key(|node| (node.node.is_none(), node.node));
    nodes
}

fn one(node: &Node, doubled: &BTreeSet<NodeNumber>) -> ClusterNode {
    let seen = node.seen();
    let is_doubled = seen.number.is_some_and(|number| doubled.contains(&number));
    let state = match (seen.fresh().map(|report| report.state), is_doubled) {
        (Some(_), true) => "number_twice",
        (Some(state), false) => state_name(state),
        (None, _) => "away",
    };
    let problem = match is_doubled {
        true => Some("another node has the same number: neither gets new sandboxes".to_string()),
        false => {
            seen.problem.clone().or_else(|| seen.report.is_none().then(|| "it has not answered yet".into()))
        }
    };
    ClusterNode {
        node: seen.number.map(NodeNumber::get),
        address: node.source.address.to_string(),
        state: state.to_string(),
        problem,
        heard_at_ms: seen.heard.map(|heard| now_ms().saturating_sub(heard.elapsed().as_millis() as u64)),
        labels: seen.report.as_ref().map_or_else(|| node.source.labels.clone(), |report| node.labels(report)),
        report: seen.report.as_deref().cloned(),
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::{report, source};

    #[test]
    fn a_node_is_shown_as_it_is() {
        let node = Node::new(source("http://a:1"));
        assert_eq!(one(&node, &BTreeSet::new()).state, "away");
        node.heard(Ok(report(3)));
        let shown = one(&node, &BTreeSet::new());
        assert_eq!((shown.state.as_str(), shown.node, shown.problem), ("ready", Some(3), None));
        let three = NodeNumber::try_from(3).expect("a number");
        assert_eq!(one(&node, &[three].into()).state, "number_twice");
        node.heard(Err(crate::node::Trouble::Unusable("it answers nonsense".into())));
        let shown = one(&node, &BTreeSet::new());
        assert_eq!((shown.state.as_str(), shown.node), ("away", Some(3)));
        assert_eq!(shown.problem.as_deref(), Some("it answers nonsense"));
    }
}
