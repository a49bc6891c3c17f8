//! `paddock token`: the rights to use the server.

use super::e2b;
use super::remote::{each, with_client};
use super::{CommandError, print, print_json};
use crate::args::host::TokenAction;
use crate::caller::Caller;
use crate::client::{self, Call, Target};
use crate::render;
use paddock_client::Method;
use paddock_model::api::{CreateToken, CreatedToken, Token, UpdateToken};
use serde::Deserialize;

#[derive(Deserialize)]
struct Revoked {
    tokens: Vec<Token>,
}

pub fn execute(action: TokenAction, caller: &mut Caller) -> Result<i32, CommandError> {
    let for_e2b = matches!(action, TokenAction::Create { e2b: true, .. });
    if for_e2b && !client::awaited(&caller.environment)? {
        return Err(CommandError::NoServer);
    }
    with_client(caller, async |client, caller| match action {
        TokenAction::Create { tenant, role, label, ttl, e2b: _, json } => {
            // Before the token is made: without an address it would be of no use.
            let url = if for_e2b { Some(e2b::url(&client).await?) } else { None };
            let request = CreateToken { tenant, role: role.into(), label, ttl_seconds: ttl };
            let call = Call::new(Method::POST, Target::new("/v1/tokens"));
            let created: CreatedToken = client.json(call.json(&request)?).await?;
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
        TokenAction::Revoke { ids: _, tenant: Some(tenant) } => {
            let target = Target::new("/v1/tenants").part(&tenant).part("tokens");
            let revoked: Revoked = client.json(Call::new(Method::DELETE, target)).await?;
            for token in &revoked.tokens {
                print(&format!("{}\n", render::escape::line(&token.id)), caller)?;
            }
            Ok(0)
        }
        TokenAction::Role { id, role } => {
            let call = Call::new(Method::PATCH, Target::new("/v1/tokens").part(&id));
            client.done(call.json(&UpdateToken { role: role.into() })?).await?;
            print(&format!("{}\n", render::escape::line(&id)), caller)?;
            Ok(0)
        }
        TokenAction::Revoke { ids, tenant: None } => {
            each(&ids, caller, async |id, caller| {
                client.done(Call::new(Method::DELETE, Target::new("/v1/tokens").part(id))).await?;
                print(&format!("{}\n", render::escape::line(id)), caller)
            })
            .await
        }
    })
}
