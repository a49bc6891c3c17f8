//! Files inside, one by one, as archives, by signed addresses, and watched.

use super::Check;
use super::http::wait_for;
use super::place::{Place, text};
use anyhow::{Context, Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[
    Check {
        operations: &["make_directory", "write_file", "read_file", "list_files", "stat_file", "file_exists"],
        title: "written and read back byte for byte, listed, looked at",
        run: written,
    },
    Check { operations: &["resolve_path"], title: "links resolved, and written through", run: resolved },
    Check {
        operations: &["change_mode", "move_file", "delete_file"],
        title: "changed, moved, removed",
        run: changed,
    },
    Check {
        operations: &["download_archive", "upload_archive"],
        title: "a tree out and in again",
        run: archived,
    },
    Check {
        operations: &["sign_path", "read_signed", "write_signed"],
        title: "by address alone",
        run: signed,
    },
    Check { operations: &["watch_files"], title: "a new file is told", run: watched },
];

const BYTES: &[u8] = b"\x00\xff line\nlast";

fn content(place: &Place, path: &str) -> String {
    place.of(&format!("/files/content?path={path}"))
}

fn written(place: &Place) -> Result<()> {
    place.post(&place.of("/files/directory"), 201, json!({"path": "/tmp/verify/deep", "parents": true}))?;
    place.send("PUT", &content(place, "/tmp/verify/deep/a"), BYTES)?.expect(200)?;
    ensure!(place.call("GET", &content(place, "/tmp/verify/deep/a"), 200)?.body == BYTES, "other bytes");
    let part =
        place.call("GET", &format!("{}&offset=2&length=5", content(place, "/tmp/verify/deep/a")), 200)?;
    ensure!(part.body == b" line", "{:?}", part.text());
    ensure!(place.run(&place.id, "wc -c < /tmp/verify/deep/a")?.trim() == BYTES.len().to_string(), "size");
    let listed = place.call("GET", &place.of("/files?path=/tmp/verify&recursive=true"), 200)?.text();
    ensure!(listed.contains("deep/a"), "{listed}");
    let entry = place.get(&place.of("/files/stat?path=/tmp/verify/deep/a"))?;
    ensure!(entry["size"] == BYTES.len() && entry["kind"] == "file", "{entry}");
    let exists = place.call("GET", &place.of("/files/exists?path=/tmp/verify/no"), 200)?.text();
    ensure!(exists.contains("false"), "{exists}");
    let missing = place.ask("GET", &content(place, "/tmp/verify/no"), None)?;
    ensure!(missing.status == 404, "a file that is not there: {}", missing.status);
    Ok(())
}

fn resolved(place: &Place) -> Result<()> {
    place.run(&place.id, "mkdir -p /tmp/verify/real && ln -sfn /tmp/verify/real /tmp/verify/link")?;
    place.run(&place.id, "echo old > /tmp/verify/real/f && ln -sf f /tmp/verify/real/g")?;
    let found = place.get(&place.of("/files/resolve?path=/tmp/verify/link/../link/g"))?;
    ensure!(found["path"] == "/tmp/verify/real/f" && found["entry"]["kind"] == "file", "{found}");
    let missing = place.get(&place.of("/files/resolve?path=/tmp/verify/link/no/where"))?;
    ensure!(missing["path"] == "/tmp/verify/real/no/where" && missing.get("entry").is_none(), "{missing}");
    let through = format!("{}&follow_links=true", content(place, "/tmp/verify/link/g"));
    place.send("PUT", &through, b"new")?.expect(200)?;
    let left = place.run(&place.id, "cat /tmp/verify/real/f; readlink /tmp/verify/real/g")?;
    ensure!(left == "newf\n", "{left:?}");
    Ok(())
}

fn changed(place: &Place) -> Result<()> {
    place.send("PUT", &content(place, "/tmp/verify/b"), b"b")?.expect(200)?;
    place.post(&place.of("/files/mode"), 200, json!({"path": "/tmp/verify/b", "mode": 0o750}))?;
    // A shell asks in the oldest way: not every kernel inside answers the newest, which `stat` and `ls` use.
    ensure!(place.run(&place.id, "[ -x /tmp/verify/b ] && echo may")? == "may\n", "the mode");
    place.post(&place.of("/files/move"), 200, json!({"from": "/tmp/verify/b", "to": "/tmp/verify/c"}))?;
    ensure!(place.run(&place.id, "cat /tmp/verify/c; [ ! -e /tmp/verify/b ] || echo b")? == "b", "moved");
    place.call("DELETE", &place.of("/files?path=/tmp/verify/c"), 204)?;
    ensure!(place.run(&place.id, "[ ! -e /tmp/verify/c ] || echo c")?.is_empty(), "removed");
    Ok(())
}

fn archived(place: &Place) -> Result<()> {
    place.run(&place.id, "mkdir -p /tmp/verify/tree/x && echo leaf > /tmp/verify/tree/x/y")?;
    let archive = place.call("GET", &place.of("/files/archive?path=/tmp/verify/tree"), 200)?.body;
    ensure!(
        archive.len() >= 1024 && archive.windows(5).any(|five| five == b"leaf\n"),
        "{} bytes",
        archive.len()
    );
    place.run(&place.id, "mkdir -p /tmp/verify/again")?;
    place.send("PUT", &place.of("/files/archive?path=/tmp/verify/again"), &archive)?.expect(204)?;
    let found = place.run(&place.id, "cat $(find /tmp/verify/again -name y)")?;
    ensure!(found == "leaf\n", "{found:?}");
    Ok(())
}

fn signed(place: &Place) -> Result<()> {
    place.send("PUT", &content(place, "/tmp/verify/signed"), b"by address")?.expect(200)?;
    let address = |operation: &str| -> Result<String> {
        let request = json!({"path": "/tmp/verify/signed", "operation": operation, "expires_seconds": 60});
        let url = text(&place.post(&place.of("/files/sign"), 200, request)?["url"])?;
        let at = url.find("/v1/signed/").with_context(|| format!("no path in {url}"))?;
        Ok(url[at..].to_string())
    };
    ensure!(place.call("GET", &address("read")?, 200)?.body == b"by address", "read");
    place.send("PUT", &address("write")?, b"anew")?.expect(200)?;
    ensure!(place.run(&place.id, "cat /tmp/verify/signed")? == "anew", "written");
    let wrong = place.ask("GET", &format!("{}x", address("read")?), None)?;
    ensure!(wrong.status == 403, "a changed address: {}", wrong.status);
    Ok(())
}

fn watched(place: &Place) -> Result<()> {
    place.run(&place.id, "mkdir -p /tmp/verify/watched")?;
    let mut stream = place.stream(&place.of("/files/watch?path=/tmp/verify/watched"))?;
    wait_for(&mut stream, "watching")?;
    place.run(&place.id, "echo new > /tmp/verify/watched/seen-by-name")?;
    wait_for(&mut stream, "seen-by-name")
}
