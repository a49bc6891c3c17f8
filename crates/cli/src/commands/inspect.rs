//! `paddock inspect`: everything that is known of sandboxes.

use super::remote::with_client;
use super::{CommandError, print_json};
use crate::args::sandboxes::IdsArgs;
use crate::caller::Caller;

pub fn execute(args: &IdsArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let mut found = Vec::new();
        for id in &args.ids {
            found.push(client.sandbox(id).await?);
        }
        match &found[..] {
            [only] => print_json(only, caller)?,
            several => print_json(&several, caller)?,
        }
        Ok(0)
    })
}
