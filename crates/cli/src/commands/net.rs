//! `paddock net`: the connections that left a sandbox, and those that were refused.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::watch::NetArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::{render, session};
use paddock_model::api::NetworkView;

/// The server answers earlier when something is decided.
const WAIT_SECONDS: &str = "30";

pub fn execute(args: &NetArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let target = || Target::sandbox(&args.id).part("network");
        let view: NetworkView = client.json(Call::get(target())).await?;
        if args.policy {
            print(&session::network::policy(&view.needed), caller)?;
            if view.needed_more {
                let _ = caller.stderr.write_all(b"paddock: more hosts were tried than are kept\n");
            }
            return Ok(0);
        }
        if args.json && !args.follow {
            print_json(&view, caller)?;
            return Ok(0);
        }
        if !args.json {
            print(&render::network::summary(&view), caller)?;
        }
        let mut last = view;
        loop {
            for decision in &last.decisions {
                let line = match args.json {
                    true => render::json::line(decision)?,
                    false => render::network::line(decision),
                };
                print(&line, caller)?;
            }
            if !args.follow {
                return Ok(0);
            }
            let next = target().query("after", &last.last.to_string()).query("wait_seconds", WAIT_SECONDS);
            last = tokio::select! {
                next = client.json(Call::get(next)) => next?,
                _ = tokio::signal::ctrl_c() => return Ok(0),
            };
        }
    })
}
