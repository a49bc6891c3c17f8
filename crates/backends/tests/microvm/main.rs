//! Machines: booted once, copied, spoken to, kept and brought back. They need QEMU and a kernel (PADDOCK_KERNEL, or one that is
//! installed); without, the tests say so.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "a test: whatever fails shall fail it; the host of these tests is that of others too"
)]

#[path = "../lasting/support.rs"]
mod support;

use paddock_backends::{Backend, Raised, all};
use paddock_model::{Limits, Spec};
use paddock_protocol::{Channel, Decoder, ExitKind, Frame, FromGuest, Start, StreamKind, ToGuest, Who};
use paddock_protocol::{decode_from_guest, encode_message};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{new_id, traces_in_the_end};

fn machines(state: &Path) -> Option<Box<dyn Backend>> {
    let backend = all(state).into_iter().find(|backend| backend.name() == "microvm").unwrap();
    let Some(missing) = backend.missing() else { return Some(backend) };
    assert!(
        !std::env::var("PADDOCK_REQUIRE").unwrap_or_default().split(',').any(|name| name == "microvm"),
        "PADDOCK_REQUIRE names microvm: {missing}"
    );
    eprintln!("skipped: {missing}");
    None
}

fn small() -> Spec {
    let limits = Limits { memory: 192 << 20, cpus: 1.0, disk: 64 << 20, ..Limits::default() };
    Spec { limits, ..support::spec(None) }
}

/// Runs a script and collects what it says.
struct Talk {
    stream: UnixStream,
    decoder: Decoder,
}

impl Talk {
    fn new(stream: UnixStream) -> Talk {
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Talk { stream, decoder: Decoder::new() }
    }

    fn say(&mut self, message: &ToGuest) {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    fn next(&mut self) -> Frame {
        let mut buffer = [0; 65536];
        loop {
            if let Some(frame) = self.decoder.next_frame().unwrap() {
                return frame;
            }
            let count = self.stream.read(&mut buffer).expect("the guest says nothing");
            assert!(count > 0, "the guest has gone");
            self.decoder.push(&buffer[..count]);
        }
    }

    fn ready(&mut self) {
        loop {
            if let Frame::Message(body) = self.next() {
                match decode_from_guest(&body).unwrap() {
                    FromGuest::Ready { .. } | FromGuest::Resumed { .. } => return,
                    FromGuest::EnterFailed { step, errno } => panic!("{step}: {errno}"),
                    _ => {}
                }
            }
        }
    }

    fn run(&mut self, exec: u32, script: &str) -> (ExitKind, String) {
        let bytes = |text: &str| serde_bytes::ByteBuf::from(text.as_bytes());
        self.say(&ToGuest::Start(Box::new(Start {
            exec,
            argv: ["/bin/sh", "-c", script].map(bytes).to_vec(),
            env: vec![bytes("PATH=/usr/bin:/bin")],
            cwd: None,
            user: Who::Ids { uid: 1000, gid: 1000 },
            tty: None,
            stdin: false,
            deadline_ms: None,
            deadline_kills: Default::default(),
            tool: None,
            last: false,
            control: false,
            zygote: false,
        })));
        let (mut out, mut ended) = (Vec::new(), None);
        loop {
            match self.next() {
                Frame::Data { channel, bytes } => {
                    let channel = Channel::from_number(channel).unwrap();
                    if channel.exec == exec && channel.stream != StreamKind::Control {
                        out.extend(bytes);
                    }
                }
                Frame::Message(body) => match decode_from_guest(&body).unwrap() {
                    FromGuest::Exited { exec: number, status, .. } if number == exec => ended = Some(status),
                    FromGuest::Closed { exec: number } if number == exec => {
                        return (ended.unwrap(), String::from_utf8_lossy(&out).into());
                    }
                    FromGuest::StartFailed { step, errno, .. } => panic!("{step}: {errno}"),
                    _ => {}
                },
            }
        }
    }
}

#[test]
fn a_machine_runs_commands_behind_a_kernel_of_its_own() {
    let state = tempfile::tempdir().unwrap();
    let Some(backend) = machines(state.path()) else { return };
    let begun = Instant::now();
    for round in 0..3 {
        let id = new_id();
        let started = Instant::now();
        let Raised { mut fence, stream, .. } = backend.create(&id, &small(), false).unwrap();
        eprintln!("round {round}: created after {:?}", started.elapsed());
        let mut talk = Talk::new(stream);
        talk.ready();
        eprintln!("round {round}: ready after {:?}", started.elapsed());
        let (status, said) = talk.run(1, "echo hello; uname -r; id -u; cat /etc/machine-id; exit 7");
        eprintln!("round {round}: first command after {:?}: {said}", started.elapsed());
        assert_eq!(status, ExitKind::Exited(7));
        assert!(said.starts_with("hello\n") && said.contains("\n1000\n"), "{said}");
        let host = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert!(!said.contains(host.trim()), "{said}");
        fence.destroy().unwrap();
        assert_eq!(traces_in_the_end(state.path(), std::slice::from_ref(&id)), [""; 0]);
    }
    eprintln!("all after {:?}", begun.elapsed());
}
