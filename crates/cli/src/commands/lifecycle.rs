//! `paddock pause`, `resume`, `hibernate` and `wake`: one call each, for one or several sandboxes.

use super::remote::{each, with_client};
use super::{CommandError, print};
use crate::args::sandboxes::IdsArgs;
use crate::caller::Caller;
use crate::render;

/// The verb is the last part of the call's path too.
pub fn execute(verb: &'static str, args: &IdsArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        each(&args.ids, caller, async |id, caller| {
            client.change_state(id, verb).await?;
            print(&format!("{}\n", render::escape::line(id)), caller)
        })
        .await
    })
}
