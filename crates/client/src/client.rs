//! One server, as one caller.

use crate::address::Address;
use crate::answer::Answer;
use crate::call::{Call, Payload};
use crate::connect_error::ConnectError;
use crate::connection::{self, Body, Sender};
use crate::error::ClientError;
use crate::revive::Revive;
use http_body_util::BodyExt;
use hyper::Request;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// So long a server that does not listen yet, or no more, is waited for.
const ABSENCE: Duration = Duration::from_secs(3);
const STEP: Duration = Duration::from_millis(50);

/// One server, as one caller. Connections are kept for the next call where that is possible.
pub struct Client {
    address: Address,
    token: Option<HeaderValue>,
    /// How to start the server; absent where the caller names one.
    revive: Option<Arc<dyn Revive>>,
    idle: Mutex<Option<Sender>>,
    missing_nodes: Mutex<BTreeSet<String>>,
}

impl Client {
    /// Nothing is connected yet.
    pub fn new(address: Address, token: Option<&[u8]>) -> Result<Client, ClientError> {
        let header = |token: &[u8]| HeaderValue::from_bytes(&[b"Bearer ", token].concat());
        let token = token.map(header).transpose().map_err(|_| ClientError::Token)?;
        Ok(Client { address, token, revive: None, idle: Mutex::new(None), missing_nodes: Mutex::default() })
    }

    /// The same for a server that is the caller's to start again.
    pub fn reviving(self, revive: Arc<dyn Revive>) -> Client {
        Client { revive: Some(revive), ..self }
    }

    /// Where the server is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// After a lost connection: starts the server again if it was ours to start.
    pub async fn revive(&self) -> Result<(), ClientError> {
        let Some(revive) = self.revive.clone() else { return Ok(()) };
        match tokio::task::spawn_blocking(move || revive.ensure()).await {
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
        self.note_missing(&answer);
        let value = answer.json().await?;
        self.keep(sender);
        Ok(value)
    }

    /// The nodes that did not answer a gateway, so that the lists which were asked for are without what those nodes have.
    pub fn missing_nodes(&self) -> Vec<String> {
        self.missing_nodes.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    fn note_missing(&self, answer: &Answer) {
        let mut missing = self.missing_nodes.lock().unwrap_or_else(PoisonError::into_inner);
        missing.extend(answer.missing_nodes().map(String::from));
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

/// For an `Idempotency-Key`.
pub fn random_key() -> String {
    let mut bytes = [0; 16];
    // Reads that many bytes or fails, and it does not fail on any kernel that Paddock runs on.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
