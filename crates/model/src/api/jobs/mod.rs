//! Work that is described once and runs behind any fence.
//!
//! - [`spec`]: the description of a job; [`inside`]: the things in its sandbox; [`best_of`]: candidates that compete
//! - [`record`]: its states and its end

mod best_of;
mod inside;
mod record;
mod spec;

pub use best_of::{BestOf, BestRule, Candidate, JobBest, ScoreFrom, Verifier};
pub use inside::{JobInput, JobPolicy};
pub use record::{
    AttemptEnd, Job, JobArtifact, JobArtifacts, JobAttempt, JobCost, JobCounts, JobPage, JobState, JobTask,
    JobTaskPage,
};
pub use spec::{ArrayItem, JobArgs, JobArray, JobCommand, JobOnFailure, JobRetries, JobSpec, RetryOn};
