//! Execs: their output across lost connections, their ends, and their view of each other.

use crate::support::{backend, hear, run, sandbox, script};
use paddock_engine::{Begun, Command, ExecEvent, ExecPhase, ExitKind, KnownExec, Sandbox};
use std::time::{Duration, Instant};

/// Leaves the sandbox, as a killed engine does, and comes back with the bytes that it had kept.
async fn come_back(
    place: &crate::support::Place,
    sandbox: Sandbox,
    known: &[KnownExec],
) -> (Sandbox, Vec<paddock_engine::ResumedExec>) {
    let guarantees = sandbox.guarantees.clone();
    sandbox.leave();
    let raised = backend(place.state.path()).adopt(&place.id).unwrap();
    Sandbox::resume(place.id.clone(), Begun::over(raised, guarantees), known).await.unwrap()
}

#[tokio::test]
async fn output_goes_on_where_the_journal_ends() {
    let (place, sandbox) = sandbox().await;
    let mut exec =
        sandbox.exec_numbered(7, script("seq 1 200000; echo to-stderr >&2; exit 3")).await.unwrap();
    let mut kept = Vec::new();
    while kept.len() < 100_000 {
        if let ExecEvent::Output { bytes, .. } = exec.next().await {
            kept.extend(bytes);
        }
    }
    // The last piece was written, but the guest was not told any more.
    drop(exec);
    let known = [KnownExec { number: 7, stdout: kept.len() as u64, stderr: 0, control: 0 }];
    let (sandbox, mut resumed) = come_back(&place, sandbox, &known).await;
    assert_eq!(resumed.len(), 1);
    let mut again = resumed.remove(0);
    assert_eq!((again.number, again.stdout, again.stderr), (7, kept.len() as u64, 0));
    let said = hear(&mut again.exec).await;
    kept.extend(said.stdout);
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(kept == expected.as_bytes(), "{} bytes instead of {}", kept.len(), expected.len());
    assert_eq!((said.stderr.as_slice(), said.status), (&b"to-stderr\n"[..], Some(ExitKind::Exited(3))));

    // The guest remembers its end until it is noted.
    let known = [KnownExec { number: 7, stdout: kept.len() as u64, stderr: 10, control: 0 }];
    let (sandbox, mut resumed) = come_back(&place, sandbox, &known).await;
    assert!(matches!(resumed[0].phase, ExecPhase::Ended { status: ExitKind::Exited(3), .. }));
    let said = hear(&mut resumed[0].exec).await;
    assert_eq!((said.stdout.len(), said.stderr.len(), said.status), (0, 0, Some(ExitKind::Exited(3))));
    // The exec is requested again, as by an engine that does not know if it had asked: it runs once.
    sandbox.exec_numbered(7, script("echo > /tmp/twice")).await.unwrap();
    run(&sandbox, 8, "sleep 0.2; test ! -e /tmp/twice").await;
    sandbox.forget(7);
    // The answer to this request proves that the guest has read the messages before it.
    sandbox.freeze(false).await.unwrap();
    let (sandbox, resumed) = come_back(&place, sandbox, &[]).await;
    assert!(resumed.is_empty());
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn input_goes_on_too() {
    let (place, sandbox) = sandbox().await;
    let exec = sandbox.exec_numbered(1, script("read a; read b; echo $a-$b")).await.unwrap();
    assert!(exec.input().write(b"one\n").await);
    run(&sandbox, 2, "true").await;
    let (sandbox, mut resumed) = come_back(&place, sandbox, &[]).await;
    let mut again = resumed.remove(0);
    assert_eq!((again.stdin, again.stdin_open), (4, true));
    assert!(again.exec.input().write(b"two\n").await);
    assert_eq!(hear(&mut again.exec).await.stdout, b"one-two\n");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn a_start_that_failed_is_told_again() {
    let (place, sandbox) = sandbox().await;
    let mut command = script("");
    command.argv = vec!["/no/such/program".into()];
    let mut exec = sandbox.exec_numbered(1, command).await.unwrap();
    assert!(
        matches!(exec.next().await, ExecEvent::StartFailed { errno: libc_enoent, .. } if libc_enoent == 2)
    );
    assert!(matches!(exec.next().await, ExecEvent::Closed));
    let (sandbox, resumed) = come_back(&place, sandbox, &[]).await;
    assert!(matches!(resumed[0].phase, ExecPhase::StartFailed { errno: 2, .. }));
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn a_timeout_ends_the_exec_with_its_session_and_nothing_else() {
    let (_place, sandbox) = sandbox().await;
    let other = sandbox.exec_numbered(1, script("exec sleep 1001")).await.unwrap();
    let mut command = script("trap '' TERM; (sleep 1002; true) & echo begun; sleep 1003; true");
    command.deadline = Some(Duration::from_millis(300));
    let said = hear(&mut sandbox.exec_numbered(2, command).await.unwrap()).await;
    assert_eq!((said.stdout.as_slice(), said.deadline_passed), (&b"begun\n"[..], true));
    assert_eq!(said.status, Some(ExitKind::Signaled(9)));
    // Execs see each other, though each came behind its own layers.
    let seen = run(&sandbox, 3, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(seen.contains("sleep 1001") && !seen.contains("1002") && !seen.contains("1003"), "{seen}");
    assert!(!seen.contains("paddock-guest"), "{seen}");
    sandbox.kill_exec(1);
    let mut other = other;
    assert_eq!(hear(&mut other).await.status, Some(ExitKind::Signaled(9)));
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn frozen_by_signals_work_stands_still_and_tools_do_not() {
    let (_place, sandbox) = sandbox().await;
    let mut exec =
        sandbox.exec_numbered(1, script("while :; do echo x >> /tmp/beat; sleep 0.01; done")).await.unwrap();
    assert!(matches!(exec.next().await, ExecEvent::Started));
    sandbox.freeze(true).await.unwrap();
    let files = crate::support::files(&sandbox);
    let size = async || files.stat("/tmp/beat").await.map_or(0, |entry| entry.size);
    let before = size().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(size().await, before);
    sandbox.freeze(false).await.unwrap();
    // A busy host may give it no processor for a while.
    let beats_again = async {
        while size().await <= before {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(crate::support::HANG, beats_again).await.expect("it goes on");
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn a_command_that_comes_while_the_work_stands_still_gets_all_its_input() {
    let (_place, sandbox) = sandbox().await;
    let frozen = sandbox.hold_still(0).await.unwrap();
    let command = Command { stdin: true, ..script("wc -c; sleep 1000 & wait") };
    let mut exec = sandbox.exec_numbered(1, command).await.unwrap();
    let input = exec.input();
    assert!(input.write(&[b'x'; 100_000]).await);
    input.close();
    let mut ended = sandbox.exec_numbered(2, script("sleep 1000")).await.unwrap();
    sandbox.kill_exec(2);
    // Its answer shows that the guest has read all that was sent before it.
    assert!(crate::support::files(&sandbox).stat("/tmp").await.is_ok());
    sandbox.go_on(frozen).await.unwrap();
    let counted = async {
        loop {
            match exec.next().await {
                ExecEvent::Output { bytes, .. } => break bytes,
                ExecEvent::Started => {}
                other => panic!("{other:?}"),
            }
        }
    };
    let counted = tokio::time::timeout(crate::support::HANG, counted).await.expect("it counts its input");
    assert_eq!(counted, b"100000\n");
    assert_eq!(hear(&mut ended).await.status, Some(ExitKind::Signaled(9)));
    sandbox.end(None).unwrap();
}

#[tokio::test]
async fn without_an_engine_the_guest_ends_in_time() {
    let (_place, sandbox) = sandbox().await;
    sandbox.set_deadline(Some(Duration::from_millis(200)));
    let begun = Instant::now();
    tokio::time::timeout(Duration::from_secs(20), sandbox.lost()).await.expect("it ends by itself");
    // A connected engine gets two seconds more.
    assert!(begun.elapsed() >= Duration::from_secs(2));
    sandbox.end(None).unwrap();
}
