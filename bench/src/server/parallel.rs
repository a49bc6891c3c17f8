//! Many calls on several connections.

use super::calls::Caller;
use super::process::Server;
use anyhow::Result;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// The connections that a program with a pool of them would keep busy.
pub const CONNECTIONS: usize = 8;

/// Each item once, on whichever connection is free; the outcomes are in no order.
pub async fn each<T, R, W, F>(
    server: &Server,
    connections: usize,
    items: Vec<T>,
    work: W,
) -> Result<Vec<Result<R>>>
where
    T: Send + 'static,
    R: Send + 'static,
    W: Fn(Caller, T) -> F + Copy + Send + 'static,
    F: Future<Output = (Caller, Result<R>)> + Send,
{
    let mut callers = Vec::with_capacity(connections);
    for _ in 0..connections {
        callers.push(server.caller().await?);
    }
    let queue = Arc::new(Mutex::new(items.into_iter()));
    let mut workers = JoinSet::new();
    for mut caller in callers {
        let queue = queue.clone();
        workers.spawn(async move {
            let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let mut outcomes = Vec::new();
            while let Some(item) = next() {
                let (free, outcome) = work(caller, item).await;
                caller = free;
                outcomes.push(outcome);
            }
            outcomes
        });
    }
    let mut all = Vec::new();
    while let Some(outcomes) = workers.join_next().await {
        all.extend(outcomes?);
    }
    Ok(all)
}

/// All or an error: of as many sandboxes as a part needs.
pub async fn create(server: &Server, count: usize) -> Result<Vec<String>> {
    let outcomes = each(server, CONNECTIONS, vec![(); count], |mut caller, ()| async move {
        let outcome = caller.create().await;
        (caller, outcome)
    });
    outcomes.await?.into_iter().collect()
}

pub async fn kill(server: &Server, sandboxes: Vec<String>) -> Result<()> {
    let outcomes = each(server, CONNECTIONS, sandboxes, |mut caller, id: String| async move {
        let outcome = caller.kill(&id).await;
        (caller, outcome)
    });
    outcomes.await?.into_iter().collect()
}
