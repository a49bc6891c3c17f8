//! Programs that know of no proxy.

use crate::place::{Inside, callers, rules};
use crate::servers::{Https, greeter, http};
use paddock_model::net::{Denial, NetOutcome, Way};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_connection_reaches_the_name_that_was_meant() {
    let web = http().await;
    for caller in callers() {
        let allow = [format!("web.test:{}", web.port()), format!("127.0.0.1:{}", web.port())];
        let mut inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        for version in ["-4", "-6"] {
            let said = inside.run(&format!("curl -sS {version} http://web.test:{}/a", web.port())).await;
            assert_eq!(said.out, format!("hello GET /a web.test:{} 0\n", web.port()), "{said:?}");
        }
        // A second request on the same connection comes too, and so does a long answer.
        let url = format!("http://web.test:{}/zeros/20000000", web.port());
        let said = inside.run(&format!("curl -sS {url} {url} | wc -c")).await;
        assert_eq!(said.out.trim(), "40000000", "{said:?}");
        let said = inside
            .run(&format!(
                "head -c 9000000 /dev/zero | curl -sS --data-binary @- http://web.test:{}/up",
                web.port()
            ))
            .await;
        assert_eq!(said.out, format!("hello POST /up web.test:{} 9000000\n", web.port()), "{said:?}");
        let allowed = inside.event(|event| event.way == Way::Connect).await;
        assert!(matches!(allowed.outcome, NetOutcome::Allowed(_)), "{allowed:?}");
        assert_eq!(allowed.target(), format!("web.test:{}", web.port()));
        assert_eq!(allowed.address, Some("127.0.0.1".parse().unwrap()));
        let closed = inside
            .event(|event| matches!(event.outcome, NetOutcome::Closed { received, .. } if received >= 40_000_000))
            .await;
        assert_eq!(closed.target(), format!("web.test:{}", web.port()));
        assert_eq!(inside.gate().connections(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_answers_first_is_heard_and_both_ends_close_alone() {
    let server = greeter().await;
    for caller in callers() {
        let allow = [format!("mail.test:{}", server.port()), format!("127.0.0.1:{}", server.port())];
        let inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("mail.test", "127.0.0.1")]);
        let script = format!(
            "import socket
s = socket.create_connection(('mail.test', {}))
print(s.recv(100).decode().strip())
s.sendall(b'x' * 300000)
s.shutdown(socket.SHUT_WR)
count = 0
while True:
    piece = s.recv(65536)
    if not piece: break
    count += len(piece)
print(count)",
            server.port()
        );
        let said = inside.run(&format!("python3 -c \"{script}\"")).await;
        assert_eq!(said.out, "220 welcome\n300000\n", "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_goes_through_unopened_and_only_for_an_allowed_name() {
    let server = Https::start().await;
    let port = server.address.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let mut inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        let said = inside.run(&format!("curl -sS -k https://web.test:{port}/ | head -c 40")).await;
        assert!(said.out.contains("HTML"), "{said:?}");
        // The address of an allowed name, and the name of another: the trick that a shared front makes possible.
        let line =
            format!("echo | timeout 10 openssl s_client -connect web.test:{port} -servername evil.test 2>&1");
        let said = inside.run(&line).await;
        assert!(!said.out.contains("BEGIN CERTIFICATE"), "{said:?}");
        let denied = inside.event(|event| matches!(event.outcome, NetOutcome::Denied(_))).await;
        assert_eq!(denied.outcome, NetOutcome::Denied(Denial::ServerName("evil.test".into())));
        assert_eq!(denied.advice().unwrap(), format!("to allow it: --allow-net evil.test:{port}"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_not_there_refuses_at_once() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let mut inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        let said = inside.run(&format!("curl -sS -4 --max-time 20 http://web.test:{port}/")).await;
        assert_eq!(said.code, 7, "{said:?}");
        let event = inside.event(|event| event.way == Way::Connect).await;
        assert_eq!(event.outcome, NetOutcome::Denied(Denial::Unreachable));
    }
}
