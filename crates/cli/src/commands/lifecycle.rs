//! `paddock pause`, `resume`, `hibernate` and `wake`: one call each, for one or several sandboxes.

use super::remote::{each, with_client};
use super::{CommandError, print};
use crate::args::sandboxes::{HibernateArgs, PauseArgs, ResumeArgs, StateArgs};
use crate::caller::Caller;
use crate::client::Client;
use crate::render;
use paddock_client::ClientError;
use paddock_model::api::{Hibernate, Pause, Resume, Sandbox};

pub fn pause(args: &PauseArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Pause { ttl_seconds: args.ttl, auto_resume: args.auto_resume };
    change(&args.state, caller, async |client, id| client.pause(id, &request).await)
}

pub fn resume(args: &ResumeArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Resume { ttl_seconds: args.ttl };
    change(&args.state, caller, async |client, id| client.resume(id, &request).await)
}

pub fn hibernate(args: &HibernateArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Hibernate { memory: args.files_only.then_some(false), ttl_seconds: args.ttl };
    change(&args.state, caller, async |client, id| client.hibernate(id, &request).await)
}

pub fn wake(args: &ResumeArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Resume { ttl_seconds: args.ttl };
    change(&args.state, caller, async |client, id| client.wake(id, &request).await)
}

fn change(
    args: &StateArgs,
    caller: &mut Caller,
    call: impl AsyncFn(&Client, &str) -> Result<Sandbox, ClientError>,
) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        each(&args.of.ids, caller, async |id, caller| {
            let sandbox = call(&client, id).await?;
            match args.json {
                true => print(&render::json::line(&sandbox)?, caller),
                false => print(&format!("{}\n", render::escape::line(id)), caller),
            }
        })
        .await
    })
}
