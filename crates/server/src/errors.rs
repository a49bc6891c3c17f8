//! Every answer that is not a success: one shape, a stable code, the right status.

use crate::dialects::e2b;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use paddock_fleet::FleetError;
use paddock_model::api::{ApiError, ErrorDetails, NotForked};

/// A failed request. It becomes an answer without its request's id; [`crate::request::answer`] writes the body, as only
/// there the id is known.
#[derive(Debug, Clone)]
pub struct Failure {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    pub hint: Option<String>,
    pub retry_after_seconds: Option<u32>,
    pub details: Option<Box<ErrorDetails>>,
}

impl Failure {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Failure {
        Failure {
            status,
            code,
            message: message.into(),
            hint: None,
            retry_after_seconds: None,
            details: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub fn unauthorized(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub fn internal() -> Failure {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the server failed")
            .hint("The server's log has the details under this request's id.")
    }

    /// The server is ending; the sandboxes and their work go on.
    pub fn shutting_down() -> Failure {
        let mut failure =
            Failure::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", "the server is shutting down")
                .hint("Sandboxes and what runs in them go on. Ask again when the server is back.");
        failure.retry_after_seconds = Some(1);
        failure
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Failure {
        self.hint = Some(hint.into());
        self
    }

    /// Failures of the server itself name paths of the host, which only its owner may see.
    pub fn without_host(mut self) -> Failure {
        hide_host(self.code, self.status.as_u16(), &mut self.message, &mut self.hint);
        self
    }

    pub fn body(&self, request_id: &str) -> ApiError {
        ApiError {
            code: self.code.into(),
            message: self.message.clone(),
            hint: self.hint.clone(),
            request_id: request_id.into(),
            details: self.details.as_deref().cloned(),
        }
    }
}

/// The same for the forks of an answer that were not made.
pub fn hide_host_of(failed: &mut [NotForked]) {
    for one in failed {
        hide_host(&one.code, one.status, &mut one.message, &mut one.hint);
    }
}

fn hide_host(code: &str, status: u16, message: &mut String, hint: &mut Option<String>) {
    let (said, keeps_hint) = match (code, status) {
        ("storage_failed", _) => ("the server's storage failed", false),
        // Every caller may know which resource the server lacks; only the owner may know where it found out.
        ("too_many_open_files", _) => ("the server has no file descriptors left", true),
        ("too_many_processes", _) => ("the server can start no more processes", true),
        ("too_many_namespaces", _) => ("the server's host has no namespaces left", true),
        ("too_many_mounts", _) => ("the server's host allows no more mounts", true),
        ("too_many_cgroups", _) => ("the server's host has no cgroups left", true),
        ("too_many_sandboxes", _) => ("the server's host can hold no more sandboxes", true),
        ("host_out_of_memory", _) => ("the server's host is short of memory", true),
        ("volume_store_unavailable" | "volume_store_denied" | "volume_location", _) => {
            ("the store of volumes failed", false)
        }
        ("volume_store_full", _) => ("the store of volumes is full", false),
        (_, 500) => ("the server failed", false),
        _ => return,
    };
    *message = said.into();
    if !keeps_hint {
        *hint = Some("The server's log has the details under this request's id.".into());
    }
}

impl From<FleetError> for Failure {
    fn from(error: FleetError) -> Failure {
        Failure {
            status: StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code: error.code,
            retry_after_seconds: error.kind.retry_after_seconds(),
            message: error.message,
            hint: error.hint,
            details: error.details,
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

pub async fn unknown_route(request: Request) -> Response {
    if e2b::speaks(&request) {
        return e2b::refuse(request).await.into_response();
    }
    let path = shorten(request.uri().path());
    Failure::new(StatusCode::NOT_FOUND, "invalid_request", format!("there is nothing at {path:?}"))
        .hint("GET /docs lists what there is.")
        .into_response()
}

pub async fn wrong_method(request: Request) -> Response {
    if e2b::speaks(&request) {
        return e2b::refuse(request).await.into_response();
    }
    let (method, path) = (shorten(request.method().as_str()), shorten(request.uri().path()));
    Failure::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "invalid_request",
        format!("{path:?} does not take the method {method}"),
    )
    .hint("The Allow header of this answer names the methods that it takes.")
    .into_response()
}

/// A part of a stranger's text, short enough for a message.
pub fn shorten(text: &str) -> String {
    const SHOWN_CHARACTERS: usize = 120;
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_fleet::Kind;

    #[test]
    fn each_kind_of_failure_has_its_status() {
        let cases = [
            (Kind::Invalid, "invalid_request", 400),
            (Kind::Forbidden, "forbidden", 403),
            (Kind::NotFound, "sandbox_not_found", 404),
            (Kind::Conflict, "name_taken", 409),
            (Kind::TooMany { retry_after_seconds: 7 }, "quota_exceeded", 429),
            (Kind::TooLarge, "too_large", 413),
            (Kind::Unsupported, "unsupported", 422),
            (Kind::Gone, "sandbox_ended", 410),
            (Kind::Internal, "internal", 500),
            (Kind::Unavailable, "guest_lost", 503),
            (Kind::Unavailable, "port_closed", 502),
            (Kind::Unavailable, "disk_full", 507),
            (Kind::Busy { retry_after_seconds: 5 }, "too_many_open_files", 503),
        ];
        for (kind, code, status) in cases {
            let failure = Failure::from(FleetError::new(kind, code, "words"));
            assert_eq!((failure.status.as_u16(), failure.code), (status, code), "{kind:?}");
        }
        let full =
            Failure::from(FleetError::new(Kind::TooMany { retry_after_seconds: 7 }, "quota_exceeded", ""));
        assert_eq!(full.into_response().headers()["retry-after"], "7");
        let busy = Kind::Busy { retry_after_seconds: 5 };
        let busy =
            Failure::from(FleetError::new(busy, "too_many_open_files", "/var/lib/paddock/x").hint("wait"));
        let shown = busy.without_host();
        assert!(!shown.message.contains("/var") && shown.hint.as_deref() == Some("wait"));
        assert_eq!(shown.into_response().headers()["retry-after"], "5");
    }

    #[test]
    fn places_of_the_host_are_not_shown_to_strangers() {
        for (kind, code) in [
            (Kind::Internal, "internal"),
            (Kind::Unavailable, "storage_failed"),
            (Kind::Unavailable, "volume_store_unavailable"),
            (Kind::Unavailable, "volume_store_full"),
        ] {
            let failure =
                Failure::from(FleetError::new(kind, code, "/var/lib/paddock is full").hint("see /var"));
            let shown = failure.without_host();
            assert_eq!(shown.code, code);
            assert!(!format!("{shown:?}").contains("/var"));
        }
        let kept = Failure::invalid("words").without_host();
        assert_eq!(kept.message, "words");
        let mut failed = ["storage_failed", "quota_exceeded"].map(|code| NotForked {
            place: 0,
            status: 503,
            code: code.into(),
            message: "/var/lib/paddock is full".into(),
            hint: Some("see /var".into()),
            retry_after_seconds: None,
        });
        hide_host_of(&mut failed);
        assert!(!format!("{:?}", failed[0]).contains("/var"), "{failed:?}");
        assert_eq!(failed[1].message, "/var/lib/paddock is full");
    }

    #[test]
    fn what_is_quoted_is_cut_between_characters() {
        assert_eq!(shorten(&"ä".repeat(500)), format!("{}...", "ä".repeat(120)));
        assert_eq!(shorten("short"), "short");
    }
}
