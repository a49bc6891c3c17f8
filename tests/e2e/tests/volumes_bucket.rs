//! Volumes in a bucket: `paddock serve --volumes s3://`, on a real S3 server that fails on demand.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, PATIENCE, Server, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

struct Bucket {
    process: Child,
    port: u16,
}

impl Bucket {
    fn start() -> Result<Option<Bucket>> {
        let packages = std::env::var_os("PADDOCK_TEST_MOTO").filter(|path| !path.is_empty());
        let Some(packages) = packages.filter(|path| std::path::Path::new(path).join("moto").exists()) else {
            paddock_e2e::skip("s3", "PADDOCK_TEST_MOTO names no directory with moto's server");
            return Ok(None);
        };
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/volumes/tests/volumes/s3_server.py");
        let mut process = Command::new("python3")
            .arg(script)
            .env("PYTHONPATH", packages)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("its output")?).read_line(&mut line)?;
        let bucket = Bucket { process, port: line.trim().parse().context("the server says its port")? };
        bucket.put("/volumes")?;
        Ok(Some(bucket))
    }

    /// The next requests meet this.
    fn fault(&self, kind: &str, count: u32) -> Result<()> {
        self.put(&format!("/_faults/{kind}/{count}"))
    }

    fn put(&self, path: &str) -> Result<()> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let request = format!("PUT {path} HTTP/1.0\r\nHost: s3.amazonaws.com\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.contains(" 200 "), "{path}: {answer}");
        Ok(())
    }

    fn serve<'a>(&self, caller: &'a Caller) -> Result<Server<'a>> {
        let settings = [
            format!("endpoint=http://127.0.0.1:{}", self.port),
            "allow_http=true".into(),
            "access_key_id=test".into(),
            "secret_access_key=test".into(),
            "region=us-east-1".into(),
        ];
        let mut options = vec!["--volumes", "s3://volumes/a/prefix"];
        settings.iter().for_each(|setting| options.extend(["--volumes-set", setting]));
        Server::start_with(caller, &options)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_bucket_keeps_what_sandboxes_write() -> Result<()> {
    paddock_e2e::as_root("a bucket", |caller| {
        let Some(bucket) = Bucket::start()? else { return Ok(()) };
        let server = bucket.serve(caller)?;
        let id = server.create(&["--volume", "memory:/data/memory"])?;
        server.script(&id, "mkdir /data/memory/d && head -c 3000000 /dev/urandom > /data/memory/d/large && echo x > /data/memory/small")?.success()?;
        let sum = server.script(&id, "sha256sum < /data/memory/d/large")?.success()?;
        // Two failures in the middle are tried again, and no caller sees them.
        bucket.fault("503", 2)?;
        let ended = server.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
        assert_eq!(ended["volumes"][0]["outcome"], "committed as version 1", "{ended}");
        let id = server.create(&["--volume", "memory:/data/memory"])?;
        assert_eq!(server.script(&id, "sha256sum < /data/memory/d/large")?.success()?, sum);
        server.run(["kill", &id])?.success()?;
        assert_eq!(server.run(["volume", "get", "memory", "small"])?.success()?, "x\n");
        Ok(())
    })
}

/// Content that could not be stored stays on the host, is told, and is stored when the bucket is back, by the next
/// server too.
#[test]
fn what_a_bucket_does_not_take_is_stored_later() -> Result<()> {
    paddock_e2e::as_root("a bucket that fails", |caller| {
        let Some(bucket) = Bucket::start()? else { return Ok(()) };
        let mut server = bucket.serve(caller)?;
        let id = server.create(&["--volume", "memory:/data/memory"])?;
        server.script(&id, "echo kept > /data/memory/file")?.success()?;
        bucket.fault("denied", 1_000_000)?;
        let ended = server.api("DELETE", &format!("/v1/sandboxes/{id}"), None)?.expect(200)?;
        let outcome = ended["volumes"][0]["outcome"].as_str().unwrap_or_default();
        ensure!(outcome.starts_with("not stored, it is tried again"), "{ended}");
        server.kill()?;
        bucket.fault("denied", 0)?;
        server.start_again()?;
        until(PATIENCE, "what was left", || {
            let found = server.run(["volume", "get", "memory", "file"]).ok()?;
            (found.code == 0 && found.out() == "kept\n").then_some(())
        })?;
        Ok(())
    })
}
