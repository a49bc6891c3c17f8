//! `paddock run`: a command in a fresh sandbox.

use super::CommandError;
use super::sandboxed::{self, Streams};
use crate::args::RunArgs;
use crate::args::scan::ScanFlags;
use crate::caller::Caller;
use crate::session::StdinMode;

pub fn execute(args: RunArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let RunArgs { call, policy, command } = args;
    let streams = Streams::chosen(&call, caller.terminals, StdinMode::Inherit)?;
    let explain = call.explain;
    let session =
        sandboxed::session(Vec::new(), call, policy, ScanFlags::default(), command, streams, caller)?;
    // An explanation of the policy alone is of use too, and an image may bring a command.
    if session.argv.is_empty() && session.image.is_none() && !explain {
        return Err(CommandError::MissingCommand);
    }
    sandboxed::run_or_explain(session, explain, caller)
}
