//! A caller that goes away while the state of a sandbox changes. As root.

#![allow(clippy::expect_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

use paddock_fleet::{Actor, Fleet, FleetOptions};
use paddock_model::api::{CreateSandbox, Hibernate, Pause, Resume, Sandbox, SandboxState, StartExec};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// One that a failed test leaves ends soon.
const TTL: f64 = 120.0;
const LONG: f64 = 86_400.0;

struct Place {
    fleet: Fleet,
    owner: Actor,
    id: String,
    _directory: tempfile::TempDir,
}

impl Place {
    async fn new(ttl_seconds: f64) -> Place {
        let directory = tempfile::tempdir().expect("a directory");
        let options = FleetOptions::new(directory.path().join("state"));
        let (fleet, owner) = (Fleet::open(options).await.expect("a fleet"), Actor::owner());
        let request = CreateSandbox { ttl_seconds: Some(ttl_seconds), ..CreateSandbox::default() };
        let id = fleet.create(&owner, request, None).await.expect("a sandbox").id;
        Place { fleet, owner, id, _directory: directory }
    }

    /// Begins an action, and goes away while it waits for the first time.
    async fn cut<T>(&self, action: impl Future<Output = T>) {
        let mut action = pin!(action);
        poll_fn(|context| Poll::Ready(action.as_mut().poll(context).is_ready())).await;
    }

    async fn until(&self, state: SandboxState) -> Sandbox {
        let looks = async {
            loop {
                let sandbox = self.fleet.get(&self.owner, &self.id).await.expect("it lives");
                if sandbox.state == state {
                    return sandbox;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(30), looks).await;
        found.unwrap_or_else(|_| panic!("it never became {state:?}"))
    }

    async fn end(self) {
        self.fleet.kill(&self.owner, &self.id).await.expect("ends");
        self.fleet.close().await;
    }
}

/// The seconds that it still lives.
fn left(sandbox: &Sandbox) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    sandbox.expires_at_ms.expect("a time to live") as f64 / 1000.0 - now
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_that_is_cut_off_is_a_pause() {
    let place = Place::new(TTL).await;
    let (fleet, owner, id) = (&place.fleet, &place.owner, place.id.as_str());
    place.cut(fleet.pause(owner, id, Pause::default())).await;
    place.until(SandboxState::Paused).await;
    place.cut(fleet.resume(owner, id, Resume::default())).await;
    place.until(SandboxState::Running).await;
    let looked = fleet.stat(owner, id, "/", None).await;
    looked.expect("nothing in it is frozen");
    place.end().await;
}

/// A call that reads a file wakes it; whoever asked for the file may be gone by then.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_wakes_whole_for_a_call_that_is_cut_off() {
    let place = Place::new(TTL).await;
    let (fleet, owner, id) = (&place.fleet, &place.owner, place.id.as_str());
    fleet.hibernate(owner, id, Hibernate::default()).await.expect("it sleeps");
    place.cut(fleet.stat(owner, id, "/", None)).await;
    place.until(SandboxState::Running).await;
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_resumes_a_sandbox_whose_pause_said_so() {
    let place = Place::new(TTL).await;
    let (fleet, owner, id) = (&place.fleet, &place.owner, place.id.as_str());
    let command = || StartExec { command: Some("true".into()), ..StartExec::default() };
    fleet.pause(owner, id, Pause::default()).await.expect("it is paused");
    let refused = fleet.start_exec(owner, id, command(), None).await;
    assert_eq!(refused.expect_err("a pause is for its caller to end").code, "wrong_state");
    fleet.resume(owner, id, Resume::default()).await.expect("it goes on");
    let how = Pause { ttl_seconds: Some(LONG), auto_resume: true };
    fleet.pause(owner, id, how).await.expect("it is paused");
    fleet.start_exec(owner, id, command(), None).await.expect("it resumes");
    let resumed = place.until(SandboxState::Running).await;
    assert!(left(&resumed) <= TTL, "{resumed:?}");
    place.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_live_of_a_sleep_is_that_of_the_sleep_alone() {
    let place = Place::new(TTL).await;
    let (fleet, owner, id) = (&place.fleet, &place.owner, place.id.as_str());
    let long = Pause { ttl_seconds: Some(LONG), ..Pause::default() };
    place.cut(fleet.pause(owner, id, long)).await;
    let paused = place.until(SandboxState::Paused).await;
    assert!(left(&paused) > LONG - TTL, "{paused:?}");
    let resumed = fleet.resume(owner, id, Resume::default()).await.expect("it goes on");
    assert!(left(&resumed) <= TTL, "{resumed:?}");

    let asleep = Hibernate { ttl_seconds: Some(LONG), ..Hibernate::default() };
    let asleep = fleet.hibernate(owner, id, asleep).await.expect("it sleeps");
    assert!(left(&asleep) > LONG - TTL, "{asleep:?}");
    let woken = fleet.wake(owner, id, Resume { ttl_seconds: Some(60.0) }).await.expect("it wakes");
    assert!(left(&woken) <= 60.0, "{woken:?}");
    // One that runs keeps the time that it has.
    let same = fleet.wake(owner, id, Resume { ttl_seconds: Some(LONG) }).await.expect("it runs");
    assert!(left(&same) <= 60.0, "{same:?}");
    let refused = fleet.pause(owner, id, Pause { ttl_seconds: Some(0.0), ..Pause::default() }).await;
    assert!(refused.is_err_and(|error| error.message.contains("ttl_seconds")));
    place.end().await;
}
