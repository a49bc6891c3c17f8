//! `paddock resource`: values that are kept for scripts.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::script::ResourceAction;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::render;
use crate::render::time::now_ms;
use crate::script::source::input;
use paddock_client::Method;
use paddock_model::api::{Resource, ResourceList, SetResource};
use paddock_scripts::parse_value;
use serde_json::Value;

const LARGEST: usize = 256 << 10;

pub fn execute(action: ResourceAction, caller: &mut Caller) -> Result<i32, CommandError> {
    let action = match action {
        // Read before a server is looked for: a person may still be typing.
        ResourceAction::Set { kind, secrets, name, value } => {
            let text = match value.as_deref() {
                None | Some("-") => input(caller.stdin, LARGEST)?.trim_end_matches(['\n', '\r']).to_string(),
                Some(text) => text.to_string(),
            };
            ResourceAction::Set { kind, secrets, name, value: Some(text) }
        }
        other => other,
    };
    with_client(caller, async |client, caller| {
        match action {
            ResourceAction::Set { kind, secrets, name, value } => {
                let value = parse_value(value.as_deref().unwrap_or_default());
                let request = SetResource { kind, value, secrets: secrets.into_iter().collect() };
                let call = Call::new(Method::PUT, target(&name)).json(&request)?;
                let set: Resource = client.json(call).await?;
                print(&format!("{}\n", render::escape::line(&set.name)), caller)?;
            }
            ResourceAction::Get { json, name } => {
                let found: Resource = client.json(Call::get(target(&name))).await?;
                match json {
                    true => print_json(&found, caller)?,
                    false => print_json(&found.value.unwrap_or(Value::Null), caller)?,
                }
            }
            ResourceAction::Ls { json } => {
                let listed: ResourceList = client.json(Call::get(Target::new("/v1/resources"))).await?;
                let colour = caller.colour_on_stdout();
                match json {
                    true => print_json(&listed.resources, caller)?,
                    false => print(&render::resources::list(&listed.resources, now_ms(), colour), caller)?,
                }
            }
            ResourceAction::Rm { name } => {
                client.done(Call::new(Method::DELETE, target(&name))).await?;
                print(&format!("{}\n", render::escape::line(&name)), caller)?;
            }
        }
        Ok(0)
    })
}

fn target(name: &str) -> Target {
    Target::new("/v1/resources").part(name)
}
