//! A sandbox whose interpreter is forked into others.
//!
//! A packet to the interpreter forks it: a description of the child, as JSON, and with it the namespaces of the
//! sandbox, the child's streams and a socket for its answer. The interpreter does the rest itself, being the only
//! process that can; the guest inside checks the child before it takes it in.

use super::create::{Nesting, create as create_fence, landlock};
use super::fence::engine_fence;
use super::probe;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::{AwaitedFork, InterpreterStart, Raised, ZygoteSandbox};
use paddock_fences::purpose::Purpose;
use paddock_fences::shared::identity::{self, Method};
use paddock_fences::shared::kernel::has_time_namespace;
use paddock_fences::shared::nested_launch::Within;
use paddock_fences::shared::way_in::WayIn;
use paddock_model::{Guarantees, SandboxId, Spec, User};
use paddock_protocol::NAMESPACES;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use std::fs::File;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long it may take to take a packet.
const PACKET_TIMEOUT: Duration = Duration::from_secs(10);
/// Longer answers are not read: they are hostile.
const LONGEST_ANSWER: usize = 4096;

pub fn create(state: &Path, id: &SandboxId, spec: &Spec) -> std::result::Result<Raised, CreateError> {
    if identity::method() != Method::Range {
        return Err(CreateError::Unavailable {
            missing: "an interpreter is forked into sandboxes only where each has ids of its own".into(),
            remedy: Some("run paddock as root; until then each sandbox starts its own interpreter".into()),
        });
    }
    if matches!(spec.user, User::Name(_)) || spec.workspace.is_some() {
        return Err(CreateError::Unavailable {
            missing:
                "an interpreter is forked only into sandboxes without a workspace, whose user has a number"
                    .into(),
            remedy: None,
        });
    }
    let (made, _) = create_fence(state, id, spec, Nesting::Alone(Purpose::Zygote), None)?;
    let within = Within::of(made.guest).host(|| "open the namespaces of the zygote's sandbox".into())?;
    let socket = made.zygote.ok_or_else(|| CreateError::Guest { reason: "it has no socket".into() })?;
    // A zygote that does not read its socket is not waited for.
    set_socket_timeout(&socket, Timeout::Send, Some(PACKET_TIMEOUT)).host(|| "set up a socket".into())?;
    let zygote = ProcessZygote { state: state.to_path_buf(), within, socket: Arc::new(socket) };
    Ok(engine_fence(made.raised.with_fence(|fence| fence.with_zygote(Arc::new(zygote)))))
}

struct ProcessZygote {
    state: PathBuf,
    within: Within,
    socket: Arc<OwnedFd>,
}

impl ZygoteSandbox for ProcessZygote {
    fn tell(&self, packet: &[u8]) -> Result<()> {
        send(self.socket.as_fd(), packet, &[])
    }

    fn hear(&self, patience: Duration) -> Result<Vec<u8>> {
        receive(self.socket.as_fd(), patience)
    }

    fn guarantees(&self, spec: &Spec) -> Guarantees {
        // No interpreter is forked live out of such a sandbox: see `Nesting::is_forked`.
        probe::guarantees(&Spec { live_forks: false, ..spec.clone() })
    }

    fn create(
        &self,
        id: &SandboxId,
        spec: &Spec,
    ) -> std::result::Result<(Raised, Box<dyn AwaitedFork>), CreateError> {
        let (made, way) = create_fence(&self.state, id, spec, Nesting::InZygote(&self.within), None)?;
        let awaited = ProcessAwaitedFork { socket: self.socket.clone(), way, spec: spec.clone() };
        Ok((engine_fence(made.raised), Box::new(awaited)))
    }
}

struct ProcessAwaitedFork {
    socket: Arc<OwnedFd>,
    way: WayIn,
    spec: Spec,
}

impl AwaitedFork for ProcessAwaitedFork {
    fn fork(self: Box<Self>, start: &InterpreterStart, patience: Duration) -> Result<u32> {
        let WayIn { guest, ids, streams, entrances: _ } = self.way;
        let mut names = Vec::new();
        let mut namespaces: Vec<OwnedFd> = Vec::new();
        for (name, file) in NAMESPACES {
            if name == "time" && !has_time_namespace() {
                continue;
            }
            names.push(name);
            namespaces.push(File::open(format!("/proc/{guest}/ns/{file}"))?.into());
        }
        let rules = landlock(&self.spec);
        let request = serde_json::json!({
            "namespaces": names,
            "uid": ids.work,
            "gid": ids.work_group,
            "files": self.spec.limits.files,
            "processes": self.spec.limits.pids,
            "writable": rules.writable,
            "scope_abstract_sockets": rules.scope_abstract_sockets,
            "env": start.env,
            "cwd": start.cwd,
        });
        let (answer, theirs) = UnixStream::pair()?;
        let ends = streams.iter().flat_map(|streams| [&streams.stdout, &streams.stderr, &streams.control]);
        let passed: Vec<BorrowedFd<'_>> =
            namespaces.iter().chain(ends).map(AsFd::as_fd).chain([theirs.as_fd()]).collect();
        send(self.socket.as_fd(), request.to_string().as_bytes(), &passed)?;
        drop(passed);
        drop((theirs, streams));
        let answer = receive(answer.as_fd(), patience)?;
        let text = String::from_utf8_lossy(&answer);
        match text.strip_prefix("born ").and_then(|number| number.trim().parse().ok()) {
            Some(number) => Ok(number),
            None => Err(Error::other(text.trim().escape_debug().to_string())),
        }
    }
}

fn send(socket: BorrowedFd<'_>, packet: &[u8], passed: &[BorrowedFd<'_>]) -> Result<()> {
    let mut space = vec![std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(passed.len()))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !passed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(passed)) {
        return Err(Error::other("too many descriptors for one packet"));
    }
    let flags = SendFlags::NOSIGNAL;
    let sent = rustix::io::retry_on_intr(|| sendmsg(socket, &[IoSlice::new(packet)], &mut ancillary, flags))?;
    if sent == packet.len() { Ok(()) } else { Err(Error::other("a packet was cut")) }
}

fn receive(socket: BorrowedFd<'_>, patience: Duration) -> Result<Vec<u8>> {
    let time = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    let ready = rustix::io::retry_on_intr(|| poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&time)))?;
    if ready == 0 {
        return Err(Error::new(ErrorKind::TimedOut, "the interpreter does not answer"));
    }
    let mut buffer = vec![0; LONGEST_ANSWER];
    let (count, _) = rustix::io::retry_on_intr(|| recv(socket, &mut buffer[..], RecvFlags::empty()))?;
    if count == 0 {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the interpreter has ended"));
    }
    buffer.truncate(count);
    Ok(buffer)
}
