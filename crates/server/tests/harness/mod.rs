//! A server in this process, on port 0 and on a socket of its own, over a real fleet.

#![allow(dead_code, reason = "each test file uses its part")]

use paddock_fleet::{Actor, Fleet, FleetOptions, ListFilter};
use paddock_jobs::{Jobs, JobsOptions};
use paddock_server::{Ended, Listener, Options, run};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;

/// Ends with everything in it when it is dropped, also when its test fails.
pub struct Server {
    pub address: SocketAddr,
    pub socket: PathBuf,
    pub ended: oneshot::Receiver<Ended>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    _state: tempfile::TempDir,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().expect("an ApiError").to_string()
    }

    pub fn header(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_string())
        })
    }
}

impl Server {
    pub async fn start(options: Options) -> Server {
        Server::start_with(options, false).await
    }

    /// `public_ports`: callers may open ports to everybody.
    pub async fn start_with(options: Options, public_ports: bool) -> Server {
        let state = tempfile::tempdir().expect("a directory");
        let socket = state.path().join("run/api.sock");
        let (stop, stopped) = oneshot::channel::<()>();
        let (listening, address) = oneshot::channel();
        let (ending, ended) = oneshot::channel();
        let place = (state.path().join("state"), socket.clone());
        // A runtime of its own: a test that fails takes its own runtime down, and this one still cleans up.
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let fleet = FleetOptions { queue: 16, public_ports, ..FleetOptions::new(place.0) };
                let fleet = Fleet::open(fleet).await.expect("a fleet");
                let tcp = Listener::tcp("127.0.0.1:0".parse().expect("an address")).await.expect("listens");
                let unix = Listener::unix(&place.1).await.expect("listens");
                listening.send(tcp.tcp_address().expect("an address")).expect("somebody waits");
                let inside = fleet.clone();
                let shutdown = async move {
                    let _ = stopped.await;
                    end_all(inside).await;
                };
                let jobs = Jobs::open(fleet.clone(), JobsOptions::default()).await.expect("the jobs");
                let _ = ending.send(run(vec![tcp, unix], fleet, jobs, options, shutdown).await);
            });
        });
        let address = address.await.expect("it listens");
        Server { address, socket, ended, stop: Some(stop), thread: Some(thread), _state: state }
    }

    /// Over the owner's socket.
    pub async fn ask(&self, method: &str, target: &str, body: Option<&str>) -> Answer {
        let request = format(method, target, "Host: paddock\r\n", body);
        exchange(UnixStream::connect(&self.socket).await.expect("connects"), request.as_bytes()).await
    }

    /// Over TCP, with headers of the test's own.
    pub async fn ask_tcp(&self, method: &str, target: &str, headers: &str, body: Option<&str>) -> Answer {
        let headers = match headers.to_ascii_lowercase().contains("host:") {
            true => headers.to_string(),
            false => format!("Host: {}\r\n{headers}", self.address),
        };
        self.raw(format(method, target, &headers, body).as_bytes()).await
    }

    /// Exactly these bytes over TCP, and all that comes back.
    pub async fn raw(&self, bytes: &[u8]) -> Answer {
        exchange(TcpStream::connect(self.address).await.expect("connects"), bytes).await
    }

    pub fn stop(&mut self) {
        self.stop.take().expect("not stopped yet").send(()).expect("it runs");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn end_all(fleet: Fleet) {
    let owner = Actor::owner();
    let all = fleet.list(&owner, &ListFilter { limit: 1000, ..ListFilter::default() }).await.expect("a list");
    for sandbox in all.sandboxes {
        let _ = fleet.kill(&owner, &sandbox.id).await;
    }
}

fn format(method: &str, target: &str, headers: &str, body: Option<&str>) -> String {
    let (kind, body) = match body {
        Some(body) => (format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()), body),
        None => (String::new(), ""),
    };
    format!("{method} {target} HTTP/1.1\r\nConnection: close\r\n{headers}{kind}\r\n{body}")
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, bytes: &[u8]) -> Answer {
    // A server that has heard enough closes while we still write.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("an answer in time");
    parse(&answer)
}

pub fn parse(answer: &[u8]) -> Answer {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Answer { status: 0, head: String::from_utf8_lossy(answer).into_owned(), body: Vec::new() };
    };
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let mut parsed = Answer { status, head, body: answer[end + 4..].to_vec() };
    if parsed.header("transfer-encoding").is_some_and(|encoding| encoding == "chunked") {
        parsed.body = unchunk(&parsed.body);
    }
    parsed
}

fn unchunk(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).expect("a size");
        if size == 0 {
            return whole;
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    panic!("the answer was broken off");
}
