//! Refusals as SandboxFusion tells them: 422 with `detail` for a request that is wrong, `SandboxError` for all that failed on this
//! side, and 504 where asking again helps, which is the one status that verl asks again after.

use crate::errors::Failure;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use paddock_fleet::FleetError;
use paddock_tools::sandbox_fusion::Problem;
use paddock_tools::sandbox_fusion::answers::Answer;
use serde_json::{Value, json};

#[derive(Debug)]
pub struct Refusal {
    failure: Failure,
    /// The field that is wrong, from the body down.
    place: Option<Vec<Value>>,
}

pub type Result<T> = std::result::Result<T, Refusal>;

const RETRY_AFTER_SECONDS: u32 = 1;

impl Refusal {
    pub fn status(status: StatusCode, code: &'static str, message: impl Into<String>) -> Refusal {
        Failure::new(status, code, message).into()
    }

    /// Of a field of the body.
    pub fn field(path: &[&str], message: impl Into<String>) -> Refusal {
        let failure = Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid_request", message);
        let place = std::iter::once("body").chain(path.iter().copied()).map(|part| json!(part)).collect();
        Refusal { failure, place: Some(place) }
    }

    /// Of the sandbox's side: well asked, and not to be had here.
    pub fn sandbox(code: &'static str, message: impl Into<String>) -> Refusal {
        Refusal::status(StatusCode::OK, code, message)
    }

    fn message(&self) -> String {
        match &self.failure.hint {
            Some(hint) => format!("{}; {hint}", self.failure.message),
            None => self.failure.message.clone(),
        }
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        match problem {
            Problem::Field { path, message } => {
                Refusal::field(&path.iter().map(String::as_str).collect::<Vec<_>>(), message)
            }
            Problem::Sandbox { code, message } => Refusal::sandbox(code, message),
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Refusal {
        let mut failure = failure.without_host();
        if matches!(failure.status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            failure.status = StatusCode::GATEWAY_TIMEOUT;
            failure.retry_after_seconds.get_or_insert(RETRY_AFTER_SECONDS);
        }
        Refusal { failure, place: None }
    }
}

impl From<FleetError> for Refusal {
    fn from(error: FleetError) -> Refusal {
        let failure = Failure::from(error);
        if failure.status == StatusCode::INTERNAL_SERVER_ERROR {
            tracing::error!(code = failure.code, message = ?failure.message, "code could not be run");
        }
        let mut refusal = Refusal::from(failure);
        if refusal.failure.status != StatusCode::GATEWAY_TIMEOUT {
            refusal.failure.status = StatusCode::OK;
        }
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let message = self.message();
        let body = match self.place {
            Some(place) => json!({ "detail": [{ "type": "value_error", "loc": place, "msg": message }] }),
            None => json!(Answer::sandbox_error(message)),
        };
        let mut response = self.failure.into_response();
        response.headers_mut().remove(header::WWW_AUTHENTICATE);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *response.body_mut() = axum::body::Body::from(body.to_string());
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_fleet::Kind;

    async fn told(refusal: Refusal) -> (u16, Value) {
        let response = refusal.into_response();
        let status = response.status().as_u16();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 16).await.expect("a body");
        (status, serde_json::from_slice(&bytes).expect("JSON"))
    }

    #[tokio::test]
    async fn asking_again_is_told_from_what_stays_wrong() {
        for (kind, status) in [
            (Kind::TooMany { retry_after_seconds: 2 }, 504),
            (Kind::Busy { retry_after_seconds: 5 }, 504),
            (Kind::Unavailable, 504),
            (Kind::NotFound, 200),
            (Kind::Internal, 200),
            (Kind::Unsupported, 200),
        ] {
            let (told, body) =
                told(FleetError::new(kind, "internal", "/var/lib/paddock is gone").into()).await;
            assert_eq!((told, &body["status"]), (status, &json!("SandboxError")), "{kind:?}");
            let shows = body["message"].as_str().expect("words").contains("/var");
            assert_eq!(shows, kind != Kind::Internal, "{kind:?}");
        }
        let (status, body) = told(Refusal::field(&["files", "a"], "no")).await;
        assert_eq!(status, 422);
        assert_eq!(body["detail"][0]["loc"], json!(["body", "files", "a"]));
    }
}
