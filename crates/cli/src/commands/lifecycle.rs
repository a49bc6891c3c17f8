//! `paddock pause`, `resume`, `hibernate` and `wake`: one call each, for one or several sandboxes.

use super::remote::{each, with_client};
use super::{CommandError, print};
use crate::args::sandboxes::{HibernateArgs, StateArgs};
use crate::caller::Caller;
use crate::render;
use paddock_model::api::Hibernate;

/// The verb is the last part of the call's path too.
pub fn execute(verb: &'static str, args: &StateArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    change(verb, args, None, caller)
}

pub fn hibernate(args: &HibernateArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Hibernate { memory: args.files_only.then_some(false) };
    change("hibernate", &args.state, Some(&request), caller)
}

fn change(
    verb: &'static str,
    args: &StateArgs,
    hibernate: Option<&Hibernate>,
    caller: &mut Caller,
) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        each(&args.of.ids, caller, async |id, caller| {
            let sandbox = match hibernate {
                Some(request) => client.hibernate(id, request).await?,
                None => client.change_state(id, verb).await?,
            };
            match args.json {
                true => print(&render::json::line(&sandbox)?, caller),
                false => print(&format!("{}\n", render::escape::line(id)), caller),
            }
        })
        .await
    })
}
