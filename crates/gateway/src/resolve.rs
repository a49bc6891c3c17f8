//! The node that has an id or a name. An id says its node; a name is asked of all nodes that can be asked.

use crate::failures;
use crate::forward::{self, Ask};
use crate::node::Node;
use crate::nodes::Nodes;
use axum::http::{HeaderValue, Method, StatusCode};
use futures_util::future::join_all;
use paddock_model::NodeNumber;
use paddock_server::front::Failure;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Sandbox,
    Snapshot,
}

impl Kind {
    fn path(self) -> &'static str {
        match self {
            Kind::Sandbox => "/v1/sandboxes/",
            Kind::Snapshot => "/v1/snapshots/",
        }
    }

    /// The beginning of its ids.
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::Sandbox => "sb-",
            Kind::Snapshot => "sn-",
        }
    }

    pub fn not_found(self, id: &str) -> Failure {
        match self {
            Kind::Sandbox => failures::no_such_thing("sandbox_not_found", "sandbox", id),
            Kind::Snapshot => failures::no_such_thing("snapshot_not_found", "snapshot", id),
        }
    }
}

/// One node's word about a name.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Word {
    /// True: what has it lives. A name can be that of one that has ended, too.
    Has {
        lives: bool,
    },
    HasNot,
    /// It did not answer, or with something else.
    Silent,
}

/// Without a caller only an id leads to a node: a name is its tenant's.
pub async fn node_of(
    nodes: &Nodes,
    caller: Option<&HeaderValue>,
    kind: Kind,
    id: &str,
) -> Result<Arc<Node>, Failure> {
    let asked = match NodeNumber::of_id(kind.prefix(), id) {
        Some(number) => {
            let mut found = nodes.numbered(number);
            if found.len() == 1 {
                return found.pop().ok_or_else(Failure::internal);
            }
            if found.is_empty() {
                let unknown = nodes.unknown();
                return Err(match unknown.is_empty() {
                    true => kind.not_found(id),
                    false => failures::not_heard_of(id, &unknown),
                });
            }
            // Two nodes with one number: what they have already is found by asking both.
            found
        }
        None if nodes.is_empty() => return Err(failures::no_nodes()),
        None => nodes.all(),
    };
    let Some(caller) = caller else { return Err(kind.not_found(id)) };
    ask_all(asked, caller, kind, id).await
}

/// The node where a living sandbox of this caller has the name already. A node that does not answer is passed over: a create does not wait
/// for one that is away.
pub async fn living_with_name(nodes: &Nodes, caller: &HeaderValue, name: &str) -> Option<Arc<Node>> {
    let all = nodes.all();
    if all.len() < 2 {
        return None;
    }
    let words = join_all(all.iter().map(|node| word(node, caller, Kind::Sandbox, name))).await;
    let place = words.iter().position(|word| *word == Word::Has { lives: true })?;
    all.get(place).cloned()
}

async fn ask_all(
    nodes: Vec<Arc<Node>>,
    caller: &HeaderValue,
    kind: Kind,
    id: &str,
) -> Result<Arc<Node>, Failure> {
    let words = join_all(nodes.iter().map(|node| word(node, caller, kind, id))).await;
    match decide(&words) {
        Decision::One(place) => nodes.get(place).cloned().ok_or_else(Failure::internal),
        Decision::Nowhere => Err(kind.not_found(id)),
        Decision::Several(places) => Err(failures::on_two_nodes(id, &titles(&nodes, &places))),
        Decision::Unknown(places) => Err(failures::missing_nodes(id, &titles(&nodes, &places))),
    }
}

fn titles(nodes: &[Arc<Node>], places: &[usize]) -> Vec<String> {
    places.iter().filter_map(|place| nodes.get(*place)).map(|node| node.title()).collect()
}

async fn word(node: &Node, caller: &HeaderValue, kind: Kind, id: &str) -> Word {
    if node.seen().is_away() {
        return Word::Silent;
    }
    let target = format!("{}{}", kind.path(), utf8_percent_encode(id, NON_ALPHANUMERIC));
    let ask = Ask { caller: Some(caller.clone()), ..Ask::new(Method::GET, target) };
    match forward::ask(node, ask).await {
        Ok(answer) if answer.status == StatusCode::OK => {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            Word::Has { lives: body["state"] != "ended" }
        }
        Ok(answer) if matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::GONE) => Word::HasNot,
        _ => Word::Silent,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Decision {
    One(usize),
    Nowhere,
    Several(Vec<usize>),
    /// Those who said nothing might have it.
    Unknown(Vec<usize>),
}

/// A living one counts before one that has ended. Whoever has it alive is not doubted because another node is away.
fn decide(words: &[Word]) -> Decision {
    let all =
        |wanted: Word| -> Vec<usize> { (0..words.len()).filter(|place| words[*place] == wanted).collect() };
    let (living, ended) = (all(Word::Has { lives: true }), all(Word::Has { lives: false }));
    let silent = all(Word::Silent);
    match (living.as_slice(), ended.as_slice()) {
        ([one], _) => Decision::One(*one),
        ([_, ..], _) => Decision::Several(living),
        ([], _) if !silent.is_empty() => Decision::Unknown(silent),
        ([], []) => Decision::Nowhere,
        ([], [one]) => Decision::One(*one),
        ([], _) => Decision::Several(ended),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::tests::{report, source};

    const LIVES: Word = Word::Has { lives: true };
    const ENDED: Word = Word::Has { lives: false };

    #[test]
    fn a_name_leads_to_the_one_node_that_has_it() {
        assert_eq!(decide(&[Word::HasNot, LIVES, Word::HasNot]), Decision::One(1));
        assert_eq!(decide(&[ENDED, LIVES]), Decision::One(1));
        assert_eq!(decide(&[Word::HasNot, ENDED]), Decision::One(1));
        assert_eq!(decide(&[Word::HasNot]), Decision::Nowhere);
        assert_eq!(decide(&[LIVES, LIVES]), Decision::Several(vec![0, 1]));
    }

    #[test]
    fn a_silent_node_is_told_of_instead_of_a_guess() {
        assert_eq!(decide(&[Word::HasNot, Word::Silent]), Decision::Unknown(vec![1]));
        assert_eq!(decide(&[ENDED, Word::Silent]), Decision::Unknown(vec![1]));
        assert_eq!(decide(&[LIVES, Word::Silent]), Decision::One(0));
    }

    #[tokio::test]
    async fn an_id_says_its_node_without_a_question() {
        let nodes = Nodes::new(vec![source("http://127.0.0.1:1"), source("http://127.0.0.1:2")], false);
        let find = |id: &'static str| node_of(&nodes, None, Kind::Sandbox, id);
        let unheard = find("sb-0030000000000000").await.err().expect("nobody reported");
        assert_eq!((unheard.code, unheard.status.as_u16()), ("node_unreachable", 503));
        nodes.all()[0].heard(Ok(report(3)));
        nodes.all()[1].heard(Ok(report(4)));
        let found = find("sb-0040000000000000").await.expect("found");
        assert_eq!(found.source.address.to_string(), "http://127.0.0.1:2");
        assert_eq!(find("sb-0050000000000000").await.err().expect("nobody's").code, "sandbox_not_found");
        assert_eq!(find("a-name").await.err().expect("a stranger's").code, "sandbox_not_found");
    }

    #[tokio::test]
    async fn a_name_that_looks_like_another_id_is_a_name() {
        let nodes = Nodes::new(vec![source("http://127.0.0.1:1")], false);
        nodes.all()[0].heard(Ok(report(3)));
        let caller = HeaderValue::from_static("caller");
        for name in ["web-0040000000000000", "ffffffff-004f-4fff-bfff-ffffffffffff", "sn-0040000000000000"] {
            let asked = node_of(&nodes, Some(&caller), Kind::Sandbox, name).await.err().expect("it is dead");
            assert_eq!((asked.code, asked.status.as_u16()), ("node_unreachable", 503), "{name}");
        }
    }

    #[tokio::test]
    async fn nothing_is_denied_that_dns_may_name_later() {
        let nodes = Nodes::new(Vec::new(), true);
        let caller = HeaderValue::from_static("caller");
        for id in ["sb-0030000000000000", "a-name"] {
            let failure = node_of(&nodes, Some(&caller), Kind::Sandbox, id).await.err().expect("unknown");
            assert_eq!((failure.code, failure.status.as_u16()), ("node_unreachable", 503), "{id}");
        }
        nodes.resolve(vec![source("http://127.0.0.1:1")]);
        nodes.all()[0].heard(Ok(report(3)));
        let gone = node_of(&nodes, None, Kind::Sandbox, "sb-0040000000000000").await.err().expect("unknown");
        assert_eq!((gone.code, gone.status.as_u16()), ("node_unreachable", 503));
    }
}
