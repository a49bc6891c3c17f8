//! Sandboxes with an interpreter in them, and a host that speaks with both.

use crate::support::{backend, new_id, spec};
use paddock_backends::{CopiedInterpreter, Fence, Interpreter, Landing, LiveForkError, Purpose, Raised};
use paddock_model::Disk;
use paddock_protocol::{
    Channel, Decoder, Frame, FromGuest, Start, StreamKind, ToGuest, Who, decode_from_guest, encode_data,
    encode_message,
};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// Reads code by its length, runs it, and says so.
const RUNNER: &str = r#"
import os, sys
control = int(os.environ["PADDOCK_CONTROL"])
names = {"os": os}
while True:
    head = b""
    while not head.endswith(b"\n"):
        byte = os.read(control, 1)
        if not byte:
            os._exit(0)
        head += byte
    code = b""
    while len(code) < int(head):
        code += os.read(control, int(head) - len(code))
    try:
        exec(code.decode(), names)
    except BaseException as failure:
        print(repr(failure))
    sys.stdout.flush()
    os.write(control, b"done\n")
"#;
const EXEC: u32 = 1;

pub struct Source {
    fence: Box<dyn Fence>,
    stream: UnixStream,
    decoder: Decoder,
    landing: Option<Box<dyn Landing>>,
}

/// A sandbox that nests in another one and awaits its interpreter.
pub fn land(source: &Source, _state: &Path) -> Source {
    let site = source.fence.live_forks(&spec(None)).unwrap();
    let (landing, begun) = site.begin(&new_id(), &spec(None), 1).unwrap();
    let mut child = Source::over(begun.compose().unwrap().finish(&Disk::Memory).unwrap());
    child.landing = Some(landing);
    child
}

pub fn copy_interpreters(
    landing: Box<dyn Landing>,
    interpreter: Interpreter,
    patience: Duration,
    ready: &Receiver<()>,
) -> Result<CopiedInterpreter, LiveForkError> {
    landing.copy_interpreters(&[interpreter], Instant::now() + patience, &Mutex::new(()), ready).remove(0)
}

impl Source {
    pub fn python(state: &Path) -> Source {
        Source::running(state, &["/usr/bin/python3", "-c", RUNNER])
    }

    pub fn running(state: &Path, argv: &[&str]) -> Source {
        let mut source =
            Source::over(backend(state).create(&new_id(), &spec(None), Purpose::Lasting).unwrap());
        crate::limits::limit_work(source.fence.as_mut(), &source.stream);
        let bytes = |text: &str| serde_bytes::ByteBuf::from(text.as_bytes());
        let env = vec![bytes("PATH=/usr/bin:/bin"), bytes("HOME=/home/agent")];
        let argv = argv.iter().map(|word| bytes(word)).collect();
        let start = Start::program(EXEC, argv, env, Who::Ids { uid: 1000, gid: 1000 });
        let start = Start { control: true, cwd: Some("/workspace".into()), ..start };
        source.send(&ToGuest::Start(Box::new(start)));
        source.started();
        source
    }

    fn over(raised: Raised) -> Source {
        let Raised { fence, stream, .. } = raised;
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut source = Source { fence, stream, decoder: Decoder::new(), landing: None };
        source.hear(|frame| matches!(message(frame)?, FromGuest::Ready { .. }).then_some(()));
        source
    }

    fn started(&mut self) {
        self.hear(|frame| match message(frame)? {
            FromGuest::Started { exec: EXEC, .. } => Some(()),
            FromGuest::StartFailed { step, errno, .. } => panic!("{step}: {errno}"),
            _ => None,
        });
    }

    pub fn land(&self, state: &Path) -> Source {
        land(self, state)
    }

    pub fn fence(&self) -> &dyn Fence {
        self.fence.as_ref()
    }

    pub fn copy_interpreters(
        &mut self,
        source: &mut Source,
        patience: Duration,
    ) -> Result<CopiedInterpreter, LiveForkError> {
        let (ready, is_ready) = std::sync::mpsc::channel();
        ready.send(()).unwrap();
        let carried =
            copy_interpreters(self.landing.take().unwrap(), source.describe(), patience, &is_ready)?;
        self.send(&ToGuest::TakeIn { exec: EXEC, pid: carried.pid, place: 0, filters: 1, is_limited: true });
        self.started();
        Ok(carried)
    }

    pub fn copy_from(
        &mut self,
        source: &mut Source,
        patience: Duration,
    ) -> Result<CopiedInterpreter, LiveForkError> {
        self.copy_interpreters(source, patience)
    }

    pub fn describe(&mut self) -> Interpreter {
        self.send(&ToGuest::Describe { request: 9, exec: EXEC });
        self.hear(|frame| match message(frame)? {
            FromGuest::Described { request: 9, pid, stdout, stderr } => {
                Some(Interpreter { pid, stdout, stderr })
            }
            _ => None,
        })
    }

    pub fn write_file(&mut self, path: &str, content: &[u8]) {
        let content = serde_bytes::ByteBuf::from(content);
        let path = path.to_string();
        self.send(&ToGuest::WriteFile { request: 7, path, mode: 0o600, append: false, content });
        self.hear(|frame| matches!(message(frame)?, FromGuest::Done { request: 7, errno: 0 }).then_some(()));
    }

    /// The sandbox ends, except those that nest in it.
    pub fn hold(&mut self) {
        self.send(&ToGuest::Shelter);
        self.send(&ToGuest::Hold { request: 8 });
        self.hear(|frame| matches!(message(frame)?, FromGuest::Done { request: 8, errno: 0 }).then_some(()));
        self.fence.hold().unwrap();
    }

    pub fn say(&mut self, code: &str) {
        let mut bytes = Vec::new();
        let text = format!("{}\n{code}", code.len());
        let channel = Channel { exec: EXEC, stream: StreamKind::Stdin }.number();
        encode_data(channel, text.as_bytes(), &mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// The output until the program says that it is done.
    pub fn tell(&mut self, code: &str) -> String {
        self.say(code);
        self.answer()
    }

    pub fn answer(&mut self) -> String {
        let (mut printed, mut said) = (Vec::new(), Vec::new());
        self.hear(|frame| {
            let (channel, bytes) = match frame {
                Frame::Data { channel, bytes } => (Channel::from_number(channel)?, bytes),
                other => match message(other)? {
                    FromGuest::Exited { status, .. } => panic!("it ended: {status:?}"),
                    _ => return None,
                },
            };
            match channel.stream {
                StreamKind::Control => said.extend(bytes),
                _ => printed.extend(bytes),
            }
            said.ends_with(b"done\n").then_some(())
        });
        String::from_utf8(printed).unwrap()
    }

    fn send(&mut self, message: &ToGuest) {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    fn hear<T>(&mut self, mut wanted: impl FnMut(Frame) -> Option<T>) -> T {
        let mut buffer = [0; 65536];
        loop {
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                if let Some(answer) = wanted(frame) {
                    return answer;
                }
            }
            let count = self.stream.read(&mut buffer).expect("the guest says nothing");
            assert!(count > 0, "the guest has gone");
            self.decoder.push(&buffer[..count]);
        }
    }
}

fn message(frame: Frame) -> Option<FromGuest> {
    let Frame::Message(body) = frame else { return None };
    let message = decode_from_guest(&body).unwrap();
    if let FromGuest::EnterFailed { step, errno } = &message {
        panic!("{step}: {}", std::io::Error::from_raw_os_error(*errno));
    }
    Some(message)
}
