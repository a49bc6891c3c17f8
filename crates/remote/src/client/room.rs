//! A create that waits because its tenant's quota is full says so, instead of standing still for up to a minute.

use super::{Call, Client, ClientError, Target};
use paddock_model::api::{CreateSandbox, Sandbox, Tenant};
use paddock_model::format_bytes;
use paddock_terminal::render;
use serde::Deserialize;
use std::io::Write;
use std::time::Duration;

/// Before the server is asked why a create takes so long. Most are done by then.
const UNREMARKABLE: Duration = Duration::from_millis(300);

#[derive(Deserialize)]
struct Me {
    tenant: String,
}

/// Makes a sandbox, and tells on standard error that it waits for room.
pub async fn create(client: &Client, request: &CreateSandbox) -> Result<Sandbox, ClientError> {
    let making = client.post_once(Target::new("/v1/sandboxes"), request);
    tokio::pin!(making);
    tokio::select! {
        made = &mut making => return made,
        () = tokio::time::sleep(UNREMARKABLE) => {}
    }
    tokio::select! {
        made = &mut making => made,
        told = waits_for(client, request) => {
            if let Some(words) = told {
                let _ = writeln!(std::io::stderr(), "paddock: {}", render::escape::line(&words));
            }
            making.await
        }
    }
}

/// In words: the part of its tenant's quota that has no room for it. Nothing where it is something else that takes the time.
async fn waits_for(client: &Client, request: &CreateSandbox) -> Option<String> {
    let me: Me = client.json(Call::get(Target::new("/v1/whoami"))).await.ok()?;
    let tenant = client.tenants().await.ok()?.into_iter().find(|tenant| tenant.name == me.tenant)?;
    let full = full(&tenant, request)?;
    Some(format!(
        "the quota of tenant `{}` is full ({full}): waiting for room, up to a minute; Ctrl-C gives up",
        tenant.name
    ))
}

fn full(tenant: &Tenant, request: &CreateSandbox) -> Option<String> {
    let (quota, usage) = (&tenant.quota, &tenant.usage);
    if usage.waiting == 0 {
        return None;
    }
    let sandboxes = quota.live_sandboxes.filter(|most| usage.live_sandboxes >= *most);
    let memory = quota
        .memory_bytes
        .filter(|most| usage.memory_bytes + request.limits.memory_bytes.unwrap_or_default() > *most);
    let cpus = quota.cpus.filter(|most| usage.cpus + request.limits.cpus.unwrap_or_default() > *most);
    Some(match (sandboxes, memory, cpus) {
        (Some(most), _, _) => format!("{} of {most} sandboxes", usage.live_sandboxes),
        (_, Some(most), _) => {
            format!("{} of {} memory", format_bytes(usage.memory_bytes), format_bytes(most))
        }
        (_, _, Some(most)) => format!("{} of {most} processors", usage.cpus),
        _ => "creates per minute, memory or processors".to_string(),
    })
}
