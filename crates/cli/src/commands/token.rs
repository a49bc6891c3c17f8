//! `paddock token`: the rights to use the server.

use super::e2b;
use super::remote::{each, with_client};
use super::{CommandError, print, print_json};
use crate::args::machine::{RoleName, TokenAction};
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use hyper::Method;
use paddock_model::api::{CreateToken, CreatedToken, Role};

pub fn execute(action: TokenAction, caller: &mut Caller) -> Result<i32, CommandError> {
    with_client(caller, async |client, caller| match action {
        TokenAction::Create { tenant, role, label, e2b: for_e2b, json } => {
            // Before the token is made: without an address it would be of no use.
            let url = if for_e2b { Some(e2b::url(&client).await?) } else { None };
            let role = match role {
                RoleName::Admin => Role::Admin,
                RoleName::User => Role::User,
                RoleName::ReadOnly => Role::ReadOnly,
            };
            let call = Call::new(Method::POST, Target::new("/v1/tokens"));
            let created: CreatedToken = client.json(call.json(&CreateToken { tenant, role, label })?).await?;
            match url {
                Some(url) => print(&e2b::variables(&created.secret, &url), caller)?,
                None if json => print_json(&created, caller)?,
                // The secret alone, so that a shell can take it.
                None => print(&format!("{}\n", render::escape::line(&created.secret)), caller)?,
            }
            Ok(0)
        }
        TokenAction::Ls { json } => {
            let tokens = client.tokens().await?;
            match json {
                true => print_json(&tokens, caller)?,
                false => {
                    let now = render::time::now_ms();
                    print(&render::access::tokens(&tokens, now, caller.colour_on_stdout()), caller)?;
                }
            }
            Ok(0)
        }
        TokenAction::Revoke { ids } => {
            each(&ids, caller, async |id, caller| {
                client.done(Call::new(Method::DELETE, Target::new("/v1/tokens").part(id))).await?;
                print(&format!("{}\n", render::escape::line(id)), caller)
            })
            .await
        }
    })
}
