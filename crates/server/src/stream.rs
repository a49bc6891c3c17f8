//! Answers that come piece by piece. The sandbox is asked for the next piece only after the client has taken the last
//! one, and all of them end when the client goes or the server ends.

use crate::app::App;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use paddock_fleet::{
    AuditOutputs, Download, EventReader, FleetError, OutputReader, RawPiece, RawReader, Watch,
};
use paddock_jobs::LogReader;
use paddock_model::api::{Event, FileEvent, FileEventKind, OutputEvent};
use serde::Serialize;
use std::pin::pin;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A quiet stream says so little as this often, so that both ends know that the other lives.
const ALIVE_EVERY: Duration = Duration::from_secs(15);

/// How long the first byte of output is waited for, to know if bytes are missing before it.
const FIRST_PIECE: Duration = Duration::from_millis(50);

/// Bytes of events that are written together.
const EVENTS_AT_ONCE: usize = 16 << 10;

/// Names `ALIVE_EVERY` in the answer.
const ALIVE_SECONDS: &str = "x-paddock-alive-seconds";

pub const NDJSON: &str = "application/x-ndjson";
pub const OCTETS: &str = "application/octet-stream";
pub const TAR: &str = "application/x-tar";

/// A failure in the middle breaks the answer off, so that half a file never looks like a whole one.
pub fn download(app: &App, mut download: Download, kind: &'static str) -> Response {
    let size = download.size;
    let ending = app.ending().clone();
    let body = async_stream::stream! {
        loop {
            let piece = tokio::select! {
                biased;
                () = ending.cancelled() => Some(Err(broken_off())),
                piece = download.next() => piece,
            };
            match piece {
                None => break,
                Some(Ok(bytes)) => yield Ok(bytes),
                Some(Err(error)) => {
                    yield Err(error);
                    break;
                }
            }
        }
    };
    let mut response = typed(Body::from_stream(body), kind);
    if let Some(size) = size {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
    response
}

pub fn output(app: &App, mut reader: OutputReader, alive: bool) -> Response {
    let events = async_stream::stream! {
        while let Some(event) = reader.next().await {
            yield event;
        }
    };
    lines(app.ending(), events, alive.then_some(OutputEvent::Alive))
}

/// The output of a task; while it waits for its turn, the connection shows that it lives.
pub fn job_logs(app: &App, mut reader: LogReader, alive: bool) -> Response {
    let events = async_stream::stream! {
        while let Some(event) = reader.next().await {
            yield event;
        }
    };
    lines(app.ending(), events, alive.then_some(OutputEvent::Alive))
}

pub fn audit_outputs(app: &App, mut outputs: AuditOutputs) -> Response {
    let outputs = async_stream::stream! {
        while let Some(output) = outputs.next().await {
            yield Ok(output);
        }
    };
    lines(app.ending(), outputs, None)
}

/// A header says how often a quiet watch is told to live: without it a client would take an older server for a lost one.
pub fn watch(app: &App, path: String, mut watch: Watch) -> Response {
    let events = async_stream::stream! {
        while let Some(event) = watch.next().await {
            yield event;
        }
    };
    let mut response = lines(app.ending(), events, Some(FileEvent { kind: FileEventKind::Alive, path }));
    response.headers_mut().insert(ALIVE_SECONDS, HeaderValue::from(ALIVE_EVERY.as_secs()));
    response
}

/// Values as lines of JSON, until they end or the server does. A quiet answer says `alive` again and again, where it is given.
fn lines<T, V>(ending: &CancellationToken, values: V, alive: Option<T>) -> Response
where
    T: Serialize + Clone + Send + 'static,
    V: Stream<Item = Result<T, FleetError>> + Send + 'static,
{
    let ending = ending.clone();
    let body = async_stream::stream! {
        let mut values = pin!(values);
        loop {
            let value = tokio::select! {
                biased;
                () = ending.cancelled() => None,
                value = values.next() => value,
                () = tokio::time::sleep(ALIVE_EVERY), if alive.is_some() => alive.clone().map(Ok),
            };
            match value {
                None => break,
                Some(Ok(value)) => yield line(&value),
                Some(Err(error)) => {
                    yield Err(error);
                    break;
                }
            }
        }
    };
    typed(Body::from_stream(body), NDJSON)
}

pub fn events(app: &App, mut events: EventReader) -> Response {
    let ending = app.ending().clone();
    typed(
        Body::from_stream(async_stream::stream! {
            loop {
                let event = tokio::select! {
                    biased;
                    () = ending.cancelled() => None,
                    event = events.next() => event,
                };
                let Some(event) = event else { break };
                yield together(event, &mut events);
            }
        }),
        NDJSON,
    )
}

/// An event, and those behind it that have happened already: a busy server writes once for many.
fn together(first: Event, events: &mut EventReader) -> Result<Bytes, FleetError> {
    let mut lines = Vec::from(line(&first)?);
    while lines.len() < EVENTS_AT_ONCE
        && let Some(event) = events.ready()
    {
        lines.extend_from_slice(&line(&event)?);
    }
    Ok(lines.into())
}

/// The exact bytes from `offset` on, up to the end or to the first that was not kept. If the bytes at `offset` itself
/// were not kept, the answer begins behind them, and its headers say so. An incomplete answer never looks complete: it
/// is 206, or, with `follow`, broken off.
pub async fn raw(
    app: &App,
    mut reader: RawReader,
    offset: u64,
    follow: bool,
) -> Result<Response, FleetError> {
    let mut missing = 0;
    let mut first = None;
    loop {
        let next = if follow {
            // Without a first piece in time there is nothing missing now: output is still to come.
            tokio::time::timeout(FIRST_PIECE, reader.next()).await
        } else {
            Ok(reader.next().await)
        };
        match next {
            Ok(Some(Ok(RawPiece::Gap(bytes)))) => missing += bytes,
            Ok(Some(Ok(RawPiece::Bytes(bytes)))) => {
                first = Some(bytes);
                break;
            }
            Ok(Some(Err(error))) => return Err(error),
            Ok(None) | Err(_) => break,
        }
    }
    let begin = offset + missing;
    let part = (!follow).then(|| reader.stop_at_gap(begin)).filter(|(end, all)| missing > 0 || end < all);
    let ending = app.ending().clone();
    let body = async_stream::stream! {
        if let Some(bytes) = first {
            yield Ok(bytes);
        }
        loop {
            let piece = tokio::select! {
                biased;
                () = ending.cancelled() => Some(Err(broken_off())),
                piece = reader.next() => piece,
            };
            match piece {
                None => break,
                Some(Ok(RawPiece::Bytes(bytes))) => yield Ok(bytes),
                Some(Ok(RawPiece::Gap(_))) => {
                    yield Err(not_kept());
                    break;
                }
                Some(Err(error)) => {
                    yield Err(error);
                    break;
                }
            }
        }
    };
    let mut response = typed(Body::from_stream(body), OCTETS);
    response.headers_mut().insert("x-paddock-offset", HeaderValue::from(begin));
    if missing > 0 {
        response.headers_mut().insert("x-paddock-missing", HeaderValue::from(missing));
    }
    if let Some((end, all)) = part {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let range = match end > begin {
            true => format!("bytes {begin}-{}/{all}", end - 1),
            false => format!("bytes */{all}"),
        };
        response
            .headers_mut()
            .extend(HeaderValue::from_str(&range).map(|range| (header::CONTENT_RANGE, range)));
    }
    Ok(response)
}

fn line<T: Serialize>(value: &T) -> Result<Bytes, FleetError> {
    let mut line = serde_json::to_vec(value).map_err(|error| {
        FleetError::new(paddock_fleet::Kind::Internal, "internal", format!("not to be written: {error}"))
    })?;
    line.push(b'\n');
    Ok(line.into())
}

fn typed(body: Body, kind: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        // Bytes that code in a sandbox wrote are never a page of this server.
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

fn not_kept() -> FleetError {
    let kind = paddock_fleet::Kind::Unavailable;
    FleetError::new(kind, "storage_failed", "what was printed next is not kept any more")
}

fn broken_off() -> FleetError {
    FleetError::new(paddock_fleet::Kind::Unavailable, "unavailable", "the server is shutting down")
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream;

    #[tokio::test(start_paused = true)]
    async fn a_quiet_answer_says_that_it_lives_and_ends_with_the_server() {
        let ending = CancellationToken::new();
        let alive = FileEvent { kind: FileEventKind::Alive, path: "/d".into() };
        let first = FileEvent { kind: FileEventKind::Watching, path: "/d".into() };
        let events = stream::iter([Ok(first)]).chain(stream::pending());
        let mut body = lines(&ending, events, Some(alive)).into_body().into_data_stream();
        let began = tokio::time::Instant::now();
        assert_eq!(body.next().await.unwrap().unwrap(), "{\"kind\":\"watching\",\"path\":\"/d\"}\n");
        for turn in 1..=2 {
            assert_eq!(body.next().await.unwrap().unwrap(), "{\"kind\":\"alive\",\"path\":\"/d\"}\n");
            assert_eq!(began.elapsed().as_secs(), ALIVE_EVERY.as_secs() * turn);
        }
        ending.cancel();
        assert!(body.next().await.is_none());
    }
}
