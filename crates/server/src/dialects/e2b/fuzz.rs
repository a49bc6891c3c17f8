//! The entries that the fuzz targets and the short runs in `make test` both call: bytes as a hostile client could send them.

use super::connect::Envelopes;
use super::create::NewSandbox;
use super::inside::{User, basic_user};
use super::multipart::{Multipart, boundary};
use super::network::{self, Network};
use super::{
    code, grants, key, listing, messages, sandboxes, secrets, signatures, snapshots, template_builds,
    templates, timestamps, volume_content, volumes,
};
use crate::extract::Incoming;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use bytes::Bytes;
use paddock_model::net::NetSetting;
use std::future::Future;
use std::time::Duration;

/// Bodies come at once here, so that nothing waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A stream of messages: it ends, and a cut between two packets changes nothing.
pub fn fuzz_e2b_envelopes(data: &[u8]) {
    let read = |size: usize| {
        let mut envelopes = Envelopes::alone(body(data, size), PATIENCE);
        waited(async move {
            let mut found = 0;
            loop {
                match envelopes.next::<messages::Start>().await {
                    Ok(Some(_)) => found += 1,
                    Ok(None) => return (found, "end"),
                    Err(error) => return (found, error.code),
                }
            }
        })
    };
    let (found, how) = read(data.len().max(1));
    assert!(found * 5 <= data.len(), "each message has a head of five bytes");
    assert_eq!(read(3), (found, how), "a cut changes nothing");
}

/// A form of files: it ends, gives no more than came, and a cut between two packets changes nothing. The boundary is the first line.
pub fn fuzz_e2b_form(data: &[u8]) {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or_default();
    let (first, rest) = data.split_at(at);
    let kind = format!("multipart/form-data; boundary={}", String::from_utf8_lossy(first));
    let Some(boundary) = boundary(&kind) else { return };
    let read = |size: usize| {
        let mut form = Multipart::new(body(rest, size), &boundary);
        waited(async move {
            let (mut parts, mut bytes) = (Vec::new(), 0);
            loop {
                match form.next().await {
                    Ok(Some(part)) => parts.push((part.name, part.file_name)),
                    Ok(None) => return (parts, bytes, true),
                    Err(_) => return (parts, bytes, false),
                }
                loop {
                    match form.piece().await {
                        Ok(Some(piece)) => bytes += piece.len(),
                        Ok(None) => break,
                        Err(_) => return (parts, 0, false),
                    }
                }
            }
        })
    };
    let whole = read(rest.len().max(1));
    assert!(whole.1 <= rest.len(), "no more comes out than went in");
    assert_eq!(read(3), whole, "a cut changes nothing");
}

/// A text as each of the things that a client names: bodies, queries, headers, times and paths.
pub fn fuzz_e2b_words(text: &str) {
    if let Ok(wanted) = serde_json::from_str::<NewSandbox>(text) {
        let _ = wanted.check();
    }
    if let Ok(wanted) = serde_json::from_str::<Network>(text) {
        if let Ok(NetSetting::Rules(layer)) = network::setting(None, Some(&wanted)) {
            assert!(layer.deny.len() <= network::MOST_BLOCKS, "rules have a bound");
        }
        if let Ok(secrets) = wanted.secrets() {
            let bound = secrets.values().all(|secret| secret.hosts.len() == 1 && secret.inject.len() == 1);
            assert!(bound, "a rule's secret goes to one host, in one header");
        }
    }
    sealed_grants(text);
    let _ = timestamps::parse(text);
    assert!(key::own_form(text).len() <= text.len().max(64), "a key is not made longer");
    if let Ok(uri) = format!("/files?{text}").parse::<Uri>() {
        let _ = signatures::is_signed(&uri);
        let _ = signatures::Wanted::of(uri.query());
        let _ = listing::filter(&uri);
    }
    for user in [None, Some("root")] {
        if let Ok(path) = User::of(user, true).path(text) {
            assert!(!path.split('/').any(|part| part == ".."), "{path:?} leads up");
        }
    }
    if let Ok(value) = HeaderValue::from_str(text) {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, value);
        let _ = basic_user(&headers);
    }
}

/// A text as a token that opens a sandbox or a volume: it opens one only if it is what was sealed, to the last byte.
fn sealed_grants(text: &str) {
    const SEAL: &str = "5ea1";
    if let Some(key) = grants::sealed_key(text, |key| format!("{key}.{SEAL}")) {
        assert_eq!(text, format!("{key}.{SEAL}"), "no other token opens a sandbox");
    }
    if let Some((key, id)) = grants::sealed_key_and_id(text, |key, id| format!("{key}.{id}.{SEAL}")) {
        assert_eq!(text, format!("{key}.{id}.{SEAL}"), "no other token opens a volume");
    }
}

/// A text as each message and body that is more than a name: what is understood is bounded by what came.
pub fn fuzz_e2b_bodies(text: &str) {
    fn read<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
        serde_json::from_str(text).ok()
    }
    if let Some(build) = read::<template_builds::Description>(text).and_then(|wanted| wanted.request().ok()) {
        assert!(build.steps.len() <= text.len(), "a step has text of its own");
        assert!(build.image.is_some() != build.template.is_some(), "a build has one beginning");
    }
    let _ = read::<templates::NewTemplate>(text);
    let _ = read::<templates::NewTags>(text);
    let _ = read::<templates::OldTags>(text);
    let _ = read::<secrets::NewSecret>(text);
    let _ = read::<secrets::NewValue>(text);
    let _ = read::<code::Execute>(text);
    let _ = read::<code::NewContext>(text);
    let _ = read::<snapshots::NewSnapshot>(text);
    let _ = read::<snapshots::NewFork>(text);
    let _ = read::<sandboxes::Connect>(text);
    let _ = read::<sandboxes::Pause>(text);
    let _ = read::<volumes::NewVolume>(text);
    let _ = read::<volume_content::Metadata>(text);
    if let Ok(uri) = format!("/volumecontent/v/file?{text}").parse::<Uri>() {
        let _ = volume_content::Wanted::of(&uri);
    }
    for sent in [
        read::<messages::SendInput>(text).map(|sent| sent.input),
        read::<messages::StreamInput>(text).and_then(|sent| sent.data).map(|data| data.input),
    ] {
        if let Some(bytes) = sent.and_then(|input| input.bytes().ok()) {
            assert!(bytes.len() <= text.len(), "base64 is longer than what it stands for");
        }
    }
    for pty in [
        read::<messages::Update>(text).and_then(|sent| sent.pty),
        read::<messages::Start>(text).and_then(|start| start.pty),
    ] {
        if let Some(size) = pty.and_then(|pty| pty.size().ok()) {
            assert!(size.rows > 0 && size.columns > 0, "a terminal has a size");
        }
    }
    let _ = read::<messages::SendSignal>(text);
    let _ = read::<messages::OfProcess>(text);
    let _ = read::<messages::AtPath>(text);
    let _ = read::<messages::ListDir>(text);
    let _ = read::<messages::Move>(text);
    let _ = read::<messages::WatchRequest>(text);
    let _ = read::<messages::OfWatcher>(text);
}

/// A packed body: it ends, a cut between two packets changes nothing, and no piece is larger than what a piece can hold.
pub fn fuzz_e2b_gzip(data: &[u8]) {
    const MOST_AT_ONCE: usize = 8 << 20;
    const ENOUGH: usize = 32 << 20;
    let read = |size: usize| {
        let mut body = body(data, size).gunzip();
        waited(async move {
            let mut bytes = 0;
            loop {
                match body.next().await {
                    Ok(Some(piece)) => {
                        assert!(piece.len() <= MOST_AT_ONCE, "{} bytes at once", piece.len());
                        bytes += piece.len();
                    }
                    Ok(None) => return Some(bytes),
                    Err(_) => return None,
                }
                if bytes > ENOUGH {
                    return None;
                }
            }
        })
    };
    assert_eq!(read(data.len().max(1)), read(3), "a cut changes nothing");
}

/// Bytes in packets of this size.
fn body(data: &[u8], size: usize) -> Incoming {
    let pieces: Vec<_> =
        data.chunks(size).map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece))).collect();
    Incoming::new(Body::from_stream(futures_util::stream::iter(pieces)), PATIENCE)
}

fn waited<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: Option<tokio::runtime::Runtime> =
            tokio::runtime::Builder::new_current_thread().enable_time().build().ok();
    }
    RUNTIME.with(|runtime| match runtime {
        Some(runtime) => runtime.block_on(work),
        None => std::process::abort(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::connect::envelope;
    use super::*;
    use serde_json::json;

    /// The seeds, and made-up changes of them, the same in every run.
    fn run(entry: impl Fn(&[u8]), seeds: &[Vec<u8>]) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        seeds.iter().for_each(|seed| entry(seed));
        for round in 0..5000 {
            let mut input: Vec<u8> = match round % 3 {
                0 => (0..next() % 96).map(|_| next() as u8).collect(),
                _ => seeds[next() as usize % seeds.len()].clone(),
            };
            for _ in 0..next() % 5 {
                if input.is_empty() {
                    break;
                }
                let at = next() as usize % input.len();
                match next() % 4 {
                    0 => input.truncate(at),
                    1 => input.extend_from_within(at..),
                    2 => input[at] ^= 1 << (next() % 8),
                    _ => input[at] = next() as u8,
                }
            }
            entry(&input);
        }
    }

    #[test]
    fn arbitrary_envelopes() {
        let start =
            json!({ "process": { "cmd": "/bin/bash", "args": ["-l", "-c", "true"] }, "stdin": false });
        let one = envelope(&start).to_vec();
        let huge = [&[0, 0x40, 0, 0, 0][..], b"{}"].concat();
        run(fuzz_e2b_envelopes, &[one.clone(), [&one[..], &one].concat(), huge, vec![1, 0, 0, 0, 0], vec![]]);
    }

    #[test]
    fn arbitrary_forms() {
        let part =
            "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"/tmp/a\"\r\n\r\nbytes\r\n";
        let whole = format!("XX\n{part}{part}--XX--\r\n").into_bytes();
        run(fuzz_e2b_form, &[whole, b"X\n--X\r\n".to_vec(), b"\"a b\"\n--a b--".to_vec()]);
    }

    #[test]
    fn arbitrary_bodies() {
        let seeds = [
            r#"{"fromImage":"python:3","steps":[{"type":"COPY","args":["a","/a","","0755"],"filesHash":"00","force":true},{"type":"ENV","args":["A","1"]}],"startCmd":"x"}"#,
            r#"{"fromTemplate":"base","fromImageRegistry":{"type":"registry","username":"u","password":"p"},"steps":[{"type":"RUN","args":["true","root"]}]}"#,
            r#"{"name":"nm:tag","tags":["a"],"cpuCount":2,"memoryMB":512,"target":"nm:x","value":"long-enough","metadata":{"hosts":"a.example"}}"#,
            r#"{"code":"1 + 1","context_id":null,"language":"python","env_vars":{"A":"b"}}"#,
            r#"{"process":{"pid":7,"tag":"t"},"input":{"stdin":"aGk="},"signal":"SIGNAL_SIGKILL","pty":{"size":{"cols":80,"rows":24}}}"#,
            r#"{"start":{"process":{"pid":7}},"data":{"input":{"pty":"aGk="}},"path":"/a","depth":3,"source":"/a","destination":"/b","watcherId":"w"}"#,
            r#"{"timeout":1e9,"count":20,"memory":false,"uid":1000,"gid":1000,"mode":493,"cwd":"/tmp"}"#,
            "path=%2Fa&uid=1000&gid=1000&mode=493&force=true&depth=2",
        ];
        let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
        run(
            |data| {
                if let Ok(text) = std::str::from_utf8(data) {
                    fuzz_e2b_bodies(text);
                }
            },
            &seeds,
        );
    }

    #[test]
    fn arbitrary_words() {
        let seeds = [
            r#"{"templateID":"base","timeout":1e9,"metadata":{"a":"b"},"autoPause":true,"network":{"allowOut":["1.1.1.1"]}}"#,
            r#"{"allowOut":["10.0.0.1","::1"],"denyOut":["10.0.0.0/8","::/0"],"allow_internet_access":true}"#,
            "metadata=a%252520b%3Dc%252526d&limit=3&state=running%2Cpaused&order=asc&startedAfter=2026-11-17T09:30:00Z",
            "path=%2Ftmp%2Fa&username=user&signature=v1_x&signature_expiration=1700000000",
            "2026-11-17T09:30:00.250+02:00",
            "e2b_00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff",
            r#"{"rules":{"a.example":[{"transform":{"headers":{"X-Key":"Bearer ${e2b.secrets.key}"}}},{"transform":{"headers":{"X-Own":"long-enough"}}}]}}"#,
            "tk-0011.5ea1",
            "tk-0011.vol-0011.5ea1",
            "~/a/../../b",
            "Basic cm9vdDo=",
        ];
        let seeds = seeds.map(|seed| seed.as_bytes().to_vec());
        run(
            |data| {
                if let Ok(text) = std::str::from_utf8(data) {
                    fuzz_e2b_words(text);
                }
            },
            &seeds,
        );
    }
}
