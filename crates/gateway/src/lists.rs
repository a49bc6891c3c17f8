//! Lists of all nodes as one. A node that does not answer in time is named in the answer's head, never left out silently.

use crate::forward::{self, Answered, Ask};
use crate::gateway::Gateway;
use crate::merge::{self, Order, Page, Place};
use crate::node::Node;
use crate::resolve::Kind;
use crate::who::Who;
use axum::extract::Request;
use axum::http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use futures_util::stream;
use paddock_model::NodeNumber;
use paddock_server::front::{Failure, RequestId};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Numbers, or addresses where there is no number, with commas.
pub const MISSING: HeaderName = HeaderName::from_static("paddock-nodes-missing");
const PATIENCE: Duration = Duration::from_secs(5);
/// A page has 1000 entries at most.
const LARGEST_PAGE: usize = 16 << 20;
/// Nodes that are asked at the same time.
pub const AT_ONCE: usize = 64;
const DEFAULT_LIMIT: usize = 100;
const LONGEST: usize = 1000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    Sandboxes,
    Snapshots,
}

impl List {
    /// The beginning of the ids of its entries.
    fn prefix(self) -> &'static str {
        match self {
            List::Sandboxes => Kind::Sandbox.prefix(),
            List::Snapshots => Kind::Snapshot.prefix(),
        }
    }

    fn field(self) -> &'static str {
        match self {
            List::Sandboxes => "sandboxes",
            List::Snapshots => "snapshots",
        }
    }
}

/// The answers of all nodes, and those that gave none.
pub struct Collected {
    pub pages: Vec<(Arc<Node>, Answered)>,
    pub missing: Vec<String>,
}

pub async fn list(gateway: &Gateway, who: &Who, list: List, request: Request) -> Result<Response, Failure> {
    let collected = match collect(gateway, who, request.uri(), request.extensions()).await {
        Ok(collected) => collected,
        Err(refused) => return Ok(refused.into_response()),
    };
    let wanted = Wanted::of(list, request.uri().query().unwrap_or_default());
    let mut missing = collected.missing;
    let mut pages = Vec::new();
    for (node, answer) in collected.pages {
        let page = page(&answer.body, list.field());
        missing.extend(checked(&node, page, list.prefix(), &wanted, &mut pages));
    }
    if pages.is_empty() {
        return Err(nobody(&missing));
    }
    let (entries, next) = merge::merge(pages, wanted.order, wanted.limit);
    let mut body = json!({ (list.field()): entries });
    if let Some(next) = next {
        body["next_cursor"] = json!(next.text());
    }
    let mut response = axum_json(&body);
    name_missing(response.headers_mut(), &missing);
    Ok(response)
}

/// The same question to every node. `Err`: the first refusal that is the caller's mistake, which all nodes would find.
pub async fn collect(
    gateway: &Gateway,
    who: &Who,
    uri: &Uri,
    extensions: &Extensions,
) -> Result<Collected, Answered> {
    let target = uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
    let id: Option<RequestId> = extensions.get().cloned();
    let (away, nodes): (Vec<_>, Vec<_>) =
        gateway.nodes.all().into_iter().partition(|node| node.seen().is_away());
    let asking = nodes.into_iter().map(|node| {
        let ask = Ask {
            caller: Some(who.header.clone()),
            patience: PATIENCE,
            most_bytes: LARGEST_PAGE,
            request_id: id.clone(),
            ..Ask::new(Method::GET, target.clone())
        };
        async move {
            let answer = forward::ask(&node, ask).await;
            (node, answer)
        }
    });
    let mut answers = stream::iter(asking).buffer_unordered(AT_ONCE);
    let missing = away.iter().map(|node| name(node)).collect();
    let mut collected = Collected { pages: Vec::new(), missing };
    while let Some((node, answer)) = answers.next().await {
        match answer {
            Ok(answer) if answer.status == StatusCode::OK => collected.pages.push((node, answer)),
            Ok(answer) if answer.status == StatusCode::BAD_REQUEST => return Err(answer),
            Ok(answer) => {
                tracing::warn!(
                    node = node.title(),
                    status = answer.status.as_u16(),
                    "a node refuses its list"
                );
                collected.missing.push(name(&node));
            }
            Err(detail) => {
                tracing::warn!(node = node.title(), detail, "a list goes without a node");
                collected.missing.push(name(&node));
            }
        }
    }
    Ok(collected)
}

/// Keeps what a node may say: entries of its own, and a place that goes on. The name of a node that says anything else is returned, as the
/// list is not whole then.
pub fn checked(
    node: &Node,
    page: Option<Page>,
    prefix: &str,
    wanted: &Wanted,
    pages: &mut Vec<Page>,
) -> Option<String> {
    let Some(mut page) = page else { return Some(name(node)) };
    let said = page.entries.len();
    let number = node.number();
    page.entries.retain(|(place, _)| number.is_some() && NodeNumber::of_id(prefix, &place.id) == number);
    let has_foreign = page.entries.len() < said;
    if has_foreign {
        tracing::warn!(node = node.title(), "a node lists what is not its own");
    }
    let goes_on = page.goes_on(wanted.order, wanted.after.as_ref());
    if goes_on {
        pages.push(page);
    } else {
        tracing::warn!(node = node.title(), "the page of a node does not go on from the last one");
    }
    (has_foreign || !goes_on).then(|| name(node))
}

/// Every node is away: an empty list would be a lie.
pub fn nobody(missing: &[String]) -> Failure {
    let message = format!("no node answers: {}", paddock_server::front::shorten(&missing.join(", ")));
    Failure::new(StatusCode::SERVICE_UNAVAILABLE, "node_unreachable", message)
        .hint("GET /v1/nodes shows what the gateway knows of each.")
}

pub fn name_missing(headers: &mut HeaderMap, missing: &[String]) {
    let mut missing = missing.to_vec();
    missing.sort();
    if let Some(value) = HeaderValue::from_str(&missing.join(", ")).ok().filter(|_| !missing.is_empty()) {
        headers.insert(MISSING, value);
    }
}

pub fn axum_json(body: &Value) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.to_string()).into_response()
}

fn name(node: &Node) -> String {
    node.number().map_or_else(|| node.source.address.to_string(), |number| number.to_string())
}

/// `None`: the answer is no page.
fn page(body: &[u8], field: &str) -> Option<Page> {
    let mut body: Value = serde_json::from_slice(body).ok()?;
    let more_after = match &body["next_cursor"] {
        Value::Null => None,
        cursor => Some(Place::parse(cursor.as_str()?)?),
    };
    let Value::Array(entries) = body.get_mut(field)?.take() else { return None };
    let placed = entries.into_iter().map(|entry| {
        let place =
            Place { created_ms: entry["created_at_ms"].as_u64()?, id: entry["id"].as_str()?.to_string() };
        Some((place, entry))
    });
    Some(Page { entries: placed.collect::<Option<_>>()?, more_after })
}

/// The part of the query that the merging has to know. The nodes have checked it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    pub order: Order,
    pub limit: usize,
    /// Where the last page ended.
    pub after: Option<Place>,
}

impl Wanted {
    fn of(list: List, query: &str) -> Wanted {
        let values = |name: &str| -> Vec<String> {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let found = pairs.filter(|(key, _)| *key == name);
            found.map(|(_, value)| percent_decode_str(value).decode_utf8_lossy().into_owned()).collect()
        };
        let oldest_first = values("order").iter().any(|order| order == "asc");
        let with_ended = values("state").iter().any(|state| state == "ended");
        // Living sandboxes come from memory, newest first with ascending ids; all else comes from the database.
        let from_memory = list == List::Sandboxes && !with_ended;
        let limit = values("limit").first().and_then(|limit| limit.parse().ok()).unwrap_or(DEFAULT_LIMIT);
        Wanted {
            order: Order { oldest_first, smaller_id_first: from_memory != oldest_first },
            limit: limit.clamp(1, LONGEST),
            after: values("cursor").first().and_then(|cursor| Place::parse(cursor)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_query_says_order_and_length() {
        let of = |list, query: &str| {
            let wanted = Wanted::of(list, query);
            (wanted.order.oldest_first, wanted.order.smaller_id_first, wanted.limit)
        };
        assert_eq!(of(List::Sandboxes, ""), (false, true, 100));
        assert_eq!(of(List::Sandboxes, "order=asc&limit=7"), (true, false, 7));
        assert_eq!(of(List::Sandboxes, "state=running&state=ended"), (false, false, 100));
        assert_eq!(of(List::Sandboxes, "state=ended&order=asc"), (true, true, 100));
        assert_eq!(of(List::Snapshots, "limit=9999999"), (false, false, 1000));
    }

    #[test]
    fn what_is_no_page_is_not_taken_for_an_empty_one() {
        let good = br#"{"sandboxes":[{"id":"a","created_at_ms":3,"more":1}]}"#;
        let found = page(good, "sandboxes").expect("a page");
        assert_eq!((found.entries.len(), found.more_after), (1, None));
        for garbage in [
            "",
            "[]",
            "{}",
            r#"{"sandboxes":{}}"#,
            r#"{"sandboxes":[{"id":"a"}]}"#,
            r#"{"sandboxes":[],"next_cursor":"?"}"#,
            r#"{"sandboxes":[{"id":1,"created_at_ms":3}]}"#,
            "<html>",
        ] {
            assert!(page(garbage.as_bytes(), "sandboxes").is_none(), "{garbage}");
        }
    }

    #[test]
    fn a_node_tells_only_of_its_own_and_goes_on() {
        let node = Node::new(crate::nodes::tests::source("http://a:1"));
        node.heard(Ok(crate::nodes::tests::report(3)));
        let place = |created_ms, id: &str| Place { created_ms, id: id.into() };
        let own = || place(5, "sb-0030000000000001");
        let of = |entries: &[Place], more_after: Option<Place>, after: Option<Place>| {
            let wanted = Wanted { after, ..Wanted::of(List::Sandboxes, "") };
            let page = Page {
                entries: entries.iter().map(|place| (place.clone(), Value::Null)).collect(),
                more_after,
            };
            let mut pages = Vec::new();
            let missing = checked(&node, Some(page), "sb-", &wanted, &mut pages);
            (pages.first().map(|page| page.entries.len()), missing.is_some())
        };
        assert_eq!(of(&[own()], Some(own()), Some(place(6, "sb-0030000000000002"))), (Some(1), false));
        assert_eq!(of(&[own(), place(4, "sb-0040000000000001")], None, None), (Some(1), true));
        assert_eq!(of(&[], Some(own()), Some(own())), (None, true), "a cursor that stands still");
        assert_eq!(of(&[], Some(place(7, "x")), Some(own())), (None, true), "one that goes back");
        assert_eq!(of(&[own()], None, Some(own())), (None, true), "an entry of the page before");
        assert_eq!(of(&[own()], Some(place(9, "x")), None), (None, true), "it ends before its own entry");
        assert_eq!(
            checked(&node, None, "sb-", &Wanted::of(List::Sandboxes, ""), &mut Vec::new()),
            Some("3".into())
        );
    }

    #[test]
    fn missing_nodes_are_named() {
        let mut headers = HeaderMap::new();
        name_missing(&mut headers, &[]);
        assert!(headers.is_empty());
        name_missing(&mut headers, &["7".into(), "http://a:1".into(), "12".into()]);
        assert_eq!(headers[MISSING], "12, 7, http://a:1");
    }
}
