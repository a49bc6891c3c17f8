//! One file per command.

mod agent;
mod attach;
mod audit;
mod code;
mod context;
mod cp;
mod create;
mod diff;
mod doctor;
mod e2b;
mod events;
mod exec;
mod extend;
mod fork;
pub mod gateway;
mod inspect;
mod job;
mod kept_secret;
mod kill;
mod lifecycle;
mod logs;
mod mcp;
mod merge;
mod net;
mod node;
mod pool;
mod port;
mod ps;
mod quota;
mod remote;
mod resource;
mod run;
mod run_mounted;
pub mod sandboxed;
mod scan;
mod script;
pub mod serve;
mod server;
mod shield;
mod snapshot;
mod template;
mod template_build;
mod template_builds;
mod token;
mod tools;
mod top;
mod ui;
mod update;
mod verify;
mod volume;

use crate::agent::AgentError;
use crate::args::copies::CopyCommand;
use crate::args::host::HostCommand;
use crate::args::sandboxes::SandboxCommand;
use crate::args::tools::ToolCommand;
use crate::args::watch::WatchCommand;
use crate::args::work::WorkCommand;
use crate::args::{Command, FreshCommand};
use crate::caller::Caller;
use crate::client::ClientError;
use crate::copy::CopyError;
use crate::job::JobFileError;
use crate::layers::LayerError;
use crate::live::LiveError;
use crate::render;
use crate::script::ScriptCommandError;
use crate::session::SessionError;
use crate::shield::ShieldError;
use crate::state::StateError;
use paddock_settings::SettingsError;
use paddock_settings::templates::TemplateError;
use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("no command was given")]
    MissingCommand,
    #[error("--protect and --unprotect need a workspace, and there is none")]
    NoWorkspace,
    #[error("--tty and --json exclude each other: a terminal mixes stdout and stderr")]
    TerminalAndJson,
    #[error("the input device is not a TTY")]
    NotATerminal,
    #[error("--explain says nothing of volumes")]
    ExplainVolume,
    #[error("no limit at all cannot be asked for here")]
    EndlessTimeout,
    #[error("the policy denies this code: nothing was run")]
    ScanDenied,
    #[error(transparent)]
    Scan(#[from] paddock_scan::ScanFailure),
    #[error("nothing has run in `{0}` yet")]
    NothingRan(String),
    #[error("nothing runs in `{0}`")]
    NothingRuns(String),
    #[error("--{flag} `{value}` is not a quota")]
    QuotaValue { flag: &'static str, value: String },
    #[error("`{}` cannot be written", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("the timeline of {id} is not as it was written: {damage}")]
    AuditDamaged { id: String, damage: String },
    #[error("public key `{}` cannot be read", .path.display())]
    PublicKey { path: PathBuf, source: io::Error },
    #[error("artifact `{}` has a name that leads elsewhere", .0.escape_debug())]
    ArtifactPath(String),
    #[error(transparent)]
    JobFile(#[from] JobFileError),
    #[error("the output could not be written")]
    Output(#[source] io::Error),
    #[error("the result could not be written as JSON")]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Code(#[from] code::CodeError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Layer(#[from] LayerError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Build(#[from] paddock_builds::BuildError),
    #[error(transparent)]
    BuildSource(#[from] template_build::SourceError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Shield(#[from] ShieldError),
    #[error(transparent)]
    Agent(#[from] AgentError),
    #[error(transparent)]
    Script(#[from] ScriptCommandError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Live(#[from] LiveError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Audit(#[from] paddock_records::audit::AuditError),
    #[error(transparent)]
    Serve(#[from] serve::ServeError),
    #[error(transparent)]
    Gateway(#[from] gateway::GatewayError),
    #[error(transparent)]
    Verify(#[from] paddock_verify::VerifyError),
    #[error(transparent)]
    Tool(#[from] paddock_tools::UnknownTool),
    #[error(transparent)]
    Mcp(#[from] paddock_mcp::ServeError),
    #[error("the server (process {process}) was told to end, and has not gone after 60 seconds")]
    ServerStays { process: u32 },
    #[error("no server runs, and E2B's SDKs call one that listens on an address")]
    NoServer,
    #[error("no server runs, and a browser calls one that listens on an address")]
    NoServerForBrowser,
    #[error("the server listens on no address, and a browser calls one")]
    NoAddressForBrowser,
    #[error("the server listens on no address, so that a port has none")]
    NoAddressForPort,
    #[error("the server listens on no address, and E2B's SDKs call one")]
    NoServerAddress,
    #[error("signals cannot be listened to")]
    Signals(#[source] io::Error),
    #[error("this program's own file cannot be found")]
    OwnFile(#[source] io::Error),
}

impl CommandError {
    pub fn hint(&self) -> Option<String> {
        match self {
            CommandError::MissingCommand => {
                Some("write it after the options, as in `paddock run -- python3 script.py`".to_string())
            }
            CommandError::AuditDamaged { .. } => Some(
                "what is left was passed on; keep audit/ of the server's state directory as evidence"
                    .to_string(),
            ),
            CommandError::NoWorkspace => Some("add --workspace DIR".to_string()),
            CommandError::NotATerminal => {
                Some("leave --tty out; standard input is passed on anyway".to_string())
            }
            CommandError::Code(error) => error.hint(),
            CommandError::State(error) => error.hint(),
            CommandError::Layer(error) => error.hint(),
            CommandError::Template(error) => error.hint(),
            CommandError::Build(error) => error.hint(),
            CommandError::BuildSource(error) => error.hint(),
            CommandError::Settings(error) => error.hint(),
            CommandError::Session(error) => error.hint(),
            CommandError::Shield(error) => error.hint(),
            CommandError::Agent(error) => error.hint(),
            CommandError::Script(error) => error.hint(),
            CommandError::ExplainVolume => Some("leave --volume out for the explanation".to_string()),
            CommandError::EndlessTimeout => Some(
                "leave --timeout out for the server's default, or name a long one such as 30d".to_string(),
            ),
            CommandError::ScanDenied => Some(
                "change the code, or allow it with --allow-import or --scan warn where the template does too"
                    .to_string(),
            ),
            CommandError::NothingRan(id) => Some(format!("`paddock exec {id} CMD` runs something")),
            CommandError::NothingRuns(id) => Some(format!("`paddock logs --list {id}` shows what ran")),
            CommandError::QuotaValue { .. } => {
                Some("write a positive number, a size such as 8GiB for --memory, or `none`".to_string())
            }
            CommandError::JobFile(error) => error.hint(),
            CommandError::Client(error) => error.hint(),
            CommandError::Live(LiveError::Client(error)) => error.hint(),
            CommandError::Copy(error) => error.hint(),
            CommandError::PublicKey { .. } => {
                Some("--key names the public key of the server that signed it".to_string())
            }
            CommandError::Audit(error) => error.hint(),
            CommandError::Serve(error) => error.hint(),
            CommandError::Gateway(error) => error.hint(),
            CommandError::ServerStays { process } => Some(format!(
                "its log says why; `kill -9 {process}` ends it, and sandboxes go on all the same"
            )),
            CommandError::NoServer
            | CommandError::NoServerAddress
            | CommandError::NoServerForBrowser
            | CommandError::NoAddressForBrowser
            | CommandError::NoAddressForPort => Some(
                "start it with `paddock serve --listen 127.0.0.1:8080`, or name it in PADDOCK_URL"
                    .to_string(),
            ),
            CommandError::Verify(error) => error.hint(),
            _ => None,
        }
    }
}

/// Returns the exit code.
pub fn execute(command: Command, caller: &mut Caller) -> Result<i32, CommandError> {
    match command {
        Command::Fresh(FreshCommand::Run(args)) => run::execute(*args, caller),
        Command::Fresh(FreshCommand::Code(args)) => code::execute(*args, caller),
        Command::Fresh(FreshCommand::Shield(args)) => shield::execute(*args, caller),
        Command::Sandboxes(command) => sandboxes(command, caller),
        Command::Work(WorkCommand::Exec(args)) => exec::execute(*args, caller),
        Command::Work(WorkCommand::Attach(args)) => attach::execute(&args, caller),
        Command::Work(WorkCommand::Logs(args)) => logs::execute(&args, caller),
        Command::Work(WorkCommand::Cp(args)) => cp::execute(&args, caller),
        Command::Work(WorkCommand::Context(args)) => context::execute(args.action, caller),
        Command::Agent(args) => agent::execute(*args, caller),
        Command::Script(args) => script::execute(args.action, caller),
        Command::Resource(args) => resource::execute(args.action, caller),
        Command::Secret(args) => kept_secret::execute(args.action, caller),
        Command::Scan(args) => scan::execute(args, caller),
        Command::Tools(ToolCommand::Tools(args)) => tools::execute(*args, caller),
        Command::Tools(ToolCommand::Mcp(args)) => mcp::execute(*args, caller),
        Command::Copies(CopyCommand::Snapshot(args)) => snapshot::execute(args.action, caller),
        Command::Copies(CopyCommand::Fork(args)) => fork::execute(args, caller),
        Command::Copies(CopyCommand::Diff(args)) => diff::execute(&args, caller),
        Command::Copies(CopyCommand::Merge(args)) => merge::execute(args, caller),
        Command::Watch(WatchCommand::Top(args)) => top::execute(&args, caller),
        Command::Watch(WatchCommand::Events(args)) => events::execute(&args, caller),
        Command::Watch(WatchCommand::Net(args)) => net::execute(&args, caller),
        Command::Watch(WatchCommand::Audit(args)) => audit::execute(args.action, caller),
        Command::Host(HostCommand::Serve(args)) => serve::execute(*args, caller),
        Command::Host(HostCommand::Gateway(args)) => gateway::execute(*args, caller),
        Command::Host(HostCommand::Node(args)) => node::execute(args.action, caller),
        Command::Host(HostCommand::Server(args)) => server::execute(args.action, caller),
        Command::Host(HostCommand::Token(args)) => token::execute(args.action, caller),
        Command::Host(HostCommand::Ui(args)) => ui::execute(args, caller),
        Command::Host(HostCommand::Quota(args)) => quota::execute(args, caller),
        Command::Host(HostCommand::Pool(args)) => pool::execute(args.action, caller),
        Command::Host(HostCommand::Volume(args)) => volume::execute(args.action, caller),
        Command::Host(HostCommand::Job(args)) => job::execute(args.action, caller),
        Command::Host(HostCommand::Doctor(args)) => doctor::execute(&args, caller),
        Command::Host(HostCommand::Verify(args)) => verify::execute(args, caller),
        Command::Host(HostCommand::Template(args)) => template::execute(args.action, caller),
    }
}

fn sandboxes(command: SandboxCommand, caller: &mut Caller) -> Result<i32, CommandError> {
    match command {
        SandboxCommand::Create(args) => create::execute(*args, caller),
        SandboxCommand::Ps(args) => ps::execute(args, caller),
        SandboxCommand::Inspect(args) => inspect::execute(&args, caller),
        SandboxCommand::Update(args) => update::execute(*args, caller),
        SandboxCommand::Extend(args) => extend::execute(&args, caller),
        SandboxCommand::Port(args) => port::execute(&args, caller),
        SandboxCommand::Kill(args) => kill::execute(args, caller),
        SandboxCommand::Pause(args) => lifecycle::pause(&args, caller),
        SandboxCommand::Resume(args) => lifecycle::resume(&args, caller),
        SandboxCommand::Hibernate(args) => lifecycle::hibernate(&args, caller),
        SandboxCommand::Wake(args) => lifecycle::wake(&args, caller),
    }
}

/// Data for stdout. A reader that went away has read enough.
pub fn print(text: &str, caller: &mut Caller) -> Result<(), CommandError> {
    let written = caller.stdout.write_all(text.as_bytes()).and_then(|()| caller.stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

pub fn print_json(value: &impl serde::Serialize, caller: &mut Caller) -> Result<(), CommandError> {
    print(&render::json::text(value)?, caller)
}
