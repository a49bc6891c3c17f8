//! Jobs: one description of work that runs the same behind every fence.
//!
//! - [`file`]: a job's file, TOML or JSON, to its description; [`check`]: what is refused before anything is kept
//! - [`jobs`]: what callers ask: look, cancel, remove; [`submit`]: a new one; [`watch`]: logs and artifacts
//! - [`queue`]: whose turn it is: tenants in turn, priorities within each
//! - [`scheduler`]: starts what may start; [`attempt`]: one sandbox from its creation to its end
//! - [`inputs`], [`outputs`]: files in and out; [`work`]: what runs in it; [`ending`]: how it ended; [`finish`]: what follows
//! - [`script`]: scripts with annotations
//! - [`best_of`]: candidates from one state, and who wins
//! - [`live`]: a job that has not ended, in memory; [`record`]: what is stored of it; [`writer`]: many changes, one write
//! - [`recover`]: what a killed server left; [`retention`]: what is forgotten
//!
//! A task's end is stored before its sandbox is ended, and its sandbox says whose it is: whenever the server is killed, the
//! next one finds every sandbox of a job again, and no task is lost or counted twice.

mod attempt;
mod best_of;
mod check;
mod ending;
mod file;
mod finish;
mod inputs;
mod jobs;
mod live;
mod outputs;
mod queue;
mod record;
mod recover;
mod retention;
mod scheduler;
mod script;
mod submit;
mod watch;
mod work;
mod writer;

pub use file::{FileError, parse};
pub use inputs::LARGEST_INPUTS;
pub use jobs::{Jobs, JobsOptions, ListJobs};
pub use watch::{LogReader, LogsOf};
