//! Typed values that are kept for scripts: encrypted at rest, and fields that are bound to hosts are never shown again.

use super::record::now_ms;
use super::request::invalid;
use super::{Actor, Fleet, FleetError, Kind, kept_secrets};
use paddock_model::api::{CreateSandbox, Resource, Role, SetResource};
use paddock_model::net::{Rule, Target};
use paddock_model::{SecretLayer, SecretValue};
use paddock_records::store::ResourceRow;
use paddock_scripts::{check_resource_name, field};
use serde_json::Value;
use std::collections::BTreeMap;
use zeroize::Zeroizing;

const MOST_RESOURCES: usize = 1000;
const LARGEST: usize = 256 << 10;
const MOST_BOUND: usize = 64;
/// The prefix in `from` of a secret.
const SCHEME: &str = "resource:";

impl Fleet {
    pub fn set_resource(
        &self,
        actor: &Actor,
        name: &str,
        request: SetResource,
    ) -> Result<Resource, FleetError> {
        check(name)?;
        let default = if request.value.is_string() { "variable" } else { "object" };
        let kind = request.kind.clone().unwrap_or_else(|| default.into());
        check_request(name, &kind, &request)?;
        let plain = Zeroizing::new(serde_json::to_vec(&request.value).map_err(|e| FleetError::internal(&e))?);
        if plain.len() > LARGEST {
            let message = format!("resource `{name}` has {} bytes, and {LARGEST} are the most", plain.len());
            return Err(FleetError::new(Kind::TooLarge, "too_large", message).hint("a volume takes files"));
        }
        let sealed = self.0.vault.seal(&owner(&actor.tenant, name), &plain);
        let row = ResourceRow {
            name: name.into(),
            kind,
            updated_ms: now_ms(),
            bound: serde_json::to_string(&request.secrets).map_err(|error| FleetError::internal(&error))?,
            sealed: sealed.map_err(|error| FleetError::internal(&error))?,
        };
        if !self.0.store.set_resource(&actor.tenant, &row, MOST_RESOURCES)? {
            let message = format!("tenant {} has the most resources, {MOST_RESOURCES}", actor.tenant);
            return Err(FleetError::new(Kind::Forbidden, "quota_exceeded", message)
                .hint("remove resources that are not needed"));
        }
        described(&row, None)
    }

    /// The resources by name, without their values.
    pub fn resources(&self, actor: &Actor) -> Result<Vec<Resource>, FleetError> {
        self.0.store.resources(&actor.tenant)?.iter().map(|row| described(row, None)).collect()
    }

    pub fn resource(&self, actor: &Actor, name: &str) -> Result<Resource, FleetError> {
        let (row, value) = self.opened(actor, name)?;
        let resource = described(&row, None)?;
        // A caller that may only look must not see keys.
        if actor.role == Role::ReadOnly && !actor.owner {
            return Ok(resource);
        }
        Ok(Resource { value: Some(masked(value, &resource.secrets)), ..resource })
    }

    pub fn remove_resource(&self, actor: &Actor, name: &str) -> Result<(), FleetError> {
        match self.0.store.delete_resource(&actor.tenant, name)? {
            true => Ok(()),
            false => Err(not_found(name)),
        }
    }

    /// The existing resources of these names, for [`paddock_scripts::plan`]: without the fields that are bound to
    /// hosts.
    pub fn script_resources(
        &self,
        actor: &Actor,
        names: &[String],
    ) -> Result<BTreeMap<String, paddock_scripts::Resource>, FleetError> {
        let mut found = BTreeMap::new();
        for name in names {
            match self.opened(actor, name) {
                Ok((row, value)) => {
                    let Resource { kind, secrets, .. } = described(&row, None)?;
                    let value = masked(value, &secrets);
                    found.insert(name.clone(), paddock_scripts::Resource { kind, value, secrets });
                }
                Err(error) if error.kind == Kind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The request with the values of secrets that come from resources or are kept, for the hosts that they are bound to.
    pub(super) fn with_resources(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
    ) -> Result<CreateSandbox, FleetError> {
        let mut request = request.clone();
        for (variable, layer) in &mut request.secrets {
            let from = layer.from.as_deref().unwrap_or_default();
            let value = match (from.strip_prefix(SCHEME), from.strip_prefix(kept_secrets::SCHEME)) {
                (Some(resource), _) => self.bound_value(actor, variable, resource, layer)?,
                (_, Some(secret)) => self.kept_value(actor, variable, secret, layer)?,
                (None, None) => continue,
            };
            (layer.value, layer.from) = (Some(value), None);
        }
        Ok(request)
    }

    fn bound_value(
        &self,
        actor: &Actor,
        variable: &str,
        from: &str,
        layer: &SecretLayer,
    ) -> Result<SecretValue, FleetError> {
        if layer.value.is_some() {
            return Err(invalid(format!("secret `{}` has both `value` and `from`", shown(variable))));
        }
        let (name, path) = from.split_once('.').unwrap_or((from, ""));
        let (row, value) = self.opened(actor, name)?;
        let bound = described(&row, None)?.secrets;
        let hosts = bound.get(path).map_or(&[][..], Vec::as_slice);
        if let Some(host) = layer.hosts.iter().find(|host| !hosts.contains(host)) {
            let message = format!(
                "secret `{}` is to be sent to `{}`, and resource `{}` is not bound to that host",
                shown(variable),
                shown(host),
                shown(from)
            );
            let hint = "bind it: `paddock resource set NAME --secret FIELD@HOST ...`";
            return Err(FleetError::new(Kind::Forbidden, "forbidden", message).hint(hint));
        }
        match field(&value, path) {
            Some(Value::String(value)) => Ok(SecretValue(value.clone())),
            _ => Err(invalid(format!("resource `{}` holds no text there", shown(from)))),
        }
    }

    fn opened(&self, actor: &Actor, name: &str) -> Result<(ResourceRow, Value), FleetError> {
        check(name)?;
        let row = self.0.store.resource(&actor.tenant, name)?.ok_or_else(|| not_found(name))?;
        let plain = self.0.vault.unseal(&owner(&actor.tenant, name), &row.sealed);
        let plain = plain.map_err(|error| FleetError::internal(&error))?;
        let value = serde_json::from_slice(&plain).map_err(|error| FleetError::internal(&error))?;
        Ok((row, value))
    }
}

/// The owner of a sealed value: it cannot be opened under another name.
fn owner(tenant: &str, name: &str) -> String {
    format!("resource {tenant} {name}")
}

fn check(name: &str) -> Result<(), FleetError> {
    check_resource_name(name).map_err(|error| {
        invalid(error.to_string())
            .hint("use letters, digits, `_` and `-`, with `/` between parts, as in u/ada/anthropic")
    })
}

fn check_request(name: &str, kind: &str, request: &SetResource) -> Result<(), FleetError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    if !(1..=64).contains(&kind.len()) || !kind.bytes().all(known) {
        return Err(invalid(format!("resource type `{}` is not allowed", shown(kind)))
            .hint("use 1 to 64 letters, digits, `_` and `-`"));
    }
    if request.secrets.len() > MOST_BOUND {
        return Err(invalid(format!("resource `{name}` binds more than {MOST_BOUND} fields")));
    }
    for (path, hosts) in &request.secrets {
        if !matches!(field(&request.value, path), Some(Value::String(_))) {
            let message = format!("resource `{name}` has no text at `{}` that could be bound", shown(path));
            return Err(invalid(message).hint("name a field of its value, such as apiKey or auth.token"));
        }
        if hosts.is_empty() || hosts.len() > MOST_BOUND {
            let message = format!("`{}` of resource `{name}` is bound to {} hosts", shown(path), hosts.len());
            return Err(invalid(message).hint("name 1 to 64 hosts, such as api.example.com"));
        }
        for host in hosts {
            check_host(host)?;
        }
    }
    Ok(())
}

/// A host that a secret can be bound to.
pub(super) fn check_host(host: &str) -> Result<(), FleetError> {
    let rule = Rule::parse(host).map_err(|error| invalid(error.to_string()).hint(error.hint()))?;
    match rule.target {
        Target::Name(_) | Target::Below(_) => Ok(()),
        _ => Err(invalid(format!("`{}` is no name of a host", shown(host)))
            .hint("write names or *.NAME, with :PORT where it is not 443")),
    }
}

fn described(row: &ResourceRow, value: Option<Value>) -> Result<Resource, FleetError> {
    let secrets = serde_json::from_str(&row.bound).map_err(|error| FleetError::internal(&error))?;
    Ok(Resource {
        name: row.name.clone(),
        kind: row.kind.clone(),
        updated_at_ms: row.updated_ms,
        secrets,
        value,
    })
}

/// Replaces fields that are bound to hosts by words.
fn masked(mut value: Value, secrets: &BTreeMap<String, Vec<String>>) -> Value {
    for (path, hosts) in secrets {
        let steps = path.split('.').filter(|step| !step.is_empty());
        let escaped = steps.map(|step| step.replace('~', "~0").replace('/', "~1"));
        let pointer = escaped.fold(String::new(), |all, step| format!("{all}/{step}"));
        if let Some(leaf) = value.pointer_mut(&pointer) {
            *leaf = Value::String(format!("(bound to {})", hosts.join(", ")));
        }
    }
    value
}

fn not_found(name: &str) -> FleetError {
    FleetError::new(Kind::NotFound, "resource_not_found", format!("there is no resource `{}`", shown(name)))
        .hint("`paddock resource ls` lists those there are")
}

fn shown(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}
