//! The lives of a session's sandboxes, on a clock of the test's own.

mod host;

use crate::{LEASE, Session, SessionOptions};
use host::Ledger;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn session(ledger: &Ledger, options: SessionOptions) -> Session<Ledger> {
    Session::new(ledger.clone(), options)
}

/// All requests up to now have taken effect.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_lives_as_long_as_its_session() {
    let ledger = Ledger::default();
    let session = session(&ledger, SessionOptions::default());
    let own = session.sandbox(None).await.unwrap();
    for _ in 0..24 {
        tokio::time::sleep(HOUR).await;
        settled().await;
        let left = ledger.left(&own).expect("it lives");
        assert!(left > Duration::from_secs(60) && left <= LEASE, "{left:?}");
    }
    session.end().await;
    assert_eq!(ledger.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_prolongs_what_a_killed_session_had() {
    let ledger = Ledger::default();
    let session = session(&ledger, SessionOptions::default());
    let own = session.sandbox(None).await.unwrap();
    tokio::time::sleep(HOUR).await;
    settled().await;
    // A killed process ends without a word: nothing of it runs any longer.
    ledger.cut();
    assert!(ledger.left(&own).unwrap() <= LEASE);
    tokio::time::sleep(LEASE).await;
    assert_eq!(ledger.living(), 0);
    std::mem::forget(session);
}

#[tokio::test(start_paused = true)]
async fn the_longest_life_is_the_end_however_long_the_session() {
    let ledger = Ledger::default();
    let options = SessionOptions { longest_life: Some(HOUR), ..SessionOptions::default() };
    let session = session(&ledger, options);
    let own = session.sandbox(None).await.unwrap();
    tokio::time::sleep(HOUR - Duration::from_secs(10)).await;
    settled().await;
    let left = ledger.left(&own).expect("its hour is not over");
    assert!(left <= Duration::from_secs(56), "{left:?}");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(ledger.living(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_sandbox_is_ended_and_the_next_call_hears_of_it_once() {
    let ledger = Ledger::default();
    let options = SessionOptions { idle: Some(HOUR), ..SessionOptions::default() };
    let session = session(&ledger, options);
    let first = session.sandbox(None).await.unwrap();
    let call = session.begin_call();
    tokio::time::sleep(2 * HOUR).await;
    settled().await;
    assert!(ledger.left(&first).is_some(), "a long call is no idleness");
    drop(call);
    tokio::time::sleep(HOUR + Duration::from_secs(60)).await;
    settled().await;
    assert_eq!(ledger.living(), 0);
    let second = session.sandbox(None).await.unwrap();
    assert_ne!(first, second);
    assert!(session.news().unwrap().contains("a new one"));
    assert_eq!(session.news(), None);
}

#[tokio::test(start_paused = true)]
async fn two_first_calls_make_one_sandbox() {
    let ledger = Ledger::default();
    let session = session(&ledger, SessionOptions::default());
    let (one, other) = tokio::join!(session.sandbox(None), session.sandbox(None));
    assert_eq!(one, other);
    assert_eq!(ledger.living(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_dropped_leaves_nothing() {
    let ledger = Ledger::default();
    let session = session(&ledger, SessionOptions::default());
    session.sandbox(None).await.unwrap();
    session.fork(None).await.unwrap();
    session.snapshot(None, None).await.unwrap();
    assert_eq!((ledger.living(), ledger.snapshots()), (2, 1));
    drop(session);
    settled().await;
    assert_eq!((ledger.living(), ledger.snapshots()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_is_made_too_late_ends_at_once() {
    let ledger = Ledger::slow(Duration::from_secs(5));
    let session = std::sync::Arc::new(session(&ledger, SessionOptions::default()));
    let making = tokio::spawn({
        let session = session.clone();
        async move { session.sandbox(None).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    session.end().await;
    making.abort();
    tokio::time::sleep(Duration::from_secs(10)).await;
    settled().await;
    assert_eq!((ledger.made(), ledger.living()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_the_sessions_is_refused() {
    let ledger = Ledger::default();
    let elsewhere = session(&ledger, SessionOptions::default());
    let foreign = elsewhere.sandbox(None).await.unwrap();
    let session = session(&ledger, SessionOptions::default());
    for refused in [session.sandbox(Some(&foreign)).await, session.kill(Some(&foreign)).await] {
        assert_eq!(refused.unwrap_err().code, "sandbox_not_found");
    }
    assert_eq!(session.kill(None).await.unwrap_err().code, "sandbox_not_found");
    assert_eq!(session.make(Some("sn-1".into())).await.unwrap_err().code, "snapshot_not_found");
    for _ in 0..crate::session::MOST_SANDBOXES {
        session.make(None).await.unwrap();
    }
    assert_eq!(session.make(None).await.unwrap_err().code, "quota_exceeded");
    assert_eq!(session.fork(None).await.unwrap_err().code, "quota_exceeded");
    assert!(ledger.left(&foreign).is_some());
}

#[tokio::test(start_paused = true)]
async fn one_that_was_there_before_stays() {
    let ledger = Ledger::default();
    let elsewhere = session(&ledger, SessionOptions::default());
    let there = elsewhere.sandbox(None).await.unwrap();
    let options = SessionOptions { attach: Some(there.clone()), ..SessionOptions::default() };
    let session = session(&ledger, options);
    assert_eq!(session.sandbox(None).await.unwrap(), there);
    assert_eq!(session.kill(None).await.unwrap_err().code, "forbidden");
    session.end().await;
    assert!(ledger.left(&there).is_some());
}
