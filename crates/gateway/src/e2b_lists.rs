//! The lists of E2B's clients: their entries are their own, and the next page is named in a header.

use crate::forward::{self, Ask};
use crate::gateway::Gateway;
use crate::lists::{self, Collected};
use crate::merge::{self, Order, Page, Place};
use crate::who::Who;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
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
    let mut pages = Vec::new();
    for (node, answer) in answers {
        match page(&answer.body, &answer.headers) {
            Some(page) => pages.push(page),
            None => missing.push(node.title()),
        }
    }
    if pages.is_empty() {
        return Err(lists::nobody(&missing));
    }
    let oldest_first = value(query, "order") == Some("asc");
    let order = Order { oldest_first, smaller_id_first: !oldest_first };
    let limit = value(query, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(DEFAULT_LIMIT);
    let (entries, next) = merge::merge(pages, order, limit);
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
    let mut nodes: Vec<_> =
        gateway.nodes.all().into_iter().filter_map(|node| Some((node.number()?.get(), node))).collect();
    nodes.sort_by_key(|(number, _)| *number);
    let mut missing = Vec::new();
    let mut left = nodes.into_iter().filter(|(number, _)| *number >= from).peekable();
    while let Some((number, node)) = left.next() {
        let inner = inner.as_deref().filter(|_| number == from);
        let ask = Ask {
            caller: Some(who.header.clone()),
            most_bytes: 4 << 20,
            ..Ask::new(Method::GET, format!("/snapshots{}", with_token(query, inner)))
        };
        match forward::ask(&node, ask).await {
            Ok(answer) if answer.status == StatusCode::BAD_REQUEST => return Ok(answer.into_response()),
            Ok(answer) if answer.status == StatusCode::OK => {
                let more = answer.headers.get(NEXT).and_then(|next| next.to_str().ok()).map(str::to_string);
                let is_empty = answer.body.trim_ascii() == b"[]";
                if is_empty && more.is_none() && left.peek().is_some() {
                    continue;
                }
                let next = match (more, left.peek()) {
                    (Some(more), _) => Some(format!("{number}.{more}")),
                    (None, Some((following, _))) => Some(format!("{following}.")),
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
    let mut response = lists::axum_json(&Value::Array(Vec::new()));
    lists::name_missing(response.headers_mut(), &missing);
    Ok(response)
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
}
