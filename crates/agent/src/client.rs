//! One request to a model, and its streamed reply.

use crate::endpoint::{Dialect, Endpoint};
use crate::error::ModelError;
use crate::reply::Whole;
use crate::turn::Turn;
use crate::{anthropic, openai, stream};
use paddock_tools::Definition;
use reqwest::header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use reqwest::redirect::Policy;
use serde_json::Value;
use std::time::Duration;

const CONNECT: Duration = Duration::from_secs(20);
/// The most bytes of an error's body.
const LARGEST_ERROR: usize = 64 << 10;

pub struct Client {
    http: reqwest::Client,
    endpoint: Endpoint,
    /// The longest time without a byte.
    silence: Duration,
}

/// The content of every request.
pub struct Request<'a> {
    pub system: &'a str,
    pub turns: &'a [Turn],
    pub tools: &'a [Definition],
}

impl Client {
    pub fn new(endpoint: Endpoint, silence: Duration) -> Result<Client, ModelError> {
        // An error means that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            // The key is for this host and for no other.
            .redirect(Policy::none())
            .build()
            .map_err(ModelError::Client)?;
        Ok(Client { http, endpoint, silence })
    }

    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// `heard`: pieces of text, as they come.
    pub async fn ask(&self, request: &Request<'_>, heard: &mut dyn FnMut(&str)) -> Result<Whole, ModelError> {
        let Request { system, turns, tools } = request;
        let body = match self.endpoint.dialect {
            Dialect::Anthropic => anthropic::body(&self.endpoint, system, turns, tools),
            Dialect::OpenAi => openai::body(&self.endpoint, system, turns, tools),
        };
        let body = body.to_string();
        let size = body.len();
        let sent = self.signed().header(CONTENT_TYPE, "application/json").body(body).send();
        let response = match tokio::time::timeout(self.silence, sent).await {
            Err(_) => return Err(ModelError::Silent(self.silence.as_secs())),
            Ok(Err(error)) => {
                // A URL can hold secrets.
                return Err(ModelError::Unreachable { host: self.host(), source: error.without_url() });
            }
            Ok(Ok(response)) => response,
        };
        if !response.status().is_success() {
            return Err(self.refused(response).await);
        }
        let kind = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or("")
            .to_string();
        if !kind.starts_with("text/event-stream") {
            let shown: String = kind.chars().take(80).collect();
            return Err(ModelError::Nonsense(format!(
                "it came as `{}` and not as a stream",
                shown.escape_debug()
            )));
        }
        stream::read(response, self.endpoint.dialect, self.silence, heard).await?.finish(size)
    }

    fn signed(&self) -> reqwest::RequestBuilder {
        let post = self.http.post(self.endpoint.url.clone());
        match (self.endpoint.dialect, &self.endpoint.key) {
            (Dialect::Anthropic, None) => post.header("anthropic-version", anthropic::VERSION),
            (Dialect::Anthropic, Some(key)) => {
                post.header("anthropic-version", anthropic::VERSION).header("x-api-key", &key.0)
            }
            (Dialect::OpenAi, None) => post,
            (Dialect::OpenAi, Some(key)) => post.bearer_auth(&key.0),
        }
    }

    fn host(&self) -> String {
        self.endpoint.url.host_str().unwrap_or_default().to_string()
    }

    async fn refused(&self, mut response: reqwest::Response) -> ModelError {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let mut bytes = Vec::new();
        let read = async {
            while let Ok(Some(piece)) = response.chunk().await {
                bytes.extend_from_slice(&piece);
                if bytes.len() > LARGEST_ERROR {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(CONNECT, read).await;
        ModelError::Status { host: self.host(), status, message: message(&bytes), retry_after }
    }
}

/// Both providers have `error.message`; anything else is shown as it is, shortened.
fn message(bytes: &[u8]) -> String {
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let said = value["error"]["message"].as_str().or(value["message"].as_str()).map(str::to_string);
    let text = said.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    let text: String = text.trim().chars().take(300).collect();
    if text.is_empty() { "without a word".to_string() } else { text }
}

/// Seconds; dates are left to the usual wait.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: f64 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then(|| Duration::from_secs_f64(seconds.min(86_400.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_error_are_found() {
        assert_eq!(message(br#"{"error":{"message":"no credit"}}"#), "no credit");
        assert_eq!(message(b"<html>Bad Gateway</html>"), "<html>Bad Gateway</html>");
        assert_eq!(message(b""), "without a word");
        assert_eq!(message(&[b'x'; 1000]).len(), 300);
    }

    #[test]
    fn a_wait_is_a_number_of_seconds() {
        let wait = |text: &str| retry_after(&HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]));
        assert_eq!(wait("2"), Some(Duration::from_secs(2)));
        assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
        for none in ["-1", "inf", "NaN", "Wed, 21 Oct 2026 07:28:00 GMT", ""] {
            assert_eq!(wait(none), None, "{none}");
        }
        assert_eq!(wait("1e300"), Some(Duration::from_secs(86_400)));
    }
}
