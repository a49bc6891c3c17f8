//! `paddock merge`: changes of a fork, back into its parent.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::copies::MergeArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{MergeReport, MergeRequest};

pub fn execute(args: MergeArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let call = Call::new(Method::POST, Target::sandbox(&args.into).part("merge"));
        let request = MergeRequest { from: args.from, paths: args.paths };
        let report: MergeReport = client.json(call.json(&request)?).await?;
        match args.json {
            true => print_json(&report, caller)?,
            false => print(&render::changes::merge(&report, caller.colour_on_stdout()), caller)?,
        }
        Ok(if report.conflicts.is_empty() { 0 } else { 1 })
    })
}
