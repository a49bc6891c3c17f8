//! Jobs: one description of work that runs the same behind every fence.
//!
//! - [`file`]: a job's file, TOML or JSON, to its description; [`check`]: mistakes that are refused before anything is
//!   stored
//! - [`inner`]: the state of all jobs that have not ended; [`request`]: the sandbox that a job asks for; [`terms`]: its times;
//!   [`refusals`]: errors of a request
//! - [`jobs`]: the callers' operations: look, cancel, remove; [`submit`]: a new one; [`watch`]: logs and artifacts
//! - [`queue`]: the order of tasks: tenants in turn, priorities within each
//! - [`scheduler`]: starts tasks when there is room; [`attempt`]: one sandbox from its creation to its end
//! - [`inputs`], [`outputs`]: files in and out; [`work`]: the command or code in it; [`ending`]: how it ended;
//!   [`finish`]: the steps after it
//! - [`script`]: scripts with annotations
//! - [`best_of`]: candidates from one state, and the choice of the winner
//! - [`live`]: a job that has not ended, in memory; [`record`]: its stored form; [`writer`]: many changes, one write
//! - [`recover`]: the remains of a killed server; [`retention`]: removes old jobs
//!
//! A task's end is stored before its sandbox is ended, and the sandbox's labels name the task: whenever the server is
//! killed, the next one finds every sandbox of a job again, and no task is lost or counted twice.

mod attempt;
mod best_of;
mod check;
mod ending;
mod file;
mod finish;
mod inner;
mod inputs;
mod jobs;
mod live;
mod outputs;
mod queue;
mod record;
mod recover;
mod refusals;
mod request;
mod retention;
mod scheduler;
mod script;
mod submit;
mod terms;
mod watch;
mod work;
mod writer;

pub use file::{FileError, parse};
pub use inputs::LARGEST_INPUTS;
pub use jobs::{Jobs, JobsOptions, ListJobs};
pub use watch::{LogReader, LogsOf};
