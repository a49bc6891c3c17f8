//! One file per command.

mod code;
mod doctor;
mod run;
mod sandboxed;
mod template;

use crate::args::Command;
use crate::caller::Caller;
use crate::layers::LayerError;
use crate::render;
use crate::session::SessionError;
use crate::state::StateError;
use paddock_engine::settings::SettingsError;
use paddock_engine::templates::TemplateError;
use std::io;

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
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Session(#[from] SessionError),
}

impl CommandError {
    pub fn hint(&self) -> Option<String> {
        match self {
            CommandError::MissingCommand => {
                Some("write it after the options, as in `paddock run -- python3 script.py`".to_string())
            }
            CommandError::NoWorkspace => Some("add --workspace DIR".to_string()),
            CommandError::NotATerminal => {
                Some("leave --tty out; standard input is passed on anyway".to_string())
            }
            CommandError::Code(error) => error.hint(),
            CommandError::State(error) => error.hint(),
            CommandError::Layer(error) => error.hint(),
            CommandError::Template(error) => error.hint(),
            CommandError::Settings(error) => error.hint(),
            CommandError::Session(error) => error.hint(),
            _ => None,
        }
    }
}

/// Returns the exit code.
pub fn execute(command: Command, caller: &mut Caller) -> Result<i32, CommandError> {
    match command {
        Command::Run(args) => run::execute(*args, caller),
        Command::Code(args) => code::execute(*args, caller),
        Command::Doctor(args) => doctor::execute(&args, caller),
        Command::Template(args) => template::execute(args.action, caller),
    }
}

/// Data for stdout. A reader that went away has what it wanted.
fn print(text: &str, caller: &mut Caller) -> Result<(), CommandError> {
    let written = caller.stdout.write_all(text.as_bytes()).and_then(|()| caller.stdout.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(CommandError::Output(error)),
        _ => Ok(()),
    }
}

fn print_json(value: &impl serde::Serialize, caller: &mut Caller) -> Result<(), CommandError> {
    print(&render::json::text(value)?, caller)
}
