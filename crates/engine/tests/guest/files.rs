//! Files, among hostile ones.

use crate::support::{HANG, all_of, files, run, sandbox};
use paddock_engine::FileErrorKind;
use paddock_model::api::{FileEventKind, FileKind};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[tokio::test]
async fn written_read_listed_moved_and_removed() {
    let (_place, sandbox) = sandbox().await;
    let files = files(&sandbox);
    let content: Vec<u8> = (0..1_000_000u32).map(|n| n as u8).collect();
    let mut upload = files.write("deep/er/file", Some(0o640), true).unwrap();
    upload.write(&content).await.unwrap();
    let entry = upload.finish().await.unwrap();
    assert_eq!((entry.size, entry.mode, entry.uid), (1_000_000, 0o640, 1000));
    assert!(all_of(files.read("/tmp/deep/er/file", 0, None).await.unwrap()).await == content);
    let part = files.read("/tmp/deep/er/file", 999_990, Some(100)).await.unwrap();
    assert_eq!(part.size(), Some(10));
    assert_eq!(all_of(part).await, &content[999_990..]);

    // A finished file is replaced as a whole, with the mode it had; an upload that is given up changes nothing.
    let mut upload = files.write("deep/er/file", None, false).unwrap();
    upload.write(b"new").await.unwrap();
    assert_eq!(upload.finish().await.unwrap().mode, 0o640);
    let mut upload = files.write("deep/er/file", None, false).unwrap();
    upload.write(b"half of it").await.unwrap();
    drop(upload);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(all_of(files.read("deep/er/file", 0, None).await.unwrap()).await, b"new");
    assert_eq!(run(&sandbox, 1, "ls -A /tmp/deep/er").await, "file\n");

    files.make_directory("deep/other", Some(0o700), false).await.unwrap();
    let again = files.make_directory("deep/other", None, false).await.unwrap_err();
    assert_eq!((again.kind, again.code()), (FileErrorKind::Exists, "file_exists"));
    files.make_directory("deep/other", None, true).await.unwrap();
    assert_eq!(
        files.rename("deep/er/file", "deep/other/moved", false).await.unwrap().path,
        "deep/other/moved"
    );
    run(&sandbox, 2, "echo x > /tmp/deep/here").await;
    let taken = files.rename("deep/other/moved", "deep/here", false).await.unwrap_err();
    assert_eq!(taken.kind, FileErrorKind::Exists);
    files.rename("deep/other/moved", "deep/here", true).await.unwrap();
    assert_eq!(files.change_mode("deep/here", 0o600).await.unwrap().mode, 0o600);
    assert!(files.exists("deep/here").await.unwrap() && !files.exists("deep/there/x").await.unwrap());
    assert_eq!(files.remove("deep", false).await.unwrap_err().kind, FileErrorKind::NotEmpty);
    files.remove("deep", true).await.unwrap();
    assert_eq!(files.stat("deep").await.unwrap_err().code(), "file_not_found");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn pages_join_to_the_whole_tree_in_order() {
    let (_place, sandbox) = sandbox().await;
    run(
        &sandbox,
        1,
        "mkdir -p t/a/b t/a.x t/c; for n in 1 2 3; do echo > t/a/$n; echo > t/c/$n; done; echo > t/b",
    )
    .await;
    let files = files(&sandbox);
    let whole = files.list("t", true, 1000, None).await.unwrap();
    assert!(whole.next_cursor.is_none());
    let names: Vec<String> = whole.entries.into_iter().map(|entry| entry.path).collect();
    let expected =
        ["a", "a/1", "a/2", "a/3", "a/b", "a.x", "b", "c", "c/1", "c/2", "c/3"].map(|n| format!("t/{n}"));
    assert_eq!(names, expected);
    for size in 1..12 {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page = files.list("t", true, size, cursor.as_deref()).await.unwrap();
            assert!(page.entries.len() <= size);
            found.extend(page.entries.into_iter().map(|entry| entry.path));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(found, expected, "pages of {size}");
    }
    let flat = files.list("t", false, 2, None).await.unwrap();
    assert_eq!(flat.entries.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(), ["t/a", "t/a.x"]);
    let rest = files.list("t", false, 2, flat.next_cursor.as_deref()).await.unwrap();
    assert_eq!((rest.entries.len(), rest.next_cursor), (2, None));
    sandbox.end(None).unwrap();
}

/// G3: paths that block, never end, or are no file.
#[tokio::test]
async fn what_is_no_file_is_not_read() {
    let (_place, sandbox) = sandbox().await;
    run(
        &sandbox,
        1,
        "mkfifo pipe; ln -s /dev/zero endless; mkdir folder; ln -s /etc/shadow away; ln -s loop loop",
    )
    .await;
    let files = files(&sandbox);
    for path in
        ["pipe", "/dev/zero", "endless", "/dev/tty", "folder", "/proc/kmsg", "away", "loop", "a\0b", ""]
    {
        // A pipe without a writer would be waited for without end.
        let read = tokio::time::timeout(HANG, files.read(path, 0, None)).await;
        let error = match read.unwrap_or_else(|_| panic!("{path} is still waited for")) {
            Ok(_) => panic!("{path} was read"),
            Err(error) => error,
        };
        assert!(
            !matches!(error.kind, FileErrorKind::Silent | FileErrorKind::Broken | FileErrorKind::Lost),
            "{path}: {error}"
        );
    }
    assert_eq!(files.read("../../../etc/shadow", 0, None).await.err().unwrap().kind, FileErrorKind::NotFound);
    assert_eq!(files.stat("pipe").await.unwrap().kind, FileKind::Other);
    // A file that the kernel makes up has no size, and is read anyway.
    assert!(all_of(files.read("/proc/self/status", 0, None).await.unwrap()).await.starts_with(b"Name:"));
    sandbox.end(None).unwrap();
}

/// G4: a link at the place of the new file is replaced, not followed.
#[tokio::test]
async fn a_planted_link_is_not_written_through() {
    let (_place, sandbox) = sandbox().await;
    run(&sandbox, 1, "echo mine > /tmp/victim; ln -s /tmp/victim /tmp/planted; ln -s /etc/passwd /tmp/other")
        .await;
    let files = files(&sandbox);
    for path in ["/tmp/planted", "/tmp/other"] {
        let mut upload = files.write(path, None, false).unwrap();
        upload.write(b"theirs").await.unwrap();
        assert_eq!(upload.finish().await.unwrap().kind, FileKind::File);
    }
    assert_eq!(run(&sandbox, 2, "cat /tmp/victim; grep -c agent /etc/passwd").await, "mine\n1\n");
    let mut upload = files.write("/etc/passwd", None, false).unwrap();
    upload.write(b"theirs").await.ok();
    assert_eq!(upload.finish().await.err().unwrap().kind, FileErrorKind::Denied);
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn a_very_deep_tree_is_removed() {
    let (_place, sandbox) = sandbox().await;
    run(
        &sandbox,
        1,
        "mkdir deep && cd deep && python3 -c '
import os
for n in range(10000):
    os.mkdir(\"d\"); os.chdir(\"d\")
open(\"end\", \"w\")
'",
    )
    .await;
    let files = files(&sandbox);
    let page = files.list("deep", true, 100, None).await.unwrap();
    assert_eq!((page.entries.len(), page.next_cursor.is_some()), (100, true));
    files.remove("deep", true).await.unwrap();
    assert!(!files.exists("deep").await.unwrap());
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn tools_work_when_the_work_is_at_its_limits() {
    let (_place, sandbox) = sandbox().await;
    let mut bomb = sandbox
        .exec_numbered(1, crate::support::script("while :; do sleep 1000 & done 2>/dev/null; wait"))
        .await
        .unwrap();
    bomb.next().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let files = files(&sandbox);
    let mut upload = files.write("/tmp/still", None, false).unwrap();
    upload.write(b"works").await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(all_of(files.read("/tmp/still", 0, None).await.unwrap()).await, b"works");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn changes_are_seen_as_they_happen() {
    let (_place, sandbox) = sandbox().await;
    run(&sandbox, 1, "mkdir -p /tmp/seen/sub").await;
    let mut watch = files(&sandbox).watch("/tmp/seen", true).await.unwrap();
    run(&sandbox, 2, "echo a > /tmp/seen/sub/file; mkdir /tmp/seen/new; echo b > /tmp/seen/new/inner; rm /tmp/seen/sub/file").await;
    let mut wanted = vec![
        (FileEventKind::Created, "/tmp/seen/sub/file"),
        (FileEventKind::Modified, "/tmp/seen/sub/file"),
        (FileEventKind::Created, "/tmp/seen/new"),
        (FileEventKind::Created, "/tmp/seen/new/inner"),
        (FileEventKind::Deleted, "/tmp/seen/sub/file"),
    ];
    while !wanted.is_empty() {
        let event =
            tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("in time").unwrap();
        let event = event.expect("the watch goes on");
        wanted.retain(|(kind, path)| !(*kind == event.kind && *path == event.path));
    }
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn a_port_inside_answers() {
    let (_place, sandbox) = sandbox().await;
    assert_eq!(sandbox.connect(8080).await.err().unwrap().code(), "port_closed");
    let server = "
import socket
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', 8080)); s.listen(); print('up', flush=True)
while True:
    c, _ = s.accept(); data = b''
    while True:
        piece = c.recv(65536)
        if not piece: break
        data += piece
    c.sendall(data[::-1]); c.close()
";
    let mut exec = sandbox
        .exec_numbered(1, {
            let mut command = crate::support::script("");
            command.argv = vec!["python3".into(), "-c".into(), server.into()];
            command
        })
        .await
        .unwrap();
    while !matches!(exec.next().await, paddock_engine::ExecEvent::Output { .. }) {}
    let content: Vec<u8> = (0..700_000u32).map(|n| (n % 251) as u8).collect();
    let mut stream = sandbox.connect(8080).await.unwrap();
    stream.write_all(&content).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut answer))
        .await
        .expect("in time")
        .unwrap();
    answer.reverse();
    assert!(answer == content, "{} bytes", answer.len());
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn with_follow_a_write_goes_through_links_and_needs_the_right_to_the_file() {
    let (_place, sandbox) = sandbox().await;
    run(
        &sandbox,
        1,
        "mkdir -p real && echo old > real/file && chmod 640 real/file && ln -s real link && ln -s file real/again; \
         echo mine > kept && chmod 444 kept; ln -s /etc/passwd theirs; ln -s loop loop; ln -s none dangling; mkfifo pipe",
    )
    .await;
    let files = files(&sandbox);
    let follow = async |path: &str| {
        let mut upload = files.write_with(path, None, false, &Default::default(), true).unwrap();
        upload.write(b"new").await.ok();
        upload.finish().await
    };
    let entry = follow("link/again").await.unwrap();
    assert_eq!((entry.path.as_str(), entry.kind, entry.mode), ("link/again", FileKind::File, 0o640));
    assert_eq!(follow("dangling").await.unwrap().kind, FileKind::File);
    assert_eq!(
        run(&sandbox, 2, "cat real/file; readlink real/again; cat none; readlink dangling").await,
        "newfile\nnewnone\n"
    );
    for (path, kind) in [
        // Its directory is writable, and that is enough for a write without `follow`.
        ("kept", FileErrorKind::Denied),
        ("theirs", FileErrorKind::Denied),
        ("loop", FileErrorKind::Invalid),
        ("link", FileErrorKind::NotAFile),
        ("link/", FileErrorKind::NotAFile),
        ("pipe", FileErrorKind::NotAFile),
        ("/dev/null", FileErrorKind::NotAFile),
        ("real/file/x", FileErrorKind::NotADirectory),
    ] {
        assert_eq!(follow(path).await.unwrap_err().kind, kind, "{path}");
    }
    assert_eq!(run(&sandbox, 3, "cat kept; ls /dev/null; ls real").await, "mine\n/dev/null\nagain\nfile\n");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn paths_are_resolved_inside() {
    let (_place, sandbox) = sandbox().await;
    run(&sandbox, 1, "mkdir -p a/b; ln -s a/b here; ln -s ../../../../etc up; ln -s loop loop; echo > a/f")
        .await;
    let files = files(&sandbox);
    for (path, wanted, kind) in [
        ("here", "/tmp/a/b", Some(FileKind::Directory)),
        ("here/../f", "/tmp/a/f", Some(FileKind::File)),
        ("here/new/file", "/tmp/a/b/new/file", None),
        ("a/f/x", "/tmp/a/f/x", None),
        // The root is the sandbox's, however many steps lead up.
        ("up/passwd", "/etc/passwd", Some(FileKind::File)),
        ("../../../..", "/", Some(FileKind::Directory)),
    ] {
        let found = files.resolve(path).await.unwrap();
        assert_eq!((found.path.as_str(), found.entry.map(|entry| entry.kind)), (wanted, kind), "{path}");
    }
    assert_eq!(files.resolve("loop").await.unwrap_err().kind, FileErrorKind::Invalid);
    assert_eq!(files.resolve(&"/x".repeat(3000)).await.unwrap_err().kind, FileErrorKind::Invalid);
    sandbox.end(None).unwrap();
}
