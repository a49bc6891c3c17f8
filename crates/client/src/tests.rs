//! Against a server of a few lines that gives the answers that the real one gives, and then misbehaves.

use crate::*;
use paddock_model::api::{OutputEvent, StreamName};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex as AsyncMutex;

/// Answers one request per connection, in the given order, and keeps the requests.
struct Canned {
    _directory: TempDir,
    path: PathBuf,
    asked: Arc<AsyncMutex<Vec<String>>>,
}

impl Canned {
    fn serve(answers: &[&str]) -> Canned {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let asked = Arc::new(AsyncMutex::new(Vec::new()));
        let (kept, answers) = (asked.clone(), answers.iter().map(|a| a.to_string()).collect::<Vec<_>>());
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                kept.lock().await.push(request(&mut stream).await);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Canned { _directory: directory, path, asked }
    }

    fn client(&self) -> Client {
        Client::new(Address::Unix(self.path.clone()), Some(b"secret")).unwrap()
    }
}

/// The head, and the body where one is announced.
async fn request(stream: &mut UnixStream) -> String {
    let mut text = String::new();
    loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.unwrap();
        text.push_str(std::str::from_utf8(&buffer[..count]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if count == 0 || body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            return text;
        }
    }
}

fn json(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test]
async fn a_refusal_is_an_error_in_the_servers_words() {
    let body = r#"{"code":"sandbox_not_found","message":"there is no sandbox `x`","request_id":"r1"}"#;
    let server = Canned::serve(&[&json("404 Not Found", body), &json("502 Bad Gateway", "<html>")]);
    let client = server.client();
    let error = client.sandbox("x/../y").await.unwrap_err();
    assert_eq!(error.to_string(), "there is no sandbox `x`");
    assert_eq!(error.code(), Some("sandbox_not_found"));
    assert!(error.hint().unwrap().contains("paddock ps -a") && !error.is_passing());
    let error = client.sandbox("x").await.unwrap_err();
    assert!(matches!(error, ClientError::NotPaddock { status: 502 }), "{error}");
    let asked = server.asked.lock().await;
    assert!(
        asked[0].starts_with("GET /v1/sandboxes/x%2F..%2Fy HTTP/1.1\r\nhost: localhost\r\n"),
        "{}",
        asked[0]
    );
    assert!(asked[0].contains("authorization: Bearer secret\r\n"), "{}", asked[0]);
}

#[tokio::test]
async fn all_pages_of_a_list_are_read() {
    let first = json("200 OK", r#"{"sandboxes":[],"next_cursor":"a b"}"#);
    let server = Canned::serve(&[&first, &json("200 OK", r#"{"sandboxes":[]}"#)]);
    let filter = Filter { metadata: vec![("k".into(), "v&w".into())], ..Filter::default() };
    assert!(server.client().sandboxes(&filter).await.unwrap().is_empty());
    let asked = server.asked.lock().await;
    assert!(
        asked[1].starts_with("GET /v1/sandboxes?limit=200&metadata=k%3Dv%26w&cursor=a%20b "),
        "{}",
        asked[1]
    );
}

#[tokio::test]
async fn a_start_whose_answer_is_lost_is_asked_for_again_with_the_same_key() {
    let exec = r#"{"exec":7,"sandbox":"s","state":"running","command":"true","started_at_ms":1,"timed_out":false,
        "stdout":"","stderr":"","stdout_bytes":0,"stderr_bytes":0,"stdout_missing_bytes":0,"stderr_missing_bytes":0}"#;
    let server = Canned::serve(&["", &json("201 Created", exec)]);
    let started = server.client().start_exec("s", &Default::default()).await.unwrap();
    assert_eq!(started.exec, 7);
    let asked = server.asked.lock().await;
    let key =
        |text: &str| text.lines().find(|line| line.starts_with("idempotency-key: ")).map(str::to_string);
    assert!(key(&asked[0]).is_some() && key(&asked[0]) == key(&asked[1]), "{asked:?}");
}

#[tokio::test]
async fn lines_come_whole_and_half_a_line_is_a_lost_connection() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\nconnection: close\r\n\r\n";
    let output = r#"{"type":"output","stream":"stdout","offset":3,"data":"aGk="}"#;
    let server = Canned::serve(&[&format!("{head}{{\"type\":\"alive\"}}\n\n{output}\n{{\"type\":\"al")]);
    let mut lines =
        server.client().send(Call::get(Target::exec("s", 1).part("output"))).await.unwrap().lines();
    assert_eq!(lines.next::<OutputEvent>().await.unwrap(), Some(OutputEvent::Alive));
    let expected = OutputEvent::Output { stream: StreamName::Stdout, offset: 3, data: "aGk=".into() };
    assert_eq!(lines.next_lively::<OutputEvent>().await.unwrap(), Some(expected));
    assert!(matches!(lines.next::<OutputEvent>().await, Err(ClientError::Lost(_))));
}

#[tokio::test]
async fn nobody_at_the_address_is_said_with_the_address() {
    let client = Client::new(Address::Unix("/nonexistent/api.sock".into()), None).unwrap();
    let error = client.sandbox("x").await.unwrap_err();
    assert_eq!(error.to_string(), "no server listens at unix:/nonexistent/api.sock");
    assert!(error.is_passing() && error.hint().unwrap().contains("paddock serve"));
}
