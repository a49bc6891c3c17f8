//! `template`: named settings.

use super::certificates::CertificateFlags;
use super::policy::PolicyFlags;
use super::ports::PortFlags;
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
    /// Build an image from a build file, and a template that uses it
    #[command(after_help = "Example:\n  paddock template build code-interpreter\n  \
                      paddock run --template code-interpreter -- python3 -c 'import pandas'\n\n\
                      FILE is a path with a `/` or `.toml` in it; a plain name is one of the build files that come with\n\
                      Paddock: agent, base, bun, claude, code-interpreter, code-interpreter-v1, codex, deno, go, minimal, opencode, ruby.")]
    Build(TemplateBuildArgs),
    /// List the builds of templates, the newest first
    #[command(after_help = "Example:\n  paddock template builds")]
    Builds {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the log of a build
    #[command(after_help = "Example:\n  paddock template log 0c6f27a1-8d2e-4f0b-9a5f-2f1b7c3d4e5f")]
    Log {
        /// The build's id, as `paddock template builds` shows it
        build: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print a template, as a policy file
    #[command(after_help = "Example:\n  paddock template show py > policy.toml")]
    Show {
        /// The template's name
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a template, and what was built for it alone
    #[command(after_help = "Example:\n  paddock template rm py")]
    Rm {
        /// The template's name
        name: String,
    },
    /// Remove what was built and no template, sandbox or snapshot uses any more
    #[command(after_help = "Example:\n  paddock template prune")]
    Prune {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub struct TemplateBuildArgs {
    /// A build file, or the name of one that comes with Paddock
    #[arg(value_name = "FILE|NAME")]
    pub source: String,
    /// The template's name; otherwise that of the file
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Replace a template of this name that was not built
    #[arg(long)]
    pub force: bool,
    /// Do every step again
    #[arg(long)]
    pub no_cache: bool,
    #[command(flatten)]
    pub certificates: CertificateFlags,
    /// Print one JSON object at the end
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct TemplateAddArgs {
    /// The template's name: a-z, 0-9, `-`, `_` and `.`
    pub name: String,
    /// Replace a template of this name
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub ports: PortFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub scan: ScanFlags,
    /// Run when `paddock run --template NAME` is given no command
    #[arg(last = true, value_name = "START-UP COMMAND")]
    pub command: Vec<String>,
}
