//! The command line, one file per group of commands. Values stay text here where `settings` or the server has to give
//! them the same checks, wherever they come from.
//!
//! - [`run`]: `run`, `code` and `shield`, parsed without building the definitions of all the others
//! - [`sandboxes`]: `create`, `ps`, `inspect`, `extend`, `kill` and the states between
//! - [`agent`]: a model that works in a sandbox
//! - [`work`]: `exec`, `attach`, `logs`, `cp`; [`context`]: the same of code
//! - [`copies`]: `snapshot`, `fork`, `diff`, `merge`
//! - [`tools`]: `tools`, `mcp`
//! - [`watch`]: `top`, `events`, `audit`
//! - [`job`]: work that is described once
//! - [`host`]: `serve`, `server`, `token`, `quota`, `pool`, `doctor`, `template`; [`gateway`], [`node`]; [`verify`]
//! - [`policy`]: the flags that describe a sandbox, [`certificates`] among them; [`values`]: values that the parser
//!   checks itself
//! - [`script`]: `script`, `resource`
//! - [`scan`]: `scan`, and the flags of other commands that scan
//! - [`stop`]: help, version and mistakes

pub mod agent;
pub mod certificates;
pub mod context;
pub mod copies;
pub mod gateway;
pub mod host;
pub mod job;
pub mod kept_secret;
pub mod network;
pub mod node;
pub mod policy;
pub mod pool;
pub mod ports;
pub mod role;
pub mod root_rights;
pub mod run;
pub mod sandboxes;
pub mod scan;
pub mod script;
pub mod secrets;
pub mod server;
pub mod shield;
mod stop;
pub mod template;
pub mod tools;
pub mod ui;
pub mod values;
pub mod verify;
pub mod volume;
pub mod watch;
pub mod work;

pub use host::DoctorArgs;
pub use policy::PolicyFlags;
pub use run::{CallFlags, CodeArgs, FreshCommand, Language, RunArgs};
pub use stop::Stop;
pub use template::{TemplateAction, TemplateAddArgs, TemplateBuildArgs};

use clap::{Parser, Subcommand};
use paddock_terminal::env_vars;
use std::ffi::OsString;

/// Paddock itself failed, as opposed to the command that it ran.
pub const EXIT_PADDOCK_FAILED: i32 = 125;
/// And the signal's number: ended by that, as a shell tells it.
pub const EXIT_SIGNALED: i32 = 128;
const EXIT_USAGE: i32 = 2;
const EXIT_FAILURE: i32 = 1;

const ABOUT: &str = "A fenced place to run code that you did not write";

#[derive(Debug, Parser)]
#[command(name = "paddock", version, about = ABOUT, after_help = env_vars::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// As [`Cli`], with nothing but `run`, `code` and `shield`: their start must not pay for the definitions of the rest.
#[derive(Debug, Parser)]
#[command(name = "paddock", version, about = ABOUT, disable_help_subcommand = true)]
struct FreshCli {
    #[command(subcommand)]
    command: FreshCommand,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(flatten)]
    Fresh(FreshCommand),
    #[command(flatten)]
    Sandboxes(sandboxes::SandboxCommand),
    #[command(flatten)]
    Work(work::WorkCommand),
    #[command(flatten)]
    Copies(copies::CopyCommand),
    /// Give a task to a model that works in a sandbox
    #[command(after_help = agent::AGENT_HELP)]
    Agent(Box<agent::AgentArgs>),
    /// Run scripts with annotations, which say the sandbox that they need
    #[command(
        after_help = "Examples:\n  paddock script run agent.py --arg prompt='hello'\n  paddock script check agent.py"
    )]
    Script(script::ScriptArgs),
    /// Keep typed values for scripts, encrypted
    #[command(
        after_help = "Example:\n  paddock resource set --type anthropic --secret apiKey@api.anthropic.com anthropic < key.json"
    )]
    Resource(script::ResourceArgs),
    /// Keep secrets under a name, encrypted; no command shows a value
    #[command(after_help = "Example:\n  paddock secret set openai --host api.openai.com < key.txt")]
    Secret(kept_secret::SecretArgs),
    /// Say what code would import, start, open and evaluate, without running it
    #[command(after_help = scan::SCAN_HELP)]
    Scan(scan::ScanArgs),
    #[command(flatten)]
    Tools(tools::ToolCommand),
    #[command(flatten)]
    Watch(watch::WatchCommand),
    #[command(flatten)]
    Host(host::HostCommand),
}

pub fn parse(arguments: &[OsString]) -> Result<Command, Stop> {
    let fresh =
        arguments.get(1).is_some_and(|word| ["run", "code", "shield"].iter().any(|name| word == name));
    let parsed = match fresh {
        true => FreshCli::try_parse_from(arguments).map(|cli| Command::Fresh(cli.command)),
        false => Cli::try_parse_from(arguments).map(|cli| cli.command),
    };
    parsed.map_err(|error| Stop::new(error, arguments))
}

impl Command {
    /// The exit code when Paddock itself fails.
    pub fn failure_code(&self) -> i32 {
        match self {
            Command::Fresh(_) => EXIT_PADDOCK_FAILED,
            Command::Work(work::WorkCommand::Exec(_) | work::WorkCommand::Attach(_)) => EXIT_PADDOCK_FAILED,
            Command::Work(work::WorkCommand::Context(context::ContextArgs {
                action: context::ContextAction::Run(_),
            })) => EXIT_PADDOCK_FAILED,
            Command::Script(script::ScriptArgs { action: script::ScriptAction::Run(_) }) => {
                EXIT_PADDOCK_FAILED
            }
            Command::Host(host::HostCommand::Job(job::JobArgs { action: job::JobAction::Run(_) })) => {
                EXIT_PADDOCK_FAILED
            }
            // 1 is that something was found.
            Command::Scan(_) | Command::Host(host::HostCommand::Verify(_)) => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Result<Box<RunArgs>, Stop> {
        let words: Vec<OsString> = ["paddock", "run"].iter().chain(words).map(OsString::from).collect();
        match parse(&words)? {
            Command::Fresh(FreshCommand::Run(run)) => Ok(run),
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
    fn every_command_documents_itself_with_an_example() {
        fn check(command: &clap::Command) {
            if command.has_subcommands() {
                return command.get_subcommands().for_each(check);
            }
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example"), "{}", command.get_name());
        }
        check(&<Cli as clap::CommandFactory>::command());
    }

    #[test]
    fn options_of_exec_stop_at_the_command() {
        let words = ["paddock", "exec", "-it", "box", "ls", "-d", "--env"].map(OsString::from);
        let Ok(Command::Work(work::WorkCommand::Exec(args))) = parse(&words) else { panic!("no exec") };
        assert_eq!((args.id.as_str(), args.detach), ("box", false));
        assert_eq!(args.command, ["ls", "-d", "--env"]);
        let words = ["paddock", "exec", "-it", "box"].map(OsString::from);
        assert_eq!(parse(&words).unwrap_err().code, EXIT_PADDOCK_FAILED);
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
