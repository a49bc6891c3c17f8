//! The signed timeline of a sandbox.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{NoQuery, Query, Target};
use crate::stream;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use paddock_fleet::AuditLines;
use paddock_model::api::AuditOutput;
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Says where a timeline is not as it was written.
const DAMAGED: HeaderName = HeaderName::from_static("paddock-damaged");

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(sandbox_audit)).routes(routes!(sandbox_audit_outputs))
}

/// All that was done to a sandbox, as lines of JSON
///
/// Each line holds the hash of the one before, and a signature; the last one, `head`, says how many there are.
/// `paddock audit verify` checks them offline.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/audit", tag = "audit",
    params(("id" = String, Path, description = "Id or name")),
    responses((status = 200, description = "One record per line", content_type = "application/x-ndjson", body = Object),
        (status = 206, description = "The timeline is damaged, and this is what is there: header `Paddock-Damaged` says where",
            content_type = "application/x-ndjson", body = Object)))]
async fn sandbox_audit(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: NoQuery,
) -> Result<Response, Failure> {
    let AuditLines { lines, damage } = app.fleet().audit_lines(&actor, &id).await?;
    let mut response = stream::download(&app, lines, stream::NDJSON);
    if let Some(damage) = damage {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let told = HeaderValue::from_str(&damage.escape_default().to_string());
        response.headers_mut().insert(DAMAGED, told.unwrap_or(HeaderValue::from_static("it was changed")));
    }
    Ok(response)
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct OutputsQuery {
    /// Of this call only.
    exec: Option<u32>,
}

/// The outputs of commands and code that the audit keeps
///
/// For an admin. Each is opened and compared with the digests of its signed entry (`verified`). Kept are 32 KiB of either end of
/// each stream, sealed at rest; the oldest go when all of them are too much (`serve --audit-outputs`).
#[utoipa::path(get, path = "/v1/sandboxes/{id}/audit/outputs", tag = "audit",
    params(("id" = String, Path, description = "Id or name"), OutputsQuery),
    responses((status = 200, description = "One output per line", content_type = "application/x-ndjson", body = AuditOutput)))]
async fn sandbox_audit_outputs(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(query): Query<OutputsQuery>,
) -> Result<Response, Failure> {
    Ok(stream::audit_outputs(&app, app.fleet().audit_outputs(&actor, &id, query.exec).await?))
}
