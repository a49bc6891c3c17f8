//! What may be typed. Values stay text here: `settings` gives flags, policy files and templates the same checks.

use crate::caller::Caller;
use crate::{env_vars, render};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;

/// Paddock itself failed, as opposed to the command that it ran.
pub const EXIT_PADDOCK_FAILED: i32 = 125;
const EXIT_USAGE: i32 = 2;
const EXIT_FAILURE: i32 = 1;

#[derive(Debug, Parser)]
#[command(
    name = "paddock",
    version,
    about = "A fenced place to run code that you did not write",
    after_help = env_vars::HELP,
    disable_help_subcommand = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a command in a fresh sandbox
    #[command(override_usage = "paddock run [OPTIONS] [--] CMD [ARGS]...", after_help = RUN_HELP)]
    Run(Box<RunArgs>),
    /// Run source text in a fresh sandbox
    #[command(after_help = CODE_HELP)]
    Code(Box<CodeArgs>),
    /// Say what this machine has and lacks, per backend
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Keep named defaults for `run` and `code`
    Template(TemplateArgs),
}

const RUN_HELP: &str = "\
Examples:
  paddock run -- python3 -c 'print(1)'
  paddock run --workspace . --timeout 5m make test
  paddock run --image alpine:3.20 --memory 512MiB --net host -- apk add git
  paddock run --workspace . --explain

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

Exit codes are those of `paddock run`.";

const DOCTOR_HELP: &str = "\
Examples:
  paddock doctor
  paddock doctor --json

Exits with 0 when at least one backend is usable, else with 1.";

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub call: CallFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
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

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

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
    /// Run when `paddock run --template NAME` is given no command
    #[arg(last = true, value_name = "START-UP COMMAND")]
    pub command: Vec<String>,
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

/// What the sandbox is: the settings that a policy file and a template can hold too.
#[derive(Debug, Default, Args)]
pub struct PolicyFlags {
    /// Take settings from a TOML file; flags win over it
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,

    /// Root file system: directory, tar, OCI layout, `docker save` archive, or registry reference
    /// [default: the host's /usr, read-only]
    #[arg(long, value_name = "REF", help_heading = "Root and backend")]
    pub image: Option<String>,
    /// What the fence is made of [default: the first usable one]
    #[arg(long, value_name = "NAME", help_heading = "Root and backend")]
    pub backend: Option<String>,
    /// Refuse to run without this guarantee, such as memory-limit or own-kernel; repeatable
    #[arg(long, value_name = "GUARANTEE", help_heading = "Root and backend")]
    pub require: Vec<String>,

    /// Mount this host directory at /workspace, writable except for protected names
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub workspace: Option<String>,
    /// Make one more path in the workspace read-only; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub protect: Vec<String>,
    /// Make a protected name writable; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub unprotect: Vec<String>,
    /// Show a host path inside, read-only; repeatable
    #[arg(long, value_name = "SRC[:TARGET]", help_heading = "Files")]
    pub read: Vec<String>,
    /// Show a host path inside, writable, without protected names; repeatable
    #[arg(long, value_name = "SRC[:TARGET]", help_heading = "Files")]
    pub write: Vec<String>,
    /// An empty directory in memory; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub tmpfs: Vec<String>,

    /// Memory of everything inside, such as 512MiB [default: 2 GiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub memory: Option<String>,
    /// Processors, such as 1.5 [default: 2]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Limits")]
    pub cpus: Option<String>,
    /// Processes and threads at one time [default: 512]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Limits")]
    pub pids: Option<String>,
    /// Bytes on the private disk [default: 1 GiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub disk: Option<String>,
    /// Open files per process [default: 4096]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Limits")]
    pub files: Option<String>,
    /// Bytes kept of each output stream for --json [default: 8 MiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub output: Option<String>,
    /// Wall-clock time, such as 30s, or `none` [default: 1 h]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Limits")]
    pub timeout: Option<String>,

    /// Set a variable; NAME alone takes the value of this shell; repeatable
    #[arg(short, long, value_name = "NAME[=VALUE]", help_heading = "Inside")]
    pub env: Vec<String>,
    /// Set variables from a file, one NAME=VALUE per line; repeatable
    #[arg(long, value_name = "FILE", help_heading = "Inside")]
    pub env_file: Vec<String>,
    /// Working directory inside
    #[arg(short = 'w', long, value_name = "DIR", help_heading = "Inside")]
    pub cwd: Option<String>,
    /// Who the command runs as: agent, root, a name of the image, UID or UID:GID [default: agent]
    #[arg(short, long, value_name = "USER", help_heading = "Inside")]
    pub user: Option<String>,
    /// Host name inside [default: paddock]
    #[arg(long, value_name = "NAME", help_heading = "Inside")]
    pub hostname: Option<String>,
    /// `none` is loopback only; `host` is the host's own network, unfenced [default: none]
    #[arg(long, value_name = "none|host", help_heading = "Inside")]
    pub net: Option<String>,
}

/// Arguments that end the call before any command: help, version, or a mistake.
#[derive(Debug)]
pub struct Stop {
    error: clap::Error,
    code: i32,
    /// An argument would reach the terminal raw through clap's coloured message.
    hostile: bool,
}

pub fn parse(arguments: &[OsString]) -> Result<Cli, Stop> {
    Cli::try_parse_from(arguments).map_err(|error| {
        let runs_a_command = arguments.get(1).is_some_and(|word| word == "run" || word == "code");
        let code = match error.exit_code() {
            0 => 0,
            _ if runs_a_command => EXIT_PADDOCK_FAILED,
            _ => EXIT_USAGE,
        };
        let hostile = arguments.iter().any(|word| render::escape::is_needed(&word.to_string_lossy()));
        Stop { error, code, hostile }
    })
}

impl Stop {
    pub fn print(&self, caller: &mut Caller) -> i32 {
        let to_stderr = self.error.use_stderr();
        let colour = if to_stderr { caller.colour_on_stderr() } else { caller.colour_on_stdout() };
        let message = self.error.render();
        let text = match (self.hostile, colour) {
            (true, _) => render::escape::lines(&message.to_string()),
            (false, true) => message.ansi().to_string(),
            (false, false) => message.to_string(),
        };
        let stream = if to_stderr { &mut caller.stderr } else { &mut caller.stdout };
        // Nobody is left to be told that the message itself could not be written.
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
        self.code
    }
}

impl Command {
    /// The exit code when Paddock itself fails.
    pub fn failure_code(&self) -> i32 {
        match self {
            Command::Run(_) | Command::Code(_) => EXIT_PADDOCK_FAILED,
            Command::Doctor(_) | Command::Template(_) => EXIT_FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<Box<RunArgs>, Stop> {
        let words: Vec<OsString> = ["paddock", "run"].iter().chain(words).map(OsString::from).collect();
        match parse(&words)?.command {
            Command::Run(run) => Ok(run),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_definition_is_sound() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn options_stop_at_the_command() {
        let args = run(&["--memory", "1g", "ls", "--memory", "2g", "-t", "--", "-l"]).unwrap();
        assert_eq!(args.command, ["ls", "--memory", "2g", "-t", "--", "-l"]);
        assert_eq!(args.policy.memory.as_deref(), Some("1g"));
        assert!(!args.call.tty);
        let args = run(&["-it", "--", "--odd", "x"]).unwrap();
        assert_eq!(args.command, ["--odd", "x"]);
        assert!(args.call.tty && args.call.interactive);
    }

    #[test]
    fn an_unknown_flag_is_not_taken_for_the_command() {
        let stop = run(&["--memroy", "1g", "true"]).unwrap_err();
        assert_eq!(stop.code, EXIT_PADDOCK_FAILED);
        assert!(stop.error.to_string().contains("--memory"), "{}", stop.error);
    }

    #[test]
    fn negative_limits_reach_the_check_of_limits() {
        assert_eq!(run(&["--memory", "-1", "true"]).unwrap().policy.memory.as_deref(), Some("-1"));
    }

    #[test]
    fn usage_errors_outside_run_and_code_exit_with_2() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(parse(&words("paddock template frob")).unwrap_err().code, 2);
        assert_eq!(parse(&words("paddock code --frob")).unwrap_err().code, 125);
        assert_eq!(parse(&words("paddock run --help")).unwrap_err().code, 0);
        assert_eq!(parse(&words("paddock")).unwrap_err().code, 2);
    }
}
