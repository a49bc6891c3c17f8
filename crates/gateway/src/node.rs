//! One node: where it is, and what it last said of itself.

use crate::link::Link;
use crate::sources::NodeSource;
use paddock_model::NodeNumber;
use paddock_model::api::{GATEWAY_PROTOCOL, NodeReport, NodeState, gateway_protocols_meet};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A report that is older says nothing of now.
const FRESH: Duration = Duration::from_secs(5);

pub struct Node {
    pub source: NodeSource,
    pub link: Link,
    seen: RwLock<Seen>,
    polling: AtomicBool,
}

/// What is known of a node at one moment.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The last number that it reported: ids have it, also while the node is away.
    pub number: Option<NodeNumber>,
    pub report: Option<Arc<NodeReport>>,
    pub heard: Option<Instant>,
    /// Why it cannot be used; absent while it can.
    pub problem: Option<String>,
}

impl Seen {
    /// The report, where it is about now and the node can be used.
    pub fn fresh(&self) -> Option<&Arc<NodeReport>> {
        let heard = self.heard.is_some_and(|heard| heard.elapsed() < FRESH);
        self.report.as_ref().filter(|_| heard && self.problem.is_none())
    }
}

impl Node {
    pub fn new(source: NodeSource) -> Node {
        let link = Link::new(source.address.clone());
        Node { source, link, seen: RwLock::default(), polling: AtomicBool::new(false) }
    }

    pub fn seen(&self) -> Seen {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn number(&self) -> Option<NodeNumber> {
        self.seen.read().unwrap_or_else(PoisonError::into_inner).number
    }

    /// For messages: its number where it is known, else its address.
    pub fn title(&self) -> String {
        match self.number() {
            Some(number) => format!("node {number}"),
            None => format!("the node at {}", self.source.address),
        }
    }

    /// Its own labels, and those of the gateway's list, which count more.
    pub fn labels(&self, report: &NodeReport) -> BTreeMap<String, String> {
        let mut labels = report.labels.clone();
        labels.extend(self.source.labels.clone());
        labels
    }

    /// What it said of itself, or why nothing usable came.
    pub fn heard(&self, said: Result<NodeReport, String>) {
        let checked = said.and_then(check);
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let before = seen.problem.take();
        match checked {
            Ok((number, report)) => {
                *seen = Seen {
                    number: Some(number),
                    report: Some(Arc::new(report)),
                    heard: Some(Instant::now()),
                    problem: None,
                };
                if before.is_some() {
                    tracing::warn!(node = %number, address = %self.source.address, "a node is back");
                }
            }
            Err(problem) => {
                if before.as_ref() != Some(&problem) {
                    tracing::warn!(address = %self.source.address, problem, "a node cannot be used");
                }
                seen.problem = Some(problem);
            }
        }
    }

    /// False if a question is under way already: a slow node is asked once at a time.
    pub fn begin_poll(&self) -> bool {
        !self.polling.swap(true, Ordering::AcqRel)
    }

    pub fn end_poll(&self) {
        self.polling.store(false, Ordering::Release);
    }
}

/// A report that a gateway can work with, and the number of its node.
fn check(report: NodeReport) -> Result<(NodeNumber, NodeReport), String> {
    if !gateway_protocols_meet(report.protocol, GATEWAY_PROTOCOL) {
        return Err(format!(
            "it speaks version {} of the protocol between gateway and node, and this gateway speaks {GATEWAY_PROTOCOL}",
            report.protocol
        ));
    }
    match report.node.map(NodeNumber::try_from) {
        Some(Ok(number)) => Ok((number, report)),
        Some(Err(error)) => Err(format!("its report makes no sense: {error}")),
        None => Err("it has no number: it was started without --node".into()),
    }
}

/// As `paddock node ls` shows it.
pub fn state_name(state: NodeState) -> &'static str {
    match state {
        NodeState::Ready => "ready",
        NodeState::Cordoned => "cordoned",
        NodeState::Draining => "draining",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::report;

    #[test]
    fn only_a_report_of_this_protocol_with_a_number_is_used() {
        assert_eq!(check(report(7)).expect("fine").0.get(), 7);
        for wrong in [
            NodeReport { protocol: GATEWAY_PROTOCOL + 2, ..report(7) },
            NodeReport { node: None, ..report(7) },
            NodeReport { node: Some(4096), ..report(7) },
        ] {
            check(wrong).expect_err("refused");
        }
    }
}
