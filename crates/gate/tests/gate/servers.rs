//! The outside of the tests: servers on this host's loopback, which the rules have to list as addresses.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Says `hello`, the method, the path and the Host of each request; `/zeros/N` is N bytes. Ends with the test's runtime.
pub async fn http() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(serve(client));
        }
    });
    address
}

async fn serve(mut client: TcpStream) -> std::io::Result<()> {
    let mut seen = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = seen.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            let mut space = [0; 4096];
            match client.read(&mut space).await? {
                0 => return Ok(()),
                count => seen.extend_from_slice(&space[..count]),
            }
        };
        let head = String::from_utf8_lossy(&seen[..end]).into_owned();
        let value = |name: &str| {
            let line = head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")));
            line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_string())
        };
        let length: usize = value("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut left = length.saturating_sub(seen.len() - end);
        seen.drain(..seen.len().min(end + length));
        let mut space = vec![0; if left > 0 { 256 << 10 } else { 0 }];
        while left > 0 {
            let piece = left.min(space.len());
            match client.read(&mut space[..piece]).await? {
                0 => return Ok(()),
                count => left -= count,
            }
        }
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        if let Some(count) = path.strip_prefix("/zeros/").and_then(|text| text.parse::<usize>().ok()) {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {count}\r\n\r\n");
            client.write_all(head.as_bytes()).await?;
            let zeros = vec![0; 256 << 10];
            let mut left = count;
            while left > 0 {
                let piece = left.min(zeros.len());
                client.write_all(&zeros[..piece]).await?;
                left -= piece;
            }
            continue;
        }
        if value("upgrade").as_deref() == Some("websocket") {
            let head = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
            client.write_all(head.as_bytes()).await?;
            let (mut reader, mut writer) = client.split();
            tokio::io::copy(&mut reader, &mut writer).await?;
            return Ok(());
        }
        let host = value("host").unwrap_or_default();
        let body = format!("hello {method} {path} {host} {length}\n");
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        client.write_all(format!("{head}{body}").as_bytes()).await?;
    }
}

/// Sends its line to every client, before the client speaks, and then repeats the client's bytes.
pub async fn greeter() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                client.write_all(b"220 welcome\n").await?;
                let (mut reader, mut writer) = client.split();
                tokio::io::copy(&mut reader, &mut writer).await
            });
        }
    });
    address
}

/// An HTTPS server with a certificate of its own making.
pub struct Https {
    pub address: SocketAddr,
    server: Child,
    _directory: tempfile::TempDir,
}

impl Https {
    pub async fn start() -> Https {
        let directory = tempfile::tempdir().unwrap();
        let (key, certificate) = (directory.path().join("key"), directory.path().join("certificate"));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
                "-nodes",
                "-days",
                "2",
            ])
            .args(["-subj", "/CN=web.test", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .stderr(Stdio::null())
            .status()
            .unwrap();
        assert!(made.success());
        // A port that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let server = Command::new("openssl")
            .args(["s_server", "-quiet", "-www", "-accept", &address.to_string(), "-key"])
            .arg(&key)
            .arg("-cert")
            .arg(&certificate)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut tries = 0;
        while TcpStream::connect(address).await.is_err() {
            tries += 1;
            assert!(tries < 1000, "the HTTPS server does not come up");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        Https { address, server, _directory: directory }
    }
}

impl Drop for Https {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
