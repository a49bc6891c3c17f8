//! A node that says what a test tells it to say.

use crate::node::Node;
use crate::nodes::tests::{report, source};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The conduct of a node with one request.
#[derive(Debug, Clone, Copy)]
pub enum Say {
    Answer(u16, &'static str),
    /// It closes the connection.
    Close,
    /// It keeps the connection, as a stopped process does.
    Nothing,
}

pub struct FakeNode {
    pub node: Arc<Node>,
    asked: Arc<AtomicUsize>,
}

impl FakeNode {
    /// The last word is repeated.
    pub async fn start(number: u16, says: &'static [Say]) -> FakeNode {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let counted = counted.clone();
                tokio::spawn(async move { answer(stream, says, &counted).await });
            }
        });
        let node = Arc::new(Node::new(source(&format!("http://{address}"))));
        node.heard(Ok(report(number)));
        FakeNode { node, asked }
    }

    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

async fn answer(mut stream: TcpStream, says: &[Say], asked: &AtomicUsize) {
    let mut request = Vec::new();
    while !is_whole(&request) {
        if !matches!(stream.read_buf(&mut request).await, Ok(1..)) {
            return;
        }
    }
    let turn = asked.fetch_add(1, Ordering::SeqCst).min(says.len().saturating_sub(1));
    match says.get(turn) {
        Some(Say::Answer(status, body)) => {
            let length = body.len();
            let text = format!(
                "HTTP/1.1 {status} Said\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(text.as_bytes()).await;
        }
        Some(Say::Nothing) => std::future::pending().await,
        Some(Say::Close) | None => {}
    }
}

/// A connection that is closed with bytes unread is reset, and its answer may be lost.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// A node at which nobody listens.
pub async fn dead(number: u16) -> Arc<Node> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let node = Arc::new(Node::new(source(&format!("http://{address}"))));
    node.heard(Ok(report(number)));
    node
}
