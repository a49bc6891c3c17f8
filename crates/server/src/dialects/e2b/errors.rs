//! Refusals in E2B's words: a number that repeats the status, and a message.

use crate::errors::Failure;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use paddock_fleet::FleetError;
use serde_json::json;

/// Something that a caller cannot have. The failure is kept for the server's log.
#[derive(Debug)]
pub struct Refusal {
    pub failure: Failure,
    /// Of a sandbox that is not there, or not awake: its proxy says so in a form of its own.
    gone: Option<String>,
}

pub type Result<T> = std::result::Result<T, Refusal>;

/// The SDKs look for these words.
const NOT_FOUND: &str = "The sandbox was not found";
const PORT_CLOSED: &str = "The sandbox is running but port is not open";

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Failure::new(status, code, message).into()
    }

    pub fn invalid(message: impl Into<String>) -> Refusal {
        Failure::invalid(message).into()
    }

    pub fn unauthorized(message: impl Into<String>) -> Refusal {
        Failure::unauthorized(message).into()
    }

    /// Of the control plane, for an id that is nobody's or somebody else's.
    pub fn no_sandbox(id: &str) -> Refusal {
        let message = format!("sandbox {:?} was not found", crate::errors::shorten(id));
        Refusal::new(StatusCode::NOT_FOUND, "sandbox_not_found", message)
    }

    /// Of the data plane: the sandbox has ended, is paused, or never was.
    pub fn gone(id: &str) -> Refusal {
        let failure = Failure::new(StatusCode::BAD_GATEWAY, "sandbox_not_found", NOT_FOUND);
        Refusal { failure, gone: Some(crate::errors::shorten(id)) }
    }

    pub fn port_closed(id: &str) -> Refusal {
        let failure = Failure::new(StatusCode::BAD_GATEWAY, "port_closed", PORT_CLOSED);
        Refusal { failure, gone: Some(crate::errors::shorten(id)) }
    }

    /// The refusal of a call for this sandbox. A sandbox that ended meanwhile is gone, for every kind of call.
    pub fn of(id: &str, error: FleetError) -> Refusal {
        match is_gone(&error) {
            true => Refusal::gone(id),
            false => error.into(),
        }
    }

    pub fn status(&self) -> StatusCode {
        self.failure.status
    }

    /// The mistake, and the hint how to mend it.
    pub fn message(&self) -> String {
        match &self.failure.hint {
            Some(hint) => format!("{}; {hint}", self.failure.message),
            None => self.failure.message.clone(),
        }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    /// As E2B writes it. Of the proxy's refusals the SDKs know the words, and no code.
    pub fn body(&self) -> serde_json::Value {
        let code = self.status().as_u16();
        match &self.gone {
            Some(id) => json!({ "sandboxId": id, "message": self.message(), "code": code }),
            None => {
                json!({ "code": code, "message": self.message(), "error_code": error_code(&self.failure) })
            }
        }
    }
}

/// E2B's word for a mistake where it has one, and this server's own for the others: their list is open.
fn error_code(failure: &Failure) -> &'static str {
    match failure.code {
        "internal" => "internal_server_error",
        "host_out_of_memory"
        | "too_many_sandboxes"
        | "too_many_processes"
        | "too_many_open_files"
        | "too_many_namespaces"
        | "too_many_mounts"
        | "too_many_cgroups" => "sandbox_capacity_unavailable",
        code => code,
    }
}

/// True if an error tells that the sandbox itself is not there any more.
pub fn is_gone(error: &FleetError) -> bool {
    matches!(error.code, "sandbox_not_found" | "sandbox_ended" | "guest_lost")
}

impl From<Failure> for Refusal {
    /// A caller of this dialect is never the owner of the host: messages show no path of the host.
    fn from(failure: Failure) -> Refusal {
        Refusal { failure: failure.without_host(), gone: None }
    }
}

impl From<FleetError> for Refusal {
    fn from(error: FleetError) -> Refusal {
        Failure::from(error).into()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = self.body();
        let building = self.failure.code == "template_building";
        let mut response = written(self.failure, &body);
        if building {
            // Python's SDK would ask three times more before it says why: a build takes minutes.
            response.headers_mut().insert("should-retry", HeaderValue::from_static("false"));
        }
        response
    }
}

/// A body of ours, and the failure for the log and the headers that it brings.
pub fn written(failure: Failure, body: &serde_json::Value) -> Response {
    let mut response = failure.into_response();
    response.headers_mut().remove(header::WWW_AUTHENTICATE);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    *response.body_mut() = axum::body::Body::from(body.to_string());
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_fleet::Kind;

    async fn body(refusal: Refusal) -> (u16, serde_json::Value) {
        let response = refusal.into_response();
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 16).await.expect("a body");
        (status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    #[tokio::test]
    async fn a_gone_sandbox_has_the_words_that_the_sdks_look_for() {
        let (status, body) = body(Refusal::gone("sb-1")).await;
        assert_eq!(status, 502);
        assert_eq!(body, json!({ "sandboxId": "sb-1", "message": NOT_FOUND, "code": 502 }));
        let ended = FleetError::new(Kind::Gone, "sandbox_ended", "it ended");
        assert!(Refusal::of("sb-1", ended).is_gone());
    }

    #[tokio::test]
    async fn a_refusal_says_what_to_do_and_nothing_of_the_host() {
        let refusal = Refusal::from(FleetError::new(Kind::Invalid, "invalid_request", "no").hint("yes"));
        let said = json!({ "code": 400, "message": "no; yes", "error_code": "invalid_request" });
        assert_eq!(body(refusal).await, (400, said));
        let inner = Refusal::from(FleetError::new(Kind::Internal, "internal", "/var/lib/paddock"));
        assert!(!inner.message().contains("/var"));
        assert_eq!(inner.body()["error_code"], "internal_server_error");
    }
}
