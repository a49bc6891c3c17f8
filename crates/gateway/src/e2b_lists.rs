//! The lists of E2B's clients: their entries are their own, and the next page is named in a header.

use crate::forward::{self, Answered, Ask};
use crate::gateway::Gateway;
use crate::lists::{self, Collected, Wanted};
use crate::merge::{self, Order, Page, Place};
use crate::resolve::Kind;
use crate::who::Who;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use paddock_model::NodeNumber;
use paddock_server::front::{self, Failure};
use serde_json::Value;

const NEXT: HeaderName = HeaderName::from_static("x-next-token");
const DEFAULT_LIMIT: usize = 100;

pub async fn sandboxes(gateway: &Gateway, who: &Who, request: Request) -> Result<Response, Failure> {
    let Collected { pages: answers, mut missing } =
        match lists::collect(gateway, who, request.uri(), request.extensions()).await {
            Ok(collected) => collected,
            Err(refused) => return Ok(refused.into_response()),
        };
    let query = request.uri().query().unwrap_or_default();
    let oldest_first = value(query, "order") == Some("asc");
    let limit = value(query, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(DEFAULT_LIMIT);
    let wanted = Wanted {
        order: Order { oldest_first, smaller_id_first: !oldest_first },
        limit,
        after: value(query, "nextToken").and_then(Place::parse),
    };
    let mut pages = Vec::new();
    for (node, answer) in answers {
        let page = page(&answer.body, &answer.headers);
        missing.extend(lists::checked(&node, page, Kind::Sandbox.prefix(), &wanted, &mut pages));
    }
    if pages.is_empty() {
        return Err(lists::nobody(&missing));
    }
    let (entries, next) = merge::merge(pages, wanted.order, wanted.limit);
    let mut response = lists::axum_json(&Value::Array(entries));
    name_next(response.headers_mut(), next.map(|place| place.text()));
    lists::name_missing(response.headers_mut(), &missing);
    Ok(response)
}

/// Snapshots tell no time here, so that those of one node come after those of another. The token names the node and its own token.
pub async fn snapshots(gateway: &Gateway, who: &Who, request: Request) -> Result<Response, Failure> {
    let query = request.uri().query().unwrap_or_default();
    let (from, inner) = match value(query, "nextToken") {
        None => (0, None),
        Some(token) => {
            let (node, inner) = token.split_once('.').unwrap_or((token, ""));
            let node = node
                .parse::<u16>()
                .map_err(|_| Failure::invalid("nextToken is not one of this gateway's"))?;
            (node, Some(inner.to_string()).filter(|inner| !inner.is_empty()))
        }
    };
    let all = gateway.nodes.all();
    let unheard = all.iter().filter(|node| node.number().is_none()).map(|node| node.title());
    let mut missing: Vec<String> = unheard.collect();
    let mut nodes: Vec<_> = all.into_iter().filter_map(|node| Some((node.number()?.get(), node))).collect();
    nodes.sort_by_key(|(number, _)| *number);
    let left: Vec<_> = nodes.into_iter().filter(|(number, _)| *number >= from).collect();
    let numbers: Vec<u16> = left.iter().map(|(number, _)| *number).collect();
    let asking = left.into_iter().map(|(number, node)| {
        let inner = inner.clone().filter(|_| number == from);
        let ask = Ask {
            caller: Some(who.header.clone()),
            most_bytes: 4 << 20,
            ..Ask::new(Method::GET, format!("/snapshots{}", with_token(query, inner.as_deref())))
        };
        async move {
            if node.seen().is_away() {
                return (number, inner, None);
            }
            (number, inner, forward::ask(&node, ask).await.ok())
        }
    });
    // All at the same time, so that nodes which do not answer take five seconds together; the first that has any is the page.
    let mut answers = std::pin::pin!(stream::iter(asking).buffered(lists::AT_ONCE));
    let unheard = missing.len();
    while let Some((number, inner, answer)) = answers.next().await {
        let following = numbers.iter().find(|other| **other > number);
        match answer {
            Some(answer) if answer.status == StatusCode::BAD_REQUEST => return Ok(answer.into_response()),
            Some(answer) if answer.status == StatusCode::OK && is_own(&answer, number, inner.as_deref()) => {
                let more = next_of(&answer.headers).map(str::to_string);
                let is_empty = answer.body.trim_ascii() == b"[]";
                if is_empty && more.is_none() && following.is_some() {
                    continue;
                }
                let next = match (more, following) {
                    (Some(more), _) => Some(format!("{number}.{more}")),
                    (None, Some(following)) => Some(format!("{following}.")),
                    (None, None) => None,
                };
                let mut response = answer.into_response();
                response.headers_mut().remove(NEXT);
                name_next(response.headers_mut(), next);
                lists::name_missing(response.headers_mut(), &missing);
                return Ok(response);
            }
            _ => missing.push(number.to_string()),
        }
    }
    if from == 0 && missing.len() - unheard == numbers.len() {
        return Err(lists::nobody(&missing));
    }
    let mut response = lists::axum_json(&Value::Array(Vec::new()));
    lists::name_missing(response.headers_mut(), &missing);
    Ok(response)
}

fn next_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(NEXT).and_then(|next| next.to_str().ok())
}

/// False for a page with snapshots of another node, or with an end that is not behind that of the last page.
fn is_own(answer: &Answered, number: u16, after: Option<&str>) -> bool {
    let Ok(Value::Array(entries)) = serde_json::from_slice(&answer.body) else { return false };
    let of = |entry: &Value| NodeNumber::of_id(Kind::Snapshot.prefix(), entry["snapshotID"].as_str()?);
    let is_own = entries.iter().all(|entry| of(entry).map(NodeNumber::get) == Some(number));
    // Newest first.
    let created = |token: &str| Place::parse(token).map(|place| place.created_ms);
    let goes_on = match (next_of(&answer.headers), after) {
        (None, _) | (Some(_), None) => true,
        (Some(next), Some(after)) => {
            next != after
                && created(next).is_some_and(|next| created(after).is_some_and(|after| next <= after))
        }
    };
    is_own && goes_on
}

/// The query with the node's own token in the place of the gateway's.
fn with_token(query: &str, token: Option<&str>) -> String {
    let kept =
        query.split('&').filter(|pair| !pair.is_empty() && pair.split('=').next() != Some("nextToken"));
    let token = token.map(|token| format!("nextToken={token}"));
    let pairs: Vec<String> = kept.map(str::to_string).chain(token).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

fn value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| *key == name)
        .map(|(_, value)| value)
}

fn name_next(headers: &mut HeaderMap, next: Option<String>) {
    if let Some(value) = next.and_then(|next| HeaderValue::from_str(&next).ok()) {
        headers.insert(NEXT, value);
    }
}

fn page(body: &[u8], headers: &HeaderMap) -> Option<Page> {
    let Ok(Value::Array(entries)) = serde_json::from_slice(body) else { return None };
    let more_after = match headers.get(NEXT) {
        None => None,
        Some(next) => Some(Place::parse(next.to_str().ok()?)?),
    };
    let placed = entries.into_iter().map(|entry| {
        let started = front::parse_e2b_time(entry["startedAt"].as_str()?)?;
        let place =
            Place { created_ms: u64::try_from(started).ok()?, id: entry["sandboxID"].as_str()?.to_string() };
        Some((place, entry))
    });
    Some(Page { entries: placed.collect::<Option<_>>()?, more_after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_stands_where_it_began() {
        let mut headers = HeaderMap::new();
        let next = Place { created_ms: 5, id: "sb-1".into() };
        name_next(&mut headers, Some(next.text()));
        let body = br#"[{"sandboxID":"sb-1","startedAt":"1970-01-01T00:00:00.005Z"}]"#;
        let found = page(body, &headers).expect("a page");
        assert_eq!((found.entries[0].0.clone(), found.more_after), (next.clone(), Some(next)));
        for garbage in ["", "{}", "[1]", r#"[{"sandboxID":"a","startedAt":"soon"}]"#] {
            assert!(page(garbage.as_bytes(), &HeaderMap::new()).is_none(), "{garbage}");
        }
    }

    #[test]
    fn a_node_gets_its_own_token() {
        assert_eq!(with_token("limit=3&nextToken=7.abc", Some("abc")), "?limit=3&nextToken=abc");
        assert_eq!(with_token("nextToken=7.abc", None), "");
        assert_eq!(value("a=1&nextToken=7.x%3D", "nextToken"), Some("7.x%3D"));
    }

    #[test]
    fn a_node_shows_its_own_snapshots_and_goes_on() {
        let token = |created_ms| Place { created_ms, id: "sn-0030000000000001".into() }.text();
        let answer = |id: &str, next: Option<String>| {
            let mut headers = HeaderMap::new();
            name_next(&mut headers, next);
            let body = format!(r#"[{{"snapshotID":"{id}"}}]"#).into();
            Answered { status: StatusCode::OK, headers, body }
        };
        let own = "sn-0030000000000001";
        assert!(is_own(&answer(own, None), 3, None));
        assert!(is_own(&answer(own, Some(token(4))), 3, Some(&token(5))));
        assert!(!is_own(&answer("sn-0040000000000001", None), 3, None));
        for wrong in [token(5), token(6), "x".into()] {
            assert!(!is_own(&answer(own, Some(wrong)), 3, Some(&token(5))));
        }
    }
}
