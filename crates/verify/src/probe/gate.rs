//! D, with network rules: the ways that lead out of a sandbox that has some, each tried to places of the host's.

use super::system::call;
use crate::attack::{Finding, Outcome};
use paddock_model::net::place::PROXY_PORT;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// `HOST,HOST PORT`: done as soon as one of them is reached by one of the ways.
pub fn ways(hosts: &str, port: u16) -> Finding {
    let mut refusals = Vec::new();
    for host in hosts.split(',') {
        let tried =
            [("connect", plain(host, port)), ("CONNECT", tunnel(host, port)), ("SOCKS", socks(host, port))];
        for (way, reached) in tried {
            match reached {
                Ok(()) => return Finding::new(Outcome::Done, format!("{host}:{port} by {way}")),
                Err(error) => refusals.push(format!("{host} by {way}: {error}")),
            }
        }
    }
    // A refusal counts only if there is a proxy.
    match TcpStream::connect(("127.0.0.1", PROXY_PORT)) {
        Ok(_) => Finding::new(Outcome::Denied, refusals.join("; ")),
        Err(error) => Finding::new(Outcome::Error, format!("no proxy: {error}")),
    }
}

/// Done as soon as one kind of socket is had that passes by the gate's verdict.
pub fn sockets() -> Finding {
    let kinds = [
        ("raw", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_RAW),
        ("raw ICMP", libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP),
        ("raw ICMPv6", libc::AF_INET6, libc::SOCK_RAW, libc::IPPROTO_ICMPV6),
        ("packet", libc::AF_PACKET, libc::SOCK_RAW, libc::ETH_P_ALL.to_be()),
        ("packet without a header", libc::AF_PACKET, libc::SOCK_DGRAM, libc::ETH_P_IP.to_be()),
    ];
    let mut refusals = Vec::new();
    for (name, family, kind, protocol) in kinds {
        let numbers = [family.into(), kind.into(), protocol.into(), 0, 0, 0];
        match call(libc::SYS_socket, numbers) {
            Ok(_) => return Finding::new(Outcome::Done, format!("a {name} socket")),
            Err(error) => refusals.push(format!("{name}: {error}")),
        }
    }
    Finding::new(Outcome::Denied, refusals.join("; "))
}

/// Connects over the link. Loopback is the sandbox's own, which is no way out.
fn plain(host: &str, port: u16) -> io::Result<()> {
    let address: IpAddr = host.parse().map_err(|_| io::Error::from(io::ErrorKind::AddrNotAvailable))?;
    if address.is_loopback() || address.is_unspecified() {
        return Err(io::Error::other("its own"));
    }
    TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT_TIMEOUT).map(drop)
}

fn proxy() -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", PROXY_PORT))?;
    stream.set_read_timeout(Some(CONNECT_TIMEOUT))?;
    Ok(stream)
}

fn tunnel(host: &str, port: u16) -> io::Result<()> {
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
    let mut stream = proxy()?;
    stream.write_all(format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n").as_bytes())?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    match &answer[9..] {
        b"200" => Ok(()),
        status => Err(io::Error::other(format!("status {}", String::from_utf8_lossy(status)))),
    }
}

/// Version 5, by name: the proxy has to find out that the name is an address.
fn socks(host: &str, port: u16) -> io::Result<()> {
    let mut stream = proxy()?;
    stream.write_all(&[5, 1, 0])?;
    stream.read_exact(&mut [0; 2])?;
    let mut asked = vec![5, 1, 0, 3, host.len() as u8];
    asked.extend_from_slice(host.as_bytes());
    asked.extend_from_slice(&port.to_be_bytes());
    stream.write_all(&asked)?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer)?;
    if answer[1] == 0 { Ok(()) } else { Err(io::Error::other(format!("reply {}", answer[1]))) }
}
