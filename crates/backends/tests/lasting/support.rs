//! A host side that speaks just enough of the protocol, and a look at everything that a sandbox leaves on the host.

use paddock_backends::{Backend, Purpose, Raised, all};
use paddock_model::{Disk, Limits, Network, Root, SandboxId, Spec, User, Workspace};
use paddock_protocol::{Decoder, Frame, FromGuest, Start, ToGuest, Who, decode_from_guest, encode_message};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub fn backend(state: &Path) -> Box<dyn Backend> {
    all(state).into_iter().find(|backend| backend.name() == "process").unwrap()
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

pub fn spec(workspace: Option<&Path>) -> Spec {
    let protect = vec![PathBuf::from(".git"), PathBuf::from("Makefile")];
    Spec {
        root: Root::HostUsr,
        workspace: workspace.map(|directory| Workspace {
            directory: directory.to_path_buf(),
            protect,
            writable: Vec::new(),
            unprotected: Vec::new(),
        }),
        mounts: Vec::new(),
        limits: Limits { memory: 256 << 20, ..Limits::default() },
        disk: Disk::Memory,
        network: Network::None,
        user: User::Agent,
        hostname: "lasting".into(),
        require: Vec::new(),
        scan: Default::default(),
        live_forks: true,
        root_may_install: false,
        become_root: false,
    }
}

pub fn new_id() -> SandboxId {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
    SandboxId::from_random(u64::from_ne_bytes(random))
}

/// One connection to a guest.
pub struct Host {
    stream: UnixStream,
    decoder: Decoder,
}

impl Host {
    pub fn new(stream: UnixStream) -> Host {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Host { stream, decoder: Decoder::new() }
    }

    pub fn say(&mut self, message: &ToGuest) {
        let mut bytes = Vec::new();
        encode_message(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).unwrap();
    }

    /// The first answer that `wanted` takes.
    pub fn hear<T>(&mut self, mut wanted: impl FnMut(FromGuest) -> Option<T>) -> T {
        let mut buffer = [0; 65536];
        loop {
            while let Some(frame) = self.decoder.next_frame().unwrap() {
                let Frame::Message(body) = frame else { continue };
                let message = decode_from_guest(&body).unwrap();
                if let FromGuest::EnterFailed { step, errno } = &message {
                    panic!("{step}: {}", std::io::Error::from_raw_os_error(*errno));
                }
                if let Some(answer) = wanted(message) {
                    return answer;
                }
            }
            let count = self.stream.read(&mut buffer).expect("the guest says nothing");
            assert!(count > 0, "the guest has gone");
            self.decoder.push(&buffer[..count]);
        }
    }

    /// To be called before the first command.
    pub fn limit_work(&self, fence: &mut dyn paddock_backends::Fence) {
        crate::limits::limit_work(fence, &self.stream);
    }

    pub fn is_ready(&mut self) {
        self.hear(|message| matches!(message, FromGuest::Ready { .. }).then_some(()));
    }

    pub fn start(&mut self, exec: u32, script: &str) {
        self.say(&shell(exec, script));
        self.hear(|message| match message {
            FromGuest::Started { exec: started, .. } if started == exec => Some(()),
            FromGuest::StartFailed { step, errno, .. } => panic!("{step}: {errno}"),
            _ => None,
        });
    }
}

/// A lasting sandbox that is ready.
pub fn raise(state: &Path, id: &SandboxId, spec: &Spec) -> (Box<dyn paddock_backends::Fence>, Host) {
    let Raised { mut fence, stream, .. } = backend(state).create(id, spec, Purpose::Lasting).unwrap();
    let mut host = Host::new(stream);
    host.is_ready();
    host.limit_work(fence.as_mut());
    (fence, host)
}

/// Where this user's engines keep their records, one of these.
fn run_directories(state: &Path) -> Vec<PathBuf> {
    if is_root() { vec!["/run/paddock".into(), "/dev/shm/paddock".into()] } else { vec![state.join("run")] }
}

/// Everything on this host that belongs to a sandbox of this state directory.
pub fn traces(state: &Path, ids: &[SandboxId]) -> Vec<String> {
    let mut found = Vec::new();
    let named = |text: &str| ids.iter().any(|id| text.contains(id.as_str()));
    let below = |path: &PathBuf| -> Vec<PathBuf> {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let run = run_directories(state);
    let groups = run.iter().flat_map(|run| below(&run.join("slots")));
    for path in run.iter().flat_map(below).chain(groups.flat_map(|group| below(&group))) {
        let record = std::fs::read_to_string(&path).unwrap_or_default();
        if named(&path.display().to_string()) || named(&record) {
            found.push(path.display().to_string());
        }
    }
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    for directory in hierarchies.map(|entry| entry.path()).chain(["/sys/fs/cgroup".into()]) {
        for group in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = group.path().display().to_string();
            if named(&path) {
                found.push(path);
            }
        }
    }
    // Only processes of this state directory execute the guest that lies in it.
    let executable = state.join("guest");
    for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        if std::fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe.starts_with(&executable)) {
            found.push(process.path().display().to_string());
        }
    }
    found
}

/// The traces that are left after the kernel had time to finish.
pub fn traces_in_the_end(state: &Path, ids: &[SandboxId]) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(3);
    loop {
        let found = traces(state, ids);
        if found.is_empty() || Instant::now() > deadline {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A script of the work's.
pub fn shell(exec: u32, script: &str) -> ToGuest {
    let bytes = |text: &str| serde_bytes::ByteBuf::from(text.as_bytes());
    let argv = ["/bin/sh", "-c", script].map(bytes).to_vec();
    let user = Who::Ids { uid: 1000, gid: 1000 };
    ToGuest::Start(Box::new(Start::program(exec, argv, vec![bytes("PATH=/usr/bin:/bin")], user)))
}
