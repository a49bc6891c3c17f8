//! Arguments that end the call before any command.

use super::{EXIT_PADDOCK_FAILED, EXIT_USAGE};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use paddock_terminal::caller::Caller;
use paddock_terminal::render;
use std::ffi::OsString;

/// Commands of other tools that do what one of ours does, and ours.
const ELSEWHERE: &[(&[&str], &str)] = &[
    (&["list", "sandboxes", "status"], "ps"),
    (&["new", "start", "up", "spawn", "launch"], "create"),
    (&["delete", "remove", "destroy", "terminate", "stop", "end", "down"], "kill"),
    (&["shell", "ssh", "sh", "bash", "connect", "enter"], "exec -it ID bash"),
    (&["copy", "upload", "download", "push", "pull", "get", "put"], "cp"),
    (&["sleep", "suspend"], "hibernate"),
    (&["freeze"], "pause"),
    (&["unpause", "thaw"], "resume"),
    (&["clone", "branch", "duplicate"], "fork"),
    (&["build", "images", "image"], "template"),
    (&["execute", "eval", "python"], "code"),
    (&["daemon", "api"], "serve"),
    (&["version"], "--version"),
    (&["check", "info", "diagnose"], "doctor"),
];

/// Help, version, or a mistake.
#[derive(Debug)]
pub struct Stop {
    pub error: clap::Error,
    pub code: i32,
    /// An argument would reach the terminal raw through clap's coloured message.
    hostile: bool,
}

impl Stop {
    pub fn new(mut error: clap::Error, arguments: &[OsString]) -> Stop {
        point_to_ours(&mut error);
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
        // An error while writing the message itself cannot be told anywhere.
        let _ = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
        self.code
    }
}

/// Says what ours is called where somebody used the word of another tool, which is not similar enough to be guessed.
fn point_to_ours(error: &mut clap::Error) {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return };
    let Some((_, ours)) = ELSEWHERE.iter().find(|(theirs, _)| theirs.contains(&word.as_str())) else {
        return;
    };
    let tip = format!("did you mean `paddock {ours}`?");
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error.remove(ContextKind::SuggestedSubcommand);
}
