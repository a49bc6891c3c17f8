//! `paddock events`: the events of sandboxes.

use super::remote::with_client;
use super::{CommandError, print};
use crate::args::watch::EventsArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_model::api::Event;

pub fn execute(args: &EventsArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let target = Target::new("/v1/events").query("follow", "true");
    with_client(caller, async |client, caller| {
        // Events name sandboxes by their ids alone.
        let wanted = match &args.sandbox {
            Some(sandbox) => Some(client.sandbox(sandbox).await?.id),
            None => None,
        };
        let mut lines = client.send(Call::get(target)).await?.lines();
        loop {
            let value = tokio::select! {
                value = lines.next::<serde_json::Value>() => value?,
                _ = tokio::signal::ctrl_c() => return Ok(0),
            };
            let Some(value) = value else { return Ok(0) };
            // A line that only says that the connection lives.
            let Ok(event) = serde_json::from_value::<Event>(value) else { continue };
            if wanted.as_ref().is_some_and(|wanted| *wanted != event.sandbox) {
                continue;
            }
            match args.json {
                true => print(&render::json::line(&event)?, caller)?,
                false => print(&render::events::line(&event), caller)?,
            }
        }
    })
}
