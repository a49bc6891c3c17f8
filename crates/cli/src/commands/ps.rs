//! `paddock ps`: the sandboxes there are.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::sandboxes::{PsArgs, StateName};
use crate::caller::Caller;
use crate::client::Filter;
use crate::render;
use clap::ValueEnum;

pub fn execute(args: PsArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let states = match args.state {
        Some(state) => vec![state.word()],
        None if args.all => StateName::value_variants().iter().map(|state| state.word()).collect(),
        None => Vec::new(),
    };
    let filter = Filter {
        states,
        name: args.name,
        template: args.template,
        metadata: args.metadata,
        created_after_ms: args
            .newer_than
            .map(|age| render::time::now_ms().saturating_sub((age * 1e3) as u64)),
    };
    with_client(caller, async |client, caller| {
        let mut sandboxes = client.sandboxes(&filter).await?;
        sandboxes.sort_by_key(|sandbox| std::cmp::Reverse(sandbox.created_at_ms));
        if args.oldest_first {
            sandboxes.reverse();
        }
        if args.json {
            print_json(&sandboxes, caller)?;
        } else if args.quiet {
            let ids: String =
                sandboxes.iter().map(|s| format!("{}\n", render::escape::line(&s.id))).collect();
            print(&ids, caller)?;
        } else {
            let now = render::time::now_ms();
            print(&render::sandboxes::text(&sandboxes, now, caller.colour_on_stdout()), caller)?;
        }
        Ok(0)
    })
}
