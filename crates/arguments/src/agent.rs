//! `agent`: a model that works in a sandbox.

use super::policy::PolicyFlags;
use super::scan::ScanFlags;
use super::values;
use super::volume::VolumeFlags;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

pub const AGENT_HELP: &str = "\
Examples:
  paddock agent 'What is the 30th Fibonacci number? Compute it.'
  paddock agent --workspace . --steps 30 --time 10m 'mend the failing test'
  paddock agent --model http://127.0.0.1:8000/v1 --name qwen3 --key-env none 'list the files'
  paddock agent --sandbox per-session 'download the data'
  paddock agent --continue SESSION 'plot it'
  paddock agent --json 'count to three' | jq -c .

Without a task and on a terminal, tasks are asked for one by one. The key stays outside of the sandbox.

Exit codes:
  0  the model answered
  1  Paddock failed, or the model stopped without an answer
  2  the arguments make no sense
  3  the limit of steps was reached
  4  the budget of tokens was used up
  5  the time was over
  6  the model failed, after retries
  7  the sandbox ended in the middle
  128+n  ended by signal n";

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Where the model is: a host or a base URL, in the format of Anthropic or OpenAI
    /// [default: ANTHROPIC_BASE_URL or OPENAI_BASE_URL, or the provider's own, whichever key is set]
    #[arg(long, value_name = "URL", help_heading = "Model")]
    pub model: Option<String>,
    /// Name of the model at its provider [default: ANTHROPIC_MODEL or OPENAI_MODEL]
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub name: Option<String>,
    /// Format of the requests [default: by the URL]
    #[arg(long, value_enum, help_heading = "Model")]
    pub dialect: Option<DialectName>,
    /// The variable that holds the key, or `none` [default: ANTHROPIC_API_KEY or OPENAI_API_KEY]
    #[arg(long, value_name = "NAME", help_heading = "Model")]
    pub key_env: Option<String>,
    /// Tokens of one reply, for the format of Anthropic [default: 8192]
    #[arg(long, value_name = "NUMBER", default_value_t = 8192, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..), help_heading = "Model")]
    pub max_tokens: u32,
    /// Text for the model before the task, instead of Paddock's own words
    #[arg(long, value_name = "TEXT", help_heading = "Model")]
    pub system: Option<String>,
    /// Replies of the model at most [default: 50]
    #[arg(long, value_name = "NUMBER", default_value_t = 50, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..), help_heading = "Budget")]
    pub steps: u32,
    /// Tokens of all requests and replies together [default: no limit]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Budget")]
    pub tokens: Option<u64>,
    /// Requests for one reply, before the model is given up [default: 5]
    #[arg(long, value_name = "NUMBER", default_value_t = 5, hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "Budget")]
    pub attempts: u32,
    /// The longest that the model may say nothing, such as 30s [default: 2 m]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "Budget")]
    pub silence: Option<f64>,
    /// Wall-clock time of a task, such as 10m [default: 1 h]
    #[arg(long, value_name = "DURATION", value_parser = values::duration, help_heading = "Budget")]
    pub time: Option<f64>,
    /// A sandbox for each task, gone with it; or one that stays for the tasks that follow [default: per-task]
    #[arg(long, value_enum, value_name = "MODE")]
    pub sandbox: Option<SandboxMode>,
    /// Go on with this session: its conversation, and its sandbox where that still lives
    #[arg(long = "continue", value_name = "SESSION", value_parser = values::word)]
    pub session: Option<String>,
    /// Write the conversation to this new file [default: agent/SESSION.jsonl in the state directory]
    #[arg(long, value_name = "FILE", conflicts_with = "session")]
    pub transcript: Option<PathBuf>,
    /// One JSON object a line: what happens, and the end
    #[arg(long)]
    pub json: bool,
    /// Begin with the settings of this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    #[command(flatten)]
    pub volumes: VolumeFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub scan: ScanFlags,
    /// The task; without it, standard input
    #[arg(value_name = "TASK")]
    pub task: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DialectName {
    Anthropic,
    Openai,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SandboxMode {
    PerTask,
    PerSession,
}
