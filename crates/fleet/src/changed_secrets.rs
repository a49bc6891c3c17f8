//! Secrets with `inject` that are changed while a sandbox lives: added, replaced and removed.
//!
//! The record has the new set before the gate has it, so that a restart, a wake and an adoption go on with it.

use super::live::Live;
use super::record::Record;
use super::request::{check_rights, invalid, refused, shorten};
use super::{Actor, Fleet, FleetError, Kind};
use paddock_engine::secrets::{SandboxSecrets, Secrets};
use paddock_model::SecretLayer;
use paddock_model::api::{CreateSandbox, SandboxState, UpdateSandbox};
use paddock_settings::{Bound, SettingsError, resolve_secrets};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The changes by name; `None` removes one.
type Changes = BTreeMap<String, Option<SecretLayer>>;

/// The secrets whose names begin with `prefix`, all of them: those that a sandbox has are replaced by these.
///
/// The change is computed under the lock of the sandbox. A caller that looked before it asked would leave the secrets that another
/// caller sets meanwhile.
#[derive(Debug)]
pub struct SecretGroup {
    pub prefix: &'static str,
    pub secrets: BTreeMap<String, SecretLayer>,
}

impl SecretGroup {
    /// From the names that a sandbox has. `None`: it has none of the group, and gets none.
    pub(super) fn changes<'a>(self, had: impl Iterator<Item = &'a String>) -> Option<Changes> {
        let cleared = had.filter(|name| name.starts_with(self.prefix)).map(|name| (name.clone(), None));
        let set = self.secrets.into_iter().map(|(name, layer)| (name, Some(layer)));
        let changes: Changes = cleared.chain(set).collect();
        (!changes.is_empty()).then_some(changes)
    }
}

impl Fleet {
    /// The secrets that the sandbox has after a change. `None`: they stay as they are.
    pub(super) fn changed_secrets(
        &self,
        actor: &Actor,
        live: &Live,
        request: &UpdateSandbox,
    ) -> Result<Option<SandboxSecrets>, FleetError> {
        let Some(changes) = &request.secrets else { return Ok(None) };
        if request.network.is_none() {
            return Err(invalid("`secrets` are changed without `network`")
                .hint("name the `network` too, as it is to be: a secret opens its hosts"));
        }
        let record = live.record().clone();
        let before = self.secrets_of(&record)?;
        let had = before.as_ref().map(SandboxSecrets::bound).unwrap_or_default();
        check_changes(&had, changes)?;
        let is_named = |secret: &Bound| changes.contains_key(&secret.name);
        if changes.values().all(Option::is_none) && !had.iter().any(is_named) {
            return Ok(None);
        }
        let set = self.changed_set(actor, &record, changes)?;
        let total = had.iter().filter(|secret| !is_named(secret)).count() + set.len();
        paddock_settings::check_secret_count(total).map_err(|error| refused(SettingsError::from(error)))?;
        let mut changes: BTreeMap<String, Option<Bound>> =
            changes.keys().map(|name| (name.clone(), None)).collect();
        changes.extend(set.into_iter().map(|secret| (secret.name.clone(), Some(secret))));
        Ok(Some(SandboxSecrets::changed(before, changes)?))
    }

    /// Their values, as a create would read them.
    fn changed_set(
        &self,
        actor: &Actor,
        record: &Record,
        changes: &Changes,
    ) -> Result<Vec<Bound>, FleetError> {
        let set = changes.iter().filter_map(|(name, layer)| Some((name.clone(), layer.clone()?)));
        let asked = CreateSandbox { secrets: set.collect(), ..CreateSandbox::default() };
        let asked = self.with_resources(actor, &asked)?;
        check_rights(actor, &asked)?;
        resolve_secrets(&asked.secrets, &record.env).map_err(|error| refused(SettingsError::from(error)))
    }

    /// The secrets for the gate of a sandbox that runs, with its certificates inside where it had none before.
    ///
    /// Precondition: the sandbox's transition is locked, and its record is the one before the change.
    pub(super) async fn prepare_secrets(
        &self,
        live: &Arc<Live>,
        secrets: &SandboxSecrets,
    ) -> Result<Option<Secrets>, FleetError> {
        let Some(inside) = live.running() else { return Ok(None) };
        let record = live.record().clone();
        let trust = self.trust_of(&record);
        if record.secrets.sealed.is_none() {
            if record.state == SandboxState::Paused {
                let message = format!(
                    "sandbox {} is paused, and its first secret wants a file inside: the gate's certificate",
                    live.id
                );
                return Err(FleetError::new(Kind::Conflict, "wrong_state", message).hint("resume it first"));
            }
            secrets.install(&inside, &record.spec.user, trust).await?;
        }
        Ok(Some(secrets.gate(self.trust_of(&record))?))
    }
}

/// Only secrets without a placeholder inside come and go.
fn check_changes(had: &[Bound], changes: &Changes) -> Result<(), FleetError> {
    for (name, layer) in changes {
        let is_sent = had.iter().any(|secret| secret.name == *name && secret.inject.is_empty());
        if is_sent || layer.as_ref().is_some_and(|layer| layer.inject.is_empty()) {
            let message = format!(
                "secret `{}` has a placeholder inside, and cannot be changed while the sandbox lives",
                shorten(name)
            );
            return Err(FleetError::new(Kind::Conflict, "not_changeable", message).hint(
                "secrets with `inject` can; for others make a snapshot, and create another sandbox from that",
            ));
        }
    }
    Ok(())
}

/// For the audit: everything but the values.
pub(super) fn told(request: &UpdateSandbox) -> Value {
    let without = |(name, layer): (&String, &Option<SecretLayer>)| {
        (name.clone(), layer.as_ref().map(SecretLayer::without_value))
    };
    let secrets = request.secrets.as_ref().map(|changes| changes.iter().map(without).collect());
    let mut told = json!(UpdateSandbox { secrets, ..request.clone() });
    // Values of variables may be secrets.
    told["env"] = json!(request.env.as_ref().map(|env| env.keys().collect::<Vec<_>>()));
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::SecretValue;

    fn layer(inject: bool) -> SecretLayer {
        let header = inject.then(|| ("authorization".to_string(), "Bearer {}".to_string()));
        SecretLayer {
            value: Some(SecretValue("sk-of-the-test".into())),
            inject: header.into_iter().collect(),
            ..SecretLayer::default()
        }
    }

    #[test]
    fn a_secret_with_a_placeholder_stays() {
        let change = |layer| Changes::from([("KEY".to_string(), layer)]);
        assert!(check_changes(&[], &change(Some(layer(true)))).is_ok());
        assert!(check_changes(&[], &change(None)).is_ok());
        let refused = check_changes(&[], &change(Some(layer(false)))).unwrap_err();
        assert_eq!(refused.code, "not_changeable");
        let had = Bound {
            name: "KEY".into(),
            value: "sk-of-the-test".to_string().into(),
            hosts: Vec::new(),
            header: None,
            headers: Vec::new(),
            inject: BTreeMap::new(),
        };
        for change in [change(None), change(Some(layer(true)))] {
            assert_eq!(
                check_changes(std::slice::from_ref(&had), &change).unwrap_err().code,
                "not_changeable"
            );
        }
    }

    #[test]
    fn a_group_replaces_itself_and_leaves_other_secrets() {
        let had = ["GROUP_1", "GROUP_2", "OWN"].map(String::from);
        let group = |names: &[&str]| SecretGroup {
            prefix: "GROUP_",
            secrets: names.iter().map(|name| (name.to_string(), layer(true))).collect(),
        };
        let changed = group(&["GROUP_1"]).changes(had.iter()).expect("changes");
        assert!(changed["GROUP_1"].is_some() && changed["GROUP_2"].is_none() && changed.len() == 2);
        assert_eq!(group(&[]).changes(had[2..].iter()), None);
        let cleared = group(&[]).changes(had.iter()).expect("changes");
        assert!(cleared.len() == 2 && cleared.values().all(Option::is_none));
    }

    #[test]
    fn the_audit_has_no_value() {
        let secrets = Changes::from([("KEY".to_string(), Some(layer(true))), ("GONE".to_string(), None)]);
        let env = BTreeMap::from([("A".to_string(), "sk-of-the-test".to_string())]);
        let request = UpdateSandbox { secrets: Some(secrets), env: Some(env), ..UpdateSandbox::default() };
        let told = told(&request);
        assert!(!told.to_string().contains("sk-of-the-test"), "{told}");
        assert_eq!(told["secrets"]["KEY"]["inject"]["authorization"], "Bearer {}");
        assert_eq!((&told["secrets"]["GONE"], &told["env"]), (&Value::Null, &json!(["A"])));
        assert_eq!(super::told(&UpdateSandbox::default())["secrets"], Value::Null);
    }
}
