//! G5: archives that try to get out, to gain rights, or to hide their nature.

use crate::support::{all_of, files, run, sandbox};
use paddock_engine::{FileError, FileErrorKind, Sandbox};
use std::collections::BTreeMap;
use std::io::Read;
use tar::{Builder, EntryType, Header};

struct Tar(Builder<Vec<u8>>);

impl Tar {
    fn new() -> Tar {
        Tar(Builder::new(Vec::new()))
    }

    /// Names are written as they are: the crate would refuse the names that the guest has to refuse.
    fn entry(mut self, kind: EntryType, name: &str, target: &str, mode: u32, content: &[u8]) -> Tar {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_mode(mode);
        header.set_size(content.len() as u64);
        header.set_cksum();
        self.0.append(&header, content).unwrap();
        self
    }

    fn file(self, name: &str, content: &[u8]) -> Tar {
        self.entry(EntryType::Regular, name, "", 0o644, content)
    }

    fn finish(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

async fn unpack(sandbox: &Sandbox, archive: &[u8]) -> Result<(), FileError> {
    let mut upload = files(sandbox).unpack("/tmp/in")?;
    upload.write(archive).await?;
    upload.finish().await
}

#[tokio::test]
async fn there_and_back() {
    let (_place, sandbox) = sandbox().await;
    run(
        &sandbox,
        1,
        "mkdir -p in from/sub; echo hello > from/sub/file; ln -s sub/file from/link; mkfifo from/pipe; \
        chmod 751 from/sub/file; head -c 3000000 /dev/urandom > from/large",
    )
    .await;
    let archive = all_of(files(&sandbox).pack("from").await.unwrap()).await;
    let mut found = BTreeMap::new();
    for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        found.insert(
            entry.path().unwrap().display().to_string(),
            (entry.header().mode().unwrap(), content.len()),
        );
    }
    assert_eq!(found["sub/file"], (0o751, 6));
    assert_eq!(found["large"].1, 3_000_000);
    // The archive is made again without the pipe, which no archive may bring.
    run(&sandbox, 2, "rm from/pipe").await;
    let archive = all_of(files(&sandbox).pack("from").await.unwrap()).await;
    unpack(&sandbox, &archive).await.unwrap();
    run(&sandbox, 3, "diff -r from in && test $(stat -c %a in/sub/file) = 751").await;
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn what_leads_out_is_refused() {
    let (_place, sandbox) = sandbox().await;
    run(&sandbox, 1, "mkdir in out; echo safe > out/victim; chmod 700 out").await;
    let link = |tar: Tar, name: &str, to: &str| tar.entry(EntryType::Symlink, name, to, 0o777, b"");
    let refused: Vec<(&str, Vec<u8>)> = vec![
        ("dots", Tar::new().file("../out/new", b"x").finish()),
        ("dots within", Tar::new().file("a/../../out/new", b"x").finish()),
        ("absolute", Tar::new().file("/tmp/out/new", b"x").finish()),
        ("through a link", link(Tar::new(), "door", "../out").file("door/new", b"x").finish()),
        ("through an absolute link", link(Tar::new(), "door2", "/tmp/out").file("door2/new", b"x").finish()),
        (
            "a directory over a link",
            link(Tar::new(), "door3", "/tmp/out")
                .entry(EntryType::Directory, "door3", "", 0o777, b"")
                .finish(),
        ),
        ("a hard link out", Tar::new().entry(EntryType::Link, "hard", "../out/victim", 0o644, b"").finish()),
        (
            "a hard link to the root",
            Tar::new().entry(EntryType::Link, "hard", "/etc/passwd", 0o644, b"").finish(),
        ),
        (
            "a hard link through a link",
            link(Tar::new(), "door4", "/tmp/out")
                .entry(EntryType::Link, "hard", "door4/victim", 0o644, b"")
                .finish(),
        ),
        ("a device", Tar::new().entry(EntryType::Char, "null", "", 0o666, b"").finish()),
        ("a disk", Tar::new().entry(EntryType::Block, "sda", "", 0o666, b"").finish()),
        ("a pipe", Tar::new().entry(EntryType::Fifo, "pipe", "", 0o666, b"").finish()),
        ("a sparse file", Tar::new().entry(EntryType::GNUSparse, "sparse", "", 0o644, b"").finish()),
        ("no archive", vec![b'x'; 2048]),
        ("cut short", Tar::new().file("long", &[7; 4096]).finish()[..1024].to_vec()),
    ];
    for (what, archive) in refused {
        let error = unpack(&sandbox, &archive).await.expect_err(what);
        assert!(
            !matches!(error.kind, FileErrorKind::Silent | FileErrorKind::Broken | FileErrorKind::Lost),
            "{what}: {error}"
        );
    }
    assert_eq!(run(&sandbox, 2, "ls -A out; cat out/victim; stat -c %a out").await, "victim\nsafe\n700\n");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn links_rights_and_twins_are_harmless() {
    let (_place, sandbox) = sandbox().await;
    run(&sandbox, 1, "mkdir in out; echo safe > out/victim").await;
    let archive = Tar::new()
        .entry(EntryType::Regular, "strong", "", 0o6755, b"#!/bin/sh\n")
        .entry(EntryType::Symlink, "same", "/tmp/out/victim", 0o777, b"")
        .file("same", b"replaced")
        .file("twice", b"first")
        .file("twice", b"second")
        .finish();
    unpack(&sandbox, &archive).await.unwrap();
    let found = run(&sandbox, 2, "stat -c %a in/strong; cat in/same in/twice out/victim").await;
    assert_eq!(found, "755\nreplacedsecondsafe\n");
    sandbox.end(None).unwrap();
}

/// The size of the extended header counts for both sides; else the rest of the archive would be read as another one.
#[tokio::test]
async fn a_size_that_is_told_twice_is_read_once() {
    let (_place, sandbox) = sandbox().await;
    run(&sandbox, 1, "mkdir in").await;
    let hidden = Tar::new().file("hidden", b"inner").finish();
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("size", hidden.len().to_string().as_bytes())]).unwrap();
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_path("outer").unwrap();
    header.set_mode(0o644);
    header.set_size(0);
    header.set_cksum();
    builder.append(&header, hidden.as_slice()).unwrap();
    unpack(&sandbox, &builder.into_inner().unwrap()).await.unwrap();
    assert_eq!(run(&sandbox, 2, "ls in").await, "outer\n");
    sandbox.end(None).unwrap();
}
