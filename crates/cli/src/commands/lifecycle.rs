//! `paddock pause`, `resume`, `hibernate` and `wake`: one call each, for one or several sandboxes.

use super::remote::{each, with_client};
use super::{CommandError, print};
use crate::args::sandboxes::StateArgs;
use crate::caller::Caller;
use crate::render;

/// The verb is the last part of the call's path too.
pub fn execute(verb: &'static str, args: &StateArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        each(&args.of.ids, caller, async |id, caller| {
            let sandbox = client.change_state(id, verb).await?;
            match args.json {
                true => print(&render::json::line(&sandbox)?, caller),
                false => print(&format!("{}\n", render::escape::line(id)), caller),
            }
        })
        .await
    })
}
