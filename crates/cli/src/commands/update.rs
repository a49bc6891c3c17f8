//! `paddock update`: changes a sandbox that lives.

use super::remote::with_client;
use super::{CommandError, print_json};
use crate::args::sandboxes::UpdateArgs;
use crate::caller::Caller;
use crate::client::{Call, Target};
use crate::layers::{self, LayerError};
use paddock_client::Method;
use paddock_model::SecretLayer;
use paddock_model::api::{LimitsRequest, Sandbox, UpdateSandbox};
use paddock_settings::{SettingsError, read_secrets};
use std::collections::BTreeMap;

pub fn execute(args: UpdateArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let network = layers::network(args.net.clone(), args.network.clone())?;
    let secrets = secrets(&args)?;
    let ports = args.ports.clone().settings().map_err(SettingsError::from)?;
    if secrets.is_some() && network.is_none() {
        return Err(LayerError::SecretsWithoutNetwork.into());
    }
    with_client(caller, async |client, caller| {
        let target = || Target::sandbox(&args.id);
        let mut request = UpdateSandbox {
            idle: args.idle,
            persistent: args.persistent,
            under_pressure: args.under_pressure,
            network,
            secrets,
            ports: (!ports.is_default()).then_some(ports),
            ..Default::default()
        };
        if !args.metadata.is_empty() || !args.forget.is_empty() {
            // The API replaces all of it.
            let sandbox: Sandbox = client.json(Call::get(target())).await?;
            let mut metadata = sandbox.metadata;
            metadata.retain(|key, _| !args.forget.contains(key));
            metadata.extend(args.metadata.iter().cloned());
            request.metadata = Some(metadata);
        }
        let limits = LimitsRequest {
            memory_bytes: args.memory,
            cpus: args.cpus,
            pids: args.pids,
            disk_bytes: args.disk,
            open_files: args.files,
            ..Default::default()
        };
        request.limits = (limits != LimitsRequest::default()).then_some(limits);
        let call = Call::new(Method::PATCH, target());
        let sandbox: Sandbox = client.json(call.json(&request)?).await?;
        if args.json {
            print_json(&sandbox, caller)?;
        }
        Ok(0)
    })
}

/// Those that are set, and those that go, which have no value. `None`: all stay as they are.
fn secrets(args: &UpdateArgs) -> Result<Option<BTreeMap<String, Option<SecretLayer>>>, CommandError> {
    let mut set = layers::secrets(args.secret.clone(), Vec::new(), args.secret_inject.clone())?;
    // They are read from this shell and this disk, not from the server's.
    read_secrets(&mut set).map_err(SettingsError::from)?;
    let gone = args.forget_secret.iter().map(|name| (name.clone(), None));
    let changes: BTreeMap<_, _> =
        gone.chain(set.into_iter().map(|(name, layer)| (name, Some(layer)))).collect();
    Ok((!changes.is_empty()).then_some(changes))
}
