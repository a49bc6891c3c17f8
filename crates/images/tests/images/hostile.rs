//! Entries that try to get out of the destination, or to leave something dangerous in it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use paddock_images::Refusal;
use tar::{EntryType, Header};

use crate::support::*;

fn named(name: &[u8]) -> Tar {
    Tar::new().entry(EntryType::Regular, name, b"", b"x", |_| {})
}

fn no_holes(header: &mut Header) {
    header.as_gnu_mut().unwrap().realsize = *b"00000000000\0";
}

fn bad_mode(header: &mut Header) {
    header.as_old_mut().mode = *b"bad mode";
}

/// Each archive must be refused for its reason, as a plain archive and as a layer, and leave a file outside as it was.
#[tokio::test]
async fn what_leads_out_is_refused() {
    let lab = Lab::new();
    let victim = lab.write("victim", b"untouched");
    let outside = lab.directory.path().to_str().unwrap().to_owned();
    let absolute_victim = victim.to_str().unwrap();
    let deep = "a/".repeat(300);
    let cases = [
        (named(b"../victim"), Refusal::ParentInName),
        (named(b"a/../../victim"), Refusal::ParentInName),
        (named(absolute_victim.as_bytes()), Refusal::AbsoluteName),
        (Tar::new().pax(&[("path", b"../victim")]).file("a", "x"), Refusal::ParentInName),
        (Tar::new().long_name(b"../../victim\0").file("a", "x"), Refusal::ParentInName),
        (Tar::new().long_name(b"a\0b\0").file("a", "x"), Refusal::NulInName),
        (Tar::new().pax(&[("path", b"a\0b")]).file("a", "x"), Refusal::NulInName),
        (Tar::new().long_name(&[b'n'; 300]).file("a", "x"), Refusal::OverlongName),
        (Tar::new().long_name(&b"n/".repeat(4000)).file("a", "x"), Refusal::OverlongName),
        (Tar::new().long_name(deep.as_bytes()).file("a", "x"), Refusal::OverlongName),
        (Tar::new().symlink("out", &outside).file("out/victim", "x"), Refusal::BeyondSymlink),
        (Tar::new().symlink("out", "..").file("out/victim", "x"), Refusal::BeyondSymlink),
        (Tar::new().symlink("a", ".").file("a/a/a/b", "x"), Refusal::BeyondSymlink),
        (Tar::new().symlink("out", &outside).directory("out/victim"), Refusal::BeyondSymlink),
        (Tar::new().symlink("out", &outside).symlink("out/link", "x"), Refusal::BeyondSymlink),
        (Tar::new().symlink("d", &outside).directory("e").hard_link("e/x", "d/victim"), Refusal::BadHardLink),
        (Tar::new().hard_link("x", absolute_victim), Refusal::AbsoluteName),
        (Tar::new().hard_link("x", "../../../../victim"), Refusal::ParentInName),
        (Tar::new().symlink("s", absolute_victim).hard_link("x", "s"), Refusal::BadHardLink),
        (Tar::new().directory("d").hard_link("x", "d"), Refusal::BadHardLink),
        (Tar::new().hard_link("x", "missing"), Refusal::BadHardLink),
        (Tar::new().file("a/b", "x").hard_link("a", "a/b"), Refusal::BadHardLink),
        (Tar::new().file("f", "x").file("f/g", "x"), Refusal::BeyondFile),
        (named(b"."), Refusal::RootNotDirectory),
        (Tar::new().symlink("", "x"), Refusal::RootNotDirectory),
        (Tar::new().symlink("x", ""), Refusal::BadSymlink),
        (Tar::new().entry(EntryType::GNUSparse, b"sparse", b"", b"", no_holes), Refusal::Sparse),
        (Tar::new().pax(&[("GNU.sparse.major", b"1")]).file("sparse", "x"), Refusal::Sparse),
        (Tar::new().special(EntryType::new(b'V'), "volume"), Refusal::UnknownType),
        (Tar::new().entry(EntryType::Regular, b"m", b"", b"", bad_mode), Refusal::BadHeader),
    ];
    for (tar, expected) in cases {
        let bytes = tar.done();
        for result in [lab.resolve(&bytes).await, lab.resolve_layers(vec![bytes]).await] {
            let error = result.unwrap_err();
            assert_eq!(refusal(&error), expected, "{error}");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"untouched");
        assert_eq!(fs::metadata(&victim).unwrap().nlink(), 1);
    }
    assert_eq!(listing(&lab.path("images/roots")), Vec::<String>::new());
    lab.assert_clean();
}

#[tokio::test]
async fn an_owner_without_a_place_in_a_sandbox_is_refused() {
    for (user, group) in [(65535, 0), (0, u64::from(u32::MAX)), (1 << 40, 0)] {
        let lab = Lab::new();
        let tar = Tar::new().entry(EntryType::Regular, b"a", b"", b"", |header: &mut Header| {
            header.set_uid(user);
            header.set_gid(group);
        });
        match lab.resolve(&tar.done()).await {
            Err(error) if is_root() => assert_eq!(refusal(&error), Refusal::OwnerOutOfRange),
            result => assert!(!is_root() && result.is_ok()),
        }
    }
}

#[tokio::test]
async fn devices_and_pipes_are_refused_or_skipped_but_never_made() {
    for kind in [EntryType::Char, EntryType::Block, EntryType::Fifo] {
        let tar = Tar::new().file("a", "x").special(kind, "dev/bad\x1b[2J").done();
        let lab = Lab::new();
        let error = lab.resolve(&tar).await.unwrap_err();
        assert_eq!(refusal(&error), Refusal::SpecialFile);
        assert!(error.to_string().contains("dev/bad\\u{1b}[2J") && error.hint().is_some(), "{error}");
        let image = lab.resolve_layers(vec![tar]).await.unwrap();
        assert_eq!(image.skipped, ["dev/bad\\u{1b}[2J"]);
        assert_eq!(listing(&image.root), ["a"]);
    }
}

#[tokio::test]
async fn no_more_than_a_hundred_skipped_names_are_kept() {
    let tar = (0..300).fold(Tar::new(), |tar, number| tar.special(EntryType::Fifo, &format!("pipe{number}")));
    let lab = Lab::new();
    let image = lab.resolve_layers(vec![tar.done()]).await.unwrap();
    assert_eq!(image.skipped.len(), 100);
}

#[tokio::test]
async fn a_later_entry_replaces_what_is_there_and_follows_nothing() {
    let lab = Lab::new();
    let victim = lab.write("victim", b"untouched");
    let outside = lab.path("outside");
    fs::create_dir(&outside).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o777;
    let before = (mode(&outside), mode(&victim));
    let open = |header: &mut Header| header.set_mode(0o777);
    let tar = Tar::new()
        .symlink("file", victim.to_str().unwrap())
        .entry(EntryType::Regular, b"file", b"", b"new", open)
        .symlink("directory", outside.to_str().unwrap())
        .entry(EntryType::Directory, b"directory/", b"", b"", open)
        .file("directory/inside", "x")
        .file("twice", "first")
        .file("twice", "second")
        .directory("tree")
        .file("tree/a/b/c", "x")
        .file("tree", "now a file")
        .file("self", "x")
        .hard_link("self", "self")
        .symlink("link", victim.to_str().unwrap())
        .symlink("link", "elsewhere")
        .done();
    for result in [lab.resolve(&tar).await, lab.resolve_layers(vec![tar]).await] {
        let root = result.unwrap().root;
        let expected =
            ["directory", "directory/inside", "file", "link -> elsewhere", "self", "tree", "twice"];
        assert_eq!(listing(&root), expected);
        assert_eq!(fs::read(root.join("file")).unwrap(), b"new");
        assert_eq!(fs::read(root.join("twice")).unwrap(), b"second");
    }
    assert_eq!(fs::read(&victim).unwrap(), b"untouched");
    assert_eq!((mode(&outside), mode(&victim)), before);
    assert!(listing(&outside).is_empty());
}

/// The size in a PAX header wins, as it does elsewhere: nothing hides between two sizes.
#[tokio::test]
async fn a_size_has_one_meaning() {
    let hidden = Tar::new().file("hidden", "x").done();
    let size = hidden.len().to_string();
    let tar = Tar::new()
        .pax(&[("size", size.as_bytes())])
        .entry(EntryType::Regular, b"outer", b"", &hidden, |header| header.set_size(0))
        .file("after", "x")
        .done();
    let lab = Lab::new();
    let root = lab.resolve(&tar).await.unwrap().root;
    assert_eq!(listing(&root), ["after", "outer"]);
    assert_eq!(fs::read(root.join("outer")).unwrap(), hidden);
}
