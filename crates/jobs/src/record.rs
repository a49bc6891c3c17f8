//! The stored forms of jobs and tasks. They have no versions: fields are added, never changed.

use paddock_fleet::Actor;
use paddock_model::api::{
    Job, JobArtifact, JobAttempt, JobBest, JobCost, JobCounts, JobInput, JobSpec, JobState, JobTask, Role,
};
use paddock_records::store::{JobChange, JobRow, TaskRow};
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub owner: Submitter,
    pub state: JobState,
    #[serde(default)]
    pub reason: Option<String>,
    pub created_at_ms: u64,
    #[serde(default)]
    pub started_at_ms: Option<u64>,
    #[serde(default)]
    pub ended_at_ms: Option<u64>,
    #[serde(default)]
    pub kept_until_ms: Option<u64>,
    /// The counts at the end.
    #[serde(default)]
    pub counts: JobCounts,
    #[serde(default)]
    pub cost: JobCost,
    #[serde(default)]
    pub best: Option<JobBest>,
    /// Set when a caller asked for its end; the reason of the end.
    #[serde(default)]
    pub cancelled: Option<String>,
    /// The state that candidates begin with; it goes with the job.
    #[serde(default)]
    pub base: Option<String>,
    /// The values of its secrets, until it has ended.
    #[serde(default)]
    pub sealed: Option<String>,
}

/// The caller on whose behalf it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitter {
    pub tenant: String,
    pub role: Role,
    pub owner: bool,
    pub token: String,
}

impl Submitter {
    pub fn of(actor: &Actor) -> Submitter {
        let Actor { tenant, role, owner, token } = actor.clone();
        Submitter { tenant, role, owner, token }
    }

    pub fn actor(&self) -> Actor {
        let Submitter { tenant, role, owner, token } = self.clone();
        Actor { tenant, role, owner, token }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRecord {
    pub state: JobState,
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub result: Option<serde_json::Value>,
    #[serde(default)]
    pub score: Option<f64>,
    #[serde(default)]
    pub stdout: String,
    #[serde(default)]
    pub stderr: String,
    #[serde(default)]
    pub not_before_ms: Option<u64>,
    #[serde(default)]
    pub attempts: Vec<JobAttempt>,
    /// Each lies in a file of its place in this list.
    #[serde(default)]
    pub artifacts: Vec<JobArtifact>,
}

impl TaskRecord {
    pub fn new(state: JobState) -> TaskRecord {
        TaskRecord {
            state,
            reason: None,
            exit_code: None,
            result: None,
            score: None,
            stdout: String::new(),
            stderr: String::new(),
            not_before_ms: None,
            attempts: Vec::new(),
            artifacts: Vec::new(),
        }
    }

    pub fn parse(row: &TaskRow) -> Result<TaskRecord, serde_json::Error> {
        serde_json::from_str(&row.body)
    }

    pub fn change(&self, job: &str, number: u32) -> Result<JobChange, serde_json::Error> {
        Ok(JobChange::Task(TaskRow {
            job: job.into(),
            number,
            state: self.state.word().into(),
            artifact_bytes: self.artifacts.iter().map(|artifact| artifact.bytes).sum(),
            body: serde_json::to_string(self)?,
        }))
    }

    pub fn to_api(&self, job: &str, index: u32) -> JobTask {
        JobTask {
            job: job.into(),
            index,
            state: self.state,
            reason: self.reason.clone(),
            exit_code: self.exit_code,
            result: self.result.clone(),
            score: self.score,
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
            not_before_ms: self.not_before_ms,
            attempts: self.attempts.clone(),
            artifacts: self.artifacts.clone(),
        }
    }
}

impl JobRecord {
    pub fn change(&self, id: &str) -> Result<JobChange, serde_json::Error> {
        Ok(JobChange::Job {
            id: id.into(),
            state: self.state.word().into(),
            kept_until_ms: self.kept_until_ms,
            body: serde_json::to_string(self)?,
        })
    }

    pub fn to_api(&self, id: &str, spec: &JobSpec, counts: JobCounts) -> Job {
        Job {
            id: id.into(),
            name: spec.name.clone(),
            tenant: self.owner.tenant.clone(),
            state: self.state,
            reason: self.reason.clone(),
            created_at_ms: self.created_at_ms,
            started_at_ms: self.started_at_ms,
            ended_at_ms: self.ended_at_ms,
            kept_until_ms: self.kept_until_ms,
            tasks: counts,
            cost: self.cost.clone(),
            best: self.best.clone(),
            spec: shown(spec),
        }
    }
}

pub fn parse_row(row: &JobRow) -> Result<(JobSpec, JobRecord), serde_json::Error> {
    Ok((serde_json::from_str(&row.spec)?, serde_json::from_str(&row.body)?))
}

/// Leaves out large fields and secrets.
pub fn shown(spec: &JobSpec) -> JobSpec {
    let input =
        |input: &JobInput| JobInput { path: input.path.clone(), mode: input.mode, ..JobInput::default() };
    let mut spec = without_values(spec);
    spec.inputs = spec.inputs.iter().map(input).collect();
    spec
}

pub fn without_values(spec: &JobSpec) -> JobSpec {
    let mut spec = spec.clone();
    for secret in spec.policy.secrets.values_mut() {
        secret.value = None;
    }
    spec
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}
