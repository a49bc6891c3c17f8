//! The server's answer: one JSON value, or bytes and lines as they come.

use crate::error::ClientError;
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::{BodyExt, Limited};
use hyper::Response;
use hyper::body::Incoming;
use paddock_model::api::ApiError;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// More than any whole answer has; larger ones are streamed.
const LARGEST_ANSWER: usize = 256 << 20;
const LARGEST_ERROR: usize = 1 << 20;
/// More than any line of a stream.
const LARGEST_LINE: usize = 16 << 20;
/// The server says something every 15 seconds on a stream that is followed.
const SILENCE: Duration = Duration::from_secs(50);

pub struct Answer {
    response: Response<Incoming>,
}

impl Answer {
    /// Anything but a success becomes an error, in the server's own words where there are some.
    pub async fn checked(response: Response<Incoming>) -> Result<Answer, ClientError> {
        let status = response.status();
        if status.is_success() {
            return Ok(Answer { response });
        }
        let body = Limited::new(response.into_body(), LARGEST_ERROR).collect().await;
        let body = body.map(|body| body.to_bytes()).unwrap_or_default();
        match serde_json::from_slice::<ApiError>(&body) {
            Ok(error) => Err(ClientError::Refused { status: status.as_u16(), error: Box::new(error) }),
            Err(_) => Err(ClientError::NotPaddock { status: status.as_u16() }),
        }
    }

    /// The server's description of the damage, where it sent a damaged body.
    pub fn damage(&self) -> Option<String> {
        let told = self.response.headers().get("paddock-damaged")?;
        Some(told.to_str().unwrap_or("it was changed").to_string())
    }

    /// The nodes that a gateway's list goes without.
    pub(crate) fn missing_nodes(&self) -> impl Iterator<Item = &str> {
        let value = self.response.headers().get("paddock-nodes-missing");
        let names = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
        names.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    pub async fn whole(self) -> Result<Bytes, ClientError> {
        let body = Limited::new(self.response.into_body(), LARGEST_ANSWER).collect().await;
        body.map(|body| body.to_bytes()).map_err(ClientError::Lost)
    }

    pub async fn json<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.whole().await?).map_err(ClientError::Unexpected)
    }

    /// The next bytes of the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.response.body_mut().frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Lost(error.into())),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    pub fn lines(self) -> Lines {
        Lines { answer: self, buffer: BytesMut::new(), searched: 0 }
    }
}

/// A body of one JSON value per line.
pub struct Lines {
    answer: Answer,
    buffer: BytesMut,
    /// No newline is before this.
    searched: usize,
}

impl Lines {
    /// A silence that is too long is a lost connection: the server would have said that it lives.
    pub async fn next_lively<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        match tokio::time::timeout(SILENCE, self.next()).await {
            Ok(line) => line,
            Err(silence) => Err(ClientError::Lost(silence.into())),
        }
    }

    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ClientError> {
        match self.next_line().await? {
            Some(line) => serde_json::from_slice(&line).map(Some).map_err(ClientError::Unexpected),
            None => Ok(None),
        }
    }

    /// Without its newline. Half a line at the end is a lost connection.
    pub async fn next_line(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            if let Some(length) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let line = self.buffer.split_to(self.searched + length).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                if line.is_empty() {
                    continue;
                }
                return Ok(Some(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LARGEST_LINE {
                return Err(ClientError::LongLine);
            }
            match self.answer.next().await? {
                Some(bytes) => self.buffer.extend_from_slice(&bytes),
                None if self.buffer.is_empty() => return Ok(None),
                None => return Err(ClientError::Lost("the answer ended within a line".into())),
            }
        }
    }
}
