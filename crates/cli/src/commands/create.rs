//! `paddock create`: a sandbox that stays.

use super::remote::with_client;
use super::{CommandError, print, print_json};
use crate::args::sandboxes::CreateArgs;
use crate::caller::Caller;
use crate::client::room;
use crate::{layers, render, state};
use paddock_model::api::{CreateSandbox, LimitsRequest, TtlAction};
use paddock_model::{LimitsLayer, Policy};
use paddock_settings::{SettingsError, read_secrets, resolve_limits};

pub fn execute(args: CreateArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let json = args.json;
    let request = request(args, caller)?;
    with_client(caller, async |client, caller| {
        let sandbox = room::create(&client, &request).await?;
        if json {
            print_json(&sandbox, caller)?;
        } else {
            print(&format!("{}\n", render::escape::line(&sandbox.id)), caller)?;
        }
        Ok(0)
    })
}

/// The template is the server's to read; a policy file and the flags are ours.
pub fn request(args: CreateArgs, caller: &Caller) -> Result<CreateSandbox, CommandError> {
    let environment = &caller.environment;
    let state_dir = state::locate(environment)?;
    let ports = args.ports.settings().map_err(SettingsError::from)?;
    let mut layers = layers::gather(None, args.policy, Vec::new(), environment, &state_dir)?;
    layers.push(args.scan.layer());
    layers.push(Policy { ports, ..Policy::default() });
    let mut policy = layers.into_iter().fold(Policy::default(), Policy::overlaid_by);
    // They are read from this shell and this disk, not from the server's.
    read_secrets(&mut policy.secrets).map_err(SettingsError::from)?;
    Ok(CreateSandbox {
        name: args.name,
        template: args.template,
        image: policy.image,
        public_image: false,
        snapshot: args.snapshot,
        live: args.live,
        backend: policy.backend,
        require: policy.require,
        ttl_seconds: args.ttl.map(|ttl| ttl.seconds),
        ttl_action: args.ttl.map(|ttl| ttl.action).filter(|action| *action != TtlAction::Kill),
        idle: args.idle,
        persistent: args.persistent,
        under_pressure: args.under_pressure,
        env: policy.env,
        metadata: args.metadata.into_iter().collect(),
        limits: limits(&policy.limits)?,
        network: policy.net,
        ports: policy.ports,
        secrets: policy.secrets,
        user: policy.user,
        cwd: policy.cwd,
        hostname: policy.hostname,
        workspace: policy.workspace,
        protect: policy.protect,
        unprotect: policy.unprotect,
        read: policy.read,
        write: policy.write,
        tmpfs: policy.tmpfs,
        volumes: args.volumes.mounts(),
        scan: policy.scan,
        allowed_imports: policy.allowed_imports,
        live_forks: args.live_forks.or(policy.live_forks),
        root_may_install: policy.root_may_install,
        become_root: policy.become_root,
        audit_outputs: policy.audit_outputs,
        host_certs: policy.host_certs,
    })
}

/// Checked here with the words of the flags; only those that were given are sent.
fn limits(layer: &LimitsLayer) -> Result<LimitsRequest, CommandError> {
    let checked = resolve_limits(layer).map_err(SettingsError::from)?;
    let timeout = match (&layer.timeout, checked.timeout) {
        (Some(_), None) => return Err(CommandError::EndlessTimeout),
        (Some(_), Some(limit)) => Some(limit.as_secs_f64()),
        (None, _) => None,
    };
    Ok(LimitsRequest {
        memory_bytes: layer.memory.is_some().then_some(checked.memory),
        cpus: layer.cpus.is_some().then_some(checked.cpus),
        pids: layer.pids.is_some().then_some(checked.pids),
        disk_bytes: layer.disk.is_some().then_some(checked.disk),
        open_files: layer.files.is_some().then_some(checked.files),
        output_bytes: layer.output.is_some().then_some(checked.output),
        exec_timeout_seconds: timeout,
    })
}
