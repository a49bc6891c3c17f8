//! The resolver: only allowed names, over UDP and TCP, whichever server is asked.

use crate::place::{Inside, callers, rules};
use paddock_model::net::{Denial, NetOutcome, Way};

const ASK: &str = "import socket, sys
try:
    print(sorted({a[4][0] for a in socket.getaddrinfo(sys.argv[1], 443, type=socket.SOCK_STREAM)}))
except socket.gaierror as e:
    print(e)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn allowed_names_have_an_address_and_others_have_none() {
    for caller in callers() {
        let mut inside = Inside::start(caller, rules(&["web.test", "*.org.test:8443"]), &[]);
        for (name, known) in [
            ("web.test", true),
            ("WEB.test.", true),
            ("a.org.test", true),
            ("org.test", false),
            ("evil.test", false),
        ] {
            let said = inside.run(&format!("python3 -c \"{ASK}\" {name}")).await;
            assert_eq!(said.out.contains("198.18.0."), known, "{name}: {said:?}");
            assert_eq!(said.out.contains("fd50:6164:646f:6e61"), known, "{name}: {said:?}");
            // At once: a program must not wait for an answer that never comes.
            assert_eq!(said.out.contains("not known"), !known, "{name}: {said:?}");
        }
        let denied = inside.event(|event| matches!(event.outcome, NetOutcome::Denied(_))).await;
        assert_eq!((denied.way, denied.outcome.clone()), (Way::Dns, NetOutcome::Denied(Denial::NotAllowed)));
        assert_eq!(denied.advice().unwrap(), "to allow it: --allow-net org.test");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_name_server_that_is_asked_is_ours() {
    let script = "import socket
q = b'\\x12\\x34\\x01\\x00\\x00\\x01\\x00\\x00\\x00\\x00\\x00\\x00' + b'\\x03web\\x04test\\x00\\x00\\x01\\x00\\x01'
for server in ['8.8.8.8', '10.0.2.2', '2001:4860:4860::8888']:
    family = socket.AF_INET6 if ':' in server else socket.AF_INET
    u = socket.socket(family, socket.SOCK_DGRAM)
    u.settimeout(20)
    u.sendto(q, (server, 53))
    print(u.recv(1000)[-4:].hex(), end=' ')
    t = socket.create_connection((server, 53), 20)
    t.sendall(bytes([0, len(q)]) + q + bytes([0, len(q)]) + q)
    answer = b''
    while len(answer) < 2 * (len(q) + 18): answer += t.recv(1000)
    print(answer[-4:].hex())";
    for caller in callers() {
        let inside = Inside::start(caller, rules(&["web.test"]), &[]);
        let said = inside.run(&format!("python3 -c \"{script}\"")).await;
        assert_eq!(said.out, "c6120001 c6120001\n".repeat(3), "{said:?}");
    }
}
