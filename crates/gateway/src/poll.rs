//! Each node is asked every second how it is.

use crate::forward::{self, Ask};
use crate::node::{Node, Trouble};
use crate::nodes::Nodes;
use crate::sources::Sources;
use crate::who;
use axum::http::{Method, StatusCode};
use paddock_model::api::NodeReport;
use std::sync::Arc;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(1);
const RESOLVE_EVERY: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(2);
const LARGEST_REPORT: usize = 4 << 20;

/// Does not end by itself.
pub async fn poll(nodes: Arc<Nodes>) {
    let mut ticks = tokio::time::interval(EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut told = std::collections::BTreeSet::new();
    loop {
        ticks.tick().await;
        for node in nodes.all() {
            if let Some(node) = node.begin_poll() {
                tokio::spawn(async move { node.heard(report(&node).await) });
            }
        }
        let doubled = nodes.doubled();
        for number in doubled.difference(&told) {
            let addresses: Vec<String> =
                nodes.numbered(*number).iter().map(|node| node.source.address.to_string()).collect();
            tracing::error!(node = %number, ?addresses, "two nodes have one number: neither gets new sandboxes");
        }
        told = doubled;
    }
}

/// Follows the name of the nodes, where there is one. Does not end by itself.
pub async fn follow_name(nodes: Arc<Nodes>, sources: Sources) {
    if sources.dns.is_none() {
        return std::future::pending().await;
    }
    loop {
        // While the name is not known, the nodes stay that were found last.
        if let Some(found) = sources.resolve().await {
            nodes.resolve(found);
        }
        tokio::time::sleep(RESOLVE_EVERY).await;
    }
}

async fn report(node: &Node) -> Result<NodeReport, Trouble> {
    let ask = Ask {
        caller: who::gateway_itself(),
        patience: PATIENCE,
        most_bytes: LARGEST_REPORT,
        ..Ask::new(Method::GET, "/v1/node")
    };
    let answer = forward::ask(node, ask).await.map_err(Trouble::Silent)?;
    let problem = match answer.status {
        StatusCode::OK => match serde_json::from_slice(&answer.body) {
            Ok(report) => return Ok(report),
            Err(error) => format!("its report makes no sense: {}", shown(&error.to_string())),
        },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "it refuses the key of this gateway, or was started without --gateway-key".into()
        }
        StatusCode::NOT_FOUND => "it knows no gateways: its Paddock is older".into(),
        status => format!("it answers {status} when it is asked how it is: {}", shown(&answer.code())),
    };
    Err(Trouble::Unusable(problem))
}

fn shown(text: &str) -> String {
    paddock_server::front::shorten(text)
}
