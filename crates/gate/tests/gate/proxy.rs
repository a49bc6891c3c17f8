//! Programs that use the proxy: whole URLs, CONNECT and SOCKS.

use crate::place::{Inside, callers, rules};
use crate::servers::{Https, http};
use paddock_model::net::{NetLayer, NetOutcome, Way};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_leads_to_an_allowed_name_and_to_no_other() {
    let web = http().await;
    let port = web.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let table = [("web.test", "127.0.0.1"), ("evil.test", "127.0.0.1")];
        let mut inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &table);
        for (options, way) in [
            ("-x http://127.0.0.1:3128", Way::Http),
            ("-p -x http://127.0.0.1:3128", Way::Tunnel),
            ("-x socks5h://127.0.0.1:3128", Way::Socks),
        ] {
            let said = inside.run(&format!("curl -sS {options} http://web.test:{port}/a")).await;
            assert_eq!(said.out, format!("hello GET /a web.test:{port} 0\n"), "{options}: {said:?}");
            let allowed = inside.event(|event| event.way == way).await;
            assert!(matches!(allowed.outcome, NetOutcome::Allowed(_)), "{allowed:?}");
            let said = inside.run(&format!("curl -sS -f {options} http://evil.test:{port}/a")).await;
            assert_ne!(said.code, 0, "{options}: {said:?}");
            let denied = inside
                .event(|event| event.way == way && matches!(event.outcome, NetOutcome::Denied(_)))
                .await;
            assert_eq!(denied.target(), format!("evil.test:{port}"));
        }
        let said = inside.run_with_proxy(&format!("curl -sS http://evil.test:{port}/a")).await;
        let expected = format!(
            "paddock: evil.test:{port}: no rule allows it; to allow it: --allow-net evil.test:{port}\n"
        );
        assert_eq!(said.out, expected, "{said:?}");
        // A program that resolves by itself sends the address that stands for the name.
        let said = inside.run(&format!("curl -sS -x socks5://127.0.0.1:3128 http://web.test:{port}/b")).await;
        assert_eq!(said.out, format!("hello GET /b web.test:{port} 0\n"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_requests_on_one_connection_are_each_judged() {
    let web = http().await;
    let port = web.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        let script = format!(
            "import socket
s = socket.create_connection(('127.0.0.1', 3128))
one = 'GET http://%s:{port}/x HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n'
s.sendall((one % 'web.test' + one % 'web.test' + one % 'evil.test' + one % 'web.test').encode())
seen = b''
while True:
    piece = s.recv(65536)
    if not piece: break
    seen += piece
print([line.split(b'\\r')[0].decode() for line in seen.split(b'HTTP/1.1 ')[1:]])
print(seen.count(b'hello GET /x web.test:{port} 0'), seen.count(b'no rule allows it'))"
        );
        let said = inside.run(&format!("python3 -c \"{script}\"")).await;
        assert_eq!(said.out, "['200 OK', '200 OK', '403 Forbidden']\n2 1\n", "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_through_the_proxy_is_for_an_allowed_name_only() {
    let server = Https::start().await;
    let port = server.address.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        let said = inside.run_with_proxy(&format!("curl -sS -k https://web.test:{port}/ | head -c 40")).await;
        assert!(said.out.contains("HTML"), "{said:?}");
        let said = inside.run_with_proxy(&format!("curl -sS -k https://evil.test:{port}/")).await;
        assert!(said.code != 0 && said.err.contains("403"), "{said:?}");
        let line = format!(
            "echo | timeout 10 openssl s_client -proxy 127.0.0.1:3128 -connect web.test:{port} -servername evil.test 2>&1"
        );
        let said = inside.run(&line).await;
        assert!(!said.out.contains("BEGIN CERTIFICATE"), "{said:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn methods_hold_on_every_way_and_for_every_request() {
    let web = http().await;
    let port = web.port();
    let layer = NetLayer {
        allow: vec![format!("web.test:{port}"), format!("127.0.0.1:{port}")],
        methods: vec!["GET".into()],
        ..NetLayer::default()
    };
    let rules = layer.resolve(&|_| None, &|_| false).unwrap();
    for caller in callers() {
        let inside = Inside::start(caller, rules.clone(), &[("web.test", "127.0.0.1")]);
        for options in
            ["", "-x http://127.0.0.1:3128", "-p -x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"]
        {
            let url = format!("http://web.test:{port}/a");
            let said = inside.run(&format!("curl -sS {options} {url}")).await;
            assert_eq!(said.out, format!("hello GET /a web.test:{port} 0\n"), "{options}: {said:?}");
            let said = inside.run(&format!("curl -sS {options} -d x=1 {url}")).await;
            assert_eq!(
                said.out,
                format!("paddock: web.test:{port}: method POST is not allowed\n"),
                "{options}: {said:?}"
            );
            let said =
                inside.run(&format!("curl -sS {options} {url} --next -sS {options} -d x=1 {url}")).await;
            assert!(
                said.out.starts_with("hello GET") && said.out.ends_with("not allowed\n"),
                "{options}: {said:?}"
            );
        }
        // Bytes that are no HTTP cannot be read, and do not pass.
        let said = inside.run(&format!("curl -sS -k --max-time 20 https://web.test:{port}/a")).await;
        assert_ne!(said.code, 0, "{said:?}");
        let said = inside.run(&format!("curl -sS -H 'Host: evil.test' http://web.test:{port}/a")).await;
        assert_eq!(said.out, format!("paddock: web.test:{port}: the request is for evil.test\n"), "{said:?}");
    }
}
