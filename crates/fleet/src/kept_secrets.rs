//! Secrets that are kept under a name, for sandboxes to come. A value is encrypted at rest and never shown again.

use super::record::now_ms;
use super::request::{invalid, shorten};
use super::resources::check_host;
use super::{Actor, Fleet, FleetError, Kind};
use paddock_model::api::{CreateSecret, Secret, SecretPage, UpdateSecret};
use paddock_model::{SecretLayer, SecretValue};
use paddock_records::store::{SecretRow, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MOST_SECRETS: usize = 1000;
const LARGEST_PAGE: usize = 1000;
const LONGEST_NAME: usize = 256;
const MOST_METADATA: usize = 64;
const LONGEST_METADATA: usize = 1024;
const MOST_HOSTS: usize = 64;
/// The prefix in `from` of a sandbox's secret.
pub(super) const SCHEME: &str = "secret:";

/// All of a row that may be shown, besides its columns.
#[derive(Serialize, Deserialize)]
struct Shown {
    metadata: BTreeMap<String, String>,
    hosts: Vec<String>,
}

impl Fleet {
    pub fn create_secret(&self, actor: &Actor, request: CreateSecret) -> Result<Secret, FleetError> {
        check_name(&request.name)?;
        let shown = Shown { metadata: request.metadata, hosts: request.hosts };
        check(&request.name, &request.value, &shown)?;
        let id = format!("sec-{:016x}", self.random_for_id()?);
        let row = SecretRow {
            sealed: self.sealed(&actor.tenant, &id, &request.value)?,
            id,
            name: request.name,
            version: 1,
            created_ms: now_ms(),
            updated_ms: now_ms(),
            body: written(&shown)?,
        };
        match self.0.store.insert_secret(&actor.tenant, &row, MOST_SECRETS) {
            Ok(true) => described(&row),
            Ok(false) => {
                let message = format!("tenant {} has the most secrets, {MOST_SECRETS}", actor.tenant);
                Err(FleetError::new(Kind::Forbidden, "quota_exceeded", message)
                    .hint("remove secrets that are not needed"))
            }
            Err(StoreError::NameTaken { name }) => {
                let message = format!("there is a secret `{}` already", shorten(&name));
                Err(FleetError::new(Kind::Conflict, "name_taken", message)
                    .hint("give it a new value instead"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A new value, as the next version; the one before is gone.
    pub fn update_secret(
        &self,
        actor: &Actor,
        key: &str,
        request: UpdateSecret,
    ) -> Result<Secret, FleetError> {
        let found = self.kept(actor, key)?;
        let before = shown(&found)?;
        let now = Shown {
            metadata: request.metadata.unwrap_or(before.metadata),
            hosts: request.hosts.unwrap_or(before.hosts),
        };
        check(&found.name, &request.value, &now)?;
        let row = SecretRow {
            version: found.version + 1,
            updated_ms: now_ms(),
            body: written(&now)?,
            sealed: self.sealed(&actor.tenant, &found.id, &request.value)?,
            ..found
        };
        match self.0.store.update_secret(&actor.tenant, &row)? {
            true => described(&row),
            false => {
                let message =
                    format!("another call changed secret `{}` at the same time", shorten(&row.name));
                Err(FleetError::new(Kind::Conflict, "wrong_state", message).hint("look at it, and try again"))
            }
        }
    }

    /// By its name, or else by its id.
    pub fn secret(&self, actor: &Actor, key: &str) -> Result<Secret, FleetError> {
        described(&self.kept(actor, key)?)
    }

    /// The newest first.
    pub fn secrets(
        &self,
        actor: &Actor,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<SecretPage, FleetError> {
        let page = self.0.store.list_secrets(&actor.tenant, limit.min(LARGEST_PAGE), cursor)?;
        let secrets = page.rows.iter().map(described).collect::<Result<_, _>>()?;
        Ok(SecretPage { secrets, next_cursor: page.next_cursor })
    }

    pub fn remove_secret(&self, actor: &Actor, key: &str) -> Result<(), FleetError> {
        let found = self.kept(actor, key)?;
        match self.0.store.delete_secret(&actor.tenant, &found.id)? {
            true => Ok(()),
            false => Err(not_found(key)),
        }
    }

    /// The value for a sandbox, whose secret is bound to hosts that this one is bound to as well.
    pub(super) fn kept_value(
        &self,
        actor: &Actor,
        variable: &str,
        key: &str,
        layer: &SecretLayer,
    ) -> Result<SecretValue, FleetError> {
        if layer.value.is_some() {
            return Err(invalid(format!("secret `{}` has both `value` and `from`", shorten(variable))));
        }
        let found = self.kept(actor, key)?;
        let hosts = shown(&found)?.hosts;
        if let Some(host) = layer.hosts.iter().find(|host| !hosts.contains(host)) {
            let message =
                format!("secret `{}` is not bound to the host `{}`", shorten(&found.name), shorten(host));
            let hint = "bind it: `paddock secret set NAME --host HOST`, or with E2B's SDK Secret.create(..., metadata={\"hosts\": \"HOST\"})";
            return Err(FleetError::new(Kind::Forbidden, "forbidden", message).hint(hint));
        }
        let plain = self.0.vault.unseal(&owner(&actor.tenant, &found.id), &found.sealed);
        let plain = plain.map_err(|error| FleetError::internal(&error))?;
        let text = std::str::from_utf8(&plain).map_err(|error| FleetError::internal(&error))?;
        Ok(SecretValue(text.to_string()))
    }

    fn kept(&self, actor: &Actor, key: &str) -> Result<SecretRow, FleetError> {
        self.0.store.secret(&actor.tenant, key)?.ok_or_else(|| not_found(key))
    }

    fn sealed(&self, tenant: &str, id: &str, value: &SecretValue) -> Result<String, FleetError> {
        let sealed = self.0.vault.seal(&owner(tenant, id), value.0.as_bytes());
        sealed.map_err(|error| FleetError::internal(&error))
    }
}

/// The owner of a sealed value: it cannot be opened as another secret's.
fn owner(tenant: &str, id: &str) -> String {
    format!("secret {tenant} {id}")
}

fn check_name(name: &str) -> Result<(), FleetError> {
    let bad = |character: char| character.is_control() || matches!(character, '{' | '}');
    if name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(bad) {
        return Err(invalid(format!("secret name `{}` is not allowed", shorten(name)))
            .hint(format!("use 1 to {LONGEST_NAME} characters, without control characters, `{{` and `}}`")));
    }
    Ok(())
}

fn check(name: &str, value: &SecretValue, shown: &Shown) -> Result<(), FleetError> {
    paddock_settings::check_secret_value(&shorten(name), &value.0).map_err(|error| {
        let refused = invalid(error.to_string());
        match error.hint() {
            Some(hint) => refused.hint(hint),
            None => refused,
        }
    })?;
    if shown.metadata.len() > MOST_METADATA {
        return Err(invalid(format!(
            "metadata has {} entries, and {MOST_METADATA} are the most",
            shown.metadata.len()
        )));
    }
    let long = |(key, value): (&String, &String)| key.len().max(value.len()) > LONGEST_METADATA;
    if shown.metadata.iter().any(long) {
        return Err(invalid(format!("metadata has a key or a value of more than {LONGEST_METADATA} bytes")));
    }
    if shown.metadata.values().any(|text| text.contains(&value.0)) {
        return Err(invalid("metadata holds the value itself, and metadata is shown"));
    }
    if shown.hosts.len() > MOST_HOSTS {
        return Err(invalid(format!("{} hosts are named, and {MOST_HOSTS} are the most", shown.hosts.len())));
    }
    shown.hosts.iter().try_for_each(|host| check_host(host))
}

fn written(shown: &Shown) -> Result<String, FleetError> {
    serde_json::to_string(shown).map_err(|error| FleetError::internal(&error))
}

fn shown(row: &SecretRow) -> Result<Shown, FleetError> {
    serde_json::from_str(&row.body).map_err(|error| FleetError::internal(&error))
}

fn described(row: &SecretRow) -> Result<Secret, FleetError> {
    let Shown { metadata, hosts } = shown(row)?;
    Ok(Secret {
        id: row.id.clone(),
        name: row.name.clone(),
        version: row.version,
        created_at_ms: row.created_ms,
        updated_at_ms: row.updated_ms,
        metadata,
        hosts,
    })
}

fn not_found(key: &str) -> FleetError {
    FleetError::new(Kind::NotFound, "secret_not_found", format!("there is no secret `{}`", shorten(key)))
        .hint("`paddock secret ls` lists those there are")
}
