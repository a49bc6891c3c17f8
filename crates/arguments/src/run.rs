//! `run`, `code` and `shield`: a sandbox for one command.

use super::policy::PolicyFlags;
use super::scan::ScanFlags;
use super::shield::{SHIELD_HELP, ShieldArgs};
use super::volume::VolumeFlags;
use clap::{Args, Subcommand, ValueEnum};
use std::ffi::OsString;

#[derive(Debug, Subcommand)]
pub enum FreshCommand {
    /// Run a command in a fresh sandbox
    #[command(override_usage = "paddock run [OPTIONS] [--] CMD [ARGS]...", after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// Run source text in a fresh sandbox
    #[command(after_help = CODE_HELP)]
    Code(Box<CodeArgs>),
    /// Run a coding agent on this repository behind a fence, and tell what it did
    #[command(
        override_usage = "paddock shield [OPTIONS] [--] CMD [ARGS]...",
        after_help = SHIELD_HELP,
        mut_arg("net", |arg| arg.value_name("none|HOST[:PORTS]").help("`none` is loopback only; anything else is as --allow-net")),
        mut_arg("workspace", |arg| arg.help("The repository, at /workspace inside, writable except for protected names [default: the current directory]")),
        mut_arg("write", |arg| arg.help("Make this writable; of paths in the workspace, these alone are; others are shown inside; repeatable")),
        mut_arg("memory", |arg| arg.help("Memory of everything inside, such as 512MiB [default: 4 GiB]")),
        mut_arg("pids", |arg| arg.help("Processes and threads at one time [default: 2048]")),
        mut_arg("timeout", |arg| arg.help("Wall-clock time, such as 8h, or `none` [default: none]")),
    )]
    Shield(Box<ShieldArgs>),
}

const RUN_HELP: &str = "\
Examples:
  paddock run -- python3 -c 'print(1)'
  paddock run --workspace . --timeout 5m make test
  paddock run --image alpine:3.20 --memory 512MiB --net host -- apk add git
  paddock run --volume memory:/data/memory -- sh -c 'date >> /data/memory/runs'
  paddock run --workspace . --explain

With --volume the sandbox is one of the server's, which is started where there is none. A command that fails leaves a
version that is kept aside (--on-failure); stderr says where a volume could not be stored, and the exit code is 125.

Exit codes:
  the command's own, and
  124    the time limit was reached
  125    Paddock itself failed; the command may not have run
  126    the command cannot be executed
  127    the command was not found
  128+n  the command was ended by signal n
  137    signal 9, or out of memory: stderr says which";

const CODE_HELP: &str = "\
Examples:
  paddock code 'print(1 + 1)'
  paddock code -l javascript 'console.log(await Promise.resolve(1))'
  paddock code --workspace . report.py
  generate | paddock code -l bash --timeout 10s
  paddock code --scan deny --allow-import json tool.py

Exit codes are those of `paddock run`; 125 also for code that --scan denies.";

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub call: CallFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub volumes: VolumeFlags,
    /// The command and its arguments; options of paddock stop here
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct CodeArgs {
    /// Language of the source [default: by the file's extension, else python]
    #[arg(short, long, value_enum)]
    pub language: Option<Language>,
    #[command(flatten)]
    pub call: CallFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub scan: ScanFlags,
    /// A file, the source text itself, or `-` for standard input
    #[arg(value_name = "FILE|-|SOURCE")]
    pub source: Option<OsString>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Language {
    #[value(alias = "py")]
    Python,
    #[value(aliases = ["js", "node"])]
    Javascript,
    #[value(alias = "sh")]
    Bash,
}

impl Language {
    /// As the API says it.
    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Javascript => "javascript",
            Language::Bash => "bash",
        }
    }
}

/// How one call behaves, as opposed to what its sandbox is.
#[derive(Debug, Default, Args)]
pub struct CallFlags {
    /// Begin with the settings of this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Print one JSON object at the end: output, exit code, cause, usage, guarantees
    #[arg(long)]
    pub json: bool,
    /// Print the whole resolved policy and the guarantees, and run nothing
    #[arg(long)]
    pub explain: bool,
    /// Pass standard input on, without a terminal (it is passed on anyway)
    #[arg(short, long)]
    pub interactive: bool,
    /// Give the command a terminal [default: when stdin and stdout are terminals]
    #[arg(short, long)]
    pub tty: bool,
}
