//! Many readers, one writer, and a writer that lost its lease commits nothing.

use crate::place::{Place, TENANT, commit};
use paddock_volumes::{Key, Kind, Limits, Location, Share, VolumeError, Volumes};
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_lost_its_lease_cannot_commit() {
    let place = Place::with_times(100, Duration::from_secs(1));
    let directory = place.directory("from");
    std::fs::write(directory.join("file"), "first").unwrap();
    commit(&place.volumes, "fenced", &directory).await;
    let mut slow = place.volumes.acquire(TENANT, "fenced", "the slow one", false).await.unwrap();
    let busy = place.volumes.acquire(TENANT, "fenced", "the quick one", false).await.err().unwrap();
    assert!(busy.to_string().contains("the slow one"), "{busy}");
    assert!(busy.hint().unwrap().contains("mode `ro`"));
    assert_eq!(place.volumes.remove(TENANT, "fenced").await.unwrap_err().code(), "volume_busy");
    tokio::time::sleep(Duration::from_millis(1050)).await;
    let mut quick = place.volumes.acquire(TENANT, "fenced", "the quick one", false).await.unwrap();
    std::fs::write(directory.join("file"), "of the slow one").unwrap();
    let limits = Limits::default();
    let lost = slow.commit(&directory, None, limits, Kind::Commit).await.unwrap_err();
    assert_eq!(lost.code(), "lease_lost");
    assert_eq!(slow.renew().await.unwrap_err().code(), "lease_lost");
    assert_eq!(slow.restore(1).await.unwrap_err().code(), "lease_lost");
    let token = slow.token().clone();
    slow.release().await.unwrap();
    assert!(matches!(place.volumes.resume(token).await, Err(VolumeError::LeaseLost { .. })));
    // The slow writer took nothing from the quick one.
    std::fs::write(directory.join("file"), "of the quick one").unwrap();
    let version = quick.commit(&directory, None, limits, Kind::Commit).await.unwrap().version;
    assert_eq!((version.number, version.by.as_str()), (2, "the quick one"));
    quick.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_is_renewed_resumed_and_given_back() {
    let place = Place::with_times(100, Duration::from_millis(300));
    let directory = place.directory("from");
    let mut writer = place.volumes.acquire(TENANT, "renewed", "a test", true).await.unwrap();
    for _ in 0..4 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        // The renewal is late if the host is busy; it is still the last lease then.
        writer.renew().await.unwrap();
    }
    let token = writer.token().clone();
    drop(writer);
    let mut again = place.volumes.resume(token).await.unwrap();
    std::fs::write(directory.join("file"), "after a restart").unwrap();
    again.commit(&directory, None, Limits::default(), Kind::Commit).await.unwrap();
    again.release().await.unwrap();
    place.volumes.acquire(TENANT, "renewed", "the next", false).await.unwrap().release().await.unwrap();
}

/// Each takes the lease many times; every number was given once, and none is missing.
#[tokio::test(flavor = "multi_thread")]
async fn writers_that_race_each_get_versions_of_their_own() {
    let place = Place::new();
    let mut tasks = Vec::new();
    for racer in 0..4 {
        let volumes = place.volumes.clone();
        let directory = place.directory(&format!("from-{racer}"));
        tasks.push(tokio::spawn(async move {
            let mut made = Vec::new();
            while made.len() < 5 {
                std::fs::write(directory.join("file"), format!("{racer} {}", made.len())).unwrap();
                let holder = format!("racer {racer}");
                match volumes.acquire(TENANT, "raced", &holder, true).await {
                    Ok(mut writer) => {
                        let limits = Limits::default();
                        let committed = writer.commit(&directory, None, limits, Kind::Commit).await.unwrap();
                        made.push(committed.version.number);
                        writer.release().await.unwrap();
                    }
                    Err(VolumeError::Busy { .. }) => tokio::time::sleep(Duration::from_millis(3)).await,
                    Err(error) => panic!("{error}"),
                }
            }
            made
        }));
    }
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.extend(task.await.unwrap());
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=20).collect::<Vec<u64>>());
    let head = place.volumes.head(TENANT, "raced").await.unwrap();
    assert_eq!(head.versions.len(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_shares() {
    let place = Place::new();
    place.volumes.create(TENANT, "one").await.unwrap();
    assert_eq!(place.volumes.create(TENANT, "one").await.unwrap_err().code(), "name_taken");
    for bad in ["..", "a/b", "x", "../../etc"] {
        assert_eq!(place.volumes.create(TENANT, bad).await.unwrap_err().code(), "invalid_request", "{bad}");
    }
    assert!(place.volumes.create("../owner", "one").await.is_err());
    assert!(place.volumes.list("other").await.unwrap().is_empty());
    let shared = place.volumes.share(TENANT, "one", "other", Some(Share::Ro)).await.unwrap();
    assert_eq!(shared.shared["other"], Share::Ro);
    assert!(place.volumes.share(TENANT, "one", "other", None).await.unwrap().shared.is_empty());
    assert_eq!(place.volumes.tenants().await.unwrap(), [TENANT]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_key_nothing_can_be_read_or_changed_without_it() {
    let place = Place::new();
    let store = place.root.path().join("store");
    let open = |key: Option<u8>| {
        let key = key.map(|byte| Key::new([byte; 32]));
        Volumes::new(Location::directory(&store).unwrap(), key, None)
    };
    let directory = place.directory("from");
    std::fs::write(directory.join("the-name-of-a-file"), "the content of a file").unwrap();
    commit(&open(Some(1)), "sealed", &directory).await;
    let mut open_directories = vec![store.clone()];
    while let Some(next) = open_directories.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open_directories.push(path);
                continue;
            }
            let content = std::fs::read(&path).unwrap();
            for words in [&b"the content"[..], b"the-name"] {
                assert!(!content.windows(words.len()).any(|part| part == words), "{}", path.display());
            }
        }
    }
    let head = open(Some(1)).head(TENANT, "sealed").await.unwrap();
    let to = place.directory("to");
    open(Some(1)).checkout(&head, None, &to, None).await.unwrap();
    assert_eq!(std::fs::read_to_string(to.join("the-name-of-a-file")).unwrap(), "the content of a file");
    for other in [None, Some(2)] {
        assert_eq!(open(other).head(TENANT, "sealed").await.unwrap_err().code(), "volume_key");
    }
    let path = store.join("heads/owner/sealed/head");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\\\"current\\\":1", "\\\"current\\\":0")).unwrap();
    assert_eq!(open(Some(1)).head(TENANT, "sealed").await.unwrap_err().code(), "volume_key");
}
