//! Work that is described once and runs behind any fence.

use super::certificates::CertificateFlags;
use super::values;
use clap::{Args, Subcommand, ValueEnum};
use paddock_model::api::JobState;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct JobArgs {
    #[command(subcommand)]
    pub action: JobAction,
}

const RUN_HELP: &str = "\
Examples:
  paddock job run job.toml
  paddock job run job.json --backend gvisor --watch
  paddock job run -d sweep.toml

Without a server this command is one while the job runs; with -d the server runs on, and starts if there is none.
Of a job with one task the exit code is the command's own (124 after its time, 137 out of memory, 125 where Paddock
failed); of others 0 when all went well, else 1. Ctrl-C cancels the job: 130.";

#[derive(Debug, Subcommand)]
pub enum JobAction {
    /// Send a job and wait for its end
    #[command(after_help = RUN_HELP)]
    Run(JobRunArgs),
    /// List jobs, the newest first
    #[command(after_help = "Examples:\n  paddock job ls\n  paddock job ls --state failed")]
    Ls {
        /// Only in this state
        #[arg(long, value_enum)]
        state: Option<StateName>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a job, and what became of its tasks
    #[command(after_help = "Example:\n  paddock job show job-0123456789abcdef")]
    Show {
        #[arg(value_name = "JOB", value_parser = values::word)]
        id: String,
        /// Only tasks in this state
        #[arg(long, value_enum)]
        state: Option<StateName>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what a task printed
    #[command(after_help = "Example:\n  paddock job logs -f job-0123456789abcdef --task 17")]
    Logs {
        #[arg(value_name = "JOB", value_parser = values::word)]
        id: String,
        /// Its number, from 0
        #[arg(long, default_value_t = 0)]
        task: u32,
        /// Which attempt, from 1 [default: the last one]
        #[arg(long)]
        attempt: Option<u32>,
        /// Wait for what is still to be printed
        #[arg(short, long)]
        follow: bool,
    },
    /// List the files that a job left, or fetch them
    #[command(
        after_help = "Examples:\n  paddock job artifacts job-0123456789abcdef\n  paddock job artifacts job-0123456789abcdef --to results"
    )]
    Artifacts {
        #[arg(value_name = "JOB", value_parser = values::word)]
        id: String,
        /// Only of this task
        #[arg(long)]
        task: Option<u32>,
        /// Put them below this directory, each task's in one of its own: DIR/TASK/PATH
        #[arg(long, value_name = "DIR")]
        to: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop jobs: what waits is not begun, what runs is ended
    #[command(after_help = "Example:\n  paddock job cancel job-0123456789abcdef")]
    Cancel {
        #[arg(required = true, value_name = "JOB", value_parser = values::word)]
        ids: Vec<String>,
    },
    /// Forget jobs that have ended, with their artifacts
    #[command(after_help = "Example:\n  paddock job rm job-0123456789abcdef")]
    Rm {
        #[arg(required = true, value_name = "JOB", value_parser = values::word)]
        ids: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub struct JobRunArgs {
    /// The job's file, TOML or JSON; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The fence, in place of the file's
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    #[command(flatten)]
    pub certificates: CertificateFlags,
    /// Show how far it is, on standard error
    #[arg(short, long, conflicts_with = "detach")]
    pub watch: bool,
    /// Print the job's id and do not wait
    #[arg(short, long)]
    pub detach: bool,
    /// Print the job and its tasks as JSON at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    /// Waits for its turn
    Queued,
    Running,
    Succeeded,
    Failed,
    Cancelled,
}

impl From<StateName> for JobState {
    fn from(name: StateName) -> JobState {
        match name {
            StateName::Queued => JobState::Queued,
            StateName::Running => JobState::Running,
            StateName::Succeeded => JobState::Succeeded,
            StateName::Failed => JobState::Failed,
            StateName::Cancelled => JobState::Cancelled,
        }
    }
}
