//! `shield`: a coding agent on a real repository, behind a fence.

use super::policy::PolicyFlags;
use super::run::CallFlags;
use clap::Args;

pub const SHIELD_HELP: &str = "\
Examples:
  paddock shield --install claude
  paddock shield -- claude
  paddock shield --net registry.npmjs.org --diff -- codex exec 'mend the tests'
  paddock shield --allow-commit -- claude -p 'mend the tests, and commit'
  paddock shield --write src --write tests -- opencode run 'add a test'
  paddock shield --secret API_KEY@api.example.com -- ./agent.sh
  paddock shield --dry-run -- claude

The workspace is the current directory. What leaves is what preset:model-apis, the agent's own file and --net or --allow-net allow;
keys of the agent that are set in this shell stay outside, and requests to their hosts get them. At the end stderr shows
what was changed and where it went. Exit codes are those of `paddock run`.";

#[derive(Debug, Args)]
pub struct ShieldArgs {
    #[command(flatten)]
    pub call: CallFlags,
    /// As --explain: show the fence, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Show all that was changed as a patch at the end; contents from before are kept for it, up to 256 MiB
    #[arg(long)]
    pub diff: bool,
    /// Let the agent commit: objects, branches, index and logs of .git become writable, hooks and settings do not
    #[arg(long)]
    pub allow_commit: bool,
    /// Take what the agent needs from the file of this name, or from `none` [default: that of the command's name]
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// A home that is empty and not kept
    #[arg(long)]
    pub fresh: bool,
    /// List the agents whose needs are known, and run nothing
    #[arg(long, conflicts_with_all = ["install", "forget", "command"])]
    pub list: bool,
    /// Install this agent into the home of this repository, behind a fence of its own, and run nothing else
    #[arg(long, value_name = "NAME", conflicts_with_all = ["forget", "command", "fresh", "diff", "agent", "allow_commit"])]
    pub install: Option<String>,
    /// Remove the home that was kept for this repository, and run nothing
    #[arg(long, conflicts_with = "command")]
    pub forget: bool,
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// The agent and its arguments; options of paddock stop here
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}
