//! `template`: named settings.

use super::policy::PolicyFlags;
use super::scan::ScanFlags;
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct TemplateArgs {
    #[command(subcommand)]
    pub action: TemplateAction,
}

#[derive(Debug, Subcommand)]
pub enum TemplateAction {
    /// List the templates
    #[command(after_help = "Example:\n  paddock template ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Keep these settings under a name
    #[command(
        override_usage = "paddock template add [OPTIONS] NAME [OPTIONS] [-- START-UP COMMAND...]",
        after_help = "Example:\n  paddock template add py --image python:3.12-slim --memory 1GiB -- python3 -q\n  \
                      paddock run --template py"
    )]
    Add(Box<TemplateAddArgs>),
    /// Print a template, as a policy file
    #[command(after_help = "Example:\n  paddock template show py > policy.toml")]
    Show {
        /// The template's name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a template
    #[command(after_help = "Example:\n  paddock template rm py")]
    Rm {
        /// The template's name
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct TemplateAddArgs {
    /// The template's name: a-z, 0-9, `-`, `_` and `.`
    pub name: String,
    /// Replace a template of this name
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub scan: ScanFlags,
    /// Run when `paddock run --template NAME` is given no command
    #[arg(last = true, value_name = "START-UP COMMAND")]
    pub command: Vec<String>,
}
