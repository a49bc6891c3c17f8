//! Secrets that are kept under a name.

use super::Check;
use super::place::Place;
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[Check {
    operations: &["create_secret", "list_secrets", "get_secret", "update_secret", "remove_secret"],
    title: "a secret is kept and changed, its value is shown nowhere and enters no sandbox, goes",
    run: secrets,
}];

const VALUE: &str = "verify-kept-secret-value";
const NEXT: &str = "verify-kept-secret-next";

fn secrets(place: &Place) -> Result<()> {
    let path = "/v1/secrets/verify%2Fkey";
    let hosts = ["api.example.com"];
    let made = place.post(
        "/v1/secrets",
        201,
        json!({"name": "verify/key", "value": VALUE, "metadata": {"team": "a"}, "hosts": hosts}),
    )?;
    ensure!(made["version"] == 1, "{made}");
    let taken = place.ask("POST", "/v1/secrets", Some(json!({"name": "verify/key", "value": VALUE})))?;
    ensure!(taken.status == 409, "a name that is taken: {}", taken.status);
    let put = place.ask("PUT", path, Some(json!({"value": NEXT})))?;
    ensure!(put.status == 200 && put.json()?["version"] == 2, "a new value: {} {}", put.status, put.text());
    let seen = format!("{}{}", place.call("GET", "/v1/secrets", 200)?.text(), place.get(path)?);
    ensure!(seen.contains("verify/key") && !seen.contains(VALUE) && !seen.contains(NEXT), "{seen}");

    let secret = |host: &str| json!({"secrets": {"KEY": {"from": "secret:verify/key", "hosts": [host]}}});
    let elsewhere = place.ask("POST", "/v1/sandboxes", Some(secret("evil.example.com")))?;
    ensure!(elsewhere.status == 403, "another host: {} {}", elsewhere.status, elsewhere.text());
    let sandbox = place.create(secret(hosts[0]))?;
    let said = place.run(&sandbox, "echo $KEY; env")?;
    ensure!(said.starts_with("paddock-secret-") && !said.contains(NEXT), "{said:?}");
    place.call("DELETE", &format!("/v1/sandboxes/{sandbox}"), 200)?;

    let short = place.ask("PUT", path, Some(json!({"value": "short"})))?;
    ensure!(short.status == 400, "a value that is too short: {}", short.status);
    place.call("DELETE", path, 204)?;
    let gone = place.ask("GET", path, None)?;
    ensure!(gone.status == 404, "a removed secret: {}", gone.status);
    Ok(())
}
