//! How much, how many, how fast; and rules that change while connections are open.

use crate::place::{Inside, callers, rules};
use crate::servers::{greeter, http};
use paddock_model::net::{Denial, NetOutcome, NetRules};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_end_and_nothing_more_leaves() {
    let web = http().await;
    let port = web.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let limited = NetRules { bytes: Some(1_000_000), ..rules(&[&allow[0], &allow[1]]) };
        let mut inside = Inside::start(caller, limited, &[("web.test", "127.0.0.1")]);
        let said = inside.run(&format!("curl -sS http://web.test:{port}/zeros/5000000 | wc -c")).await;
        let count: u64 = said.out.trim().parse().unwrap();
        assert!(count < 1_300_000, "{said:?}");
        let said = inside.run_with_proxy(&format!("curl -sS http://web.test:{port}/a")).await;
        assert!(said.out.contains("the limit of bytes is reached"), "{said:?}");
        let cut = inside.event(|event| matches!(event.outcome, NetOutcome::Closed { .. })).await;
        assert!(matches!(cut.outcome, NetOutcome::Closed { why: Some(Denial::Bytes), .. }), "{cut:?}");
        assert!(inside.gate().moved().received >= 1_000_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_slows_all_connections_together() {
    let web = http().await;
    let port = web.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let limited = NetRules { rate: Some(1_000_000), ..rules(&[&allow[0], &allow[1]]) };
        let inside = Inside::start(caller, limited, &[("web.test", "127.0.0.1")]);
        let start = Instant::now();
        let url = format!("http://web.test:{port}/zeros/500000");
        let said = inside
            .run(&format!(
                "curl -sS {url} | wc -c & curl -sS -x socks5h://127.0.0.1:3128 {url} | wc -c; wait"
            ))
            .await;
        assert_eq!(said.out.matches("500000").count(), 2, "{said:?}");
        // Never faster than the rate; how much slower depends on the host.
        assert!(start.elapsed() > Duration::from_millis(600), "{:?}", start.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_rules_cuts_what_it_forbids() {
    let server = greeter().await;
    let port = server.port();
    for caller in callers() {
        let address = format!("127.0.0.1:{port}");
        let both = rules(&[&format!("a.test:{port}"), &format!("b.test:{port}"), &address]);
        let mut inside = Inside::start(caller, both, &[("a.test", "127.0.0.1"), ("b.test", "127.0.0.1")]);
        let script = format!(
            "import socket
a = socket.create_connection(('a.test', {port}))
b = socket.create_connection(('b.test', {port}))
a.recv(100); b.recv(100)
try:
    b.sendall(b'x')
    b.recv(1)
    print('b', b.recv(10))
except ConnectionResetError:
    print('b was cut')
a.sendall(b'still here')
print(a.recv(100).decode())"
        );
        let line = format!("python3 -c \"{script}\"");
        let gate = inside.gate.take().unwrap();
        let only_a = rules(&[&format!("a.test:{port}"), &address]);
        let change = async {
            while gate.connections() < 2 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            // Both servers have greeted, and the program has read the greetings, when its answers have come back.
            while gate.moved().received < 25 {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            gate.update(only_a);
        };
        let (said, ()) = tokio::join!(inside.run(&line), change);
        assert_eq!(said.out, "b was cut\nstill here\n", "{said:?}");
        let cut = inside
            .event(|event| matches!(event.outcome, NetOutcome::Closed { why: Some(Denial::Changed), .. }))
            .await;
        assert_eq!(cut.target(), format!("b.test:{port}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_an_end_to_connections_and_they_come_back() {
    let server = greeter().await;
    let port = server.port();
    for caller in callers() {
        let allow = [format!("a.test:{port}"), format!("127.0.0.1:{port}")];
        let inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("a.test", "127.0.0.1")]);
        let script = format!(
            "import socket, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)) if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4096 else None
address = socket.gethostbyname('a.test')
held = []
refused = 0
for i in range(1100):
    try:
        held.append(socket.create_connection((address, {port}), 30))
    except OSError:
        refused += 1
print(len(held), refused)
for s in held: s.close()
for i in range(200):
    try:
        s = socket.create_connection((address, {port}), 30)
        print(s.recv(100).decode().strip())
        break
    except OSError:
        import time; time.sleep(0.02)"
        );
        let said = inside.run(&format!("python3 -c \"{script}\"")).await;
        assert_eq!(said.out, "1024 76\n220 welcome\n", "{said:?}");
    }
}
