//! A guest that lies: every lie ends in a typed error, soon and with little memory.

use crate::support::{backend, new_id, script, spec};
use paddock_backends::{Fence, FenceUsage, Raised};
use paddock_engine::{Begun, Command, EngineError, ExecEvent, FileErrorKind, Sandbox};
use paddock_model::User;
use paddock_protocol::{
    Channel, Decoder, ExitKind, Frame, FromGuest, MAX_FROM_HOST, MAX_PAYLOAD, OLDEST, StreamKind, ToGuest,
    VERSION, WINDOW, WorkUsage, decode_to_guest, encode_data, encode_message,
};
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

struct NoFence;

impl Fence for NoFence {
    fn kill(&mut self) -> std::io::Result<()> {
        Ok(())
    }
    fn destroy(&mut self) -> std::io::Result<FenceUsage> {
        Ok(FenceUsage::default())
    }
    fn ended(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// The guest's side: sends the given answer to every request for a start.
fn false_guest(mut stream: UnixStream, version: u32, answer: impl Fn(u32) -> Vec<u8> + Send + 'static) {
    std::thread::spawn(move || {
        let ready = FromGuest::Ready {
            version,
            landlock_abi: 0,
            time_namespace: false,
            ready_at: 1,
            shares_system: false,
        };
        stream.write_all(&message(&ready)).unwrap();
        let mut decoder = Decoder::of_host();
        let mut buffer = vec![0; 65536];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => decoder.push(&buffer[..count]),
            }
            while let Ok(Some(frame)) = decoder.next_frame() {
                let Frame::Message(body) = frame else { continue };
                if let Ok(ToGuest::Start(start)) = decode_to_guest(&body)
                    && stream.write_all(&answer(start.exec)).is_err()
                {
                    return;
                }
            }
        }
    });
}

async fn sandbox_of(answer: impl Fn(u32) -> Vec<u8> + Send + 'static) -> Sandbox {
    sandbox_of_version(VERSION, answer).await
}

async fn sandbox_of_version(version: u32, answer: impl Fn(u32) -> Vec<u8> + Send + 'static) -> Sandbox {
    let (ours, theirs) = UnixStream::pair().unwrap();
    false_guest(theirs, version, answer);
    let state = tempfile::tempdir().unwrap();
    let guarantees = backend(state.path()).guarantees(&spec());
    let raised =
        Raised { fence: Box::new(NoFence) as Box<dyn Fence>, stream: ours, network: None, notes: Vec::new() };
    let mut sandbox = Sandbox::start(new_id(), Begun::over(raised, guarantees)).unwrap();
    sandbox.ready().await.unwrap();
    sandbox
}

fn message(message: &FromGuest) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_message(message, &mut bytes).unwrap();
    bytes
}

fn data(exec: u32, stream: StreamKind, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_data(Channel { exec, stream }.number(), bytes, &mut out);
    out
}

fn ended(exec: u32, code: i32) -> Vec<u8> {
    let exited = FromGuest::Exited { exec, status: ExitKind::Exited(code), usage: WorkUsage::default() };
    [message(&exited), message(&FromGuest::Closed { exec })].concat()
}

async fn how_it_ends(sandbox: &Sandbox) -> String {
    let mut exec = sandbox.exec_numbered(1, script("true")).await.unwrap();
    let end = async {
        loop {
            match exec.next().await {
                ExecEvent::Lost { detail } => return detail,
                ExecEvent::Closed => return "closed".into(),
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("it ends in time")
}

#[tokio::test]
async fn frames_that_cannot_be_are_the_end() {
    type Answer = Box<dyn Fn(u32) -> Vec<u8> + Send>;
    let lies: Vec<(&str, &str, Answer)> = vec![
        ("a length", "larger", Box::new(|_| u32::MAX.to_le_bytes().repeat(2))),
        (
            "no message",
            "decoded",
            Box::new(|_| [3u32.to_le_bytes(), [0; 4]].concat().into_iter().chain(*b"abc").collect()),
        ),
        (
            "too much output",
            "granted",
            Box::new(|exec| data(exec, StreamKind::Stdout, &vec![0; (1 << 18) + 1])),
        ),
        ("input as output", "input", Box::new(|exec| data(exec, StreamKind::Stdin, b"x"))),
        ("a second start", "twice", Box::new(|exec| message(&FromGuest::Started { exec, pid: 2 }).repeat(2))),
        (
            "a second end",
            "twice",
            Box::new(|exec| {
                let exited =
                    FromGuest::Exited { exec, status: ExitKind::Exited(0), usage: WorkUsage::default() };
                message(&exited).repeat(2)
            }),
        ),
        (
            "a second greeting",
            "greeted",
            Box::new(|_| {
                message(&FromGuest::Ready {
                    version: VERSION,
                    landlock_abi: 0,
                    time_namespace: false,
                    ready_at: 0,
                    shares_system: false,
                })
            }),
        ),
        (
            "an answer to nobody",
            "asked",
            Box::new(|_| message(&FromGuest::Resumed { version: VERSION, ready_at: 0, execs: Vec::new() })),
        ),
    ];
    for (what, expected, lie) in lies {
        let sandbox = sandbox_of(lie).await;
        let detail = how_it_ends(&sandbox).await;
        assert!(detail.contains(expected), "{what}: {detail}");
        // Afterwards nothing waits for ever, and every caller gets the reason.
        assert_eq!(tokio::time::timeout(Duration::from_secs(5), sandbox.lost()).await.unwrap(), detail);
        let error = sandbox.files(User::Agent, None).stat("/x").await.unwrap_err();
        assert_eq!(error.kind, FileErrorKind::Lost);
    }
}

#[tokio::test]
async fn answers_that_cannot_be_are_refused() {
    let huge = u32::MAX.to_le_bytes();
    let sandbox =
        sandbox_of(move |exec| [data(exec, StreamKind::Stdout, &huge), ended(exec, 0)].concat()).await;
    let files = sandbox.files(User::Agent, None);
    assert_eq!(files.stat("/x").await.unwrap_err().kind, FileErrorKind::Broken);
    assert_eq!(files.list("/x", true, 10, None).await.unwrap_err().kind, FileErrorKind::Broken);
    assert_eq!(sandbox.connect(80).await.err().unwrap().kind, FileErrorKind::Broken);

    let sandbox = sandbox_of(|exec| ended(exec, 0)).await;
    let files = sandbox.files(User::Agent, None);
    assert_eq!(files.stat("/x").await.unwrap_err().kind, FileErrorKind::Broken);
    assert_eq!(files.list("/x", true, 10, None).await.unwrap_err().kind, FileErrorKind::Broken);
    assert!(files.read("/x", 0, None).await.is_err());

    // The failure has no end.
    let sandbox = sandbox_of(|exec| data(exec, StreamKind::Stderr, &vec![0; 200_000])).await;
    let error = sandbox.files(User::Agent, None).stat("/x").await.unwrap_err();
    assert_eq!(error.kind, FileErrorKind::Broken);
}

#[tokio::test]
async fn a_guest_of_an_older_build_gets_no_larger_command_than_it_takes() {
    let of = |bytes: usize| Command { argv: vec!["x".repeat(100_000); bytes / 100_000], ..script("true") };
    for (version, most) in [(OLDEST, MAX_PAYLOAD), (VERSION, MAX_FROM_HOST)] {
        let sandbox = sandbox_of_version(version, |exec| ended(exec, 0)).await;
        let error = sandbox.exec_numbered(1, of(most + 100_000)).await.err().expect("a refusal");
        assert!(matches!(error, EngineError::CommandTooLarge { most: told, .. } if told == most), "{error}");
        // The conversation goes on, under the same number too.
        let mut exec = sandbox.exec_numbered(1, of(most - 100_000)).await.unwrap();
        assert!(matches!(exec.next().await, ExecEvent::Exited { .. }));
    }
}

#[tokio::test]
async fn a_flood_of_small_frames_stays_small() {
    let sandbox = sandbox_of(|exec| {
        let mut bytes = Vec::new();
        for _ in 0..WINDOW {
            bytes.extend(data(exec, StreamKind::Stdout, b"x"));
            bytes.extend(data(exec, StreamKind::Stderr, b"y"));
            bytes.extend(data(exec, StreamKind::Stdout, b""));
        }
        bytes.extend(ended(exec, 0));
        bytes
    })
    .await;
    let mut exec = sandbox.exec_numbered(1, script("true")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (mut events, mut bytes) = (0, 0);
    while let ExecEvent::Output { bytes: piece, .. } = exec.next().await {
        (events, bytes) = (events + 1, bytes + piece.len());
    }
    assert_eq!(bytes, 2 * WINDOW as usize);
    assert!(events < 20_000, "{events}");
}

#[tokio::test]
async fn a_guest_that_does_not_say_who_it_is_cannot_be_taken_over() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let state = tempfile::tempdir().unwrap();
    let guarantees = backend(state.path()).guarantees(&spec());
    let raised =
        Raised { fence: Box::new(NoFence) as Box<dyn Fence>, stream: ours, network: None, notes: Vec::new() };
    let taking = Sandbox::resume(new_id(), Begun::over(raised, guarantees), &[]);
    std::thread::spawn(move || {
        let mut theirs = theirs;
        let other = FromGuest::Resumed { version: 99, ready_at: 0, execs: Vec::new() };
        theirs.write_all(&message(&other)).unwrap();
        std::thread::sleep(Duration::from_secs(5));
    });
    match taking.await {
        Err(EngineError::Lost { detail }) => {
            assert!(detail.contains("99") || detail.contains("asked"), "{detail}")
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was taken over"),
    }
}

/// A guest that was adopted from an older server would take no notice of `follow`, and would not understand `Resolve`.
#[tokio::test]
async fn an_older_guest_is_asked_to_resolve_nothing() {
    let sandbox = sandbox_of_version(VERSION - 1, |exec| panic!("it was asked, in exec {exec}")).await;
    let files = sandbox.files(User::Agent, None);
    let refused = [
        files.resolve("/tmp").await.err().unwrap(),
        files.write_with("/tmp/x", None, false, &Default::default(), true).err().unwrap(),
    ];
    for error in refused {
        assert_eq!((error.kind, error.code()), (FileErrorKind::Unsupported, "unsupported"));
        assert!(error.to_string().contains("of an older paddock"), "{error}");
    }
}
