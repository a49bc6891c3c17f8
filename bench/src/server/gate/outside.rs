//! The outside world of the bench: answers `GET /N` with N bytes, on loopback.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

const PIECE: usize = 1 << 20;
const LONGEST_HEAD: usize = 8192;

/// Serves until the bench ends. Returns the port.
pub fn start() -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || answer(client));
        }
    });
    Ok(port)
}

fn answer(mut client: TcpStream) -> Option<()> {
    client.set_nodelay(true).ok()?;
    let mut head = Vec::new();
    let mut space = [0; 1024];
    while !head.ends_with(b"\r\n\r\n") && head.len() < LONGEST_HEAD {
        let count = client.read(&mut space).ok().filter(|count| *count > 0)?;
        head.extend_from_slice(&space[..count]);
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut left: usize = text.split(' ').nth(1)?.trim_start_matches('/').parse().ok()?;
    write!(client, "HTTP/1.1 200 OK\r\nContent-Length: {left}\r\nConnection: close\r\n\r\n").ok()?;
    let bytes = vec![b'x'; PIECE.min(left)];
    while left > 0 {
        let piece = left.min(bytes.len());
        client.write_all(&bytes[..piece]).ok()?;
        left -= piece;
    }
    client.shutdown(Shutdown::Write).ok()
}
