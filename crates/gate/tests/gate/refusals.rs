//! Everything that does not get out.

use crate::place::{Inside, callers, rules};
use crate::servers::http;
use paddock_model::net::{Denial, NetEvent, NetOutcome, SpecialKind, Way};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_name_leads_to_this_machine_or_its_networks() {
    let web = http().await;
    let port = web.port();
    let table = [
        ("loop.test", "127.0.0.1"),
        ("six.test", "::1"),
        ("mapped.test", "::ffff:127.0.0.1"),
        ("meta.test", "169.254.169.254"),
        ("private.test", "10.255.255.1"),
        ("nat.test", "64:ff9b::7f00:1"),
        ("any.test", "0.0.0.0"),
    ];
    for caller in callers() {
        let mut inside = Inside::start(caller, rules(&["*:*", "0.0.0.0/0:*", "[::]/0:*"]), &table);
        for (name, shown) in table.map(|(name, address)| (name, shown(address))) {
            for options in
                ["", "-x http://127.0.0.1:3128", "-p -x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"]
            {
                let said =
                    inside.run(&format!("curl -sS -f {options} --max-time 20 http://{name}:{port}/a")).await;
                assert!(said.code != 0 && !said.out.contains("hello"), "{name} {options}: {said:?}");
            }
            // The flag names the address, because a rule has to allow that.
            let asked = format!("curl -sS -x http://127.0.0.1:3128 --max-time 20 http://{name}:{port}/a");
            let said = inside.run(&asked).await;
            assert!(said.out.contains(&format!("--allow-net {shown}:{port}")), "{name}: {said:?}");
            let of_name = |event: &NetEvent| event.name.as_ref().is_some_and(|own| own.as_str() == name);
            let denied = inside
                .event(|event| {
                    of_name(event) && matches!(event.outcome, NetOutcome::Denied(Denial::Special(_)))
                })
                .await;
            assert!(denied.advice().is_some(), "{denied:?}");
        }
        // Asked for by address, on the ways that lead to the gate.
        for address in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "169.254.169.254", "10.255.255.1"] {
            for options in
                ["-x http://127.0.0.1:3128", "-p -x http://127.0.0.1:3128", "-x socks5h://127.0.0.1:3128"]
            {
                let said = inside
                    .run(&format!("curl -sS -f {options} --max-time 20 http://{address}:{port}/a"))
                    .await;
                assert!(said.code != 0 && !said.out.contains("hello"), "{address} {options}: {said:?}");
            }
        }
        let denied = inside.event(|event| event.way == Way::Socks && event.name.is_none()).await;
        assert_eq!(denied.outcome, NetOutcome::Denied(Denial::Special(SpecialKind::Host)), "{denied:?}");
    }
}

/// As a rule names it.
fn shown(address: &str) -> String {
    let address: std::net::IpAddr = address.parse().unwrap();
    match address.to_canonical() {
        std::net::IpAddr::V6(address) => format!("[{address}]"),
        address => address.to_string(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn addresses_need_a_rule_of_their_own() {
    for caller in callers() {
        let mut inside = Inside::start(caller, rules(&["*"]), &[]);
        for address in ["1.2.3.4", "[2a00::1]", "10.0.2.2", "198.18.7.7", "[fd50:6164:646f:6e61::77]"] {
            let said = inside.run(&format!("curl -sS --max-time 20 http://{address}:80/")).await;
            // Refused, and not waited for.
            assert_eq!(said.code, 7, "{address}: {said:?}");
        }
        let denied = inside.event(|event| event.way == Way::Connect).await;
        assert_eq!(denied.outcome, NetOutcome::Denied(Denial::NotAllowed));
        assert_eq!(denied.advice().unwrap(), "to allow it: --allow-net 1.2.3.4:80");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_tcp_leaves_and_the_rest_fails_at_once() {
    let script = "import socket
def attempt(family, address):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(20)
    try:
        s.connect(address)
        s.send(b'x')
        s.recv(10)
        return 'answered'
    except socket.timeout:
        return 'waited'
    except OSError as e:
        return e.strerror
print(attempt(socket.AF_INET, ('1.1.1.1', 443)))
print(attempt(socket.AF_INET, ('1.1.1.1', 123)))
print(attempt(socket.AF_INET6, ('2a00::1', 443)))";
    for caller in callers() {
        let mut inside = Inside::start(caller, rules(&["*", "1.1.1.1:*"]), &[]);
        let said = inside.run(&format!("python3 -c \"{script}\"")).await;
        assert_eq!(said.out, "No route to host\nNo route to host\nPermission denied\n", "{said:?}");
        let denied = inside.event(|event| event.way == Way::Udp).await;
        assert_eq!(denied.outcome, NetOutcome::Denied(Denial::Protocol));
        assert_eq!(denied.target(), "1.1.1.1:443");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_gate_nothing_leaves() {
    let web = http().await;
    let port = web.port();
    for caller in callers() {
        let allow = [format!("web.test:{port}"), format!("127.0.0.1:{port}")];
        let mut inside = Inside::start(caller, rules(&[&allow[0], &allow[1]]), &[("web.test", "127.0.0.1")]);
        let url = format!("http://web.test:{port}/a");
        let line =
            format!("curl -sS --max-time 2 {url}; curl -sS --max-time 2 -x http://127.0.0.1:3128 {url}");
        let said = inside.run(&line).await;
        assert_eq!(said.out.matches("hello").count(), 2, "{said:?}");
        let script = format!(
            "import socket
s = socket.create_connection(('127.0.0.1', 3128))
s.sendall(b'GET {url} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
seen = s.recv(65536)
try:
    print(b'hello' in seen, s.recv(65536))
except ConnectionResetError:
    print('cut')"
        );
        let gate = inside.gate.take().unwrap();
        let before = gate.moved().received;
        let end = async {
            while gate.moved().received == before {
                tokio::time::sleep(std::time::Duration::from_millis(2)).await;
            }
            drop(gate);
        };
        let program = format!("python3 -c \"{script}\"");
        let (said, ()) = tokio::join!(inside.run(&program), end);
        assert!(["True b''\n", "cut\n"].contains(&said.out.as_str()), "{said:?}");
        // Neither the proxy nor the name server nor the address answers.
        let said = inside.run(&line).await;
        assert!(said.code != 0 && said.out.is_empty(), "{said:?}");
        let said = inside.run(&format!("curl -sS --max-time 2 http://198.18.0.1:{port}/")).await;
        assert!(said.code != 0 && said.out.is_empty(), "{said:?}");
    }
}
