//! `--net none` is loopback alone, a loopback of its own; `--net host` is the host's, and says so.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, for_both_callers};
use std::net::TcpListener;

for_both_callers!(
    there_is_only_loopback,
    loopback_works_inside,
    sockets_are_tcp_and_udp,
    the_hosts_loopback_is_out_of_reach,
    abstract_sockets_of_the_host_are_out_of_reach,
    the_hosts_network_when_asked_for,
    other_networks_are_refused,
);

/// Connects to a port of 127.0.0.1, and prints the result.
const CONNECT: &str = "\
import socket, sys
try:
    socket.create_connection(('127.0.0.1', int(sys.argv[1])), timeout=20).close()
    print('connected')
except OSError as error:
    print('refused')";

fn there_is_only_loopback(caller: &Caller) -> Result<()> {
    let output = caller
        .script(&[], "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; tail -n +2 /proc/net/route")?;
    assert_eq!(output.success()?, "lo\n");
    let finished = caller.run(["--json", "--", "true"])?;
    assert_eq!(finished.json()?["guarantees"]["network"], "none");
    Ok(())
}

fn loopback_works_inside(caller: &Caller) -> Result<()> {
    let program = "\
import socket
server = socket.create_server(('127.0.0.1', 0))
client = socket.create_connection(server.getsockname())
peer, _ = server.accept()
client.sendall(b'x'); print(peer.recv(1))";
    assert_eq!(caller.run(["--", "python3", "-c", program])?.success()?, "b'x'\n");
    Ok(())
}

fn sockets_are_tcp_and_udp(caller: &Caller) -> Result<()> {
    // MPTCP, UDP-Lite, SCTP, SMC, ping. Refused by the fence before the kernel looks at them: always with the same answer.
    let program = "\
import errno, socket
for kind, protocol in [(1, 0), (1, 6), (2, 0), (2, 17), (1, 262), (2, 136), (1, 132), (1, 256), (2, 1)]:
    for family in socket.AF_INET, socket.AF_INET6:
        try:
            socket.socket(family, kind, protocol).close()
            print('open', end=' ')
        except OSError as error:
            print(errno.errorcode[error.errno], end=' ')
    print(protocol)";
    let opened = [0, 6, 0, 17].map(|protocol| format!("open open {protocol}\n")).concat();
    let refused = [262, 136, 132, 256, 1].map(|n| format!("EPROTONOSUPPORT EPROTONOSUPPORT {n}\n")).concat();
    assert_eq!(caller.run(["--", "python3", "-c", program])?.success()?, opened + &refused);
    Ok(())
}

fn the_hosts_loopback_is_out_of_reach(caller: &Caller) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    // The control: outside it is there.
    std::net::TcpStream::connect(listener.local_addr()?)?;
    for user in ["agent", "root"] {
        let finished = caller.run(["--user", user, "--", "python3", "-c", CONNECT, &port])?;
        assert_eq!(finished.success()?, "refused\n");
    }
    Ok(())
}

fn abstract_sockets_of_the_host_are_out_of_reach(caller: &Caller) -> Result<()> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    let name = format!("paddock-e2e-{}-{}", std::process::id(), caller.uid);
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
    let program = "\
import socket, sys
try:
    socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1]); print('connected')
except OSError:
    print('refused')";
    for network in ["none", "host"] {
        let finished = caller.run(["--net", network, "--", "python3", "-c", program, &name])?;
        assert_eq!(finished.success()?, "refused\n", "--net {network}");
    }
    Ok(())
}

fn the_hosts_network_when_asked_for(caller: &Caller) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port().to_string();
    let finished = caller.run(["--net", "host", "--", "python3", "-c", CONNECT, &port])?;
    assert_eq!(finished.success()?, "connected\n");
    let guarantees = caller.run(["--net", "host", "--json", "--", "true"])?.json()?["guarantees"].clone();
    assert_eq!(guarantees["network"], "host");
    ensure!(guarantees["weaknesses"].to_string().contains("THE NETWORK IS THE HOST'S"), "{guarantees}");
    let output = caller.run(["--net", "host", "--explain"])?.success()?;
    ensure!(output.contains("THE NETWORK IS THE HOST'S"), "{output}");
    Ok(())
}

fn other_networks_are_refused(caller: &Caller) -> Result<()> {
    caller.run(["--net", "bridge", "--", "true"])?.refused(&["bridge", "none", "host"])
}
