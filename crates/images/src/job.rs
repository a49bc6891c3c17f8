//! Blocking work away from the async threads, with progress on the way back.
//!
//! When the caller drops the future, the next report fails, and the work stops and removes its unfinished files.

use tokio::sync::mpsc;

use super::{ImageError, Progress};

enum Event {
    Start(String, Option<u64>),
    Advance(u64),
    Done,
}

/// The blocking side of a job.
pub struct Reporter {
    events: mpsc::Sender<Event>,
}

impl Reporter {
    pub fn start(&self, what: &str, total: Option<u64>) -> Result<(), ImageError> {
        self.send(Event::Start(what.to_owned(), total))
    }

    pub fn advance(&self, bytes: u64) -> Result<(), ImageError> {
        self.send(Event::Advance(bytes))
    }

    pub fn done(&self) -> Result<(), ImageError> {
        self.send(Event::Done)
    }

    fn send(&self, event: Event) -> Result<(), ImageError> {
        self.events.blocking_send(event).map_err(|_| ImageError::Cancelled)
    }

    /// A reporter whose reports are thrown away; the receiver must live as long as the work.
    #[cfg(any(test, feature = "fuzzing"))]
    pub fn silent<T>(work: impl FnOnce(&Self) -> T) -> T {
        let (events, mut receiver) = mpsc::channel(64);
        std::thread::spawn(move || while receiver.blocking_recv().is_some() {});
        work(&Self { events })
    }
}

pub async fn run<T: Send + 'static>(
    progress: &dyn Progress,
    work: impl FnOnce(&Reporter) -> Result<T, ImageError> + Send + 'static,
) -> Result<T, ImageError> {
    let (events, mut receiver) = mpsc::channel(64);
    let job = tokio::task::spawn_blocking(move || work(&Reporter { events }));
    while let Some(event) = receiver.recv().await {
        match event {
            Event::Start(what, total) => progress.start(&what, total),
            Event::Advance(bytes) => progress.advance(bytes),
            Event::Done => progress.done(),
        }
    }
    job.await.unwrap_or_else(|failure| match failure.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => Err(ImageError::Cancelled),
    })
}
