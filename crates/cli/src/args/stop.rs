//! Arguments that end the call before any command.

use super::{EXIT_PADDOCK_FAILED, EXIT_USAGE};
use crate::caller::Caller;
use crate::render;
use std::ffi::OsString;

/// Help, version, or a mistake.
#[derive(Debug)]
pub struct Stop {
    pub error: clap::Error,
    pub code: i32,
    /// An argument would reach the terminal raw through clap's coloured message.
    hostile: bool,
}

impl Stop {
    pub fn new(error: clap::Error, arguments: &[OsString]) -> Stop {
        let runs_a_command = arguments
            .get(1)
            .is_some_and(|word| ["run", "code", "shield", "exec"].iter().any(|name| word == name));
        let code = match error.exit_code() {
            0 => 0,
            _ if runs_a_command => EXIT_PADDOCK_FAILED,
            _ => EXIT_USAGE,
        };
        let hostile = arguments.iter().any(|word| render::escape::is_needed(&word.to_string_lossy()));
        Stop { error, code, hostile }
    }

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
