//! Taking over a sandbox that another engine left: its execs go on exactly where the journal ends.

use crate::begun::Begun;
use crate::error::EngineError;
use crate::exec::Exec;
use crate::link::{Link, Resumed};
use crate::sandbox::Sandbox;
use paddock_backends::{Fence, Handover};
use paddock_model::{Guarantees, SandboxId};
use paddock_protocol::{ExecPhase, ExecState, OLDEST, ToGuest, VERSION};
use std::time::{Duration, Instant};

/// A guest that does not answer within this time is asked another time.
const RESUME_TIMEOUT: Duration = Duration::from_secs(10);

/// The bytes of an exec that are safely kept.
#[derive(Debug, Clone, Copy)]
pub struct KnownExec {
    pub number: u32,
    pub stdout: u64,
    pub stderr: u64,
    pub control: u64,
}

/// An exec that the guest still knows. Its events tell its fate, from the beginning.
pub struct ResumedExec {
    pub number: u32,
    pub exec: Exec,
    pub phase: ExecPhase,
    /// The offsets at which each stream goes on: those of the caller, or higher ones that the guest was told are safe.
    pub stdout: u64,
    pub stderr: u64,
    pub control: u64,
    /// The bytes of input that the guest has had.
    pub stdin: u64,
    pub stdin_open: bool,
    pub deadline_passed: bool,
}

impl Sandbox {
    /// `known`: the execs that the caller remembers. The guest may know others, which go on from the bytes that it
    /// holds. An exec that the guest does not know was never started, and may be started under the same number.
    ///
    /// Precondition: called on a tokio runtime, on which the conversation with the guest then runs.
    pub async fn resume(
        id: SandboxId,
        begun: Begun,
        known: &[KnownExec],
    ) -> Result<(Sandbox, Vec<ResumedExec>), EngineError> {
        let started = Instant::now();
        let Begun { fence, stream, network, guarantees, .. } = begun;
        let link = Link::over(stream)?;
        let (ready_at, execs) = ask(&link).await?;
        let resumed = execs.into_iter().map(|state| take_over(&link, state, known)).collect();
        let sandbox = Sandbox::taken_over(id, guarantees, fence, link, network, started, ready_at);
        Ok((sandbox, resumed))
    }

    /// The same for a sandbox that must outlive a failure: a guest that does not answer is left as it is, with its
    /// work.
    pub async fn resume_or_leave(
        id: SandboxId,
        found: Found,
        known: &[KnownExec],
    ) -> Result<(Sandbox, Vec<ResumedExec>), EngineError> {
        let started = Instant::now();
        let Found { mut fence, stream, network, guarantees } = found;
        let link = Link::over(stream)?;
        let (ready_at, execs) = ask(&link).await?;
        let Some(fence) = fence.0.take() else {
            return Err(EngineError::Lost { detail: "its fence was given away".into() });
        };
        let resumed = execs.into_iter().map(|state| take_over(&link, state, known)).collect();
        let sandbox = Sandbox::taken_over(id, guarantees, fence, link, network, started, ready_at);
        Ok((sandbox, resumed))
    }
}

/// A sandbox that was found and not taken over yet. Dropping it leaves the sandbox as it is; dropping a [`Begun`]
/// would end the sandbox.
pub struct Found {
    fence: LeftWhenDropped,
    stream: std::os::unix::net::UnixStream,
    network: Option<Handover>,
    guarantees: Guarantees,
}

struct LeftWhenDropped(Option<Box<dyn Fence>>);

impl Drop for LeftWhenDropped {
    fn drop(&mut self) {
        if let Some(fence) = self.0.take() {
            fence.leave();
        }
    }
}

impl From<Begun> for Found {
    fn from(begun: Begun) -> Found {
        let Begun { fence, stream, network, guarantees, .. } = begun;
        Found { fence: LeftWhenDropped(Some(fence)), stream, network, guarantees }
    }
}

impl Found {
    pub fn thaw(&self) -> std::io::Result<()> {
        self.fence.0.as_ref().map_or(Ok(()), |fence| fence.thaw())
    }
}

/// The first exchange: the time at which the guest was ready, and its execs.
async fn ask(link: &Link) -> Result<(u64, Vec<ExecState>), EngineError> {
    let answer = tokio::time::timeout(RESUME_TIMEOUT, link.resume()).await;
    let Ok(answer) = answer else {
        // A late answer must reach no caller.
        link.close();
        return Err(EngineError::Silent { seconds: RESUME_TIMEOUT.as_secs() });
    };
    let lost = |detail: String| EngineError::Lost { detail };
    let Resumed { version, ready_at, execs } = answer.ok_or_else(|| lost("its guest has gone".into()))?;
    if !(OLDEST..=VERSION).contains(&version) {
        let known = format!("{OLDEST} to {VERSION}");
        return Err(lost(format!(
            "its guest speaks version {version} of the protocol, and this paddock {known}"
        )));
    }
    Ok((ready_at, execs))
}

fn take_over(link: &Link, state: ExecState, known: &[KnownExec]) -> ResumedExec {
    let number = state.exec;
    let wanted = known.iter().find(|exec| exec.number == number);
    // The guest no longer holds acknowledged bytes, whichever engine acknowledged them.
    let stdout = wanted.map_or(0, |exec| exec.stdout).max(state.stdout);
    let stderr = wanted.map_or(0, |exec| exec.stderr).max(state.stderr);
    let control = wanted.map_or(0, |exec| exec.control).max(state.control);
    link.reserve_number(number);
    let exec = Exec::listen(link, number, state.stdin_queued);
    let _ = link.send(&ToGuest::Continue { exec: number, stdout, stderr, control });
    ResumedExec {
        number,
        exec,
        phase: state.phase,
        stdout,
        stderr,
        control,
        stdin: state.stdin,
        stdin_open: state.stdin_open,
        deadline_passed: state.deadline_passed,
    }
}
