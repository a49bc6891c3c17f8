//! `paddock run`: a command in a fresh sandbox.

use super::sandboxed::{self, Streams};
use super::{CommandError, run_mounted};
use crate::args::RunArgs;
use crate::args::scan::ScanFlags;
use crate::caller::Caller;
use crate::session::StdinMode;

pub fn execute(args: RunArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let streams = Streams::chosen(&args.call, caller.terminals, StdinMode::Inherit)?;
    if !args.volumes.volumes.is_empty() {
        return run_mounted::execute(args, streams.tty, caller);
    }
    let RunArgs { call, policy, volumes: _, command } = args;
    let explain = call.explain;
    let session =
        sandboxed::session(Vec::new(), call, policy, ScanFlags::default(), command, streams, caller)?;
    // An explanation of the policy alone is of use too, and an image may bring a command.
    if session.argv.is_empty() && session.image.is_none() && !explain {
        return Err(CommandError::MissingCommand);
    }
    sandboxed::run_or_explain(session, explain, caller)
}
