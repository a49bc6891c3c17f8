//! Layers over each other: additions, replacements and removals of a later one.

use std::fs;

use paddock_images::Refusal;

use crate::support::*;

fn base() -> Vec<u8> {
    Tar::new()
        .directory("d")
        .file("d/one", "1")
        .file("d/two", "2")
        .file("d/sub/three", "3")
        .file("keep", "k")
        .done()
}

async fn flattened(layers: Vec<Tar>) -> Vec<String> {
    let layers = [base()].into_iter().chain(layers.into_iter().map(Tar::done)).collect();
    let lab = Lab::new();
    let image = lab.resolve_layers(layers).await.unwrap();
    lab.assert_clean();
    listing(&image.root)
}

#[tokio::test]
async fn a_whiteout_removes_from_below() {
    let layer =
        Tar::new().file("d/.wh.one", "").file("d/.wh.sub", "").file(".wh.missing", "").file("x/.wh.y", "");
    assert_eq!(flattened(vec![layer]).await, ["d", "d/two", "keep"]);
}

#[tokio::test]
async fn an_opaque_directory_hides_what_is_below_wherever_the_mark_stands() {
    let before =
        Tar::new().directory("d").file("d/.wh..wh..opq", "").file("d/new", "n").file("d/sub/new", "n");
    let after =
        Tar::new().directory("d").file("d/new", "n").file("d/sub/new", "n").file("d/.wh..wh..opq", "");
    for layer in [before, after] {
        assert_eq!(flattened(vec![layer]).await, ["d", "d/new", "d/sub", "d/sub/new", "keep"]);
    }
    assert_eq!(flattened(vec![Tar::new().file(".wh..wh..opq", "")]).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_whiteout_spares_what_its_own_layer_adds() {
    for layer in [
        Tar::new().file("d/one", "new").file("d/.wh.one", ""),
        Tar::new().file("d/.wh.one", "").file("d/one", "new"),
        Tar::new().file("d/one", "new").file(".wh.d", ""),
    ] {
        assert!(flattened(vec![layer]).await.contains(&"d/one".to_owned()));
    }
    let next = Tar::new().file("d/.wh.one", "");
    assert!(!flattened(vec![Tar::new().file("d/one", "new"), next]).await.contains(&"d/one".to_owned()));
}

#[tokio::test]
async fn notes_of_a_storage_driver_are_skipped_and_told() {
    let lab = Lab::new();
    let image =
        lab.resolve_layers(vec![Tar::new().directory(".wh..wh.plnk").file("a", "x").done()]).await.unwrap();
    assert_eq!(
        (listing(&image.root), image.skipped),
        (vec!["a".to_owned()], vec![".wh..wh.plnk".to_owned()])
    );
}

#[tokio::test]
async fn a_plain_archive_has_no_whiteouts() {
    let lab = Lab::new();
    let image = lab.resolve(&Tar::new().file("a", "").file(".wh.a", "").done()).await.unwrap();
    assert_eq!(listing(&image.root), [".wh.a", "a"]);
}

#[tokio::test]
async fn a_whiteout_cannot_reach_out() {
    let lab = Lab::new();
    let outside = lab.path("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "x").unwrap();
    let link = || Tar::new().symlink("out", outside.to_str().unwrap()).done();
    for (layer, expected) in [
        (Tar::new().file("out/.wh.victim", ""), Refusal::BeyondSymlink),
        (Tar::new().file("out/.wh..wh..opq", ""), Refusal::BeyondSymlink),
        (Tar::new().file("out/deeper/.wh.victim", ""), Refusal::BeyondSymlink),
        (Tar::new().file("out/victim", "x"), Refusal::BeyondSymlink),
        (Tar::new().file(".wh...", ""), Refusal::BadWhiteout),
        (Tar::new().file("a/.wh..", ""), Refusal::BadWhiteout),
        (Tar::new().file(".wh.", ""), Refusal::BadWhiteout),
        (Tar::new().hard_link("stolen", "out/victim"), Refusal::BadHardLink),
    ] {
        let error = lab.resolve_layers(vec![link(), layer.done()]).await.unwrap_err();
        assert_eq!(refusal(&error), expected, "{error}");
        assert_eq!(listing(&outside), ["victim"]);
    }
    // The link itself can be removed, and nothing behind it is.
    let image = lab.resolve_layers(vec![link(), Tar::new().file(".wh.out", "").done()]).await.unwrap();
    assert_eq!((listing(&image.root).len(), listing(&outside).len()), (0, 1));
}

#[tokio::test]
async fn a_layer_can_replace_and_link_to_what_is_below() {
    let layer = Tar::new().symlink("d", "keep").hard_link("again", "keep").directory("keep/");
    assert_eq!(flattened(vec![layer]).await, ["again", "d -> keep", "keep"]);
    let layers = vec![Tar::new().hard_link("again", "keep"), Tar::new().file("keep", "changed")];
    let layers = [base()].into_iter().chain(layers.into_iter().map(Tar::done)).collect();
    let lab = Lab::new();
    let root = lab.resolve_layers(layers).await.unwrap().root;
    assert_eq!(fs::read(root.join("again")).unwrap(), b"k");
}
