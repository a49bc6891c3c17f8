//! D, with network rules: the same ways out behind every fence that has a gate. The control reaches each refused target
//! with a rule for it.

use super::{Scenario, Shown, Stage, finding};
use crate::attack::{Finding, Outcome};
use crate::probe::REACHED;
use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// This host, by every name that it has for a sandbox.
const THIS_MACHINE: &str = "127.0.0.1,127.0.0.2,::1,0.0.0.0,::,::ffff:127.0.0.1,localhost,10.0.2.2";
/// Addresses kept for documentation, and one that a cloud tells secrets at.
const OUTSIDE: &str = "198.51.100.1,2001:db8::1,169.254.169.254";

pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        id: "D5-gate-this-machine",
        title: "a service of this machine, with rules that allow every name and address",
        control: Shown::Behaviour,
        run: |stage| {
            beyond(
                stage,
                &["--allow-net=*:*", "--allow-net=0.0.0.0/0:*", "--allow-net=[::]/0:*"],
                THIS_MACHINE,
            )
        },
    },
    Scenario {
        id: "D9-gate-no-rule",
        title: "a service of this machine by connect, CONNECT and SOCKS, without a rule for it",
        control: Shown::Behaviour,
        run: |stage| beyond(stage, &["--allow-net=192.0.2.1:9"], THIS_MACHINE),
    },
    Scenario {
        id: "D11-gate-outside",
        title: "outside addresses by connect, CONNECT and SOCKS, without a rule for them",
        control: Shown::Behaviour,
        run: |stage| beyond(stage, &["--allow-net=192.0.2.1:9"], OUTSIDE),
    },
    Scenario {
        id: "D9-gate-front-host",
        title: "a front that is allowed, asked for a denied host in a clear-text header, also behind an empty line",
        control: Shown::Behaviour,
        run: |stage| front(stage, "--deny-net=evil.test", "fine request", "host in a header"),
    },
    Scenario {
        id: "D9-gate-front-hello",
        title: "the same in TLS, with records before the ClientHello, and with one that is cut to pieces",
        control: Shown::Behaviour,
        run: |stage| front(stage, "--deny-net=evil.test", "fine hello", "host in the hello"),
    },
    Scenario {
        id: "D9-gate-method-override",
        title: "another method than the allowed one, by a header or a parameter",
        control: Shown::Behaviour,
        run: |stage| front(stage, "--net-method=GET", "fine request", "method"),
    },
    Scenario {
        id: "D4-gate-sockets",
        title: "sockets that pass by the gate's verdict, on its link",
        control: Shown::Part(&["gate-sockets"]),
        run: |stage| stage.said(&["--allow-net=192.0.2.1:9"], &["gate-sockets"]),
    },
];

fn beyond(stage: &Stage, rules: &[&str], hosts: &str) -> Result<Finding> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let rule = format!("--allow-net=127.0.0.1:{port}");
    let control = stage.said(&[&rule], &["gate", &port, "127.0.0.1"])?;
    ensure!(control.outcome == Outcome::Done, "control: with a rule for it, it is not reached: {control:?}");
    let said = stage.said(rules, &["gate", &port, hosts])?;
    finding(said.outcome, said.detail)
}

/// A front of this host that answers every client, and says so.
fn front(stage: &Stage, rule: &str, fine: &str, question: &str) -> Result<Finding> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    // Ends with the process: nothing tells the listener to end.
    std::thread::spawn(move || listener.incoming().flatten().for_each(greet));
    let allow = format!("--allow-net=127.0.0.1:{port}");
    let control = stage.said(&[&allow, rule], &["gate-front", &port, fine])?;
    ensure!(control.outcome == Outcome::Done, "control: what is allowed does not reach it: {control:?}");
    let said = stage.said(&[&allow, rule], &["gate-front", &port, question])?;
    finding(said.outcome, said.detail)
}

/// The first bytes decide: nothing of an attack is to come this far.
fn greet(mut client: TcpStream) {
    if matches!(client.read(&mut [0; 4096]), Ok(count) if count > 0) {
        let length = REACHED.len();
        let _ = write!(
            client,
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{REACHED}"
        );
    }
}
