//! Snapshots, forks, changes, merges.

use super::Check;
use super::place::{Place, text};
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[
    Check {
        operations: &["create_snapshot", "get_snapshot", "list_snapshots", "delete_snapshot"],
        title: "files are kept, and a new sandbox begins with them",
        run: snapshots,
    },
    Check {
        operations: &["fork_sandbox", "merge_changes"],
        title: "children with the same files, whose changes come back",
        run: forks,
    },
    Check {
        operations: &["list_changes", "changes_archive", "changes_patch"],
        title: "what was changed since the start",
        run: changes,
    },
];

fn snapshots(place: &Place) -> Result<()> {
    place.run(&place.id, "echo of-then > /home/agent/of-then")?;
    let made = place.post(&place.of("/snapshots"), 201, json!({"name": "verify-snapshot"}))?;
    let snapshot = text(&made["id"])?;
    ensure!(place.get(&format!("/v1/snapshots/{snapshot}"))?["name"] == "verify-snapshot", "get");
    let all = place.call("GET", "/v1/snapshots", 200)?.text();
    ensure!(all.contains(&snapshot), "{all}");
    place.run(&place.id, "echo of-now > /home/agent/of-then")?;
    let child = place.create(json!({"snapshot": snapshot}))?;
    let found = place.run(&child, "cat /home/agent/of-then")?;
    place.call("DELETE", &format!("/v1/sandboxes/{child}"), 200)?;
    ensure!(found == "of-then\n", "{found:?}");
    place.call("DELETE", &format!("/v1/snapshots/{snapshot}"), 200)?;
    let gone = place.ask("GET", &format!("/v1/snapshots/{snapshot}"), None)?;
    ensure!(gone.status == 404, "a removed snapshot: {}", gone.status);
    Ok(())
}

fn forks(place: &Place) -> Result<()> {
    place.run(&place.id, "echo shared > /home/agent/shared")?;
    let forked = place.post(&place.of("/fork"), 201, json!({"count": 2}))?;
    let mut children = Vec::new();
    for child in forked["sandboxes"].as_array().into_iter().flatten() {
        children.push(text(&child["id"])?);
    }
    ensure!(children.len() == 2, "{forked}");
    for child in &children {
        ensure!(place.run(child, "cat /home/agent/shared")? == "shared\n", "a child without the file");
    }
    place.run(&children[0], "echo by-child > /home/agent/of-child")?;
    let alone = place.run(&children[1], "echo /home/agent/*")?;
    ensure!(!alone.contains("of-child"), "children share a disk");
    let merged = place.post(&place.of("/merge"), 200, json!({"from": children[0]}))?;
    ensure!(
        merged["conflicts"] == json!([]) && merged["merged"].to_string().contains("of-child"),
        "{merged}"
    );
    ensure!(place.run(&place.id, "cat /home/agent/of-child")? == "by-child\n", "it did not come back");
    for child in children {
        place.call("DELETE", &format!("/v1/sandboxes/{child}"), 200)?;
    }
    Ok(())
}

fn changes(place: &Place) -> Result<()> {
    place.run(&place.id, "echo patched > /home/agent/of-a-change")?;
    let told = place.call("GET", &place.of("/changes"), 200)?.text();
    ensure!(told.contains("of-a-change") && told.contains("added"), "{told}");
    let archive = place.call("GET", &place.of("/changes/archive"), 200)?.body;
    ensure!(archive.windows(8).any(|eight| eight == b"patched\n"), "{} bytes of archive", archive.len());
    let patch = place.call("GET", &place.of("/changes/patch"), 200)?.text();
    ensure!(patch.contains("+patched"), "{patch}");
    Ok(())
}
