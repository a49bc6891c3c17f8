//! `paddock pool`: sandboxes that are ready before a request comes.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::pool::PoolAction;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{Pool, PoolSize};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pools {
    pools: Vec<Pool>,
}

pub fn execute(action: PoolAction, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| {
        match action {
            PoolAction::Ls { json } => {
                let listed: Pools = client.json(Call::get(Target::new("/v1/pools"))).await?;
                match json {
                    true => print_json(&listed.pools, caller)?,
                    false => print(&render::pools::text(&listed.pools, caller.colour_on_stdout()), caller)?,
                }
            }
            PoolAction::Set { template, min, max } => {
                let call = Call::new(Method::PUT, target(&template)).json(&PoolSize { min, max })?;
                let pool: Pool = client.json(call).await?;
                print(&render::pools::text(&[pool], caller.colour_on_stdout()), caller)?;
            }
            PoolAction::Rm { template } => {
                client.done(Call::new(Method::DELETE, target(&template))).await?;
                print(&format!("{}\n", render::escape::line(&template)), caller)?;
            }
        }
        Ok(0)
    })
}

fn target(template: &str) -> Target {
    Target::new("/v1/pools").part(template)
}
