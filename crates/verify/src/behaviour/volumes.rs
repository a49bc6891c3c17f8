//! Directories that outlive sandboxes.

use super::Check;
use super::place::{Place, text};
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[Check {
    operations: &[
        "create_volume",
        "list_volumes",
        "get_volume",
        "write_volume_file",
        "checkpoint_volume",
        "volume_history",
        "volume_files",
        "read_volume_file",
        "stat_volume_file",
        "make_volume_directory",
        "change_volume_mode",
        "delete_volume_file",
        "restore_volume",
        "share_volume",
        "remove_volume",
    ],
    title: "a volume is written by one sandbox, read by another, restored, goes",
    run: volumes,
}];

const NAME: &str = "verify-volume";

fn volumes(place: &Place) -> Result<()> {
    let path = format!("/v1/volumes/{NAME}");
    place.post("/v1/volumes", 201, json!({"name": NAME}))?;
    let all = place.call("GET", "/v1/volumes", 200)?.text();
    ensure!(all.contains(NAME), "{all}");
    place.send("PUT", &format!("{path}/files/content?path=put"), b"from outside")?.expect(200)?;

    let writable = json!([{"name": NAME, "path": "/data/volume", "mode": "rw"}]);
    let writer = place.create(json!({"volumes": writable}))?;
    let said = place.run(&writer, "cat /data/volume/put; echo inside > /data/volume/made")?;
    ensure!(said == "from outside", "{said:?}");
    let checkpoint = format!("/v1/sandboxes/{writer}/volumes/{NAME}/checkpoint");
    let checkpoint = place.call("POST", &checkpoint, 200)?.json()?;
    ensure!(checkpoint["version"] == 2, "{checkpoint}");
    let busy = place.ask("POST", "/v1/sandboxes", Some(json!({"volumes": writable})))?;
    ensure!(busy.status == 409, "a second writer: {} {}", busy.status, busy.text());
    let put = format!("{path}/files/content?path=put");
    let busy = place.send("PUT", &put, b"while it is held")?;
    ensure!(busy.status == 409, "a change of a volume that a sandbox has: {}", busy.status);
    place.send("PUT", &format!("{put}&live=true"), b"through the sandbox")?.expect(200)?;
    let said = place.run(&writer, "cat /data/volume/put; echo at the end >> /data/volume/made")?;
    ensure!(said == "through the sandbox", "{said:?}");
    let seen = place.call("GET", &format!("{path}/files/content?path=made&live=true"), 200)?.text();
    ensure!(seen == "inside\nat the end\n", "{seen:?}");
    place.call("DELETE", &format!("/v1/sandboxes/{writer}"), 200)?;

    let read_only = json!([{"name": NAME, "path": "/data/volume", "mode": "ro"}]);
    let reader = place.create(json!({"volumes": read_only}))?;
    let script = "cat /data/volume/made; touch /data/volume/x 2>/dev/null || echo refused; mount -o remount,rw /data/volume \
                  2>/dev/null; touch /data/volume/x 2>/dev/null || echo refused";
    let said = place.run(&reader, script)?;
    ensure!(said == "inside\nat the end\nrefused\nrefused\n", "{said:?}");
    place.call("DELETE", &format!("/v1/sandboxes/{reader}"), 200)?;

    let history = place.get(&format!("{path}/history"))?;
    ensure!(history["versions"].as_array().is_some_and(|versions| versions.len() == 4), "{history}");
    let files = place.get(&format!("{path}/files"))?;
    ensure!(text(&files["files"][0]["path"])? == "made", "{files}");
    let content = place.call("GET", &format!("{path}/files/content?path=made&version=2"), 200)?.text();
    ensure!(content == "inside\n", "{content:?}");
    place.call("DELETE", &format!("{path}/files?path=made"), 200)?;
    place.post(&format!("{path}/files/directory"), 201, json!({"path": "a/b", "parents": true}))?;
    place.post(&format!("{path}/files/mode"), 200, json!({"path": "a/b", "mode": 0o700}))?;
    let stat = place.get(&format!("{path}/files/stat?path=a/b"))?;
    ensure!(stat["kind"] == "directory" && stat["mode"] == 0o700, "{stat}");
    let out = place.ask("GET", &format!("{path}/files/stat?path=../x"), None)?;
    ensure!(out.status == 400, "a path that leads out: {}", out.status);
    let restored = place.post(&format!("{path}/restore"), 200, json!({"version": 1}))?;
    ensure!(restored["version"] == 8 && restored["files"] == 1, "{restored}");
    let shared = place.post(&format!("{path}/share"), 200, json!({"tenant": "other", "mode": "ro"}))?;
    ensure!(shared["shared"]["other"] == "ro", "{shared}");
    ensure!(place.get(&path)?["version"] == 8, "the current version");
    place.call("DELETE", &path, 200)?;
    let gone = place.ask("GET", &path, None)?;
    ensure!(gone.status == 404, "a removed volume: {}", gone.status);
    Ok(())
}
