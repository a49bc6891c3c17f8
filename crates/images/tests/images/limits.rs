//! Archives that are small to send and large to keep.

use paddock_images::{ImageError, UnpackLimits};
use tar::EntryType;

use crate::support::*;

async fn exceeded(limits: UnpackLimits, bytes: &[u8]) -> &'static str {
    let lab = Lab::with_limits(limits);
    let error = lab.resolve(bytes).await.unwrap_err();
    lab.assert_clean();
    match error {
        ImageError::LimitExceeded { what, .. } => what,
        other => panic!("{other:?}"),
    }
}

fn zeros(count: usize) -> Tar {
    Tar::new().entry(EntryType::Regular, b"zeros", b"", &vec![0; count], |_| {})
}

#[tokio::test]
async fn a_bomb_is_stopped_by_its_size_and_by_its_ratio() {
    let plain = zeros(8 << 20).done();
    for bomb in [gzip(&plain), zstd::encode_all(plain.as_slice(), 19).unwrap()] {
        let by_size = UnpackLimits { bytes: 1 << 20, ..UnpackLimits::default() };
        assert_eq!(exceeded(by_size, &bomb).await, "bytes");
        let by_ratio = UnpackLimits { ratio: 50, ratio_floor: 1 << 20, ..UnpackLimits::default() };
        assert_eq!(exceeded(by_ratio, &bomb).await, "times the size of its compressed form");
        assert!(Lab::new().resolve(&bomb).await.is_ok());
    }
}

#[tokio::test]
async fn a_bomb_behind_the_end_of_the_archive_is_stopped_too() {
    let mut bytes = Tar::new().file("a", "x").done();
    bytes.resize(8 << 20, 0);
    let limits = UnpackLimits { bytes: 1 << 20, ..UnpackLimits::default() };
    assert_eq!(exceeded(limits, &gzip(&bytes)).await, "bytes");
}

#[tokio::test]
async fn the_size_holds_for_all_layers_together() {
    let limits = UnpackLimits { bytes: 3 << 20, ..UnpackLimits::default() };
    let lab = Lab::with_limits(limits);
    let image = Image::new((0..4).map(|_| zeros(1 << 20).done()).collect());
    write_files(&lab.path("layout"), &image.layout_files(|_| {}));
    let error = lab.resolve_path(&lab.path("layout")).await.unwrap_err();
    assert!(matches!(error, ImageError::LimitExceeded { what: "bytes", .. }), "{error:?}");
}

#[tokio::test]
async fn entries_and_the_parents_they_imply_are_counted() {
    let limits = || UnpackLimits { entries: 100, ..UnpackLimits::default() };
    let many = (0..101).fold(Tar::new(), |tar, number| tar.file(&format!("f{number}"), ""));
    assert_eq!(exceeded(limits(), &many.done()).await, "entries");
    let deep = Tar::new().long_name("d/".repeat(150).as_bytes()).file("f", "");
    assert_eq!(exceeded(limits(), &deep.done()).await, "entries");
}

/// The parser holds long names in memory, so a name of gigabytes must not get that far.
#[tokio::test]
async fn what_describes_an_entry_is_bounded() {
    let long = vec![b'n'; 4 << 20];
    let name = Tar::new().long_name(&long).file("a", "x");
    let link = Tar::new().entry(EntryType::GNULongLink, b"l", b"", &long, |_| {}).symlink("a", "x");
    let pax = Tar::new().pax(&[("comment", &long)]).file("a", "x");
    for tar in [name, link, pax] {
        assert_eq!(exceeded(UnpackLimits::default(), &tar.done()).await, "bytes that describe one entry");
    }
    let global = Tar::new().entry(EntryType::XGlobalHeader, b"g", b"", &long, |_| {}).file("a", "x");
    assert!(Lab::new().resolve(&global.done()).await.is_ok());
}

#[tokio::test]
async fn documents_are_bounded() {
    let limits = UnpackLimits { document_bytes: 64, ..UnpackLimits::default() };
    assert_eq!(exceeded(limits.clone(), &Image::hello().docker_save()).await, "bytes in a document");
    assert_eq!(exceeded(limits, &tar_of(&Image::hello().layout_files(|_| {}))).await, "bytes in a document");
}
