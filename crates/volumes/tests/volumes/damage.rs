//! Damage in the store is found and named, and harms nothing else.

use crate::place::{Place, TENANT, commit, noise};
use paddock_volumes::VolumeError;
use std::path::PathBuf;

fn packs(place: &Place, id: &str, part: &str) -> Vec<PathBuf> {
    let directory = place.root.path().join("store/data").join(id).join(part);
    let mut all: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_chunk_is_named_and_the_other_versions_are_whole() {
    let place = Place::new();
    let directory = place.directory("from");
    std::fs::write(directory.join("old"), noise(100 << 10, 1)).unwrap();
    commit(&place.volumes, "damaged", &directory).await;
    std::fs::write(directory.join("new"), noise(100 << 10, 2)).unwrap();
    commit(&place.volumes, "damaged", &directory).await;
    let head = place.volumes.head(TENANT, "damaged").await.unwrap();
    let newest = packs(&place, &head.id, "packs").pop().unwrap();
    let mut content = std::fs::read(&newest).unwrap();
    content[50 << 10] ^= 1;
    std::fs::write(&newest, &content).unwrap();
    let to = place.directory("to");
    let error = place.volumes.checkout(&head, None, &to, None).await.err().unwrap();
    let pack = newest.file_name().unwrap().to_str().unwrap();
    assert_eq!(error.code(), "volume_damaged");
    assert!(error.to_string().contains(&format!("in pack {pack}")), "{error}");
    assert!(error.hint().unwrap().contains("restore"));
    let mut file = place.volumes.open_file(&head, None, "new").await.unwrap();
    assert_eq!(file.next().await.unwrap_err().code(), "volume_damaged");
    let to = place.directory("to-1");
    place.volumes.checkout(&head, Some(1), &to, None).await.unwrap();
    assert_eq!(std::fs::read(to.join("old")).unwrap(), noise(100 << 10, 1));
    std::fs::remove_file(&newest).unwrap();
    let error = place.volumes.checkout(&head, None, &place.directory("to-2"), None).await.err().unwrap();
    assert!(error.to_string().contains("the pack is missing"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_manifest_or_head_is_found() {
    let place = Place::new();
    let directory = place.directory("from");
    std::fs::write(directory.join("file"), "content").unwrap();
    commit(&place.volumes, "damaged", &directory).await;
    let head = place.volumes.head(TENANT, "damaged").await.unwrap();
    let manifest = packs(&place, &head.id, "manifests").pop().unwrap();
    let mut content = std::fs::read(&manifest).unwrap();
    content[10] ^= 1;
    std::fs::write(&manifest, &content).unwrap();
    // The one that wrote it still has it in memory.
    let place = place.opened_anew();
    let error = place.volumes.manifest(&head, None).await.unwrap_err();
    assert!(error.to_string().contains("the manifest of version 1"), "{error}");
    // Nothing is freed that the damaged manifest might have named.
    assert_eq!(place.volumes.collect(TENANT, "damaged").await.unwrap_err().code(), "volume_damaged");
    assert_eq!(packs(&place, &head.id, "packs").len(), 1);
    place.volumes.create(TENANT, "other").await.unwrap();
    let at = |name: &str| place.root.path().join("store/heads/owner").join(name).join("head");
    std::fs::copy(at("damaged"), at("other")).unwrap();
    let error = place.volumes.head(TENANT, "other").await.unwrap_err();
    assert!(error.to_string().contains("another volume's"), "{error}");
    std::fs::write(at("other"), "{").unwrap();
    assert!(matches!(place.volumes.head(TENANT, "other").await, Err(VolumeError::Corrupt { .. })));
}
