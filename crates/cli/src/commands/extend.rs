//! `paddock extend`: a new time to live.

use super::remote::with_client;
use super::{CommandError, print_json};
use crate::args::sandboxes::ExtendArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use paddock_client::Method;
use paddock_model::api::{Extend, Sandbox};

pub fn execute(args: &ExtendArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        let call = Call::new(Method::POST, Target::sandbox(&args.id).part("extend"));
        let sandbox: Sandbox = client.json(call.json(&Extend { ttl_seconds: args.ttl })?).await?;
        if args.json {
            print_json(&sandbox, caller)?;
        }
        Ok(0)
    })
}
