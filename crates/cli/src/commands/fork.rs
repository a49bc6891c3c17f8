//! `paddock fork`: more sandboxes from the present state of one.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::copies::ForkArgs;
use crate::caller::Caller;
use crate::client::Target;
use crate::render;
use paddock_model::api::{Fork, Forked};

pub fn execute(args: ForkArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let request = Fork {
        count: Some(args.count),
        ttl_seconds: args.ttl,
        metadata: args.metadata.into_iter().collect(),
        secrets: args.secrets,
    };
    with_client(caller, async |client, caller| {
        let forked: Forked = client.post_once(Target::sandbox(&args.id).part("fork"), &request).await?;
        if args.json {
            print_json(&forked, caller)?;
        } else {
            let ids = forked.sandboxes.iter().map(|child| format!("{}\n", render::escape::line(&child.id)));
            print(&ids.collect::<String>(), caller)?;
        }
        Ok(0)
    })
}
