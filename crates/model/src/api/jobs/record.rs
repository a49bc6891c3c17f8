//! The life of a job: states, attempts, artifacts, costs.

use super::best_of::JobBest;
use super::spec::JobSpec;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for its turn, or for the time of its next attempt.
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl JobState {
    pub const ALL: [JobState; 5] =
        [JobState::Queued, JobState::Running, JobState::Succeeded, JobState::Failed, JobState::Cancelled];

    pub fn word(self) -> &'static str {
        match self {
            JobState::Queued => "queued",
            JobState::Running => "running",
            JobState::Succeeded => "succeeded",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    pub fn has_ended(self) -> bool {
        !matches!(self, JobState::Queued | JobState::Running)
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobCounts {
    pub total: u32,
    pub queued: u32,
    pub running: u32,
    pub succeeded: u32,
    pub failed: u32,
    pub cancelled: u32,
}

/// Of all attempts together. A field is absent where nothing on the host counts it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobCost {
    pub attempts: u64,
    /// From the start of each command to its end, summed up.
    pub wall_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    /// The highest of any attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Job {
    /// `job-` and 16 hexadecimal digits.
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub tenant: String,
    pub state: JobState,
    /// Why it failed or was cancelled, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// When it is forgotten, once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_until_ms: Option<u64>,
    pub tasks: JobCounts,
    pub cost: JobCost,
    /// Of `best_of`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<JobBest>,
    /// As it was sent, without the contents of inputs and without the values of secrets.
    pub spec: JobSpec,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobPage {
    pub jobs: Vec<Job>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One of an array's, or the only one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobTask {
    pub job: String,
    /// From 0.
    pub index: u32,
    pub state: JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The result of a script, or the value of the code's last expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Value>))]
    pub result: Option<serde_json::Value>,
    /// Of a candidate: what its verifier said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// The last 4 KiB that the last attempt printed. All that was kept is in the logs, for a day.
    pub stdout: String,
    pub stderr: String,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before_ms: Option<u64>,
    pub attempts: Vec<JobAttempt>,
    pub artifacts: Vec<JobArtifact>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobTaskPage {
    pub tasks: Vec<JobTask>,
    /// The number of the next task; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<u32>,
}

/// One sandbox, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobAttempt {
    /// From 1.
    pub attempt: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exec: Option<u32>,
    pub started_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at_ms: Option<u64>,
    /// Absent while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<AttemptEnd>,
    /// The same in words, with what is known besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum AttemptEnd {
    Succeeded,
    /// An exit code other than 0, or an exception.
    Exit,
    Timeout,
    OutOfMemory,
    /// The sandbox has gone.
    Lost,
    /// It could not begin: what was asked for is not allowed or not there. It is not tried again.
    Refused,
    /// Its results are more than is kept, or cannot be read. It is not tried again.
    Outputs,
    Cancelled,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobArtifact {
    pub task: u32,
    /// Where it lay inside; relative to the job's directory where it was below it.
    pub path: String,
    pub bytes: u64,
    pub sha256: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct JobArtifacts {
    pub artifacts: Vec<JobArtifact>,
    /// There are more than are shown: ask for one task's.
    pub truncated: bool,
}
