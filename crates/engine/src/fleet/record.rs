//! What is kept of a sandbox in the store: enough for a new engine to find it, and for a caller to read why it
//! ended.

use paddock_model::api::{End, EndCause, Idle, Sandbox, SandboxState};
use paddock_model::{Guarantees, SandboxId, Spec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub id: SandboxId,
    pub name: Option<String>,
    pub tenant: String,
    pub state: SandboxState,
    pub template: Option<String>,
    pub image: Option<String>,
    pub snapshot: Option<String>,
    pub parent: Option<String>,
    pub created_at_ms: u64,
    pub expires_at_ms: Option<u64>,
    pub idle: Option<Idle>,
    pub persistent: bool,
    pub metadata: BTreeMap<String, String>,
    /// Of every command, before its own variables.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    pub spec: Spec,
    pub backend: Option<String>,
    pub guarantees: Guarantees,
    /// The boot of the machine in which its processes run.
    pub boot: String,
    /// When its inside was built, on the clock of its files: what changed later was changed by it.
    pub ready_at_ns: i64,
    /// When the guest itself wrote to the disk, from and to: while it built the inside, and again at every waking.
    #[serde(default)]
    pub built_ns: Vec<(i64, i64)>,
    /// Paths that were there at its start, where it did not start empty.
    pub baseline: Option<String>,
    /// The fleet paused it, not a caller: the next request resumes it.
    #[serde(default)]
    pub paused_when_idle: bool,
    /// What is under way; a new engine finishes it.
    #[serde(default)]
    pub intent: Option<Intent>,
    pub end: Option<End>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Its files are safe; its processes are being ended.
    Hibernate,
    End(EndCause),
}

impl Record {
    pub fn to_api(&self, running_execs: u32) -> Sandbox {
        Sandbox {
            id: self.id.to_string(),
            name: self.name.clone(),
            state: self.state,
            tenant: self.tenant.clone(),
            template: self.template.clone(),
            image: self.image.clone(),
            snapshot: self.snapshot.clone(),
            parent: self.parent.clone(),
            workspace: self.spec.workspace.as_ref().map(|w| w.directory.display().to_string()),
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_ms,
            idle: self.idle,
            persistent: self.persistent,
            metadata: self.metadata.clone(),
            limits: self.spec.limits.clone(),
            guarantees: self.guarantees.clone(),
            running_execs,
            end: self.end.clone(),
        }
    }

    pub fn lives(&self) -> bool {
        self.state != SandboxState::Ended
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

pub fn now_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// In words, for people.
pub fn reason(cause: &EndCause) -> String {
    match cause {
        EndCause::Killed => "killed by a call".into(),
        EndCause::TimeToLive => "its time to live was over".into(),
        EndCause::Idle => "it was idle for as long as it was allowed to be".into(),
        EndCause::OutOfMemory => "it ran out of memory".into(),
        EndCause::Limit { limit } => format!("it passed its limit of {limit}"),
        EndCause::Policy { rule } => format!("it broke the rule {rule}"),
        EndCause::GuestLost { detail } => format!("its guest agent was lost: {detail}"),
        EndCause::HostRestarted => "the machine was restarted".into(),
        EndCause::CreateFailed { detail } => format!("it could not be created: {detail}"),
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
