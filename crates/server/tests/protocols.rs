//! HTTP/2 with and without TLS.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

mod harness;

use axum::body::Body;
use bytes::Bytes;
use harness::Server;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use paddock_fleet::{Fleet, FleetOptions};
use paddock_jobs::{Jobs, JobsOptions};
use paddock_server::{Listener, Options, Reload, Tls, TlsError, run};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[tokio::test(flavor = "multi_thread")]
async fn http_2_without_tls() {
    let server = Server::start(Options::default()).await;
    let stream = TcpStream::connect(server.address).await.expect("connects");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
    tokio::spawn(connection);
    let get = |path: &str| {
        let uri = format!("http://{}{path}", server.address);
        Request::get(uri).body(Empty::<Bytes>::new()).expect("a request")
    };
    let response = sender.send_request(get("/healthz")).await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.version()), (200, hyper::Version::HTTP_2));
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(body.starts_with(b"{\"status\":\"ok\""));
    assert_eq!(sender.send_request(get("/v1/whoami")).await.expect("an answer").status().as_u16(), 401);
    let evil = Request::get("http://evil.example/healthz").body(Empty::new()).expect("a request");
    assert_eq!(sender.send_request(evil).await.expect("an answer").status().as_u16(), 403);
}

#[tokio::test]
async fn tls_with_both() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("writes");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("writes");
    assert!(matches!(Tls::load(&key, &key), Err(TlsError::Certificate(..))));
    assert!(matches!(Tls::load(&certificate, &certificate), Err(TlsError::Key(..))));

    let options = FleetOptions::new(directory.path().join("state"));
    let fleet = Fleet::open(options).await.expect("a fleet");
    let listener = Listener::tcp("127.0.0.1:0".parse().expect("an address")).await.expect("listens");
    let address = listener.tcp_address().expect("an address");
    let listener = listener.with_tls(Tls::load(&certificate, &key).expect("a pair"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let jobs = Jobs::open(fleet.clone(), JobsOptions::default()).await.expect("the jobs");
    let server = tokio::spawn(run(vec![listener], fleet, jobs, Options::default(), shutdown));

    for protocol in ["h2", "http/1.1"] {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(&certificate).expect("reads")).expect("adds");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let stream = TcpStream::connect(address).await.expect("connects");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(protocol.as_bytes()));
        let status = match protocol {
            "h2" => {
                let (mut sender, connection) =
                    http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.expect("HTTP/2");
                tokio::spawn(connection);
                let request =
                    Request::get("https://localhost/healthz").body(Body::empty()).expect("a request");
                sender.send_request(request).await.expect("an answer").status()
            }
            _ => {
                let (mut sender, connection) =
                    http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
                tokio::spawn(connection);
                let request = Request::get("/healthz")
                    .header("host", "localhost")
                    .body(Body::empty())
                    .expect("a request");
                sender.send_request(request).await.expect("an answer").status()
            }
        };
        assert_eq!(status.as_u16(), 200, "{protocol}");
    }
    drop(stop);
    server.await.expect("it ends");
}

/// The certificate that a handshake shows.
async fn shown(address: std::net::SocketAddr, trusted: &[&[u8]]) -> Vec<u8> {
    let mut roots = rustls::RootCertStore::empty();
    for pem in trusted {
        roots.add(CertificateDer::from_pem_slice(pem).expect("reads")).expect("adds");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.expect("connects");
    let name = ServerName::try_from("localhost").expect("a name");
    let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.expect("TLS");
    stream.get_ref().1.peer_certificates().expect("a certificate")[0].to_vec()
}

#[tokio::test]
async fn a_certificate_is_read_again_and_a_bad_one_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (certificate, key) = (directory.path().join("cert.pem"), directory.path().join("key.pem"));
    let make = || rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
    let (first, second) = (make(), make());
    std::fs::write(&certificate, first.cert.pem()).expect("writes");
    std::fs::write(&key, first.signing_key.serialize_pem()).expect("writes");
    let tls = Tls::load(&certificate, &key).expect("a pair");
    let reload = Reload { tls: Some(tls.clone()), log_filter: None };

    let fleet = Fleet::open(FleetOptions::new(directory.path().join("state"))).await.expect("a fleet");
    let listener = Listener::tcp("127.0.0.1:0".parse().expect("an address")).await.expect("listens");
    let address = listener.tcp_address().expect("an address");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move { drop(stopped.await) };
    let jobs = Jobs::open(fleet.clone(), JobsOptions::default()).await.expect("the jobs");
    let server = tokio::spawn(run(vec![listener.with_tls(tls)], fleet, jobs, Options::default(), shutdown));

    let (old, new) = (first.cert.pem(), second.cert.pem());
    let trusted = [old.as_bytes(), new.as_bytes()];
    assert_eq!(shown(address, &trusted).await, first.cert.der().to_vec());
    // Half of a pair: the certificate is there, and its key not yet.
    std::fs::write(&certificate, &new).expect("writes");
    reload.now();
    assert_eq!(shown(address, &trusted).await, first.cert.der().to_vec());
    std::fs::write(&key, second.signing_key.serialize_pem()).expect("writes");
    reload.now();
    assert_eq!(shown(address, &trusted).await, second.cert.der().to_vec());
    std::fs::write(&certificate, "nonsense").expect("writes");
    reload.now();
    assert_eq!(shown(address, &trusted).await, second.cert.der().to_vec());
    drop(stop);
    server.await.expect("it ends");
}
