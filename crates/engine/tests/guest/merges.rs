//! Files brought into a disk that is in use: all of them, or none.

use crate::support::{Place, run, spec};
use paddock_engine::{FileError, FileErrorKind, Sandbox};

fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o640);
        header.set_uid(1000);
        header.set_gid(1000);
        builder.append_data(&mut header, name, content.as_bytes()).unwrap();
    }
    builder.into_inner().unwrap()
}

async fn merge(sandbox: &Sandbox, put: &[&str], removed: &[&str], archive: &[u8]) -> Result<(), FileError> {
    let put: Vec<&[u8]> = put.iter().map(|path| path.as_bytes()).collect();
    let removed: Vec<&[u8]> = removed.iter().map(|path| path.as_bytes()).collect();
    let mut merge = sandbox.disk().merge(put, removed).await?;
    merge.write(archive).await?;
    merge.finish().await
}

const BEFORE: &str = "mkdir -p /tmp/d/e; echo old > /tmp/a; echo stays > /tmp/d/e/f; echo gone > /tmp/gone";
const LOOK: &str =
    "cd /tmp; find . | sort; cat a d/e/f gone 2>/dev/null; ls -A / /var/tmp | grep paddock || true";

#[tokio::test]
async fn what_can_be_written_is() {
    let place = Place::new(spec());
    let sandbox = place.create().await;
    run(&sandbox, 1, BEFORE).await;
    let files = archive(&[("tmp/a", "new\n"), ("tmp/b", "more\n")]);
    merge(&sandbox, &["/tmp/a", "/tmp/b"], &["/tmp/d", "/tmp/gone"], &files).await.unwrap();
    let after =
        run(&sandbox, 2, "cd /tmp; find . | sort; cat a b; stat -c '%a %u %g' a; ls -A / /var/tmp").await;
    assert!(after.starts_with(".\n./a\n./b\nnew\nmore\n640 1000 1000\n"), "{after}");
    assert!(!after.contains("paddock"), "{after}");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn what_fails_in_the_middle_is_taken_back() {
    let place = Place::new(spec());
    let sandbox = place.create().await;
    run(&sandbox, 1, BEFORE).await;
    let before = run(&sandbox, 2, LOOK).await;
    // The last file has no directory to go to, which is noticed when everything else is in its place.
    let files = archive(&[("tmp/a", "new\n"), ("tmp/b", "more\n"), ("tmp/nowhere/z", "z\n")]);
    let failed =
        merge(&sandbox, &["/tmp/a", "/tmp/b", "/tmp/nowhere/z"], &["/tmp/d", "/tmp/gone"], &files).await;
    assert_eq!(failed.unwrap_err().kind, FileErrorKind::NotFound);
    assert_eq!(run(&sandbox, 3, LOOK).await, before);
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn an_archive_brings_only_what_was_asked_for() {
    let place = Place::new(spec());
    let sandbox = place.create().await;
    run(&sandbox, 1, BEFORE).await;
    let before = run(&sandbox, 2, LOOK).await;
    for (files, kind) in [
        (archive(&[("tmp/a", "new\n"), ("tmp/other", "x\n")]), FileErrorKind::Denied),
        (archive(&[("tmp/a", "new\n"), ("tmp/a", "again\n")]), FileErrorKind::Denied),
        (archive(&[]), FileErrorKind::NotFound),
    ] {
        assert_eq!(merge(&sandbox, &["/tmp/a"], &["/tmp/gone"], &files).await.unwrap_err().kind, kind);
        assert_eq!(run(&sandbox, 3, LOOK).await, before);
    }
    // Nor through a link, wherever it leads.
    run(&sandbox, 4, "ln -s /home /tmp/link").await;
    let files = archive(&[("tmp/link/x", "x\n")]);
    merge(&sandbox, &["/tmp/link/x"], &[], &files).await.unwrap_err();
    assert_eq!(run(&sandbox, 5, "ls /home/x 2>/dev/null | wc -l").await.trim(), "0");
    sandbox.end(None).unwrap();
}
