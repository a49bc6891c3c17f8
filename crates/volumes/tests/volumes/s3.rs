//! The same on a real S3 server, which answers 503, resets connections, loses answers and is full, on demand.
//!
//! It is moto's, from PyPI: PADDOCK_TEST_MOTO names the directory that has it. `scripts/packages.py` fetches it.

use crate::place::{Place, TENANT, checkout, commit, look, noise};
use paddock_volumes::{Cache, Key, Kind, Limits, Location, Options, VolumeError, Volumes};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Server {
    process: Child,
    port: u16,
}

impl Server {
    fn start() -> Option<Server> {
        let packages = std::env::var_os("PADDOCK_TEST_MOTO").filter(|path| !path.is_empty());
        let Some(packages) = packages.filter(|path| std::path::Path::new(path).join("moto").exists()) else {
            // Past the harness, which would keep it to itself.
            let reason = "SKIP s3: PADDOCK_TEST_MOTO names no directory with moto's server";
            let _ = writeln!(std::io::stderr().lock(), "\n{reason}");
            return None;
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/volumes/s3_server.py");
        let mut process = Command::new("python3")
            .arg(script)
            .env("PYTHONPATH", packages)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let server = Server { process, port: line.trim().parse().expect("the server says its port") };
        server.put("/volumes");
        Some(server)
    }

    /// The next requests meet this.
    fn fault(&self, kind: &str, count: u32) {
        self.put(&format!("/_faults/{kind}/{count}"));
    }

    fn put(&self, path: &str) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let request = format!("PUT {path} HTTP/1.0\r\nHost: s3.amazonaws.com\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(" 200 "), "{path}: {answer}");
    }

    fn volumes(&self, retry: Duration, key: Option<Key>, cache: Option<Cache>) -> Volumes {
        let settings = [
            ("endpoint", format!("http://127.0.0.1:{}", self.port)),
            ("allow_http", "true".into()),
            ("access_key_id", "test".into()),
            ("secret_access_key", "test".into()),
            ("region", "us-east-1".into()),
            ("timeout", "1s".into()),
        ];
        let settings = settings.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        let options = Options { url: "s3://volumes/a/prefix".into(), settings, retry: Some(retry) };
        Volumes::new(Location::open(&options).unwrap(), key, cache)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_keeps_volumes_and_fences_writers() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    let cache = Cache::open(&place.directory("cache"), 32 << 20).unwrap();
    let volumes = server.volumes(REQUEST_TIMEOUT, Some(Key::new([3; 32])), Some(cache));
    let directory = place.directory("from");
    std::fs::create_dir(directory.join("sub")).unwrap();
    for number in 0..300 {
        std::fs::write(directory.join(format!("sub/{number}")), noise(4 << 10, number)).unwrap();
    }
    std::fs::write(directory.join("large"), noise(12 << 20, 9)).unwrap();
    commit(&volumes, "in-a-bucket", &directory).await;
    let head = volumes.head(TENANT, "in-a-bucket").await.unwrap();
    for attempt in ["first", "from the cache"] {
        let to = place.directory(attempt);
        checkout(&volumes, &head, None, &to).await;
        assert_eq!(look(&directory), look(&to), "{attempt}");
        // A damaged pack in the cache is fetched again.
        for entry in std::fs::read_dir(place.root.path().join("cache")).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[100] ^= 1;
            std::fs::write(path, bytes).unwrap();
        }
    }
    let to = place.directory("after the damage");
    checkout(&volumes, &head, None, &to).await;
    assert_eq!(look(&directory), look(&to));
    // Long enough for the second writer to ask within it on a busy host.
    let lease = Duration::from_secs(3);
    let short = volumes.clone().with_times(2, Duration::ZERO, lease);
    let mut slow = short.acquire(TENANT, "in-a-bucket", "the slow one", false).await.unwrap();
    assert!(matches!(short.acquire(TENANT, "in-a-bucket", "x", false).await, Err(VolumeError::Busy { .. })));
    tokio::time::sleep(lease + Duration::from_millis(100)).await;
    let quick = volumes.acquire(TENANT, "in-a-bucket", "the quick one", false).await.unwrap();
    std::fs::write(directory.join("large"), "changed").unwrap();
    let lost = slow.commit(&directory, None, Limits::default(), Kind::Commit).await.unwrap_err();
    assert_eq!(lost.code(), "lease_lost");
    quick.release().await.unwrap();
    commit(&short, "in-a-bucket", &directory).await;
    commit(&short, "in-a-bucket", &place.directory("empty")).await;
    assert!(short.collect(TENANT, "in-a-bucket").await.unwrap().objects >= 2);
    let head = volumes.head(TENANT, "in-a-bucket").await.unwrap();
    let to = place.directory("version 2");
    checkout(&volumes, &head, Some(2), &to).await;
    assert_eq!(look(&directory), look(&to));
    assert_eq!(volumes.list(TENANT).await.unwrap().len(), 1);
    volumes.remove(TENANT, "in-a-bucket").await.unwrap();
    assert!(volumes.list(TENANT).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_is_asked_again_then_said_to_fail() {
    let Some(server) = Server::start() else { return };
    let place = Place::new();
    let patient = server.volumes(REQUEST_TIMEOUT, None, None);
    let directory = place.directory("from");
    for (number, fault) in ["503", "reset", "slow", "lost"].iter().enumerate() {
        std::fs::write(directory.join("file"), noise(50_000, number as u64)).unwrap();
        let mut writer = patient.acquire(TENANT, "faulty", "a test", true).await.unwrap();
        server.fault(fault, 2);
        let committed = writer.commit(&directory, None, Limits::default(), Kind::Commit).await;
        let version = committed.unwrap_or_else(|error| panic!("{fault}: {error:?}")).version;
        assert_eq!(version.number, number as u64 + 1, "{fault}: counted once, whatever was lost");
        // The same for the head, where a lost answer must not become a second version.
        server.fault(fault, 1);
        writer.renew().await.unwrap_or_else(|error| panic!("{fault}: {error:?}"));
        writer.release().await.unwrap();
    }
    // Time ends it, and not a number of attempts: a store that restarts refuses many connections within moments.
    let persistent = server.volumes(Duration::from_secs(600), None, None);
    server.fault("reset", 12);
    persistent.head(TENANT, "faulty").await.unwrap();
    server.fault("reset", 0);
    let hasty = server.volumes(Duration::from_millis(500), None, None);
    for (fault, code) in [
        ("503", "volume_store_unavailable"),
        ("reset", "volume_store_unavailable"),
        ("slow", "volume_store_unavailable"),
        ("denied", "volume_store_denied"),
    ] {
        server.fault(fault, 1000);
        let error = hasty.head(TENANT, "faulty").await.unwrap_err();
        assert_eq!(error.code(), code, "{fault}: {error:?}");
        assert!(error.hint().is_some(), "{fault}");
        if fault != "slow" {
            let error = hasty.list(TENANT).await.unwrap_err();
            assert_eq!(error.code(), code, "a list, {fault}: {error:?}");
        }
        server.fault(fault, 0);
    }
    // A store without conditional writes cannot fence writers, and the error does not claim that another writer was
    // faster.
    server.fault("conditions", 1000);
    let error = hasty.acquire(TENANT, "faulty", "a test", false).await.err().unwrap();
    assert_eq!(error.code(), "volume_store_unavailable", "{error:?}");
    assert!(format!("{error:?}").contains("on demand"), "{error:?}");
    server.fault("conditions", 0);
    let mut writer = hasty.acquire(TENANT, "faulty", "a test", false).await.unwrap();
    std::fs::write(directory.join("file"), noise(50_000, 99)).unwrap();
    server.fault("full", 1000);
    let error = writer.commit(&directory, None, Limits::default(), Kind::Commit).await.unwrap_err();
    assert_eq!(error.code(), "volume_store_full", "{error:?}");
    server.fault("full", 0);
    // Nothing was harmed, and it goes on when there is room again.
    let head = hasty.head(TENANT, "faulty").await.unwrap();
    assert_eq!(head.current, Some(4));
    let to = place.directory("to");
    checkout(&hasty, &head, None, &to).await;
    let committed = writer.commit(&directory, None, Limits::default(), Kind::Commit).await.unwrap();
    assert_eq!(committed.version.number, 5);
    writer.release().await.unwrap();
}
