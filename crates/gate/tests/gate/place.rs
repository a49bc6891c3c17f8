//! A network namespace as a sandbox has one. This test's own executable is started in it, makes the link and the proxy's
//! socket, hands both over, and stays until the test is done.

use paddock_gate::place::{GATE_4, GATE_6, GATE_MAC, PROXY_PORT, SANDBOX_4, SANDBOX_6, SANDBOX_MAC};
use paddock_gate::{Ends, Gate, Resolver, Secrets, Settings, open_link};
use paddock_model::net::{DomainName, NetEvent, NetLayer, NetRules};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::collections::HashMap;
use std::io::{IoSlice, IoSliceMut, Read};
use std::net::{IpAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tokio::sync::mpsc;

const MEETING: &str = "PADDOCK_GATE_TEST_MEETING";
const ORDINARY: u32 = 65_534;

pub struct Inside {
    pub gate: Option<Gate>,
    pub events: mpsc::Receiver<NetEvent>,
    helper: Child,
    pid: u32,
    ordinary: bool,
    _directory: tempfile::TempDir,
}

/// The user that makes the namespace.
#[derive(Clone, Copy, PartialEq)]
pub enum Caller {
    Root,
    Ordinary,
}

/// The output of a program inside, and how it ended.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

pub fn rules(allow: &[&str]) -> NetRules {
    let layer =
        NetLayer { allow: allow.iter().map(|text| text.to_string()).collect(), ..NetLayer::default() };
    layer.resolve(&|_| None, &|_| false).unwrap()
}

/// Both, where this test runs as root; else only the one it is.
pub fn callers() -> Vec<Caller> {
    if rustix::process::geteuid().is_root() {
        vec![Caller::Root, Caller::Ordinary]
    } else {
        vec![Caller::Ordinary]
    }
}

impl Inside {
    pub fn start(caller: Caller, rules: NetRules, table: &[(&str, &str)]) -> Inside {
        Inside::with_secrets(caller, rules, table, Arc::default())
    }

    pub fn with_secrets(
        caller: Caller,
        rules: NetRules,
        table: &[(&str, &str)],
        secrets: Arc<Secrets>,
    ) -> Inside {
        let directory = tempfile::tempdir().unwrap();
        // An ordinary user comes to the meeting too.
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let meeting = directory.path().join("meeting");
        let listener = UnixListener::bind(&meeting).unwrap();
        std::fs::set_permissions(&meeting, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        std::fs::write(directory.path().join("resolv.conf"), format!("nameserver {GATE_4}\n")).unwrap();
        // The test's own executable may lie where an ordinary user cannot look.
        let executable = directory.path().join("helper");
        // Copied by another process: a file that this one has open for writing cannot be executed, and every process
        // that another test starts meanwhile has it open, too.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&executable).status();
        assert!(copied.unwrap().success());
        let as_root = rustix::process::geteuid().is_root();
        let mut command = match caller {
            Caller::Root => Command::new("unshare"),
            Caller::Ordinary if as_root => {
                let mut command = Command::new("setpriv");
                command.args([
                    &format!("--reuid={ORDINARY}"),
                    &format!("--regid={ORDINARY}"),
                    "--clear-groups",
                ]);
                command.arg("unshare");
                command
            }
            Caller::Ordinary => Command::new("unshare"),
        };
        command.args(if caller == Caller::Root { &["-n", "-m"][..] } else { &["-U", "-r", "-n", "-m"] });
        let mut helper = command
            .arg(&executable)
            .args(["--exact", "place::inside", "--ignored", "--nocapture"])
            .env(MEETING, &meeting)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (link, proxy, pid) = receive(&listener, &mut helper);
        let resolver = Resolver::Table(table.iter().fold(HashMap::new(), |mut table, (name, address)| {
            let name = DomainName::parse(name).unwrap();
            table.entry(name).or_insert_with(Vec::new).push(address.parse::<IpAddr>().unwrap());
            table
        }));
        let ends = Ends { link, proxy };
        let settings = Settings { rules, resolver: Arc::new(resolver), meter: Arc::default(), secrets };
        let (gate, events) = Gate::start(ends, settings).unwrap();
        let ordinary = caller == Caller::Ordinary;
        Inside { gate: Some(gate), events, helper, pid, ordinary, _directory: directory }
    }

    pub fn gate(&self) -> &Gate {
        self.gate.as_ref().unwrap()
    }

    /// A shell's line inside, without any proxy in its environment.
    pub async fn run(&self, line: &str) -> Said {
        self.with_environment(line, &[]).await
    }

    /// The same, with the proxy in its environment as a sandbox has it.
    pub async fn run_with_proxy(&self, line: &str) -> Said {
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let names = ["http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"];
        self.with_environment(line, &names.map(|name| (name, proxy.as_str()))).await
    }

    async fn with_environment(&self, line: &str, environment: &[(&str, &str)]) -> Said {
        let mut command = tokio::process::Command::new("nsenter");
        command.args(["-t", &self.pid.to_string(), "-n", "-m"]);
        if self.ordinary {
            command.args(["-U", "--preserve-credentials"]);
        }
        command.args(["timeout", "60", "sh", "-c", line]);
        for name in [
            "http_proxy",
            "https_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "all_proxy",
            "no_proxy",
            "NO_PROXY",
        ] {
            command.env_remove(name);
        }
        let output = command.envs(environment.iter().copied()).kill_on_drop(true).output().await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Every event until one fits.
    pub async fn event(&mut self, fits: impl Fn(&NetEvent) -> bool) -> NetEvent {
        let mut seen = Vec::new();
        let wait = tokio::time::timeout(std::time::Duration::from_secs(20), async {
            while let Some(event) = self.events.recv().await {
                if fits(&event) {
                    return Some(event);
                }
                seen.push(event);
            }
            None
        });
        match wait.await {
            Ok(Some(event)) => event,
            _ => panic!("no such event among {seen:#?}"),
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Its end is the end of its namespace.
        drop(self.helper.stdin.take());
        let _ = self.helper.wait();
    }
}

fn receive(listener: &UnixListener, helper: &mut Child) -> (OwnedFd, TcpListener, u32) {
    listener.set_nonblocking(true).unwrap();
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(_) => {
                if let Some(status) = helper.try_wait().unwrap() {
                    panic!("the helper inside ended: {status}");
                }
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
    };
    stream.set_nonblocking(false).unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut pid = [0; 4];
    let got = rustix::net::recvmsg(
        &stream,
        &mut [IoSliceMut::new(&mut pid)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .unwrap();
    assert_eq!(got.bytes, 4);
    let mut handed: Vec<OwnedFd> = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            handed.extend(fds);
        }
    }
    let proxy = TcpListener::from(handed.pop().unwrap());
    (handed.pop().unwrap(), proxy, u32::from_ne_bytes(pid))
}

/// Not a test: the helper that runs inside, started by the tests.
#[test]
#[ignore = "the other tests start it, inside"]
fn inside() {
    let Ok(meeting) = std::env::var(MEETING) else { return };
    let mac = |mac: [u8; 6]| mac.map(|byte| format!("{byte:02x}")).join(":");
    let (sandbox, gate) = (mac(SANDBOX_MAC), mac(GATE_MAC));
    for line in [
        "ip link set lo up".to_string(),
        format!(
            "ip link add eth0 mtu 65535 address {sandbox} numtxqueues 1 numrxqueues 1 type veth peer name gate0 mtu 65535 address {gate} numtxqueues 1 numrxqueues 1"
        ),
        "ip link set eth0 arp off addrgenmode none".to_string(),
        "ip link set gate0 arp off addrgenmode none".to_string(),
        "ip link set eth0 up".to_string(),
        "ip link set gate0 up".to_string(),
        format!("ip addr add {SANDBOX_4}/24 dev eth0"),
        format!("ip addr add {SANDBOX_6}/64 dev eth0 nodad"),
        format!("ip route add default via {GATE_4} dev eth0"),
        format!("ip -6 route add default via {GATE_6} dev eth0"),
        format!(
            "mount --bind {}/resolv.conf /etc/resolv.conf",
            std::path::Path::new(&meeting).parent().unwrap().display()
        ),
    ] {
        let status = Command::new("sh").args(["-c", &line]).status().unwrap();
        assert!(status.success(), "{line}");
    }
    let link = open_link("gate0").unwrap();
    let proxy = TcpListener::bind(("127.0.0.1", PROXY_PORT)).unwrap();
    let stream = UnixStream::connect(&meeting).unwrap();
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [link.as_fd(), proxy.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
    let pid = std::process::id().to_ne_bytes();
    rustix::net::sendmsg(&stream, &[IoSlice::new(&pid)], &mut control, SendFlags::empty()).unwrap();
    drop((link, proxy));
    let _ = std::io::stdin().read(&mut [0]);
}
