//! The HTTP API from the side of a caller.
//!
//! - [`address`]: where the server is
//! - [`start`]: starting one where none is configured and none answers
//! - [`connection`]: TCP, TLS or a unix socket, and HTTP/1.1 over it; [`connect_error`]: why there is none
//! - [`target`]: paths and queries in which no text of the caller's can become syntax
//! - [`answer`]: bodies, whole or as they come
//! - [`calls`]: the API calls of the commands; [`operations`]: the operations of a model's tools
//! - [`room`]: a create that waits for its tenant's quota
//! - [`error`]: errors, for people
//!
//! `run` and `code` touch nothing of this.

pub mod address;
mod answer;
pub mod calls;
mod connect_error;
mod connection;
mod error;
pub mod operations;
pub mod room;
mod start;
mod target;

pub use answer::{Answer, Lines};
pub use connect_error::ConnectError;
pub use error::ClientError;
pub use target::Target;

use crate::caller::Environment;
use crate::env_vars;
use crate::state;
use address::Address;
use bytes::Bytes;
use connection::{Body, Sender};
use http_body_util::BodyExt;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long a server that does not listen yet, or no more, is waited for.
const ABSENCE: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(50);

/// One server, as one caller. Connections are kept for the next call where that is possible.
pub struct Client {
    address: Address,
    token: Option<HeaderValue>,
    /// How to start the server; absent where the caller names one.
    starter: Option<start::Starter>,
    idle: Mutex<Option<Sender>>,
}

/// One request that is not sent yet.
pub struct Call {
    method: Method,
    target: Target,
    content_type: &'static str,
    body: Payload,
    key: Option<String>,
}

enum Payload {
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
    fn again(&self) -> Option<Call> {
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

impl Client {
    /// Starts the user's own server if none is configured and none is there. May wait for that.
    pub fn find(environment: &Environment) -> Result<Client, ClientError> {
        let token = token(environment)?;
        if let Some(address) = address::configured(environment)? {
            return Ok(Client { address, token, starter: None, idle: Mutex::new(None) });
        }
        let state_dir = state::prepare(environment)?;
        let socket = address::own_socket(environment, &state_dir);
        let starter = start::Starter::new(socket.clone(), state_dir);
        starter.ensure()?;
        Ok(Client { address: Address::Unix(socket), token, starter: Some(starter), idle: Mutex::new(None) })
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The server that [`Client::find`] would use, and where it is; none is started.
    pub fn existing(environment: &Environment) -> Result<(Client, Address), ClientError> {
        let token = token(environment)?;
        let address = match address::configured(environment)? {
            Some(address) => address,
            None => Address::Unix(address::own_socket(environment, &state::locate(environment)?)),
        };
        let client = Client { address: address.clone(), token, starter: None, idle: Mutex::new(None) };
        Ok((client, address))
    }

    /// After a lost connection: starts the server again if it was ours to start.
    pub async fn revive(&self) -> Result<(), ClientError> {
        let Some(starter) = self.starter.clone() else { return Ok(()) };
        match tokio::task::spawn_blocking(move || starter.ensure()).await {
            Ok(ensured) => Ok(ensured?),
            Err(_) => Ok(()),
        }
    }

    /// The answer's head. A refusal of the server is an error.
    pub async fn send(&self, call: Call) -> Result<Answer, ClientError> {
        let (answer, _sender) = self.exchange(call).await?;
        Ok(answer)
    }

    /// The whole answer as JSON.
    pub async fn json<T: serde::de::DeserializeOwned>(&self, call: Call) -> Result<T, ClientError> {
        let (answer, sender) = self.exchange(call).await?;
        let value = answer.json().await?;
        self.keep(sender);
        Ok(value)
    }

    /// An answer without a body, or with a body that is not needed.
    pub async fn done(&self, call: Call) -> Result<(), ClientError> {
        let (answer, sender) = self.exchange(call).await?;
        answer.whole().await?;
        self.keep(sender);
        Ok(())
    }

    async fn exchange(&self, call: Call) -> Result<(Answer, Sender), ClientError> {
        let again = call.again();
        match (self.exchange_once(call).await, again) {
            // The server ended: the next one gets the same call, which does no harm.
            (Err(error), Some(again)) if error.is_of_an_ending_server() => {
                tokio::time::sleep(STEP).await;
                self.revive().await?;
                self.exchange_once(again).await
            }
            (result, _) => result,
        }
    }

    async fn exchange_once(&self, call: Call) -> Result<(Answer, Sender), ClientError> {
        let mut request = self.request(call)?;
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut sender) = kept.filter(|sender| !sender.is_closed()) {
            match sender.try_send_request(request).await {
                Ok(response) => return Ok((Answer::checked(response).await?, sender)),
                // A server that has gone meanwhile has not seen the request at all.
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(ClientError::Lost(failure.into_error().into())),
                },
            }
        }
        let mut sender = self.connect().await?;
        let response =
            sender.send_request(request).await.map_err(|error| {
                match ConnectError::of_first_answer(&self.address, error) {
                    Ok(error) => ClientError::Connect(error),
                    Err(error) => ClientError::Lost(error.into()),
                }
            })?;
        Ok((Answer::checked(response).await?, sender))
    }

    /// A server that is not there may be starting: it is waited for a while, or started where it is ours to start.
    async fn connect(&self) -> Result<Sender, ClientError> {
        let began = Instant::now();
        loop {
            match connection::open(&self.address).await {
                Err(error) if error.is_absence() && began.elapsed() < ABSENCE => {
                    tokio::time::sleep(STEP).await;
                    self.revive().await?;
                }
                opened => return opened,
            }
        }
    }

    fn keep(&self, sender: Sender) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
    }

    fn request(&self, call: Call) -> Result<Request<Body>, ClientError> {
        let mut request = Request::builder()
            .method(call.method)
            .uri(call.target.as_str())
            .header(HOST, self.address.host())
            .header(CONTENT_TYPE, call.content_type);
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token.clone());
        }
        if let Some(key) = call.key {
            request = request.header("Idempotency-Key", key);
        }
        let body = match call.body {
            Payload::Whole(bytes) => {
                http_body_util::Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
            }
            Payload::Streamed(channel) => channel.boxed_unsync(),
        };
        request.body(body).map_err(ClientError::BadTarget)
    }
}

fn token(environment: &Environment) -> Result<Option<HeaderValue>, ClientError> {
    let token = environment.get(env_vars::PADDOCK_TOKEN).map(|token| {
        let value = HeaderValue::from_bytes([b"Bearer ", token.as_encoded_bytes()].concat().as_slice());
        value.map_err(|_| ClientError::Token)
    });
    token.transpose()
}

/// For an `Idempotency-Key`.
pub fn random_key() -> String {
    let mut bytes = [0; 16];
    // Reads that many bytes or fails, and it does not fail on any kernel that Paddock runs on.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
