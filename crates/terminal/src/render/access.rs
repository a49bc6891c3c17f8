//! Tokens and tenants.

use super::table::Table;
use super::time;
use paddock_model::api::{Role, Tenant, Token};
use paddock_model::format_bytes;

pub fn tokens(tokens: &[Token], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["ID", "TENANT", "ROLE", "CREATED", "EXPIRES", "LABEL"]);
    for token in tokens {
        let role = match token.role {
            Role::Admin => "admin",
            Role::User => "user",
            Role::ReadOnly => "read-only",
        };
        table.row([
            token.id.as_str().into(),
            token.tenant.as_str().into(),
            role.into(),
            time::relative(token.created_at_ms, now_ms).as_str().into(),
            token.expires_at_ms.map_or_else(|| "-".into(), |end| time::relative(end, now_ms)).as_str().into(),
            token.label.as_deref().unwrap_or("").into(),
        ]);
    }
    table.render(colour)
}

pub fn tenants(tenants: &[Tenant], colour: bool) -> String {
    let mut table = Table::with_header(&[
        "TENANT",
        "SANDBOXES",
        "CPUS",
        "MEMORY",
        "CREATES PER MINUTE",
        "VOLUMES",
        "WAITING",
    ]);
    for tenant in tenants {
        let (quota, usage) = (&tenant.quota, &tenant.usage);
        let of = |used: String, limit: Option<String>| match limit {
            Some(limit) => format!("{used} / {limit}"),
            None => used,
        };
        table.row(
            [
                tenant.name.clone(),
                of(usage.live_sandboxes.to_string(), quota.live_sandboxes.map(|limit| limit.to_string())),
                of(usage.cpus.to_string(), quota.cpus.map(|limit| limit.to_string())),
                of(format_bytes(usage.memory_bytes), quota.memory_bytes.map(format_bytes)),
                quota.creates_per_minute.map_or_else(|| "-".to_string(), |limit| limit.to_string()),
                volumes(quota),
                usage.waiting.to_string(),
            ]
            .iter()
            .map(|cell| cell.as_str().into()),
        );
    }
    table.render(colour)
}

/// The limits of volumes; `paddock volume ls` shows their use.
fn volumes(quota: &paddock_model::api::Quota) -> String {
    match (quota.volumes, quota.volume_bytes) {
        (None, None) => "-".into(),
        (Some(count), None) => count.to_string(),
        (None, Some(bytes)) => format_bytes(bytes),
        (Some(count), Some(bytes)) => format!("{count}, {}", format_bytes(bytes)),
    }
}
