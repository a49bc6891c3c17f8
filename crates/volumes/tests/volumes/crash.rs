//! A process that commits is killed again and again, at any point: every commit that it confirmed is there.

use crate::place::{Place, TENANT, noise};
use paddock_volumes::{Kind, Limits, Location, VolumeError, Volumes};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const ROUNDS: u64 = 60;
const STORE: &str = "PADDOCK_TEST_VOLUMES_CRASH";
const LEASE: Duration = Duration::from_millis(100);

fn volumes(store: &Path) -> Volumes {
    Volumes::new(Location::directory(store).unwrap(), None, None).with_times(5, Duration::ZERO, LEASE)
}

/// The content of a file, which names its version.
fn content(counter: u64) -> Vec<u8> {
    [counter.to_string().as_bytes(), b"\n", &noise(300 << 10, counter)].concat()
}

/// Run in a process of its own: commits, says so, and collects, until it is killed.
#[tokio::test(flavor = "multi_thread")]
async fn writes_until_it_is_killed() {
    let Some(root) = std::env::var_os(STORE) else { return };
    let volumes = volumes(&Path::new(&root).join("store"));
    let directory = Path::new(&root).join("from");
    let mut writer = loop {
        match volumes.acquire(TENANT, "crashed", "one to be killed", true).await {
            Ok(writer) => break writer,
            Err(VolumeError::Busy { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    };
    let mut counter = writer.head().next_version;
    loop {
        std::fs::write(directory.join("file"), content(counter)).unwrap();
        let committed = writer.commit(&directory, None, Limits::default(), Kind::Commit).await.unwrap();
        println!("\ncommitted {} {counter}", committed.version.number);
        if counter % 3 == 0 {
            volumes.collect_with(&mut writer).await.unwrap();
        }
        counter += 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_point_it_loses_nothing_that_was_committed() {
    let place = Place::new();
    place.directory("from");
    let volumes = volumes(&place.root.path().join("store"));
    let mut last = (0, 0);
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::writes_until_it_is_killed", "--nocapture"])
            .env(STORE, place.root.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let acknowledged = |line: std::io::Result<String>| {
            let line = line.ok()?;
            let (number, counter) = line.strip_prefix("committed ")?.split_once(' ')?;
            Some((number.parse::<u64>().ok()?, counter.parse::<u64>().ok()?))
        };
        // From its first confirmation on, at another moment each time.
        if let Some(first) = lines.by_ref().find_map(acknowledged) {
            last = last.max(first);
        }
        std::thread::sleep(Duration::from_micros(round * 997 % 40_000));
        child.kill().unwrap();
        child.wait().unwrap();
        last = lines.filter_map(acknowledged).fold(last, |last, next| last.max(next));
        let head = volumes.head(TENANT, "crashed").await.unwrap();
        assert!(
            head.current >= Some(last.0),
            "round {round}: {last:?} was acknowledged, {:?} is there",
            head.current
        );
        for version in &head.versions {
            let to = place.directory("to");
            volumes.checkout(&head, Some(version.number), &to, None).await.unwrap();
            let found = std::fs::read(to.join("file")).unwrap();
            let counter: u64 = found
                .split(|b| *b == b'\n')
                .next()
                .map(|n| String::from_utf8_lossy(n).parse().unwrap())
                .unwrap();
            assert!(found == content(counter), "round {round}: version {} is torn", version.number);
            if version.number == last.0 {
                assert_eq!(counter, last.1, "round {round}");
            }
            std::fs::remove_dir_all(&to).unwrap();
        }
    }
    assert!(last.0 >= ROUNDS, "it hardly ever committed: {last:?}");
    tokio::time::sleep(LEASE).await;
    volumes.collect(TENANT, "crashed").await.unwrap();
}
