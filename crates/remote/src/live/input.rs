//! The caller's standard input, on its way to the command. The server says how far it got, so that a piece that
//! is sent twice counts once.

use super::detach::DetachKeys;
use super::{Place, Retry};
use crate::client::{Call, Client, ClientError, Target};
use bytes::{Buf, Bytes};
use paddock_client::Method;
use paddock_model::api::StdinReceived;
use paddock_terminal::streams::Stream;
use std::sync::Arc;
use tokio::sync::oneshot;

pub struct Input {
    client: Arc<Client>,
    place: Place,
    offset: u64,
}

impl Input {
    pub fn new(client: Arc<Client>, place: Place) -> Input {
        Input { client, place, offset: 0 }
    }

    /// Runs until the caller's input ends, the command takes no more, or the caller detaches (which is told).
    pub async fn pass(mut self, stdin: Stream, mut detach: Option<oneshot::Sender<()>>) {
        let mut keys = DetachKeys::default();
        while let Ok(bytes) = stdin.read().await {
            let last = bytes.is_empty();
            let (bytes, leaves) = match detach {
                Some(_) => keys.filter(&bytes),
                None => (bytes, false),
            };
            if !bytes.is_empty() && self.send(bytes.into(), false).await.is_err() {
                return;
            }
            if leaves {
                let _ = detach.take().map(|detach| detach.send(()));
                return;
            }
            if last {
                let _ = self.send(Bytes::new(), true).await;
                // The conversation goes on without us; a detach can no longer be typed.
                return std::future::pending().await;
            }
        }
    }

    /// An unknown offset is asked for with an empty write: an attached caller begins where others stopped.
    pub async fn find_offset(&mut self) -> Result<(), ClientError> {
        self.offset = self.post(Bytes::new(), None, false).await?.offset;
        Ok(())
    }

    async fn send(&mut self, mut bytes: Bytes, close: bool) -> Result<(), ClientError> {
        let mut retry = Retry::new();
        loop {
            match self.post(bytes.clone(), Some(self.offset), close).await {
                Ok(received) => {
                    let taken = received.offset.saturating_sub(self.offset).min(bytes.len() as u64);
                    self.offset = received.offset;
                    bytes.advance(taken as usize);
                    if bytes.is_empty() {
                        return Ok(());
                    }
                    retry.succeeded();
                    if taken == 0 {
                        retry.after(ClientError::Lost("no input was taken".into())).await?;
                    }
                }
                Err(error) => {
                    retry.after(error).await?;
                    self.client.revive().await?;
                }
            }
        }
    }

    async fn post(
        &self,
        bytes: Bytes,
        offset: Option<u64>,
        close: bool,
    ) -> Result<StdinReceived, ClientError> {
        let target = Target::exec(&self.place.sandbox, self.place.exec)
            .part("stdin")
            .query_if("offset", offset.map(|offset| offset.to_string()).as_deref())
            .query("close", if close { "true" } else { "false" });
        self.client.json(Call::new(Method::POST, target).bytes(bytes)).await
    }
}
