//! Many requests at once, interrupted work, and a full disk.

use std::fs;
use std::process::Command;
use std::time::Duration;

use paddock_images::{ImageError, ImageStore, NoProgress, Progress};
use tar::EntryType;

use crate::support::*;

fn large() -> Vec<u8> {
    let content = vec![b'x'; 64 << 10];
    let name = |number: usize| format!("d{}/f{number}", number % 7).into_bytes();
    (0..300)
        .fold(Tar::new(), |tar, number| tar.entry(EntryType::Regular, &name(number), b"", &content, |_| {}))
        .done()
}

/// Each has a store of its own, as different processes would have: a lock is held by an open file, not by a process.
#[tokio::test(flavor = "multi_thread")]
async fn one_image_can_be_resolved_by_many() {
    let lab = Lab::new();
    let path = lab.write("archive", &large()).to_str().unwrap().to_owned();
    write_files(&lab.path("layout"), &Image::hello().layout_files(|_| {}));
    let layout = lab.path("layout").to_str().unwrap().to_owned();
    let mut tasks = Vec::new();
    for number in 0..12 {
        let state = lab.path("images");
        let reference = if number % 2 == 0 { path.clone() } else { layout.clone() };
        tasks.push(tokio::spawn(async move {
            let store = ImageStore::open(&state).unwrap();
            store.resolve(&reference, &NoProgress).await.unwrap().root
        }));
    }
    for (number, task) in tasks.into_iter().enumerate() {
        let expected = if number % 2 == 0 { 307 } else { 3 };
        assert_eq!(listing(&task.await.unwrap()).len(), expected);
    }
    assert_eq!(fs::read_dir(lab.path("images/roots")).unwrap().count(), 2);
    lab.assert_clean();
}

#[tokio::test]
async fn a_dropped_future_leaves_nothing() {
    /// Tells the test the moment at which to drop the work.
    struct Signal(tokio::sync::Notify);
    impl Progress for Signal {
        fn start(&self, what: &str, _total: Option<u64>) {
            if what == "unpacking" {
                self.0.notify_one();
            }
        }
        fn advance(&self, _bytes: u64) {}
        fn done(&self) {}
    }
    let lab = Lab::new();
    let path = lab.write("archive", &large());
    let signal = Signal(tokio::sync::Notify::new());
    tokio::select! {
        biased;
        () = signal.0.notified() => {}
        result = lab.store.resolve(path.to_str().unwrap(), &signal) => panic!("too early: {result:?}"),
    }
    for _ in 0..200 {
        if fs::read_dir(lab.path("images/temporary")).unwrap().next().is_none() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    lab.assert_clean();
    assert!(lab.resolve_path(&path).await.is_ok());
}

/// Runs the test below in a namespace with a small file system of its own.
#[test]
fn a_full_disk_is_a_clear_error() {
    let directory = tempfile::tempdir().unwrap();
    let script = r#"mount -t tmpfs -o size=4m none "$0" || exit 77; TMPDIR="$0" exec "$1" --ignored --exact concurrency::on_a_small_disk"#;
    let tests = std::env::current_exe().unwrap();
    let arguments = if is_root() { "-m" } else { "-rm" };
    let output = Command::new("unshare")
        .arg(arguments)
        .args(["sh", "-c", script])
        .arg(directory.path())
        .arg(tests)
        .output();
    match output {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.status.code() != Some(101) => {
            eprintln!("skipped: no mount namespace: {output:?}")
        }
        Err(error) => eprintln!("skipped: no unshare: {error}"),
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
    }
}

#[tokio::test]
#[ignore = "needs a small file system; started by the test above"]
async fn on_a_small_disk() {
    let lab = Lab::new();
    let bomb = gzip(&large());
    let error = lab.resolve(&bomb).await.unwrap_err();
    assert!(matches!(error, ImageError::DiskFull { .. }) && error.hint().is_some(), "{error:?}");
    lab.assert_clean();
    assert!(lab.resolve(&Tar::new().file("a", "x").done()).await.is_ok());
}
