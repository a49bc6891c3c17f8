//! Values that are kept for scripts.

use super::Check;
use super::place::Place;
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[Check {
    operations: &["set_resource", "list_resources", "get_resource", "remove_resource"],
    title: "a resource is kept, what is bound to a host is not shown and enters no sandbox, goes",
    run: resources,
}];

const VALUE: &str = "verify-resource-value";

fn resources(place: &Place) -> Result<()> {
    let path = "/v1/resources/u%2Fverify%2Fapi";
    let body =
        json!({"type": "api", "value": {"key": VALUE, "days": 7}, "secrets": {"key": ["api.example.com"]}});
    let set = place.ask("PUT", path, Some(body))?;
    ensure!(set.status == 200, "set: {} {}", set.status, set.text());
    let all = place.call("GET", "/v1/resources", 200)?.text();
    ensure!(all.contains("u/verify/api") && !all.contains(VALUE), "{all}");
    let one = place.get(path)?;
    ensure!(one["value"] == json!({"key": "(bound to api.example.com)", "days": 7}), "{one}");

    let secret =
        |host: &str| json!({"secrets": {"KEY": {"from": "resource:u/verify/api.key", "hosts": [host]}}});
    let elsewhere = place.ask("POST", "/v1/sandboxes", Some(secret("evil.example.com")))?;
    ensure!(elsewhere.status == 403, "another host: {} {}", elsewhere.status, elsewhere.text());
    let sandbox = place.create(secret("api.example.com"))?;
    let said = place.run(&sandbox, "echo $KEY; env")?;
    ensure!(said.starts_with("paddock-secret-") && !said.contains(VALUE), "{said:?}");
    place.call("DELETE", &format!("/v1/sandboxes/{sandbox}"), 200)?;

    let wrong = place.ask(
        "PUT",
        path,
        Some(json!({"value": {"key": 3}, "secrets": {"key": ["api.example.com"]}})),
    )?;
    ensure!(wrong.status == 400, "a number that is bound: {} {}", wrong.status, wrong.text());
    place.call("DELETE", path, 204)?;
    let gone = place.ask("GET", path, None)?;
    ensure!(gone.status == 404, "a removed resource: {}", gone.status);
    Ok(())
}
