//! Attacks on the API of a real server, each named by its number in the catalogue. Which number is tried where, here
//! or elsewhere, is told by `crates/verify/expectations.toml`, whose own test looks for every name.

mod exhaustion;
mod side_door;

use anyhow::{Context, Result};
use paddock_e2e::{Server, http};
use std::path::Path;

/// Fixed bytes on the host: code inside that reads or changes them is out.
pub const CANARY: &str = "canary-of-the-host-5a1f\n";

/// A path as a part of a query.
pub fn query(path: &str) -> String {
    path.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'/' => (byte as char).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Memory that only this process holds, in bytes.
pub fn memory_of(process: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = text.lines().find(|line| line.starts_with("RssAnon:")).context("no RssAnon")?;
    let kilobytes = line.split_whitespace().nth(1).context("no number")?;
    Ok(kilobytes.parse::<u64>()? * 1024)
}

/// Still well: it answers, and a new sandbox works.
pub fn unharmed(server: &Server) -> Result<()> {
    server.ask("GET", "/healthz", None)?.ok()?;
    let id = server.create(&[])?;
    assert_eq!(server.script(&id, "echo well")?.success()?, "well\n");
    server.run(["kill", &id])?.success()?;
    Ok(())
}

/// A request with a token over TCP.
pub fn with_token(
    url: &str,
    token: &str,
    method: &str,
    target: &str,
    body: Option<&serde_json::Value>,
) -> Result<http::Answer> {
    let kind = if body.is_some() { "Content-Type: application/json\r\n" } else { "" };
    let headers = format!("Authorization: Bearer {token}\r\n{kind}");
    let body = body.map(ToString::to_string).unwrap_or_default();
    http::over_tcp(url, method, target, &headers, body.as_bytes())
}

pub fn write_canary(path: &Path) -> Result<()> {
    std::fs::write(path, CANARY).with_context(|| path.display().to_string())
}
