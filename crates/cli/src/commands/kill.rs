//! `paddock kill`: the end of sandboxes.

use super::remote::{each, with_client};
use super::{CommandError, print};
use crate::args::sandboxes::KillArgs;
use crate::caller::Caller;
use crate::client::Filter;
use crate::render;
use paddock_model::api::SandboxState;

pub fn execute(args: KillArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let ids = match args.all {
            true => {
                let all = client.sandboxes(&Filter::default()).await?;
                all.into_iter().filter(|s| s.state != SandboxState::Ended).map(|s| s.id).collect()
            }
            false => args.ids,
        };
        let code = each(&ids, caller, async |id, caller| {
            match client.kill(id).await {
                Ok(sandbox) if args.json => return print(&render::json::line(&sandbox)?, caller),
                Ok(_) => {}
                // With `--all`, a sandbox may end by itself before its turn.
                Err(error)
                    if args.all && matches!(error.code(), Some("sandbox_not_found" | "sandbox_ended")) =>
                {
                    if args.json {
                        return Ok(());
                    }
                }
                Err(error) => return Err(error.into()),
            }
            print(&format!("{}\n", render::escape::line(id)), caller)
        })
        .await?;
        // The sandboxes of nodes that did not answer go on.
        let all_answered = !args.all || client.missing_nodes().is_empty();
        Ok(if all_answered { code } else { code.max(1) })
    })
}
