//! The events of one streamed reply, within bounds of size and of silence.

use crate::endpoint::Dialect;
use crate::error::ModelError;
use crate::reply::Reply;
use crate::{anthropic, openai};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use reqwest::Response;
use serde_json::Value;
use sse_stream::SseStream;
use std::io;
use std::time::Duration;

/// The most bytes of one reply, in MiB.
const MOST_MIB: usize = 32;

/// `silence`: the longest time without a byte.
pub async fn read(
    response: Response,
    dialect: Dialect,
    silence: Duration,
    heard: &mut dyn FnMut(&str),
) -> Result<Reply, ModelError> {
    let mut events = SseStream::from_bytes_stream(Box::pin(bounded(response)));
    let mut reply = Reply::default();
    loop {
        let next = tokio::time::timeout(silence, events.next()).await;
        let event = match next.map_err(|_| ModelError::Silent(silence.as_secs()))? {
            None => return Ok(reply),
            Some(Ok(event)) => event,
            Some(Err(sse_stream::Error::Body(error))) if error.to_string() == TOO_LARGE => {
                return Err(ModelError::TooLarge(MOST_MIB));
            }
            // A connection that broke.
            Some(Err(sse_stream::Error::Body(_))) => return Err(ModelError::Cut),
            Some(Err(error)) => return Err(ModelError::Nonsense(format!("no event stream: {error}"))),
        };
        let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
        if dialect == Dialect::OpenAi && data.trim() == openai::DONE {
            return Ok(reply);
        }
        let value: Value = serde_json::from_str(&data)
            .map_err(|error| ModelError::Nonsense(format!("an event is no JSON: {error}")))?;
        match dialect {
            Dialect::Anthropic if anthropic::event(&value, &mut reply, heard)? => return Ok(reply),
            Dialect::Anthropic => {}
            Dialect::OpenAi => openai::event(&value, &mut reply, heard)?,
        }
    }
}

const TOO_LARGE: &str = "too large";

fn bounded(response: Response) -> impl Stream<Item = io::Result<Bytes>> {
    let state = Some((response, MOST_MIB << 20));
    futures_util::stream::unfold(state, async |state| {
        let (mut response, left) = state?;
        match response.chunk().await {
            Ok(None) => None,
            Ok(Some(bytes)) if bytes.len() > left => Some((Err(io::Error::other(TOO_LARGE)), None)),
            Ok(Some(bytes)) => {
                let left = left - bytes.len();
                Some((Ok(bytes), Some((response, left))))
            }
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    })
}
