//! One request: its target, its body, and the key that makes two of it one.

use crate::{ClientError, Target};
use bytes::Bytes;
use hyper::Method;

/// One request that is not sent yet.
pub struct Call {
    pub(crate) method: Method,
    pub(crate) target: Target,
    pub(crate) content_type: &'static str,
    pub(crate) body: Payload,
    pub(crate) key: Option<String>,
}

pub(crate) enum Payload {
    Whole(Bytes),
    Streamed(http_body_util::channel::Channel<Bytes, std::io::Error>),
}

/// A body that is handed over piece by piece; the call ends when it is dropped.
pub type Upload = http_body_util::channel::Sender<Bytes, std::io::Error>;

impl Call {
    pub fn new(method: Method, target: Target) -> Call {
        let body = Payload::Whole(Bytes::new());
        Call { method, target, content_type: "application/json", body, key: None }
    }

    pub fn get(target: Target) -> Call {
        Call::new(Method::GET, target)
    }

    pub fn json(mut self, body: &impl serde::Serialize) -> Result<Call, ClientError> {
        self.body = Payload::Whole(serde_json::to_vec(body).map_err(ClientError::Request)?.into());
        Ok(self)
    }

    pub fn bytes(mut self, body: Bytes) -> Call {
        self.content_type = "application/octet-stream";
        self.body = Payload::Whole(body);
        self
    }

    pub fn upload(mut self, content_type: &'static str) -> (Call, Upload) {
        let (sender, channel) = http_body_util::channel::Channel::new(4);
        self.content_type = content_type;
        self.body = Payload::Streamed(channel);
        (self, sender)
    }

    /// The same call once more, where doing it twice is as good as once.
    pub(crate) fn again(&self) -> Option<Call> {
        let harmless = self.method == Method::GET || self.key.is_some();
        let body = match &self.body {
            Payload::Whole(bytes) if harmless => Payload::Whole(bytes.clone()),
            _ => return None,
        };
        Some(Call {
            method: self.method.clone(),
            target: self.target.clone(),
            content_type: self.content_type,
            body,
            key: self.key.clone(),
        })
    }

    /// The same key again does not do the same thing twice.
    pub fn idempotent(mut self, key: &str) -> Call {
        self.key = Some(key.to_string());
        self
    }
}
