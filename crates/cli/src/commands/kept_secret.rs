//! `paddock secret`: values that are kept under a name and never shown.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::kept_secret::SecretAction;
use crate::caller::Caller;
use crate::client::{Call, Client, ClientError, Target};
use crate::render;
use crate::render::time::now_ms;
use crate::script::source::input;
use paddock_client::Method;
use paddock_model::SecretValue;
use paddock_model::api::{CreateSecret, Secret, SecretPage, UpdateSecret};
use std::collections::BTreeMap;

/// A value is shorter; the server says by how much.
const LARGEST: usize = 64 << 10;
const PAGE: &str = "1000";

pub fn execute(action: SecretAction, caller: &mut Caller) -> Result<i32, CommandError> {
    // Read before a server is looked for: a person may still be typing.
    let value = match &action {
        SecretAction::Set { .. } => input(caller.stdin, LARGEST)?.trim_end_matches(['\n', '\r']).to_string(),
        _ => String::new(),
    };
    with_client(caller, async |client, caller| {
        match action {
            SecretAction::Set { name, hosts, metadata } => {
                let set =
                    set(&client, name, SecretValue(value), hosts, metadata.into_iter().collect()).await?;
                print(&format!("{}\n", set.version), caller)?;
            }
            SecretAction::Ls { json } => {
                let secrets = all(&client).await?;
                let colour = caller.colour_on_stdout();
                match json {
                    true => print_json(&secrets, caller)?,
                    false => print(&render::secrets::list(&secrets, now_ms(), colour), caller)?,
                }
            }
            SecretAction::Show { name } => {
                let found: Secret = client.json(Call::get(target(&name))).await?;
                print_json(&found, caller)?;
            }
            SecretAction::Rm { name } => {
                client.done(Call::new(Method::DELETE, target(&name))).await?;
                print(&format!("{}\n", render::escape::line(&name)), caller)?;
            }
        }
        Ok(0)
    })
}

/// The next version of one that is there, else a new one.
async fn set(
    client: &Client,
    name: String,
    value: SecretValue,
    hosts: Vec<String>,
    metadata: BTreeMap<String, String>,
) -> Result<Secret, CommandError> {
    let update = UpdateSecret {
        value: value.clone(),
        metadata: (!metadata.is_empty()).then(|| metadata.clone()),
        hosts: (!hosts.is_empty()).then(|| hosts.clone()),
    };
    match client.json(Call::new(Method::PUT, target(&name)).json(&update)?).await {
        Err(ClientError::Refused { error, .. }) if error.code == "secret_not_found" => {
            let create = CreateSecret { name, value, metadata, hosts };
            let call = Call::new(Method::POST, Target::new("/v1/secrets")).json(&create)?;
            Ok(client.json(call).await?)
        }
        other => Ok(other?),
    }
}

async fn all(client: &Client) -> Result<Vec<Secret>, CommandError> {
    let mut secrets = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let target = Target::new("/v1/secrets").query("limit", PAGE).query_if("cursor", cursor.as_deref());
        let page: SecretPage = client.json(Call::get(target)).await?;
        secrets.extend(page.secrets);
        match page.next_cursor {
            Some(next) => cursor = Some(next),
            None => return Ok(secrets),
        }
    }
}

fn target(name: &str) -> Target {
    Target::new("/v1/secrets").part(name)
}
