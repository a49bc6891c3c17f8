//! Rights and ready things: tokens, tenants, pools, templates.

use super::Check;
use super::place::{Place, TEMPLATE, text};
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[
    Check { operations: &["who_am_i"], title: "the owner of the socket is told who it is", run: who },
    Check {
        operations: &["create_token", "list_tokens", "revoke_token"],
        title: "a token is made, listed without its secret, ended",
        run: tokens,
    },
    Check { operations: &["list_tenants", "set_quota"], title: "a tenant gets a quota", run: tenants },
    Check {
        operations: &["server_status", "stop_server"],
        title: "the server tells of itself; a stop with a parameter that nobody knows stops nothing",
        run: server,
    },
    Check { operations: &["list_templates"], title: "the template is there", run: templates },
    Check {
        operations: &["set_pool", "get_pool", "list_pools", "delete_pool"],
        title: "a pool is filled, gives a sandbox away, goes",
        run: pools,
    },
];

fn who(place: &Place) -> Result<()> {
    let told = place.get("/v1/whoami")?;
    ensure!(told.as_object().is_some_and(|fields| !fields.is_empty()), "{told}");
    Ok(())
}

fn tokens(place: &Place) -> Result<()> {
    let made =
        place.post("/v1/tokens", 201, json!({"tenant": "verify", "role": "user", "label": "of verify"}))?;
    let (id, secret) = (text(&made["id"])?, text(&made["secret"])?);
    let all = place.call("GET", "/v1/tokens", 200)?.text();
    ensure!(all.contains(&id) && !all.contains(&secret), "the list of tokens");
    place.call("DELETE", &format!("/v1/tokens/{id}"), 200)?;
    let left = place.call("GET", "/v1/tokens", 200)?.text();
    ensure!(!left.contains(&id), "a revoked token is still listed");
    Ok(())
}

fn tenants(place: &Place) -> Result<()> {
    let quota = json!({"live_sandboxes": 7});
    let set = place.ask("PUT", "/v1/tenants/verify/quota", Some(quota))?.expect(200)?.text();
    ensure!(set.contains('7'), "{set}");
    let all = place.call("GET", "/v1/tenants", 200)?.text();
    ensure!(all.contains("\"verify\"") && all.contains('7'), "{all}");
    Ok(())
}

fn server(place: &Place) -> Result<()> {
    let told = place.get("/v1/server")?;
    ensure!(told.as_object().is_some_and(|fields| !fields.is_empty()), "{told}");
    place.call("POST", "/v1/server/stop?now=true", 400)?;
    place.get("/v1/server").map(drop)
}

fn templates(place: &Place) -> Result<()> {
    let all = place.call("GET", "/v1/templates", 200)?.text();
    ensure!(all.contains(TEMPLATE), "{all}");
    Ok(())
}

fn pools(place: &Place) -> Result<()> {
    let path = format!("/v1/pools/{TEMPLATE}");
    place.ask("PUT", &path, Some(json!({"min": 1, "max": 1})))?.expect(200)?;
    place.until("one is ready", |place| Ok(place.get(&path)?["ready"].as_u64() >= Some(1)))?;
    let all = place.call("GET", "/v1/pools", 200)?.text();
    ensure!(all.contains(TEMPLATE), "{all}");
    let made = place.post("/v1/sandboxes", 201, json!({"template": TEMPLATE, "ttl_seconds": 60}))?;
    let id = text(&made["id"])?;
    ensure!(place.run(&id, "echo from the pool")? == "from the pool\n", "{made}");
    place.call("DELETE", &format!("/v1/sandboxes/{id}"), 200)?;
    place.call("DELETE", &path, 204)?;
    let gone = place.ask("GET", &path, None)?;
    ensure!(gone.status == 404, "a removed pool: {}", gone.status);
    Ok(())
}
