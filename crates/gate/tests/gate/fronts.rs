//! A front that many hosts share: allowed for one name, and asked for another.

use crate::place::{Inside, Said, callers};
use crate::servers::http;
use paddock_model::net::{Denial, NetLayer, NetOutcome, NetRules};
use tokio::net::TcpListener;

fn rules(allow: &[String], deny: &[&str]) -> NetRules {
    let deny = deny.iter().map(|text| text.to_string()).collect();
    let layer = NetLayer { allow: allow.to_vec(), deny, ..NetLayer::default() };
    layer.resolve(&|_| None, &|_| false).unwrap()
}

const TABLE: [(&str, &str); 3] =
    [("front.test", "127.0.0.1"), ("other.test", "127.0.0.1"), ("evil.test", "127.0.0.1")];

/// Sends these bytes to a host and prints all that comes back.
async fn send(inside: &Inside, host: &str, port: u16, sent: &str) -> Said {
    let script = format!(
        "import socket
s = socket.create_connection(('{host}', {port}), 20)
s.settimeout(20)
seen = b''
try:
    s.sendall({sent})
    s.shutdown(socket.SHUT_WR)
    while True:
        piece = s.recv(65536)
        if not piece: break
        seen += piece
except OSError: pass
print(seen)"
    );
    inside.run(&format!("python3 -c \"{script}\"")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_the_clear_is_for_an_allowed_host() {
    let port = http().await.port();
    for caller in callers() {
        let allow = ["front.test", "other.test", "127.0.0.1"].map(|host| format!("{host}:{port}"));
        let mut inside = Inside::start(caller, rules(&allow, &["evil.test"]), &TABLE);
        let url = format!("http://front.test:{port}/a");
        // The controls: its own name, and another that is allowed.
        let said = inside.run(&format!("curl -sS {url}")).await;
        assert_eq!(said.out, format!("hello GET /a front.test:{port} 0\n"), "{said:?}");
        let said = inside.run(&format!("curl -sS -H 'Host: other.test' {url}")).await;
        assert_eq!(said.out, "hello GET /a other.test 0\n", "{said:?}");
        for host in ["evil.test", "EVIL.test.", "unlisted.test", "10.0.0.1"] {
            let said = inside.run(&format!("curl -sS -H 'Host: {host}' {url}")).await;
            let expected = format!("paddock: front.test:{port}: the request is for {host}\n");
            assert_eq!(said.out, expected, "{said:?}");
        }
        let denied = inside.event(|event| matches!(event.outcome, NetOutcome::Denied(_))).await;
        assert_eq!(denied.outcome, NetOutcome::Denied(Denial::HostHeader("evil.test".into())));
        // The second request of a connection, one behind an empty line, one whose URL names another host.
        let request =
            |target: &str, host: &str| format!("GET {target} HTTP/1.1\\r\\nHost: {host}\\r\\n\\r\\n");
        let good = request("/good", "front.test");
        let plain = |head: &str| format!("{head}\\r\\n\\r\\n");
        for (evil, good_passes) in [
            (format!("{good}{}", request("/evil", "evil.test")), true),
            (format!("{good}\\r\\n{}", request("/evil", "evil.test")), true),
            (format!("\\r\\n{}", request("/evil", "evil.test")), false),
            ("GET /evil HTTP/1.1\\nHost: evil.test\\n\\n".to_string(), false),
            (plain("get\\t/evil HTTP/1.1\\r\\nHost: evil.test"), false),
            (plain("GET /evil HTTP/1.1\\r\\nHost: front.test\\r\\nHost: evil.test"), false),
            (
                plain(
                    "POST /x HTTP/1.1\\r\\nHost: front.test\\r\\nContent-Length: 5\\r\\nTransfer-Encoding: chunked",
                ) + &plain("0")
                    + &request("/evil", "evil.test"),
                false,
            ),
        ] {
            let said = send(&inside, "front.test", port, &format!("b'{evil}'")).await;
            assert!(!said.out.contains("hello GET /evil"), "{evil}: {said:?}");
            assert_eq!(said.out.contains("hello GET /good"), good_passes, "{evil}: {said:?}");
        }
        // If the URL names a host, the host that was judged is asked.
        let absolute = request(&format!("http://evil.test:{port}/a"), "front.test");
        let said = send(&inside, "front.test", port, &format!("b'{absolute}'")).await;
        assert!(said.out.contains("hello GET /a front.test 0"), "{said:?}");
        let said = send(&inside, "front.test", port, "b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'").await;
        assert_eq!(said.out, "b''\n", "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_passes_in_the_clear() {
    let port = http().await.port();
    for caller in callers() {
        let allow = ["front.test", "127.0.0.1"].map(|host| format!("{host}:{port}"));
        let inside = Inside::start(caller, rules(&allow, &["evil.test"]), &TABLE);
        let ask = |host: &str| {
            format!(
                "b'GET /ws HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n' + b'ping' * 1000"
            )
        };
        let said = send(&inside, "front.test", port, &ask("front.test")).await;
        assert!(said.out.contains("101 Switching") && said.out.matches("ping").count() == 1000, "{said:?}");
        let said = send(&inside, "front.test", port, &ask("evil.test")).await;
        assert!(!said.out.contains("101") && !said.out.contains("ping"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_for_an_address_does_not_open_a_denied_name() {
    let port = http().await.port();
    let allow = [format!("127.0.0.1:{port}"), format!("192.0.2.7:{port}")];
    for caller in callers() {
        let mut inside = Inside::start(caller, rules(&allow, &["evil.test"]), &TABLE);
        // Loopback is the sandbox's own: the proxy leads to the host's.
        let curl = format!("curl -sS --max-time 30 -p -x http://127.0.0.1:3128 http://127.0.0.1:{port}/a");
        let said = inside.run(&format!("{curl} -H 'Host: any.test'")).await;
        assert_eq!(said.out, "hello GET /a any.test 0\n", "{said:?}");
        let said = inside.run(&format!("{curl} -H 'Host: evil.test'")).await;
        assert!(said.out.contains("the request is for evil.test"), "{said:?}");
        let tls = format!(
            "echo | timeout 20 openssl s_client -proxy 127.0.0.1:3128 -connect 127.0.0.1:{port} -servername"
        );
        inside.run(&format!("{tls} evil.test")).await;
        let denied =
            inside.event(|event| matches!(event.outcome, NetOutcome::Denied(Denial::ServerName(_)))).await;
        assert_eq!(denied.outcome, NetOutcome::Denied(Denial::ServerName("evil.test".into())));
    }
}

/// Some servers skip records before the ClientHello: the name in it would pass unseen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_reaches_a_server_before_the_name_is_judged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut seen = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut client, &mut seen).await;
            let _ = sender.send(seen.len());
        }
    });
    let make = "import ssl
out = ssl.MemoryBIO()
try: ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out, server_hostname='%s').do_handshake()
except ssl.SSLWantReadError: pass
hello = out.read()
print(hello.hex())";
    for caller in callers() {
        let allow = [format!("front.test:{port}"), format!("127.0.0.1:{port}")];
        let inside = Inside::start(caller, rules(&allow, &["evil.test"]), &TABLE);
        let hello = |name: &str| {
            let made = std::process::Command::new("python3")
                .args(["-c", &make.replace("%s", name)])
                .output()
                .unwrap();
            String::from_utf8(made.stdout).unwrap().trim().to_string()
        };
        let (good, evil) = (hello("front.test"), hello("evil.test"));
        let sent = |hex: String| format!("bytes.fromhex('{hex}')");
        send(&inside, "front.test", port, &sent(good.clone())).await;
        assert_eq!(heard.recv().await, Some(good.len() / 2), "the control: an allowed name passes");
        let change = "140303000101";
        for before in ["15030100020100", "1503030002015a", change, "1803030003010000", "1703030001ff"] {
            send(&inside, "front.test", port, &sent(format!("{before}{evil}"))).await;
            assert_eq!(heard.recv().await, Some(0), "{before}");
        }
        // Cut into records of three bytes, it is read all the same; and a second one is read as the first.
        let body: Vec<&str> =
            evil.as_bytes()[10..].chunks(6).map(|part| std::str::from_utf8(part).unwrap()).collect();
        let cut: String = body.iter().map(|part| format!("16030100{:02x}{part}", part.len() / 2)).collect();
        send(&inside, "front.test", port, &sent(cut.clone())).await;
        assert_eq!(heard.recv().await, Some(0), "in pieces");
        for second in [&evil, &cut] {
            send(&inside, "front.test", port, &sent(format!("{good}{change}{second}"))).await;
            let passed = heard.recv().await.unwrap();
            assert!(passed < (good.len() + change.len() + second.len()) / 2, "a second one: {passed}");
        }
    }
}
