//! Rights and ready things: tokens, tenants, pools, templates.

use super::Check;
use super::place::{Place, TEMPLATE, text};
use anyhow::{Result, ensure};
use serde_json::json;

pub const CHECKS: &[Check] = &[
    Check { operations: &["who_am_i"], title: "the owner of the socket is told who it is", run: who },
    Check {
        operations: &["create_token", "list_tokens", "update_token", "revoke_token", "revoke_tokens"],
        title: "a token is made, listed without its secret, gets another role, ended; all of a tenant are ended",
        run: tokens,
    },
    Check {
        operations: &["create_sign_in_code", "sign_in"],
        title: "a code is exchanged for a token that ends by itself, once",
        run: sign_in,
    },
    Check { operations: &["list_tenants", "set_quota"], title: "a tenant gets a quota", run: tenants },
    Check {
        operations: &["server_status", "server_load", "last_verify", "stop_server"],
        title: "the server tells of itself, its host and the last verify; a stop with a parameter that nobody knows stops nothing",
        run: server,
    },
    Check {
        operations: &["node_report", "cordon_node", "uncordon_node"],
        title: "the server reports as a node and takes new sandboxes; a cordon with a parameter that nobody knows changes nothing",
        run: node,
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
    let made = place.post("/v1/tokens", 201, json!({"tenant": "verify-ended", "role": "user"}))?;
    let id = text(&made["id"])?;
    let changed = place.ask("PATCH", &format!("/v1/tokens/{id}"), Some(json!({"role": "read-only"})))?;
    let changed = changed.expect(200)?.json()?;
    ensure!(changed["role"] == "read-only" && changed["id"] == id, "{changed}");
    let ended = place.call("DELETE", "/v1/tenants/verify-ended/tokens", 200)?.json()?;
    ensure!(ended["tokens"][0]["id"] == id && ended["tokens"][1].is_null(), "{ended}");
    Ok(())
}

fn sign_in(place: &Place) -> Result<()> {
    let code = place.post("/v1/sign-in-codes", 201, json!({"tenant": "verify", "role": "user"}))?;
    let code = json!({"code": text(&code["code"])?});
    let made = place.post("/v1/sign-in", 201, code.clone())?;
    ensure!(made["tenant"] == "verify" && made["expires_at_ms"].is_u64(), "{made}");
    place.ask("POST", "/v1/sign-in", Some(code))?.expect(401)?;
    place.call("DELETE", &format!("/v1/tokens/{}", text(&made["id"])?), 200).map(drop)
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
    let load = place.get("/v1/server/load")?;
    ensure!(load.as_object().is_some_and(|fields| !fields.is_empty()), "{load}");
    let last = place.get("/v1/verify")?;
    ensure!(last["results"].is_array(), "{last}");
    place.call("POST", "/v1/server/stop?now=true", 400)?;
    place.get("/v1/server").map(drop)
}

/// Other checks make sandboxes meanwhile: it is not cordoned for them.
fn node(place: &Place) -> Result<()> {
    let report = place.get("/v1/node")?;
    ensure!(
        report["state"] == "ready" && report["protocol"].is_u64() && report["live"].is_object(),
        "{report}"
    );
    place.call("POST", "/v1/node/cordon?now=true", 400)?;
    let report = place.call("POST", "/v1/node/uncordon", 200)?.json()?;
    ensure!(report["state"] == "ready", "{report}");
    Ok(())
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
