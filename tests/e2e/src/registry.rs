//! A registry on loopback that serves one image and counts its requests.

use crate::images::{Blobs, sha256};
use anyhow::Result;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

pub struct Registry {
    pub address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

/// Media type and bytes, by path.
type Content = HashMap<String, (&'static str, Vec<u8>)>;

impl Registry {
    /// Serves the image as `e2e/busybox:1`, until the tests end.
    pub fn start(blobs: Blobs) -> Result<Registry> {
        let content = Arc::new(content(blobs)?);
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let registry = Registry { address: listener.local_addr()?.to_string(), asked: Arc::default() };
        let asked = registry.asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (content, asked) = (content.clone(), asked.clone());
                std::thread::spawn(move || serve(stream, &content, &asked));
            }
        });
        Ok(registry)
    }

    /// Paths of all requests so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn content(blobs: Blobs) -> Result<Content> {
    const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    let mut content = Content::from([("/v2/".to_string(), ("application/json", b"{}".to_vec()))]);
    for bytes in [blobs.config, blobs.layer] {
        let path = format!("/v2/e2e/busybox/blobs/sha256:{}", sha256(&bytes)?);
        content.insert(path, ("application/octet-stream", bytes));
    }
    let by_digest = format!("/v2/e2e/busybox/manifests/sha256:{}", sha256(&blobs.manifest)?);
    content.insert(by_digest, (MANIFEST, blobs.manifest.clone()));
    content.insert("/v2/e2e/busybox/manifests/1".into(), (MANIFEST, blobs.manifest));
    Ok(content)
}

/// Requests of one connection, one after the other.
fn serve(stream: TcpStream, content: &Content, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut output = stream.try_clone().ok()?;
    let mut lines = BufReader::new(stream).lines();
    loop {
        let request = lines.next()?.ok()?;
        while !lines.next()?.ok()?.is_empty() {}
        let mut words = request.split(' ');
        let (method, path) = (words.next()?, words.next()?.split('?').next()?);
        asked.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_string());
        let found = content.get(path);
        let (status, kind, body) = match found {
            Some((kind, body)) => ("200 OK", *kind, body.as_slice()),
            None => ("404 Not Found", "application/json", br#"{"errors":[]}"#.as_slice()),
        };
        let digest = sha256(body).ok()?;
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\ndocker-content-digest: sha256:{digest}\r\n\r\n",
            body.len()
        );
        output.write_all(head.as_bytes()).ok()?;
        if method != "HEAD" {
            output.write_all(body).ok()?;
        }
    }
}
