//! Watches for clients that ask for events instead of waiting for them. How many there are, and how much each keeps, is bounded.

use super::connect::{self, Result, RpcError};
use super::filesystem::Files;
use super::inside::Inside;
use super::messages::{OfWatcher, WatchRequest};
use super::watch::{Events, Next};
use axum::extract::Request;
use ring::rand::SecureRandom;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Of one sandbox; each is a process inside.
const MOST_WATCHERS: usize = 64;
/// Events that nobody has asked for yet.
const MOST_EVENTS: usize = 10_000;

/// By their sandbox, and then by their own id.
#[derive(Default)]
pub struct Watchers(Mutex<HashMap<String, HashMap<String, Watcher>>>);

struct Watcher {
    collected: Arc<Mutex<Collected>>,
    /// Ends the watch when this is dropped.
    _ends: DropGuard,
}

#[derive(Default)]
struct Collected {
    events: Vec<Value>,
    overflowed: bool,
}

pub async fn create(files: &Files, request: Request) -> Result<Value> {
    let app = files.inside.app.clone();
    let wanted: WatchRequest = connect::message(&app, request).await?;
    let sandbox = files.inside.id().to_string();
    // Before anything is begun; others may begin theirs at the same time, so that it is looked at again.
    app.e2b().watchers.check_room(&sandbox)?;
    let own = Files {
        inside: Inside {
            app: app.clone(),
            actor: files.inside.actor.clone(),
            sandbox: files.inside.sandbox.clone(),
        },
        user: files.user.clone(),
    };
    let mut events = Events::open(own, &wanted).await?;
    let id = new_id()?;
    let (collected, ends) = (Arc::new(Mutex::new(Collected::default())), CancellationToken::new());
    let watcher = Watcher { collected: collected.clone(), _ends: ends.clone().drop_guard() };
    app.e2b().watchers.add(&sandbox, &id, watcher)?;
    let watched = id.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = ends.cancelled() => return,
                () = app.ending().cancelled() => return,
                next = events.next() => match next {
                    Next::Event(event) => lock(&collected).add(event),
                    // The directory has gone: what was seen until then can still be asked for.
                    Next::End => return,
                    Next::Lost(_) => return app.e2b().watchers.forget(&sandbox, &watched),
                },
            }
        }
    });
    Ok(json!({ "watcherId": id }))
}

pub async fn events(inside: &Inside, request: Request) -> Result<Value> {
    let wanted: OfWatcher = connect::message(&inside.app, request).await?;
    let collected = inside.app.e2b().watchers.collected(inside.id(), &wanted.watcher_id)?;
    let mut collected = lock(&collected);
    if std::mem::take(&mut collected.overflowed) {
        collected.events.clear();
        return Err(RpcError::new(
            "resource_exhausted",
            format!(
                "more than {MOST_EVENTS} events came since the last call; list the directory, and ask more often"
            ),
        ));
    }
    Ok(json!({ "events": std::mem::take(&mut collected.events) }))
}

pub async fn remove(inside: &Inside, request: Request) -> Result<Value> {
    let wanted: OfWatcher = connect::message(&inside.app, request).await?;
    inside.app.e2b().watchers.collected(inside.id(), &wanted.watcher_id)?;
    inside.app.e2b().watchers.forget(inside.id(), &wanted.watcher_id);
    Ok(json!({}))
}

impl Watchers {
    fn add(&self, sandbox: &str, id: &str, watcher: Watcher) -> Result<()> {
        let mut all = lock(&self.0);
        check_count(all.get(sandbox).map_or(0, HashMap::len))?;
        all.entry(sandbox.to_string()).or_default().insert(id.to_string(), watcher);
        Ok(())
    }

    fn check_room(&self, sandbox: &str) -> Result<()> {
        check_count(lock(&self.0).get(sandbox).map_or(0, HashMap::len))
    }

    /// A sandbox leaves with its last watcher.
    fn forget(&self, sandbox: &str, id: &str) {
        let mut all = lock(&self.0);
        if let Some(own) = all.get_mut(sandbox) {
            own.remove(id);
            if own.is_empty() {
                all.remove(sandbox);
            }
        }
    }

    /// Another sandbox's watcher is nobody's here.
    fn collected(&self, sandbox: &str, id: &str) -> Result<Arc<Mutex<Collected>>> {
        let all = lock(&self.0);
        let found = all.get(sandbox).and_then(|own| own.get(id));
        found.map(|watcher| watcher.collected.clone()).ok_or_else(|| {
            RpcError::not_found(format!(
                "there is no watcher {:?} in this sandbox",
                crate::errors::shorten(id)
            ))
        })
    }
}

fn check_count(count: usize) -> Result<()> {
    match count >= MOST_WATCHERS {
        true => Err(RpcError::new(
            "resource_exhausted",
            format!("this sandbox has {MOST_WATCHERS} watchers already; stop one of them first"),
        )),
        false => Ok(()),
    }
}

impl Collected {
    fn add(&mut self, event: Value) {
        match self.events.len() {
            count if count < MOST_EVENTS => self.events.push(event),
            _ => self.overflowed = true,
        }
    }
}

fn new_id() -> Result<String> {
    let mut bytes = [0; 16];
    let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| RpcError::new("internal", "the host has no random numbers"))?;
    Ok(format!("w{:032x}", u128::from_be_bytes(bytes)))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watcher() -> Watcher {
        let ends = CancellationToken::new();
        Watcher { collected: Arc::default(), _ends: ends.drop_guard() }
    }

    #[test]
    fn watchers_are_counted_and_belong_to_their_sandbox() {
        let all = Watchers::default();
        for number in 0..MOST_WATCHERS {
            all.add("a", &number.to_string(), watcher()).expect("room");
        }
        assert_eq!(all.add("a", "more", watcher()).expect_err("full").code, "resource_exhausted");
        all.add("b", "b", watcher()).expect("room for another sandbox");
        assert_eq!(all.collected("a", "b").err().map(|error| error.code), Some("not_found"));
        all.forget("a", "0");
        all.add("a", "more", watcher()).expect("room again");
        all.forget("b", "b");
        assert!(!lock(&all.0).contains_key("b"));
    }

    #[test]
    fn events_that_nobody_asks_for_are_bounded() {
        let mut collected = Collected::default();
        for _ in 0..=MOST_EVENTS {
            collected.add(json!({}));
        }
        assert_eq!((collected.events.len(), collected.overflowed), (MOST_EVENTS, true));
    }
}
