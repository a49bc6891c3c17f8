//! Many changes, one write: each caller waits for the next transaction, which takes all changes that came meanwhile.

use paddock_fleet::{Fleet, FleetError};
use paddock_records::store::JobChange;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use tokio::sync::oneshot;

/// The most changes in one transaction: a larger one keeps all callers waiting.
const MOST_AT_ONCE: usize = 500;

pub struct Writer {
    // None once it is closed.
    sender: Mutex<Option<Sender<Wanted>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Wanted {
    changes: Vec<JobChange>,
    done: oneshot::Sender<Result<(), FleetError>>,
}

impl Writer {
    pub fn start(fleet: Fleet) -> std::io::Result<Writer> {
        let (sender, wanted) = channel();
        let thread = Builder::new().name("jobs".into()).spawn(move || run(&fleet, &wanted))?;
        Ok(Writer { sender: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)) })
    }

    /// Returns when it is in the store: all of it, or nothing.
    pub async fn write(&self, changes: Vec<JobChange>) -> Result<(), FleetError> {
        let (done, answer) = oneshot::channel();
        let gone = || {
            let closed = std::io::Error::other("the jobs are closed");
            FleetError::storage(&closed)
        };
        {
            let sender = self.sender.lock().unwrap_or_else(PoisonError::into_inner);
            let sender = sender.as_ref().ok_or_else(gone)?;
            sender.send(Wanted { changes, done }).map_err(|_| gone())?;
        }
        answer.await.map_err(|_| gone())?
    }

    /// Writes the changes that were handed over, and takes no more.
    pub fn close(&self) {
        drop(self.sender.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn run(fleet: &Fleet, wanted: &Receiver<Wanted>) {
    while let Ok(first) = wanted.recv() {
        let mut together = vec![first];
        let mut count = together[0].changes.len();
        while count < MOST_AT_ONCE
            && let Ok(next) = wanted.try_recv()
        {
            count += next.changes.len();
            together.push(next);
        }
        let changes: Vec<JobChange> =
            together.iter_mut().flat_map(|wanted| std::mem::take(&mut wanted.changes)).collect();
        let written = fleet.records().write_jobs(&changes).map_err(FleetError::from);
        for wanted in together {
            // A caller that does not wait any more has gone with the server.
            let _ = wanted.done.send(written.clone());
        }
    }
}
