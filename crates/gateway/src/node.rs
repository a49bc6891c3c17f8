//! One node: where it is, and what it last said of itself.

use crate::link::Link;
use crate::sources::NodeSource;
use paddock_model::NodeNumber;
use paddock_model::api::{GATEWAY_PROTOCOL, NodeReport, NodeState, gateway_protocols_meet};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// A report that is older says nothing of now.
const FRESH: Duration = Duration::from_secs(5);
/// A node that has answered no question for so long is not waited for. Each question waits two seconds.
const SILENT: Duration = Duration::from_secs(8);

pub struct Node {
    pub source: NodeSource,
    pub link: Link,
    seen: RwLock<Seen>,
    polling: AtomicBool,
    changes: Arc<AtomicU64>,
}

/// The knowledge of a node at one moment.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The last number that it reported: ids have it, also while the node is away.
    pub number: Option<NodeNumber>,
    pub report: Option<Arc<NodeReport>>,
    pub heard: Option<Instant>,
    /// Why the last question brought nothing usable.
    pub problem: Option<String>,
    /// The end of the first question since the last answer of any kind.
    pub silent_since: Option<Instant>,
}

impl Seen {
    /// The report, where it is about now. One answer that was lost on the way changes nothing yet.
    pub fn fresh(&self) -> Option<&Arc<NodeReport>> {
        let heard = self.heard.is_some_and(|heard| heard.elapsed() < FRESH);
        self.report.as_ref().filter(|_| heard)
    }

    /// It has answered no question for a time that no pause of a living node explains.
    pub fn is_silent(&self) -> bool {
        self.silent_since.is_some_and(|since| since.elapsed() >= SILENT)
    }

    /// It was asked, and does not answer any more. Nobody waits for it.
    pub fn is_away(&self) -> bool {
        self.problem.is_some() && self.fresh().is_none()
    }
}

/// Why a question for the report brought none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No answer came in time.
    Silent(String),
    /// It answers, and cannot be used.
    Unusable(String),
}

impl Node {
    #[cfg(test)]
    pub fn new(source: NodeSource) -> Node {
        Node::counted(source, Arc::default())
    }

    /// `changes` counts the changes of numbers of all nodes.
    pub fn counted(source: NodeSource, changes: Arc<AtomicU64>) -> Node {
        let link = Link::new(source.address.clone());
        let seen = Seen { number: source.number, ..Seen::default() };
        Node { source, link, seen: RwLock::new(seen), polling: AtomicBool::new(false), changes }
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

    /// Its word about itself, or why nothing usable came.
    pub fn heard(&self, said: Result<NodeReport, Trouble>) {
        let checked = said.and_then(|report| check(report, self.source.number));
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        let before = seen.problem.take();
        match checked {
            Ok((number, report)) => {
                let is_new = seen.number != Some(number);
                *seen = Seen {
                    number: Some(number),
                    report: Some(Arc::new(report)),
                    heard: Some(Instant::now()),
                    problem: None,
                    silent_since: None,
                };
                if is_new {
                    self.changes.fetch_add(1, Ordering::AcqRel);
                }
                if before.is_some() {
                    tracing::warn!(node = %number, address = %self.source.address, "a node is back");
                }
            }
            Err(trouble) => {
                let problem = match trouble {
                    Trouble::Silent(problem) => {
                        seen.silent_since.get_or_insert_with(Instant::now);
                        problem
                    }
                    Trouble::Unusable(problem) => {
                        seen.heard = None;
                        seen.silent_since = None;
                        problem
                    }
                };
                if before.as_ref() != Some(&problem) {
                    tracing::warn!(address = %self.source.address, problem, "a node cannot be used");
                }
                seen.problem = Some(problem);
            }
        }
    }

    /// As if it had been silent from the beginning.
    #[cfg(test)]
    pub fn was_silent_for_long(&self) {
        let mut seen = self.seen.write().unwrap_or_else(PoisonError::into_inner);
        seen.silent_since = Instant::now().checked_sub(SILENT);
    }

    /// `None` if a question is under way already: a slow node is asked once at a time.
    pub fn begin_poll(self: Arc<Self>) -> Option<Polling> {
        let free = !self.polling.swap(true, Ordering::AcqRel);
        free.then(|| Polling(self))
    }
}

/// A question for the report of a node is under way for as long as this is kept, also where the task that asks panics.
pub struct Polling(Arc<Node>);

impl std::ops::Deref for Polling {
    type Target = Node;

    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.polling.store(false, Ordering::Release);
    }
}

/// A report that a gateway can work with, and the number of its node. `listed`: the number that the gateway's owner gave it.
fn check(report: NodeReport, listed: Option<NodeNumber>) -> Result<(NodeNumber, NodeReport), Trouble> {
    if !gateway_protocols_meet(report.protocol, GATEWAY_PROTOCOL) {
        return Err(Trouble::Unusable(format!(
            "it speaks version {} of the protocol between gateway and node, and this gateway speaks {GATEWAY_PROTOCOL}",
            report.protocol
        )));
    }
    match report.node.map(NodeNumber::try_from) {
        Some(Ok(number)) if listed.is_some_and(|listed| listed != number) => {
            let listed = listed.map(|listed| listed.to_string()).unwrap_or_default();
            Err(Trouble::Unusable(format!("it says that it is node {number}, and it is listed as {listed}")))
        }
        Some(Ok(number)) => Ok((number, report)),
        Some(Err(error)) => Err(Trouble::Unusable(format!("its report makes no sense: {error}"))),
        None => Err(Trouble::Unusable("it has no number: it was started without --node".into())),
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
        assert_eq!(check(report(7), None).expect("fine").0.get(), 7);
        for wrong in [
            NodeReport { protocol: GATEWAY_PROTOCOL + 2, ..report(7) },
            NodeReport { node: None, ..report(7) },
            NodeReport { node: Some(4096), ..report(7) },
        ] {
            check(wrong, None).expect_err("refused");
        }
    }

    #[test]
    fn a_question_that_breaks_off_is_not_the_last() {
        let node = Arc::new(Node::new(crate::nodes::tests::source("http://a:1")));
        let polling = node.clone().begin_poll().expect("the first");
        assert!(node.clone().begin_poll().is_none());
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _polling = polling;
            panic!("in the middle");
        }));
        assert!(broken.is_err() && node.begin_poll().is_some());
    }

    #[test]
    fn a_lost_answer_changes_nothing_yet_and_nonsense_does_at_once() {
        let node = Node::new(crate::nodes::tests::source("http://a:1"));
        node.heard(Err(Trouble::Silent("refused".into())));
        assert!(node.seen().is_away());
        node.heard(Ok(report(7)));
        node.heard(Err(Trouble::Silent("late".into())));
        assert!(node.seen().fresh().is_some() && !node.seen().is_away());
        node.heard(Err(Trouble::Unusable("nonsense".into())));
        assert!(node.seen().is_away());
        assert_eq!(node.number().map(NodeNumber::get), Some(7));
    }
}
