//! Bodies that are held whole, and how many bytes of them the server holds at one time.

use crate::errors::Failure;
use axum::http::StatusCode;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// From this size on a body needs room, and is parsed off the threads that serve others.
pub const LARGE: usize = 64 << 10;
/// The bytes of all large bodies together.
const ROOM_BYTES: usize = 64 << 20;
/// Room is handed out in pieces of this size.
const PIECE: usize = 1 << 10;

/// A body, and the room that it takes for as long as it is kept.
pub struct WholeBody {
    pub bytes: Bytes,
    pub(crate) _room: Option<OwnedSemaphorePermit>,
}

/// The room for large bodies. Copies share it.
#[derive(Clone)]
pub struct LargeBodies(Arc<Semaphore>);

impl Default for LargeBodies {
    fn default() -> LargeBodies {
        LargeBodies(Arc::new(Semaphore::new(ROOM_BYTES / PIECE)))
    }
}

impl LargeBodies {
    /// Waits for its turn; a small body needs none.
    pub async fn room(
        &self,
        bytes: usize,
        patience: Duration,
    ) -> Result<Option<OwnedSemaphorePermit>, Failure> {
        if bytes < LARGE {
            return Ok(None);
        }
        let pieces = u32::try_from(bytes.div_ceil(PIECE).min(ROOM_BYTES / PIECE)).unwrap_or(u32::MAX);
        match tokio::time::timeout(patience, self.0.clone().acquire_many_owned(pieces)).await {
            Ok(Ok(room)) => Ok(Some(room)),
            _ => Err(busy()),
        }
    }
}

/// The part of the room that a body of this length needs: one whose length was not announced was given room for the largest.
pub fn shrink(room: Option<OwnedSemaphorePermit>, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let mut room = room.filter(|_| bytes >= LARGE)?;
    let spare = room.num_permits().saturating_sub(bytes.div_ceil(PIECE));
    drop(room.split(spare));
    Some(room)
}

fn busy() -> Failure {
    let mut failure = Failure::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "unavailable",
        "too many large requests are being read at this time",
    )
    .hint("Ask again in a moment.");
    failure.retry_after_seconds = Some(2);
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_bodies_wait_for_room_and_small_ones_do_not() {
        let bodies = LargeBodies::default();
        let short = Duration::from_millis(1);
        let mut held = Vec::new();
        for _ in 0..ROOM_BYTES / (8 << 20) {
            held.push(bodies.room(8 << 20, short).await.expect("room").expect("a large one"));
        }
        assert_eq!(bodies.room(8 << 20, short).await.expect_err("full").status.as_u16(), 503);
        assert!(bodies.room(LARGE - 1, short).await.expect("always").is_none());
        // A body without an announced length was short, or half as long.
        assert!(shrink(held.pop(), LARGE - 1).is_none());
        assert!(bodies.room(8 << 20, short).await.expect("room again").is_some());
        let half = shrink(held.pop(), 4 << 20);
        assert_eq!(half.as_ref().map(OwnedSemaphorePermit::num_permits), Some((4 << 20) / PIECE));
        drop(half);
        assert!(bodies.room(8 << 20, short).await.expect("room again").is_some());
    }
}
