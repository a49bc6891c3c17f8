//! The description of the API, made from the handlers themselves.

use crate::app;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;

#[derive(OpenApi)]
#[openapi(
    info(title = "Paddock", description = "Sandboxes for code that nobody has read: create, run, read, fork, end."),
    paths(crate::ports::through_port),
    components(schemas(paddock_model::api::ApiError)),
    modifiers(&Tokens),
    security(("token" = [])),
    tags(
        (name = "sandboxes", description = "From creation to a day after the end"),
        (name = "execs", description = "Commands inside"),
        (name = "code", description = "Code in contexts that remember"),
        (name = "files", description = "Files inside; the sandbox itself resolves every path"),
        (name = "ports", description = "HTTP and WebSocket to a port inside"),
        (name = "snapshots", description = "Named states of files, and forks"),
        (name = "changes", description = "Changes of a sandbox, and merging them back"),
        (name = "network", description = "Traffic that leaves a sandbox, and traffic that was refused"),
        (name = "events", description = "The life of all sandboxes, as it happens"),
        (name = "audit", description = "The signed timeline of a sandbox"),
        (name = "access", description = "Tokens, tenants, quotas"),
        (name = "templates", description = "Descriptions that sandboxes are made from"),
        (name = "pools", description = "Sandboxes that are ready before anybody asks"),
        (name = "volumes", description = "Directories that outlive sandboxes, and their versions"),
        (name = "resources", description = "Typed values that are kept for scripts"),
        (name = "secrets", description = "Values that are kept under a name, and never shown"),
        (name = "jobs", description = "Work that is described once, queued, and outlives whoever sent it"),
        (name = "server", description = "About the server itself")
    )
)]
struct Document;

struct Tokens;

impl utoipa::Modify for Tokens {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("token", bearer);
    }
}

/// OpenAPI 3.1 as JSON with a stable order; the same text as spec/openapi.json.
pub fn openapi() -> String {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
        text.push('\n');
        text
    });
    TEXT.clone()
}

pub fn document() -> Value {
    let router = OpenApiRouter::with_openapi(Document::openapi()).merge(app::protected()).merge(app::open());
    let (_, document) = router.split_for_parts();
    let mut document = serde_json::to_value(document).unwrap_or_default();
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, item) in paths {
            for (method, operation) in item.as_object_mut().into_iter().flatten() {
                complete(path, method, operation);
            }
        }
    }
    document
}

/// The facts that hold for every operation, said here once instead of at each handler.
fn complete(path: &str, method: &str, operation: &mut Value) {
    if operation["operationId"] == "through_port" {
        // One handler for all methods; an id is to be unique.
        operation["operationId"] = json!(format!("through_port_{method}"));
    }
    let open = operation["security"] == json!([{}]);
    let body = operation["requestBody"]["content"].as_object().cloned();
    let in_sandbox = path.contains("{id}") || (path == "/v1/sandboxes" && method == "post");
    let mut statuses = vec![400, 403, 500];
    if !open {
        statuses.push(401);
    }
    if path.starts_with("/v1/") {
        statuses.push(503);
    }
    if path.contains('{') {
        statuses.push(404);
    }
    if in_sandbox {
        // Any request can wake a hibernated sandbox, and meet all that a create can meet.
        statuses.extend([404, 409, 410, 422, 429, 507]);
    }
    if path.starts_with("/v1/jobs") {
        // The refusals that its sandboxes would meet are told when the job is sent.
        statuses.extend([404, 409, 410, 422, 429, 507]);
    }
    if path.starts_with("/v1/volumes") {
        // Another sandbox writes to it, a quota is full, or the store cannot be reached.
        statuses.extend([409, 422, 429, 502, 507]);
    }
    if let Some(body) = &body {
        statuses.extend([408, 413]);
        if body.contains_key("application/json") {
            statuses.push(415);
        }
    }
    let Some(responses) = operation["responses"].as_object_mut() else { return };
    for status in statuses {
        responses.entry(status.to_string()).or_insert_with(|| error_response(status));
    }
    describe(responses);
}

fn error_response(status: u16) -> Value {
    json!({
        "description": meaning(status),
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/ApiError" } } }
    })
}

/// A description is required of every response, and most handlers have nothing to add to the status.
fn describe(responses: &mut Map<String, Value>) {
    for (status, response) in responses {
        let empty = response["description"].as_str().unwrap_or_default().is_empty();
        if empty {
            response["description"] = json!(meaning(status.parse().unwrap_or_default()));
        }
    }
}

fn meaning(status: u16) -> &'static str {
    match status {
        200 => "Done",
        201 => "Created",
        204 => "Done; there is nothing to show",
        400 => "The request is not valid",
        401 => "No token, or an unknown one",
        403 => "Not allowed",
        404 => "There is no such thing, or it is somebody else's",
        408 => "The body did not come in time",
        409 => "It exists already, or is not in the right state",
        410 => "The sandbox has ended",
        413 => "The body is too large",
        415 => "The body is not JSON",
        422 => "This host cannot do that",
        429 => "A quota is full; Retry-After says when to try again",
        500 => "Paddock itself failed",
        502 => "Nothing answers at that port",
        503 => "Not now",
        507 => "The disk is full",
        _ => "As the sandbox answers",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_document_is_the_one_of_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/openapi.json");
        if std::env::var_os("PADDOCK_WRITE_SPEC").is_some() {
            std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec")).expect("makes");
            std::fs::write(path, openapi()).expect("writes");
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == openapi(),
            "spec/openapi.json is not what the code says: PADDOCK_WRITE_SPEC=1 cargo test -p paddock-server openapi"
        );
    }

    #[test]
    fn every_operation_is_complete() {
        let document = document();
        assert!(document["openapi"].as_str().expect("a version").starts_with("3.1"));
        let mut ids = std::collections::BTreeSet::new();
        for (path, item) in document["paths"].as_object().expect("paths") {
            for (method, operation) in item.as_object().expect("operations") {
                let id = operation["operationId"].as_str().expect("an id");
                assert!(ids.insert(id.to_string()), "{id} is there twice");
                assert!(operation["summary"].is_string(), "{method} {path} has no summary");
                let responses = operation["responses"].as_object().expect("responses");
                assert!(responses.contains_key("500") && responses.len() >= 4, "{method} {path}");
                for name in path.split('{').skip(1).filter_map(|rest| rest.split('}').next()) {
                    let known = operation["parameters"].as_array().is_some_and(|parameters| {
                        parameters
                            .iter()
                            .any(|parameter| parameter["name"] == name && parameter["in"] == "path")
                    });
                    assert!(known, "{method} {path} does not describe {name}");
                }
            }
        }
        assert!(ids.len() > 50, "{}", ids.len());
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"#/components/schemas/").skip(1) {
            let name = reference.split('"').next().expect("a name");
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
    }
}
