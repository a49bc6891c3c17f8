//! Templates that tenants build. No registry is asked: the host may have no way out, so the build fails at its base.

use super::Check;
use super::place::Place;
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[Check {
    operations: &[
        "build_template",
        "list_template_builds",
        "get_template_build",
        "template_build_log",
        "get_template",
        "set_template_tag",
        "remove_template_tag",
        "upload_template_files",
        "delete_template",
    ],
    title: "a build says why it fails and reaches no registry of the host, its template has no tag, goes",
    run: templates,
}];

/// Nothing listens there, and a build asks nothing that is not at a public address.
const IMAGE: &str = "127.0.0.1:1/none";
const LOOKS: u32 = 100;

fn templates(place: &Place) -> Result<()> {
    let wanted =
        json!({"name": "verify-built", "image": IMAGE, "steps": [{"kind": "run", "command": "true"}]});
    let build = place.post("/v1/template-builds", 202, wanted)?;
    let id = build["id"].as_str().unwrap_or_default().to_string();
    let path = format!("/v1/template-builds/{id}");
    let mut told = place.get(&path)?;
    for _ in 0..LOOKS {
        if told["state"] == "failed" {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
        told = place.get(&path)?;
    }
    ensure!(told["state"] == "failed" && told["failure"]["message"].to_string().contains(IMAGE), "{told}");
    let newest = place.get("/v1/template-builds?limit=1")?;
    ensure!(newest["builds"][0]["id"] == id && newest["builds"][0]["state"] == "failed", "{newest}");
    let log = place.get(&format!("{path}/log?level=error"))?;
    ensure!(log.to_string().contains("not at a public address"), "{log}");
    let template = place.get("/v1/templates/verify-built")?;
    ensure!(template["name"] == "verify-built", "{template}");
    let tag = "/v1/templates/verify-built/tags/stable";
    let tagged = place.ask("PUT", tag, Some(json!({"build": id})))?;
    ensure!(tagged.status == 404, "the tag of a build that failed: {} {}", tagged.status, tagged.text());
    let untagged = place.ask("DELETE", tag, None)?;
    ensure!(untagged.status == 404, "a tag that is not there: {}", untagged.status);
    let files = place.ask("PUT", &format!("/v1/template-files/{}", "0".repeat(64)), Some(json!({})))?;
    ensure!(files.status == 200, "files of a step: {} {}", files.status, files.text());
    let short = place.ask("PUT", "/v1/template-files/0", Some(json!({})))?;
    ensure!(short.status == 400, "a hash that is too short: {}", short.status);
    place.call("DELETE", "/v1/templates/verify-built", 204)?;
    let gone = place.ask("GET", "/v1/templates/verify-built", None)?;
    ensure!(gone.status == 404, "a removed template: {}", gone.status);
    Ok(())
}
