//! The Connect protocol, as far as E2B's SDKs speak it: JSON, alone or in envelopes, without compression.
//!
//! An envelope is a byte of flags, four bytes of length and a message. The last of a stream has the flag 2, and says how it went.

use super::errors::{self, Refusal};
use crate::app::App;
use crate::bodies::{LargeBodies, WholeBody};
use crate::errors::{Failure, shorten};
use crate::extract::{Incoming, apart, too_slow, whole_body, within_bounds};
use crate::unread::RefusedInBody;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use paddock_fleet::FleetError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

const STREAM: &str = "application/connect+json";
const UNARY: &str = "application/json";
/// Of one message. The SDKs send input in pieces of 64 KiB at most.
const LARGEST_MESSAGE: usize = 4 << 20;
const HEAD: usize = 5;
const LAST: u8 = 2;
/// How often a quiet stream says that it lives, where the client does not say.
const KEEPALIVE: Duration = Duration::from_secs(50);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(366 * 86_400);

/// Why a call did not work, by a code of the protocol's.
#[derive(Debug)]
pub struct RpcError {
    pub code: &'static str,
    pub message: String,
    /// The sandbox is not there any more, which its proxy says instead of the agent inside.
    gone: Option<Box<Refusal>>,
}

pub type Result<T> = std::result::Result<T, RpcError>;

impl RpcError {
    pub fn new(code: &'static str, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), gone: None }
    }

    pub fn invalid(message: impl Into<String>) -> RpcError {
        RpcError::new("invalid_argument", message)
    }

    pub fn not_found(message: impl Into<String>) -> RpcError {
        RpcError::new("not_found", message)
    }

    /// For whoever called this sandbox.
    pub fn of(sandbox: &str, error: FleetError) -> RpcError {
        Refusal::of(sandbox, error).into()
    }

    fn body(&self) -> Value {
        json!({ "code": self.code, "message": self.message })
    }

    pub fn unary(mut self) -> Response {
        if let Some(gone) = self.gone.take() {
            return gone.into_response();
        }
        let failure = Failure::new(status(self.code), "e2b_call", self.message.clone());
        errors::written(failure, &self.body())
    }

    /// As the only envelope of an answer that is a stream.
    pub fn stream(mut self) -> Response {
        match self.gone.take() {
            Some(gone) => gone.into_response(),
            None => {
                let mut response = streamed(Body::from(last(Some(&self))));
                response.extensions_mut().insert(RefusedInBody);
                response
            }
        }
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> RpcError {
        let code = code_of(&refusal.failure);
        let message = refusal.message();
        RpcError { code, message, gone: refusal.is_gone().then(|| Box::new(refusal)) }
    }
}

impl From<Failure> for RpcError {
    fn from(failure: Failure) -> RpcError {
        Refusal::from(failure).into()
    }
}

fn code_of(failure: &Failure) -> &'static str {
    match (failure.code, failure.status.as_u16()) {
        ("file_exists", _) => "already_exists",
        ("not_a_directory" | "not_a_file" | "not_empty" | "unknown_user", _) => "invalid_argument",
        ("exec_ended" | "exec_forgotten", _) => "not_found",
        ("disk_full", _) => "resource_exhausted",
        (_, 400 | 408 | 413 | 415) => "invalid_argument",
        (_, 401) => "unauthenticated",
        (_, 403) => "permission_denied",
        (_, 404) => "not_found",
        (_, 409 | 410) => "failed_precondition",
        (_, 422) => "unimplemented",
        (_, 429) => "resource_exhausted",
        (_, 502 | 503) => "unavailable",
        _ => "internal",
    }
}

/// As the protocol has it.
fn status(code: &str) -> StatusCode {
    match code {
        "canceled" => StatusCode::from_u16(499).unwrap_or(StatusCode::BAD_REQUEST),
        "unauthenticated" => StatusCode::UNAUTHORIZED,
        "permission_denied" => StatusCode::FORBIDDEN,
        "not_found" => StatusCode::NOT_FOUND,
        "already_exists" | "aborted" => StatusCode::CONFLICT,
        "resource_exhausted" => StatusCode::TOO_MANY_REQUESTS,
        "unimplemented" => StatusCode::NOT_IMPLEMENTED,
        "unavailable" => StatusCode::SERVICE_UNAVAILABLE,
        "deadline_exceeded" => StatusCode::GATEWAY_TIMEOUT,
        "internal" | "data_loss" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The one message of a call that is answered with one message.
pub async fn message<T: DeserializeOwned + Send + 'static>(app: &App, request: Request) -> Result<T> {
    require_type(request.headers(), UNARY)?;
    parsed(whole_body(request.into_body(), app).await?).await
}

pub fn unary(answered: Result<Value>) -> Response {
    match answered {
        Ok(value) => ([(header::CONTENT_TYPE, UNARY)], value.to_string()).into_response(),
        Err(error) => error.unary(),
    }
}

/// The messages of a client that sends a stream.
pub struct Envelopes {
    body: Incoming,
    read: BytesMut,
    large: LargeBodies,
    /// The time for a large message to find room, and to come.
    patience: Duration,
}

impl Envelopes {
    pub async fn of(app: &App, request: Request) -> Result<Envelopes> {
        require_type(request.headers(), STREAM)?;
        let encoding = request.headers().get("connect-content-encoding");
        if encoding.is_some_and(|encoding| encoding != "identity") {
            return Err(RpcError::new("unimplemented", "compressed messages are not taken here"));
        }
        let (large, patience) = (app.large_bodies().clone(), app.limits().body_timeout);
        let body = Incoming::from_request(request, app).await?;
        Ok(Envelopes { body, read: BytesMut::new(), large, patience })
    }

    /// With room of its own for large messages.
    pub fn alone(body: Incoming, patience: Duration) -> Envelopes {
        Envelopes { body, read: BytesMut::new(), large: LargeBodies::default(), patience }
    }

    /// `None` at the end. The length is looked at before anything of the message is waited for.
    pub async fn next<T: DeserializeOwned + Send + 'static>(&mut self) -> Result<Option<T>> {
        if !self.fill(HEAD).await? {
            return Ok(None);
        }
        let length = length(&self.read)?;
        parsed(self.whole(length).await?).await.map(Some)
    }

    /// A large message has room before its first byte is waited for. It comes in the time of a body, so that nobody
    /// keeps the room by sending slowly.
    async fn whole(&mut self, length: usize) -> Result<WholeBody> {
        let (room, patience) = (self.large.room(length, self.patience).await?, self.patience);
        let whole = match room {
            None => self.fill(HEAD + length).await?,
            Some(_) => {
                let filled = tokio::time::timeout(patience, self.fill(HEAD + length)).await;
                filled.map_err(|_| too_slow())??
            }
        };
        if !whole {
            return Err(cut());
        }
        let bytes = self.read.split_to(HEAD + length).freeze().slice(HEAD..);
        Ok(WholeBody { bytes, _room: room })
    }

    /// The only message.
    pub async fn single<T: DeserializeOwned + Send + 'static>(&mut self) -> Result<T> {
        let message = self.next().await?;
        let message = message.ok_or_else(|| RpcError::invalid("the request has no message"))?;
        match self.fill(1).await? {
            true => Err(RpcError::invalid("the request has more than one message")),
            false => Ok(message),
        }
    }

    /// True if so many bytes came. The end of the body between two envelopes is no error.
    async fn fill(&mut self, bytes: usize) -> Result<bool> {
        while self.read.len() < bytes {
            match self.body.next().await? {
                Some(piece) => self.read.extend_from_slice(&piece),
                None if self.read.is_empty() => return Ok(false),
                None => return Err(cut()),
            }
        }
        Ok(true)
    }
}

/// Precondition: there is a whole head.
fn length(read: &[u8]) -> Result<usize> {
    let (flags, length) = match read {
        [flags, a, b, c, d, ..] => (*flags, u32::from_be_bytes([*a, *b, *c, *d]) as usize),
        _ => return Err(cut()),
    };
    match flags {
        0 if length <= LARGEST_MESSAGE => Ok(length),
        0 => Err(RpcError::new(
            "resource_exhausted",
            format!("a message of {length} bytes is more than {LARGEST_MESSAGE}"),
        )),
        1 => Err(RpcError::new("unimplemented", "a compressed message came, and none was agreed")),
        flags => Err(RpcError::invalid(format!(
            "an envelope has the flags {flags:#04x}, which a client does not set"
        ))),
    }
}

fn cut() -> RpcError {
    RpcError::invalid("the request ended in the middle of an envelope")
}

/// Values are counted before any is kept: millions of empty ones take much more memory than their text.
async fn parsed<T: DeserializeOwned + Send + 'static>(message: WholeBody) -> Result<T> {
    let parse = |message: WholeBody| {
        serde_json::from_slice(&message.bytes).map_err(|error| {
            RpcError::invalid(format!("the message is not valid: {}", shorten(&error.to_string())))
        })
    };
    apart(within_bounds(message).await?, parse).await?
}

fn require_type(headers: &HeaderMap, wanted: &str) -> Result<()> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    match given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(wanted) {
        true => Ok(()),
        false => Err(Failure::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "invalid_request",
            format!("the content type is {:?}, and this call takes {wanted}", shorten(given)),
        )
        .into()),
    }
}

/// One message of an answer.
pub fn envelope(message: &Value) -> Bytes {
    framed(0, message)
}

/// The end of an answer, and what went wrong.
pub fn last(error: Option<&RpcError>) -> Bytes {
    framed(LAST, &error.map_or_else(|| json!({}), |error| json!({ "error": error.body() })))
}

fn framed(flags: u8, message: &Value) -> Bytes {
    let message = message.to_string();
    let mut frame = BytesMut::with_capacity(HEAD + message.len());
    frame.put_u8(flags);
    frame.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    frame.put_slice(message.as_bytes());
    frame.freeze()
}

pub fn streamed(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(STREAM)),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

/// The header `Connect-Timeout-Ms`; without it, or with 0, there is none.
pub fn timeout(headers: &HeaderMap) -> Result<Option<Duration>> {
    let Some(value) = headers.get("connect-timeout-ms") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let digits = (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().ok().filter(|_| digits) {
        Some(0) => Ok(None),
        Some(ms) => Ok(Some(Duration::from_millis(ms).min(LONGEST_TIMEOUT))),
        None => Err(RpcError::invalid(format!(
            "the header Connect-Timeout-Ms: {:?} is not a number of up to ten digits",
            shorten(text)
        ))),
    }
}

/// The header `Keepalive-Ping-Interval`, in seconds.
pub fn keepalive(headers: &HeaderMap) -> Duration {
    let given = headers.get("keepalive-ping-interval").and_then(|value| value.to_str().ok());
    let seconds = given.and_then(|text| text.parse::<u64>().ok());
    seconds.map_or(KEEPALIVE, |seconds| Duration::from_secs(seconds.clamp(1, 3600)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(flags: u8, length: u32) -> Vec<u8> {
        [&[flags][..], &length.to_be_bytes()].concat()
    }

    #[test]
    fn a_length_is_judged_before_anything_is_taken() {
        assert_eq!(length(&head(0, 17)).expect("valid"), 17);
        let code = |flags, bytes| length(&head(flags, bytes)).expect_err("refused").code;
        assert_eq!(code(0, 1 << 30), "resource_exhausted");
        assert_eq!(code(0, u32::MAX), "resource_exhausted");
        assert_eq!(code(1, 1), "unimplemented");
        for flags in [2, 3, 0x80, 0xff] {
            assert_eq!(code(flags, 0), "invalid_argument", "{flags}");
        }
    }

    #[test]
    fn an_envelope_is_flags_length_and_json() {
        assert_eq!(&envelope(&json!({ "a": 1 }))[..], b"\0\0\0\0\x07{\"a\":1}");
        assert_eq!(&last(None)[..], b"\x02\0\0\0\x02{}");
        let failed = last(Some(&RpcError::not_found("no")));
        assert_eq!(failed[0], 2);
        let said: Value = serde_json::from_slice(&failed[5..]).expect("JSON");
        assert_eq!(said, json!({ "error": { "code": "not_found", "message": "no" } }));
    }

    #[tokio::test]
    async fn envelopes_come_in_any_pieces_and_never_half() {
        let whole = [&envelope(&json!({ "n": 1 }))[..], &envelope(&json!({ "n": 2 }))[..]].concat();
        for size in 1..whole.len() {
            let pieces: Vec<_> = whole
                .chunks(size)
                .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
                .collect();
            let mut envelopes = of(Body::from_stream(futures_util::stream::iter(pieces)));
            let mut found = Vec::new();
            while let Some(message) = envelopes.next::<Value>().await.expect("valid") {
                found.push(message["n"].clone());
            }
            assert_eq!(found, [json!(1), json!(2)], "in pieces of {size}");
        }
        for length in 1..9 {
            let mut envelopes = of(Body::from(whole[..length].to_vec()));
            let error = envelopes.next::<Value>().await.expect_err("half");
            assert_eq!(error.code, "invalid_argument", "{length}");
        }
        assert!(of(Body::empty()).next::<Value>().await.expect("an end").is_none());
        assert!(of(Body::from(whole.clone())).single::<Value>().await.is_err());
    }

    #[tokio::test]
    async fn a_message_of_too_many_values_is_refused() {
        let start = |values: usize| envelope(&json!({ "process": { "args": vec![""; values] } }));
        assert!(of(Body::from(start(1000))).single::<Value>().await.is_ok());
        let error = of(Body::from(start(300_000))).single::<Value>().await.expect_err("too many");
        assert!(error.code == "invalid_argument" && error.message.contains("values"), "{error:?}");
    }

    #[tokio::test]
    async fn a_large_message_needs_room_and_gives_it_back() {
        let large = envelope(&json!({ "text": "x".repeat(3 << 20) }));
        let mut envelopes = of(Body::from(large.clone()));
        envelopes.patience = Duration::from_millis(1);
        let room = envelopes.large.room(64 << 20, envelopes.patience).await.expect("room");
        let error = envelopes.next::<Value>().await.expect_err("no room");
        assert_eq!(error.code, "unavailable", "{error:?}");
        drop(room);
        let mut envelopes = of(Body::from([&large[..], &large[..]].concat()));
        while envelopes.next::<Value>().await.expect("room").is_some() {}
        assert!(envelopes.large.room(64 << 20, Duration::from_millis(1)).await.is_ok(), "room is kept");
    }

    fn of(body: Body) -> Envelopes {
        Envelopes::alone(Incoming::new(body, Duration::from_secs(1)), Duration::from_secs(60))
    }

    #[test]
    fn times_come_in_headers() {
        let of = |name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().expect("a header"));
            headers
        };
        let timeout =
            |value: &str| super::timeout(&of("connect-timeout-ms", value)).map_err(|error| error.code);
        assert_eq!(timeout("1500"), Ok(Some(Duration::from_millis(1500))));
        assert_eq!(timeout("0"), Ok(None));
        for bad in ["", "-1", "1.5", "12345678901", "x"] {
            assert_eq!(timeout(bad), Err("invalid_argument"), "{bad}");
        }
        assert_eq!(keepalive(&of("keepalive-ping-interval", "7")), Duration::from_secs(7));
        assert_eq!(keepalive(&of("keepalive-ping-interval", "0")), Duration::from_secs(1));
        assert_eq!(keepalive(&HeaderMap::new()), KEEPALIVE);
    }
}
