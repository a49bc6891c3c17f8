//! A lasting sandbox, and the helpers that every test needs.

use paddock_backends::{Backend, Purpose, all};
use paddock_engine::{Begun, Command, Download, Exec, ExecEvent, ExitKind, Files, Sandbox, StreamKind};
use paddock_model::{Disk, Limits, Network, Root, SandboxId, Spec, User};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Longer than anything here takes on a busy host: only a wait without end is caught by it.
pub const HANG: Duration = Duration::from_secs(60);

pub fn backend(state: &Path) -> Box<dyn Backend> {
    all(state).into_iter().find(|backend| backend.name() == "process").unwrap()
}

pub fn spec() -> Spec {
    Spec {
        root: Root::HostUsr,
        workspace: None,
        mounts: Vec::new(),
        limits: Limits { memory: 256 << 20, ..Limits::default() },
        disk: Disk::Memory,
        network: Network::None,
        user: User::Agent,
        hostname: "guest".into(),
        require: Vec::new(),
        scan: Default::default(),
        live_forks: false,
        root_may_install: false,
        become_root: false,
    }
}

pub fn new_id() -> SandboxId {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty()).unwrap();
    SandboxId::from_random(u64::from_ne_bytes(random))
}

pub struct Place {
    pub state: tempfile::TempDir,
    pub id: SandboxId,
    pub spec: Spec,
}

impl Place {
    pub fn new(spec: Spec) -> Place {
        Place { state: tempfile::tempdir().unwrap(), id: new_id(), spec }
    }

    pub async fn create(&self) -> Sandbox {
        let backend = backend(self.state.path());
        let raised = backend.create(&self.id, &self.spec, Purpose::Lasting).unwrap();
        let guarantees = backend.guarantees(&self.spec);
        let mut sandbox = Sandbox::start(self.id.clone(), Begun::over(raised, guarantees)).unwrap();
        sandbox.ready().await.unwrap();
        sandbox
    }
}

pub async fn sandbox() -> (Place, Sandbox) {
    let place = Place::new(spec());
    let sandbox = place.create().await;
    (place, sandbox)
}

pub fn files(sandbox: &Sandbox) -> Files {
    sandbox.files(User::Agent, Some("/tmp"))
}

pub fn script(text: &str) -> Command {
    Command {
        argv: ["/bin/sh", "-c", text].map(String::from).to_vec(),
        env: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        cwd: Some("/tmp".into()),
        user: User::Agent,
        tty: None,
        stdin: true,
        deadline: None,
        last: false,
        control: false,
        zygote: false,
    }
}

/// The output of an exec until its end.
#[derive(Debug, Default)]
pub struct Said {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub status: Option<ExitKind>,
    pub deadline_passed: bool,
}

pub async fn hear(exec: &mut Exec) -> Said {
    let mut said = Said::default();
    let all = async {
        loop {
            match exec.next().await {
                ExecEvent::Output { stream: StreamKind::Stderr, bytes } => said.stderr.extend(bytes),
                ExecEvent::Output { bytes, .. } => said.stdout.extend(bytes),
                ExecEvent::Exited { status, .. } => said.status = Some(status),
                ExecEvent::DeadlinePassed => said.deadline_passed = true,
                ExecEvent::Closed => return,
                ExecEvent::Started => {}
                other => panic!("{other:?}"),
            }
        }
    };
    tokio::time::timeout(HANG, all).await.expect("it ends in time");
    said
}

/// Runs an exec to its end, and returns its output.
pub async fn run(sandbox: &Sandbox, number: u32, text: &str) -> String {
    let mut exec = sandbox.exec_numbered(number, script(text)).await.unwrap();
    exec.input().close();
    let said = hear(&mut exec).await;
    assert_eq!(said.status, Some(ExitKind::Exited(0)), "{text}: {}", String::from_utf8_lossy(&said.stderr));
    sandbox.forget(number);
    String::from_utf8(said.stdout).unwrap()
}

pub async fn all_of(mut download: Download) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(piece) = download.next().await.unwrap() {
        bytes.extend(piece);
    }
    bytes
}
