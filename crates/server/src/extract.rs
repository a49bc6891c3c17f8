//! Reads a caller's request, with answers that name the field, the parameter or the header that is wrong.

use crate::app::App;
use crate::bodies::{self, WholeBody};
use crate::errors::{Failure, shorten};
use crate::memory;
use crate::strict::{self, Refusal};
use axum::RequestPartsExt;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use flate2::write::GzDecoder;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::io::Write;

/// A JSON body.
pub struct Json<T>(pub T);

/// A JSON body that may be left away, or be `null`; both mean `{}`.
pub struct OptionalJson<T>(pub T);

/// The parameters of the query; unknown ones are refused.
pub struct Query<T>(pub T);

/// For a route that takes no parameters at all.
pub struct NoQuery;

/// The id or name in the path, and the parts behind it.
pub struct Target<T = String>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Json<T>, Failure> {
        require_json(request.headers())?;
        understood(collect(request, app).await?).await.map(Json)
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for OptionalJson<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<OptionalJson<T>, Failure> {
        let typed = request.headers().contains_key(header::CONTENT_TYPE);
        if typed {
            require_json(request.headers())?;
        }
        let body = collect(request, app).await?;
        match body.bytes.is_empty() || (typed && body.bytes.trim_ascii() == b"null") {
            true => parse(b"{}").map(OptionalJson),
            false if typed => understood(body).await.map(OptionalJson),
            false => Err(not_json("no content type")),
        }
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Query<T>, Failure> {
        parameters(parts.uri.query().unwrap_or_default()).map(Query)
    }
}

impl FromRequestParts<App> for NoQuery {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<NoQuery, Failure> {
        match parts.uri.query().and_then(|query| query.split('&').find(|pair| !pair.is_empty())) {
            None => Ok(NoQuery),
            Some(pair) => {
                let name = pair.split('=').next().unwrap_or_default();
                Err(unknown_field(format!("unknown parameter {:?}", shorten(name)))
                    .hint("This route takes no parameters in its query."))
            }
        }
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequestParts<App> for Target<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Target<T>, Failure> {
        match parts.extract::<Path<T>>().await {
            Ok(Path(target)) => Ok(Target(target)),
            Err(PathRejection::FailedToDeserializePathParams(error)) => {
                Err(Failure::invalid(format!("the path is not valid: {}", shorten(&error.body_text()))))
            }
            Err(_) => Err(Failure::internal()),
        }
    }
}

/// The header `Idempotency-Key`.
pub fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, Failure> {
    const LONGEST: usize = 255;
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if (1..=LONGEST).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(Some(key))
        }
        _ => Err(Failure::invalid("the header Idempotency-Key is not valid")
            .hint(format!("1 to {LONGEST} visible ASCII characters, without spaces."))),
    }
}

fn not_gzip(error: std::io::Error) -> Failure {
    Failure::invalid(format!("the body is not gzip: {error}"))
}

fn require_json(headers: &HeaderMap) -> Result<(), Failure> {
    let Some(given) = headers.get(header::CONTENT_TYPE) else { return Err(not_json("no content type")) };
    let kind = given.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind.eq_ignore_ascii_case("application/json") {
        true => Ok(()),
        false => Err(not_json(&format!("{:?}", shorten(kind)))),
    }
}

fn not_json(given: &str) -> Failure {
    Failure::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "invalid_request",
        format!("the body is to be JSON, not {given}"),
    )
    .hint("Send the header Content-Type: application/json.")
}

async fn collect(request: Request, app: &App) -> Result<WholeBody, Failure> {
    whole_body(request.into_body(), app).await
}

/// The body of a request, read whole before it is parsed: within the bounds of size and time.
pub async fn whole_body(body: Body, app: &App) -> Result<WholeBody, Failure> {
    let most = app.limits().json_bytes;
    let too_large = || {
        Failure::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("the body is larger than {most} bytes"),
        )
        .hint("Files go through PUT .../files/content or PUT .../files/archive, which take any size.")
    };
    let announced = body.size_hint().upper();
    let expected = announced.map_or(most, |bytes| usize::try_from(bytes).unwrap_or(most).min(most));
    let room = app.large_bodies().room(expected, app.limits().body_timeout).await?;
    let body = Limited::new(body, most);
    match tokio::time::timeout(app.limits().body_timeout, body.collect()).await {
        Ok(Ok(collected)) => {
            let bytes = collected.to_bytes();
            memory::was_read(bytes.len());
            Ok(WholeBody { _room: bodies::shrink(room, bytes.len()), bytes })
        }
        Ok(Err(error)) if error.downcast_ref::<LengthLimitError>().is_some() => {
            memory::was_read(most);
            Err(too_large())
        }
        Ok(Err(error)) => Err(Failure::invalid(format!("the body could not be read: {error}"))),
        Err(_) => Err(too_slow()),
    }
}

pub fn too_slow() -> Failure {
    Failure::new(StatusCode::REQUEST_TIMEOUT, "invalid_request", "the body did not come in time")
        .hint("Send it again over a connection that moves.")
}

async fn understood<T: DeserializeOwned + Send + 'static>(body: WholeBody) -> Result<T, Failure> {
    apart(body, |body| parse(&body.bytes)).await?
}

/// Reads a body; a large one on a thread that no other request waits for.
pub async fn apart<R: Send + 'static>(
    body: WholeBody,
    read: impl FnOnce(WholeBody) -> R + Send + 'static,
) -> Result<R, Failure> {
    if body.bytes.len() < bodies::LARGE {
        return Ok(read(body));
    }
    tokio::task::spawn_blocking(move || read(body)).await.map_err(|_| Failure::internal())
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    strict::parse(body).map_err(refused)
}

/// For a body that another parser reads.
pub async fn within_bounds(body: WholeBody) -> Result<WholeBody, Failure> {
    let checked = apart(body, |body| match strict::check(&body.bytes) {
        Err(Refusal::TooManyValues) => Err(refused(Refusal::TooManyValues)),
        // Its parser says so in its own words.
        _ => Ok(body),
    });
    checked.await?
}

fn refused(refusal: Refusal) -> Failure {
    let (path, source) = match refusal {
        Refusal::Wrong { path, source } => (path, source),
        Refusal::TooManyValues => {
            return Failure::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "too_large",
                format!("the body holds more than {} values", strict::MOST_VALUES),
            )
            .hint("Send it in several requests, or as a file.");
        }
    };
    let message = source.to_string();
    match source.classify() {
        serde_json::error::Category::Data if path == "." && message.starts_with(strict::LIST_FOR_OBJECT) => {
            Failure::invalid("the body is a list, and is to be an object")
        }
        serde_json::error::Category::Data => wrong_field(&path, &message),
        _ => Failure::invalid(format!("the body is not JSON: {source}")),
    }
}

fn parameters<T: DeserializeOwned>(query: &str) -> Result<T, Failure> {
    let deserializer = serde_html_form::Deserializer::from_bytes(query.as_bytes());
    serde_path_to_error::deserialize(deserializer).map_err(|error| {
        let path = error.path().to_string();
        let message = error.into_inner().to_string();
        match message.strip_prefix("unknown field ") {
            Some(rest) => unknown_field(format!("unknown parameter {}", shorten(rest))),
            None if path == "." => Failure::invalid(format!("the query is not valid: {}", shorten(&message))),
            None => Failure::invalid(format!("parameter `{}`: {}", shorten(&path), shorten(&message))),
        }
    })
}

fn wrong_field(path: &str, message: &str) -> Failure {
    // serde's own message names the field, and then all that are known.
    if message.starts_with("unknown field ") {
        let place =
            path.rsplit_once('.').map_or(String::new(), |(above, _)| format!(" in `{}`", shorten(above)));
        return unknown_field(format!("{}{place}", limit_message(message)));
    }
    match path {
        "." => Failure::invalid(limit_message(message)),
        _ => Failure::invalid(format!("field `{}`: {}", shorten(path), limit_message(message))),
    }
}

fn limit_message(message: &str) -> String {
    message.chars().take(1000).collect()
}

fn unknown_field(message: String) -> Failure {
    Failure::new(StatusCode::BAD_REQUEST, "unknown_field", message)
}

/// Of an upload that was refused while it came.
const MOST_PASSED_OVER: usize = 64 << 20;

/// Compressed bytes that are unpacked at a time: they become a thousand times as many at most.
const COMPRESSED_PIECE: usize = 4096;

/// A body as it comes, for uploads. Nothing is collected.
pub struct Incoming {
    body: Body,
    patience: std::time::Duration,
    unpacking: Option<Unpacking>,
}

struct Unpacking {
    /// Bytes that came and were not unpacked yet.
    packed: Bytes,
    decoder: GzDecoder<Vec<u8>>,
}

impl FromRequest<App> for Incoming {
    type Rejection = Failure;

    async fn from_request(request: Request, app: &App) -> Result<Incoming, Failure> {
        Ok(Incoming::new(request.into_body(), app.limits().body_timeout))
    }
}

impl Incoming {
    /// `patience`: how long the next bytes may take.
    pub fn new(body: Body, patience: std::time::Duration) -> Incoming {
        Incoming { body, patience, unpacking: None }
    }

    /// The same body, which came as gzip.
    pub fn gunzip(self) -> Incoming {
        let unpacking = Unpacking { packed: Bytes::new(), decoder: GzDecoder::new(Vec::new()) };
        Incoming { unpacking: Some(unpacking), ..self }
    }

    /// The next bytes; `None` at the end. A client that sends nothing for too long is an error, and so is one that went
    /// away: a half sent body must never look complete.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let Some(mut unpacking) = self.unpacking.take() else { return self.next_sent().await };
        loop {
            if unpacking.packed.is_empty() {
                match self.next_sent().await? {
                    Some(bytes) => unpacking.packed = bytes,
                    None => {
                        let rest = unpacking.decoder.finish().map_err(not_gzip)?;
                        return Ok(Some(Bytes::from(rest)).filter(|rest| !rest.is_empty()));
                    }
                }
            }
            let piece = unpacking.packed.split_to(unpacking.packed.len().min(COMPRESSED_PIECE));
            unpacking.decoder.write_all(&piece).map_err(not_gzip)?;
            let unpacked = std::mem::take(unpacking.decoder.get_mut());
            if !unpacked.is_empty() {
                self.unpacking = Some(unpacking);
                return Ok(Some(unpacked.into()));
            }
        }
    }

    async fn next_sent(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            match tokio::time::timeout(self.patience, self.body.frame()).await {
                Err(_) => return Err(too_slow()),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    return Err(Failure::invalid(format!("the body ended early: {error}")));
                }
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    _ => {}
                },
            }
        }
    }

    /// Reads what is left and forgets it, up to a bound. A client that still sends when the connection is closed may lose the refusal that
    /// came before.
    pub async fn pass_over(&mut self) {
        let mut left = MOST_PASSED_OVER;
        while let Ok(Some(bytes)) = self.next_sent().await {
            match left.checked_sub(bytes.len()) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::{CreateSandbox, StartExec, TerminalSize};
    use serde::Deserialize;

    fn refusal<T: DeserializeOwned>(body: &str) -> Failure {
        parse::<T>(body.as_bytes()).err().expect("a refusal")
    }

    async fn whole(mut body: Incoming) -> Result<Vec<u8>, Failure> {
        let mut whole = Vec::new();
        while let Some(bytes) = body.next().await? {
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    #[tokio::test]
    async fn a_packed_body_is_the_same_in_any_pieces() {
        let text = vec![b'x'; 100_000];
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(&text).expect("packs");
        let packed = encoder.finish().expect("packs");
        let sent = |packed: &[u8], size: usize| {
            let pieces: Vec<_> = packed
                .chunks(size)
                .map(|piece| Ok::<_, std::io::Error>(Bytes::copy_from_slice(piece)))
                .collect();
            let body = Body::from_stream(futures_util::stream::iter(pieces));
            Incoming::new(body, std::time::Duration::from_secs(1)).gunzip()
        };
        for size in [1, 7, 100, packed.len()] {
            assert_eq!(whole(sent(&packed, size)).await.expect("gzip"), text, "in pieces of {size}");
        }
        for bad in [&packed[..packed.len() - 1], b"no gzip at all", b""] {
            let failure = whole(sent(bad, 10)).await.expect_err("no gzip");
            assert!(failure.message.contains("not gzip"), "{}", failure.message);
        }
    }

    #[test]
    fn an_unknown_field_is_refused_by_name_wherever_it_is() {
        let failure = refusal::<CreateSandbox>(r#"{"tpl": 1}"#);
        assert_eq!(failure.code, "unknown_field");
        assert!(failure.message.contains("`tpl`"), "{}", failure.message);
        let failure = refusal::<CreateSandbox>(r#"{"limits": {"ram": 1}}"#);
        assert_eq!(failure.code, "unknown_field");
        assert!(
            failure.message.contains("`ram`") && failure.message.contains("`limits`"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn a_wrong_type_is_refused_with_the_path_of_its_field() {
        let failure = refusal::<CreateSandbox>(r#"{"limits": {"memory_bytes": "2G"}}"#);
        assert_eq!((failure.code, failure.status.as_u16()), ("invalid_request", 400));
        assert!(
            failure.message.starts_with("field `limits.memory_bytes`: invalid type"),
            "{}",
            failure.message
        );
        let failure = refusal::<StartExec>(r#"{"argv": ["a", 7]}"#);
        assert!(failure.message.starts_with("field `argv[1]`"), "{}", failure.message);
        let failure = refusal::<TerminalSize>(r#"{"rows": 70000, "columns": 1}"#);
        assert!(failure.message.starts_with("field `rows`"), "{}", failure.message);
    }

    #[test]
    fn what_is_not_json_says_where() {
        for body in ["", "{", "nul", "{} {}", "\u{0}", "[1]"] {
            let failure = refusal::<StartExec>(body);
            assert_eq!(failure.status.as_u16(), 400, "{body}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(refusal::<StartExec>(&format!("{{\"argv\": {deep}")).status.as_u16(), 400);
    }

    #[test]
    fn a_list_is_not_an_object() {
        for (body, place) in [
            ("[]", "the body is a list"),
            (r#"{"terminal": [24, 80]}"#, "field `terminal`"),
            (r#"{"argv": ["a"], "terminal": [24, 80]}"#, "field `terminal`"),
        ] {
            let failure = refusal::<StartExec>(body);
            assert!(failure.message.starts_with(place), "{}", failure.message);
        }
        parse::<StartExec>(br#"{"argv": ["a", "[b]"], "terminal": {"rows": 1, "columns": 1}}"#)
            .expect("valid");
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Listing {
        #[serde(default)]
        limit: Option<u32>,
        #[serde(default)]
        metadata: Vec<String>,
    }

    #[test]
    fn an_unknown_parameter_is_refused_by_name() {
        let failure = parameters::<Listing>("limit=3&evil=1").expect_err("a refusal");
        assert_eq!(failure.code, "unknown_field");
        assert!(failure.message.contains("`evil`"), "{}", failure.message);
    }

    #[test]
    fn parameters_repeat_only_where_they_may() {
        let listing = parameters::<Listing>("metadata=a%3D1&limit=3&metadata=b%3D2").expect("valid");
        assert_eq!((listing.limit, listing.metadata), (Some(3), vec!["a=1".into(), "b=2".into()]));
        for query in ["limit=x", "limit=-1", "limit=1&limit=2", "limit=99999999999"] {
            let failure = parameters::<Listing>(query).expect_err(query);
            assert!(failure.message.contains("limit"), "{query}: {}", failure.message);
        }
    }

    #[test]
    fn an_idempotency_key_is_short_and_visible() {
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("idempotency-key", value.parse().expect("a header"));
            idempotency_key(&headers).map(|key| key.map(str::to_string))
        };
        assert_eq!(with("try-1").expect("valid"), Some("try-1".into()));
        assert!(with("").is_err() && with("a b").is_err() && with(&"x".repeat(256)).is_err());
    }
}
