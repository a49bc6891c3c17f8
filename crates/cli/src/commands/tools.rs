//! `paddock tools`: the tools that a model may call, in the shape of its provider.

use super::remote::with_client;
use super::{CommandError, print_json};
use crate::args::PolicyFlags;
use crate::args::tools::{FormatName, ToolsArgs};
use crate::caller::Caller;
use crate::client::operations::RemoteHost;
use crate::{layers, state};
use paddock_model::Network;
use paddock_settings::Surroundings;
use paddock_tools::{Facts, Format, Host, NetworkFacts, definitions, render};

pub fn execute(args: ToolsArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let facts = match &args.sandbox {
        Some(id) => facts_of_sandbox(id, caller)?,
        None => facts_of_policy(args.template.as_deref(), args.policy, caller)?,
    };
    let format = match args.format {
        FormatName::Anthropic => Format::Anthropic,
        FormatName::Openai => Format::OpenAi,
        FormatName::OpenaiResponses => Format::OpenAiResponses,
        FormatName::Mcp => Format::Mcp,
        FormatName::JsonSchema => Format::JsonSchema,
    };
    let tools: Vec<_> = definitions(&facts, &args.only)?.iter().map(|tool| render(tool, format)).collect();
    print_json(&tools, caller)?;
    Ok(0)
}

fn facts_of_sandbox(id: &str, caller: &mut Caller) -> Result<Facts, CommandError> {
    with_client(caller, async |client, _| {
        let sandbox = client.sandbox(id).await?;
        let facts = Facts::of(&sandbox);
        // A server without this answer still has a sandbox to tell of.
        match (RemoteHost { client }).network_rules(&sandbox.id).await {
            Ok(Some(rules)) => Ok(facts.with_rules(&rules)),
            _ => Ok(facts),
        }
    })
}

/// Facts of the sandbox that `create` would make.
pub fn facts_of_policy(
    template: Option<&str>,
    policy: PolicyFlags,
    caller: &Caller,
) -> Result<Facts, CommandError> {
    let environment = &caller.environment;
    let state_dir = state::locate(environment)?;
    let layers = layers::gather(template, policy, Vec::new(), environment, &state_dir)?;
    let surroundings =
        Surroundings { state_dir: &state_dir, home: environment.home(), backends: caller.backends };
    let settings = paddock_settings::resolve(&layers, surroundings)?;
    let facts = Facts::default().with_limits(&settings.spec.limits);
    Ok(match &settings.spec.network {
        Network::None => Facts { network: Some(NetworkFacts::None), ..facts },
        Network::Host => Facts { network: Some(NetworkFacts::Host), ..facts },
        Network::Gate(rules) => facts.with_rules(rules),
    })
}
