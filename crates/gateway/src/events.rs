//! The events of all nodes, as one stream of lines. It is told as it comes; a node that is away is asked again until it is back.

use crate::gateway::Gateway;
use crate::lists;
use crate::node::Node;
use crate::nodes::Nodes;
use crate::who::Who;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use paddock_server::front::{self, App, Failure, RequestId};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Lines that wait for a client that reads slowly. Then the nodes are read no further.
const WAITING: usize = 64;
/// No event is nearly as long.
const LONGEST_LINE: usize = 1 << 20;
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub async fn follow(gateway: &Gateway, app: &App, who: &Who, request: Request) -> Result<Response, Failure> {
    let query = request.uri().query().unwrap_or_default().to_string();
    let asks = Asks {
        target: if query.is_empty() { "/v1/events".into() } else { format!("/v1/events?{query}") },
        caller: who.header.clone(),
        request_id: request.extensions().get().cloned(),
    };
    let nodes = gateway.nodes.all();
    let away: Vec<String> = nodes
        .iter()
        .filter(|node| node.seen().fresh().is_none())
        .map(|node| {
            node.number().map_or_else(|| node.source.address.to_string(), |number| number.to_string())
        })
        .collect();
    if away.len() == nodes.len() {
        return Err(lists::nobody(&away));
    }
    if query.split('&').any(|pair| pair == "follow=false") {
        return Ok([(header::CONTENT_TYPE, HeaderValue::from_static(front::NDJSON))].into_response());
    }
    if !query.is_empty() && query != "follow=true" {
        return Err(Failure::invalid("only the parameter `follow` is known here"));
    }
    let (lines, read) = mpsc::channel::<Bytes>(WAITING);
    let (all, ending) = (gateway.nodes.clone(), app.ending().clone());
    tokio::spawn(async move {
        tokio::select! {
            () = ending.cancelled() => {}
            () = lines.closed() => {}
            () = read_all(all, asks, lines.clone()) => {}
        }
    });
    let body = futures_util::stream::unfold(read, |mut read| async move {
        let line = read.recv().await?;
        Some((Ok::<Bytes, Infallible>(line), read))
    });
    let mut response = Response::new(Body::from_stream(body));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(front::NDJSON));
    lists::name_missing(response.headers_mut(), &away);
    Ok(front::bounded(who.leash.clone(), async { response }).await)
}

#[derive(Clone)]
struct Asks {
    target: String,
    caller: HeaderValue,
    request_id: Option<RequestId>,
}

/// One reader for each node that is there, for as long as it is. Ends with its caller, and all readers with it.
async fn read_all(nodes: Arc<Nodes>, asks: Asks, lines: mpsc::Sender<Bytes>) {
    let mut readers = JoinSet::new();
    let mut by_address: HashMap<String, AbortHandle> = HashMap::new();
    loop {
        while readers.try_join_next().is_some() {}
        by_address.retain(|_, reader| !reader.is_finished());
        let all = nodes.all();
        for node in &all {
            let address = node.source.address.to_string();
            if node.seen().fresh().is_some() && !by_address.contains_key(&address) {
                let (node, asks, lines) = (node.clone(), asks.clone(), lines.clone());
                by_address.insert(address, readers.spawn(async move { read(&node, asks, lines).await }));
            }
        }
        by_address.retain(|address, reader| {
            let listed = all.iter().any(|node| node.source.address.to_string() == *address);
            if !listed {
                reader.abort();
            }
            listed
        });
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn read(node: &Node, asks: Asks, lines: mpsc::Sender<Bytes>) {
    let opened = crate::forward::open(node, &asks.target, &asks.caller, asks.request_id.as_ref()).await;
    let mut body = match opened {
        Ok(response) if response.status() == StatusCode::OK => response.into_body(),
        Ok(response) => {
            tracing::warn!(
                node = node.title(),
                status = response.status().as_u16(),
                "a node tells no events"
            );
            return;
        }
        Err(detail) => return tracing::debug!(node = node.title(), detail, "a node tells no events"),
    };
    let mut rest = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        rest.extend_from_slice(&bytes);
        let Some(whole) = whole_lines(&mut rest) else {
            if rest.len() > LONGEST_LINE {
                return tracing::warn!(node = node.title(), "a node tells an event without an end");
            }
            continue;
        };
        if lines.send(whole).await.is_err() {
            return;
        }
    }
}

/// The part up to the last line's end; the rest waits. So lines of two nodes never mix.
fn whole_lines(rest: &mut BytesMut) -> Option<Bytes> {
    let end = rest.iter().rposition(|byte| *byte == b'\n')?;
    Some(rest.split_to(end + 1).freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_passed_on() {
        let mut rest = BytesMut::from(&b"{\"a\":1}\n{\"b\":2}\n{\"c\""[..]);
        assert_eq!(whole_lines(&mut rest).expect("two lines"), "{\"a\":1}\n{\"b\":2}\n");
        assert_eq!(whole_lines(&mut rest), None);
        rest.extend_from_slice(b":3}\n");
        assert_eq!(whole_lines(&mut rest).expect("a line"), "{\"c\":3}\n");
        assert!(rest.is_empty());
    }
}
