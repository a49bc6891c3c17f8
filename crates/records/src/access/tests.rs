use super::*;
use crate::store::Store;
use paddock_model::api::{Quota, Role};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const SMALL: Need = Need { cpus: 1.0, memory_bytes: 100, create: true };

fn options() -> AdmissionOptions {
    AdmissionOptions { waiting_per_tenant: 3, waiting: 100, ..AdmissionOptions::default() }
}

fn live(most: u32) -> Quota {
    Quota { live_sandboxes: Some(most), ..Quota::default() }
}

/// Lets every task run that can run.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

type Log = Arc<Mutex<Vec<String>>>;

fn spawn(
    admission: &Admission,
    tenant: &'static str,
    label: &str,
    need: Need,
    quota: Quota,
    log: &Log,
) -> JoinHandle<Result<Permit, AdmissionError>> {
    let (admission, label, log) = (admission.clone(), label.to_string(), log.clone());
    tokio::spawn(async move {
        let permit = admission.acquire(tenant, need, &quota).await;
        log.lock().unwrap().push(label);
        permit
    })
}

#[test]
fn tokens_are_found_by_their_secret_only() {
    let state = tempfile::tempdir().unwrap();
    let store = Store::open(state.path()).unwrap();
    let made = create_token(&store, "acme", Role::User, Some("ci".into()), 5, None).unwrap();
    assert!(made.secret.starts_with("pdk_") && made.secret.len() == 47, "{}", made.secret);
    assert_eq!(authenticate(&store, &made.secret).unwrap(), Some(made.token.clone()));
    for wrong in
        ["", "pdk_", &made.secret[..46], &format!("{}x", made.secret), &made.token.id, &"x".repeat(47)]
    {
        assert_eq!(authenticate(&store, wrong).unwrap(), None, "{wrong}");
    }
    drop(store);
    for file in std::fs::read_dir(state.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(47).any(|window| window == made.secret.as_bytes()));
    }
    let store = Store::open(state.path()).unwrap();
    assert_eq!(authenticate(&store, &made.secret).unwrap(), Some(made.token.clone()));
    store.delete_token(&made.token.id, None).unwrap();
    assert_eq!(authenticate(&store, &made.secret).unwrap(), None);
    for bad in ["", "../x", "A", &"a".repeat(65)] {
        let error = create_token(&store, bad, Role::User, None, 0, None).unwrap_err();
        assert!(error.to_string().starts_with("tenant name"), "{error}");
    }
    assert!(matches!(
        create_token(&store, "a", Role::User, Some("x".repeat(201)), 0, None),
        Err(AccessError::Label(201))
    ));
}

#[test]
fn roles_allow_what_they_say() {
    let allowed = |role| [Right::Look, Right::Change, Right::Tokens].map(|right| allows(role, right));
    assert_eq!(allowed(Role::Admin), [true, true, true]);
    assert_eq!(allowed(Role::User), [true, true, false]);
    assert_eq!(allowed(Role::ReadOnly), [true, false, false]);
}

#[tokio::test(start_paused = true)]
async fn within_the_quota_nobody_waits_and_room_comes_back() {
    let admission = Admission::new(options());
    let quota = Quota { cpus: Some(2.0), memory_bytes: Some(250), ..live(3) };
    let first = admission.acquire("a", SMALL, &quota).await.unwrap();
    let second = admission.acquire("a", SMALL, &quota).await.unwrap();
    let usage = admission.usage("a");
    assert_eq!((usage.live_sandboxes, usage.cpus, usage.memory_bytes, usage.waiting), (2, 2.0, 200, 0));
    assert_eq!(admission.live_by_tenant(), [("a".to_string(), 2)].into());
    let log = Log::default();
    let third = spawn(&admission, "a", "third", SMALL, quota.clone(), &log);
    settle().await;
    assert_eq!(admission.usage("a").waiting, 1);
    // Another tenant is not affected.
    admission.acquire("b", SMALL, &quota).await.unwrap().release();
    first.release();
    third.await.unwrap().unwrap();
    drop(second);
    settle().await;
    assert_eq!(admission.usage("a"), Default::default());
    assert!(admission.live_by_tenant().is_empty());
    for need in [Need { cpus: 2.5, ..SMALL }, Need { memory_bytes: 251, ..SMALL }] {
        assert!(matches!(admission.acquire("a", need, &quota).await, Err(AdmissionError::Never { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_first_come_first_served_and_bounded() {
    let admission = Admission::new(options());
    let log = Log::default();
    let held = admission.acquire("a", SMALL, &live(1)).await.unwrap();
    let mut waiting = Vec::new();
    for label in ["1", "2", "3"] {
        waiting.push(spawn(&admission, "a", label, SMALL, live(1), &log));
        settle().await;
    }
    let full = admission.acquire("a", SMALL, &live(1)).await.unwrap_err();
    assert!(
        matches!(&full, AdmissionError::Full { quota: "live_sandboxes", retry_after_seconds: 1.., .. }),
        "{full}"
    );
    // A waiter that gives up makes room in the queue, and holds nothing.
    waiting.remove(1).abort();
    settle().await;
    assert_eq!(admission.usage("a").waiting, 2);
    drop(held);
    for task in waiting {
        drop(task.await.unwrap().unwrap());
    }
    assert_eq!(*log.lock().unwrap(), ["1", "3"]);
    assert_eq!(admission.usage("a"), Default::default());
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_when_the_machine_is_full() {
    let admission = Admission::new(AdmissionOptions { machine: live(1), ..options() });
    let log = Log::default();
    let held = admission.acquire("z", SMALL, &Quota::default()).await.unwrap();
    let mut tasks = Vec::new();
    for (tenant, label) in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1"), ("b", "b2")] {
        tasks.push(spawn(&admission, tenant, label, SMALL, Quota::default(), &log));
        settle().await;
    }
    drop(held);
    for _ in 0..6 {
        settle().await;
        // A task that gets room ends at once.
        let done = tasks.iter().position(JoinHandle::is_finished).unwrap();
        drop(tasks.remove(done).await.unwrap().unwrap());
    }
    assert_eq!(*log.lock().unwrap(), ["a1", "b1", "c1", "a2", "b2", "a3"]);
}

#[tokio::test(start_paused = true)]
async fn a_large_one_is_not_overtaken_for_ever() {
    let machine = Quota { memory_bytes: Some(300), ..Quota::default() };
    let admission = Admission::new(AdmissionOptions { machine, ..options() });
    let log = Log::default();
    let held: Vec<Permit> = (0..3).map(|_| admission.hold("z", SMALL)).collect();
    let large = Need { memory_bytes: 300, ..SMALL };
    let large = spawn(&admission, "a", "large", large, Quota::default(), &log);
    settle().await;
    let small = spawn(&admission, "b", "small", SMALL, Quota::default(), &log);
    settle().await;
    for permit in held {
        drop(permit);
        settle().await;
    }
    drop(large.await.unwrap().unwrap());
    drop(small.await.unwrap().unwrap());
    assert_eq!(*log.lock().unwrap(), ["large", "small"]);
}

#[tokio::test(start_paused = true)]
async fn creates_per_minute_are_spread_after_a_burst() {
    let admission = Admission::new(options());
    let quota = Quota { creates_per_minute: Some(6), ..Quota::default() };
    let started = Instant::now();
    let mut times = Vec::new();
    for _ in 0..9 {
        admission.acquire("a", SMALL, &quota).await.unwrap();
        times.push(started.elapsed().as_secs_f64().round() as u64);
    }
    assert_eq!(times, [0, 0, 0, 0, 0, 0, 10, 20, 30]);
    // Waking up is no creation.
    admission.acquire("a", Need { create: false, ..SMALL }, &quota).await.unwrap();
    assert_eq!(started.elapsed().as_secs_f64().round() as u64, 30);
    let log = Log::default();
    let tasks: Vec<_> =
        ["1", "2", "3"].map(|label| spawn(&admission, "a", label, SMALL, quota.clone(), &log)).into();
    settle().await;
    let full = admission.acquire("a", SMALL, &quota).await.unwrap_err();
    let AdmissionError::Full { quota: "creates_per_minute", retry_after_seconds, .. } = full else {
        panic!("{full}")
    };
    assert_eq!(retry_after_seconds, 40);
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    assert_eq!(started.elapsed().as_secs_f64().round() as u64, 60);
    assert_eq!(*log.lock().unwrap(), ["1", "2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn patience_ends_and_a_larger_quota_helps_at_once() {
    let admission = Admission::new(options());
    let held = admission.hold("a", SMALL);
    let also_held = admission.hold("a", SMALL);
    assert_eq!(admission.usage("a").live_sandboxes, 2);
    let started = Instant::now();
    let late = admission.acquire("a", SMALL, &live(1)).await.unwrap_err();
    assert!(matches!(late, AdmissionError::Late { quota: "live_sandboxes", .. }), "{late}");
    assert_eq!(started.elapsed().as_secs(), Duration::from_secs(60).as_secs());
    assert_eq!(admission.usage("a").waiting, 0);
    let log = Log::default();
    let task = spawn(&admission, "a", "x", SMALL, live(2), &log);
    settle().await;
    admission.set_quota("a", &live(3));
    let permit = task.await.unwrap().unwrap();
    assert_eq!(admission.usage("a").live_sandboxes, 3);
    drop((held, also_held, permit));
    assert_eq!(admission.usage("a").live_sandboxes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_permit_grows_within_the_quota_or_stays() {
    let admission = Admission::new(options());
    let need = |cpus: f64, memory_bytes| Need { cpus, memory_bytes, create: false };
    let quota = Quota { cpus: Some(4.0), memory_bytes: Some(1000), ..Quota::default() };
    let other = admission.hold("a", need(1.0, 300));
    let mut permit = admission.hold("a", need(1.0, 300));
    permit.resize(need(3.0, 700), &quota).unwrap();
    assert_eq!((admission.usage("a").cpus, admission.usage("a").memory_bytes), (4.0, 1000));
    let error = permit.resize(need(3.0, 701), &quota).unwrap_err();
    assert_eq!(error, AdmissionError::NoRoom { tenant: "a".into(), quota: "memory_bytes" });
    let error = permit.resize(need(3.1, 700), &quota).unwrap_err();
    assert_eq!(error, AdmissionError::NoRoom { tenant: "a".into(), quota: "cpus" });
    assert_eq!(admission.usage("a").live_sandboxes, 2);
    // A sandbox that has more than a lowered quota may still ask for less of one thing.
    let lower = Quota { cpus: Some(1.0), memory_bytes: Some(100), ..Quota::default() };
    permit.resize(need(2.0, 700), &lower).unwrap();
    drop((permit, other));
    assert_eq!((admission.usage("a").cpus, admission.usage("a").memory_bytes), (0.0, 0));
}

#[tokio::test]
async fn room_is_taken_at_once_or_not_at_all() {
    let admission = Admission::new(options());
    let held = admission.acquire_now("a", SMALL, &live(1)).unwrap();
    let full = admission.acquire_now("a", SMALL, &live(1)).unwrap_err();
    assert_eq!(full, AdmissionError::NoRoom { tenant: "a".into(), quota: "live_sandboxes" });
    assert_eq!((admission.usage("a").live_sandboxes, admission.waiting()), (1, 0));
    let never = admission.acquire_now("a", SMALL, &live(0)).unwrap_err();
    assert!(matches!(never, AdmissionError::Never { .. }), "{never}");
    // It does not overtake one that waits for more.
    let log = Log::default();
    let quota = Quota { memory_bytes: Some(250), ..Quota::default() };
    let waiting = spawn(&admission, "a", "large", Need { memory_bytes: 200, ..SMALL }, quota.clone(), &log);
    settle().await;
    let behind = admission.acquire_now("a", SMALL, &quota).unwrap_err();
    assert_eq!(behind, AdmissionError::NoRoom { tenant: "a".into(), quota: "queue" });
    drop(held);
    waiting.await.unwrap().unwrap();
    admission.acquire_now("b", SMALL, &Quota::default()).unwrap();
}
