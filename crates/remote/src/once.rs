//! A sandbox of the server for one command: made, used, and ended in any case.

use crate::client::{Client, ClientError, room};
use paddock_model::api::{CreateSandbox, MountedVolume, Sandbox, VolumeMode};
use paddock_terminal::signals::Signals;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The pause between two attempts at a volume that another sandbox writes to.
const PAUSE_FOR_A_VOLUME: Duration = Duration::from_millis(250);

pub struct Once {
    pub client: Arc<Client>,
    pub id: String,
}

/// The result of the beginning.
pub enum Begun {
    Ready(Once),
    /// The caller was told to end, and nothing is left.
    Interrupted(i32),
}

impl Once {
    /// `patience`: how long to wait for a volume that another sandbox writes to.
    pub async fn begin(
        client: Arc<Client>,
        request: CreateSandbox,
        patience: Duration,
        signals: &mut Signals,
    ) -> Result<Begun, ClientError> {
        let until = Instant::now() + patience;
        loop {
            let (asked, body) = (client.clone(), request.clone());
            let mut making = tokio::spawn(async move { room::create(&asked, &body).await });
            let made = tokio::select! {
                made = &mut making => made,
                number = signals.next_ending() => {
                    // The sandbox comes to be all the same, so its creator has to end it.
                    if let Ok(Ok(sandbox)) = making.await {
                        let _ = client.end(&sandbox.id, true).await;
                    }
                    return Ok(Begun::Interrupted(number));
                }
            };
            match made.map_err(|error| ClientError::Lost(error.into()))? {
                Ok(sandbox) => return Ok(Begun::Ready(Once { client, id: sandbox.id })),
                Err(error) if error.code() == Some("volume_busy") && Instant::now() < until => {}
                Err(error) => return Err(error),
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSE_FOR_A_VOLUME) => {}
                number = signals.next_ending() => return Ok(Begun::Interrupted(number)),
            }
        }
    }

    /// Its volumes are committed, or treated as a failure's. The answer tells their fate.
    pub async fn end(self, failed: bool) -> Result<Sandbox, ClientError> {
        match self.client.end(&self.id, failed).await {
            Err(error) if error.is_passing() => {
                self.client.revive().await?;
                self.client.end(&self.id, failed).await
            }
            other => other,
        }
    }
}

/// Volumes whose content is not where it was to be, and how it stands with them.
pub fn unstored(volumes: &[MountedVolume]) -> impl Iterator<Item = (&MountedVolume, &str)> {
    let written = volumes.iter().filter(|volume| volume.mode == VolumeMode::Rw && !volume.is_settled());
    written.map(|volume| (volume, volume.outcome.as_deref().unwrap_or("it is not known what became of it")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::OnFailure;

    #[test]
    fn what_was_not_stored_is_told() {
        let volume = |outcome: Option<&str>| MountedVolume {
            name: "memory".into(),
            path: "/data/memory".into(),
            mode: VolumeMode::Rw,
            on_failure: OnFailure::Keep,
            version: None,
            outcome: outcome.map(str::to_string),
        };
        for fine in
            ["committed as version 3", "nothing was changed", "kept aside as version 2, for x", "discarded"]
        {
            assert_eq!(unstored(&[volume(Some(fine))]).count(), 0, "{fine}");
        }
        for bad in [
            Some("not stored, it is tried again: the store of volumes failed"),
            Some("its lease was lost to another writer: kept aside as version 4"),
            None,
        ] {
            assert_eq!(unstored(&[volume(bad)]).count(), 1, "{bad:?}");
        }
    }
}
