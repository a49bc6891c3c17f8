//! Taking over a sandbox that another engine left: its execs go on exactly where the journal ends.

use crate::error::EngineError;
use crate::exec::Exec;
use crate::link::{Link, Resumed};
use crate::sandbox::Sandbox;
use paddock_backends::Raised;
use paddock_model::{Guarantees, SandboxId};
use paddock_protocol::{ExecPhase, ExecState, ToGuest, VERSION};
use std::time::{Duration, Instant};

/// A guest that does not answer by then is not there.
const PATIENCE: Duration = Duration::from_secs(10);

/// What is safely kept of an exec.
#[derive(Debug, Clone, Copy)]
pub struct KnownExec {
    pub number: u32,
    pub stdout: u64,
    pub stderr: u64,
    pub control: u64,
}

/// An exec that the guest still knows. What became of it is told by its events, from the beginning.
pub struct ResumedExec {
    pub number: u32,
    pub exec: Exec,
    pub phase: ExecPhase,
    /// Where each stream goes on: what was known, or more, where the guest was told that more is safe.
    pub stdout: u64,
    pub stderr: u64,
    pub control: u64,
    /// Bytes of input that the guest has had.
    pub stdin: u64,
    pub stdin_open: bool,
    pub deadline_passed: bool,
}

impl Sandbox {
    /// `known` are the execs that the caller remembers; the guest may know others, which go on from what it holds, or
    /// may never have heard of one, which may then be started under the same number.
    ///
    /// Precondition: called on a tokio runtime, on which the conversation with the guest then runs.
    pub async fn resume(
        id: SandboxId,
        guarantees: Guarantees,
        raised: Raised,
        known: &[KnownExec],
    ) -> Result<(Sandbox, Vec<ResumedExec>), EngineError> {
        let started = Instant::now();
        let link = Link::over(raised.stream)?;
        let lost = |detail: String| EngineError::Lost { detail };
        let Resumed { version, ready_at, execs } = tokio::time::timeout(PATIENCE, link.resume())
            .await
            .map_err(|_| lost(format!("its guest said nothing for {} seconds", PATIENCE.as_secs())))?
            .ok_or_else(|| lost("its guest has gone".into()))?;
        if version != VERSION {
            return Err(lost(format!("its guest speaks version {version} of the protocol, not {VERSION}")));
        }
        let resumed = execs.into_iter().map(|state| take_over(&link, state, known)).collect();
        let sandbox =
            Sandbox::taken_over(id, guarantees, raised.fence, link, raised.network, started, ready_at);
        Ok((sandbox, resumed))
    }
}

fn take_over(link: &Link, state: ExecState, known: &[KnownExec]) -> ResumedExec {
    let number = state.exec;
    let wanted = known.iter().find(|exec| exec.number == number);
    // What was acknowledged is not held any more, whoever acknowledged it.
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
