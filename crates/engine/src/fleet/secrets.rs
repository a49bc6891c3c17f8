//! Secrets of sandboxes that last: encrypted in their records, with their certificates inside, and not inherited.

use super::live::Live;
use super::record::{Record, SecretsRecord, now_ns};
use super::{Fleet, FleetError};
use crate::EngineError;
use crate::sandbox::Sandbox as Inside;
use crate::secrets::SandboxSecrets;
use paddock_model::api::CreateSandbox;
use paddock_model::{SecretLayer, SecretValue};
use std::sync::Arc;
use zeroize::Zeroizing;

impl Fleet {
    /// Puts them into the record, for its sandbox alone.
    pub(super) fn seal_secrets(
        &self,
        record: &mut Record,
        secrets: Option<&SandboxSecrets>,
    ) -> Result<(), FleetError> {
        let Some(secrets) = secrets else { return Ok(()) };
        let plain = serde_json::to_vec(secrets).map(Zeroizing::new);
        let plain = plain.map_err(|error| FleetError::internal(&error))?;
        let sealed = self.0.vault.seal(record.id.as_str(), &plain);
        let hosts = secrets.bound().into_iter().map(|secret| (secret.name, secret.hosts)).collect();
        let sealed = Some(sealed.map_err(|error| FleetError::internal(&error))?);
        record.secrets = SecretsRecord { hosts, sealed };
        Ok(())
    }

    pub(super) fn secrets_of(&self, record: &Record) -> Result<Option<SandboxSecrets>, FleetError> {
        let Some(sealed) = &record.secrets.sealed else { return Ok(None) };
        let plain = self.0.vault.unseal(record.id.as_str(), sealed);
        let plain = plain.map_err(|error| FleetError::internal(&error))?;
        serde_json::from_slice(&plain).map(Some).map_err(|error| FleetError::internal(&error))
    }

    /// When they lay there, by the clock of its files; `None` where it has no secrets.
    ///
    /// Precondition: the inside is ready, and no command runs in it.
    pub(super) async fn install_secrets(
        &self,
        live: &Arc<Live>,
        inside: &Inside,
    ) -> Result<Option<u64>, FleetError> {
        let record = live.record().clone();
        let Some(secrets) = self.secrets_of(&record)? else { return Ok(None) };
        secrets.install(inside, &record.spec.user, &self.0.options.state).await?;
        Ok(Some(u64::try_from(now_ns()).unwrap_or(0)))
    }

    /// Of a sandbox that was ready before anybody asked for it.
    pub(super) async fn open_gate_of_ready(
        &self,
        live: &Arc<Live>,
        inside: &Inside,
    ) -> Result<(), FleetError> {
        let began_ns = now_ns();
        if self.install_secrets(live, inside).await?.is_some() {
            let record = {
                let mut record = live.record();
                record.ready_at_ns = now_ns();
                let built = (began_ns, record.ready_at_ns);
                record.built_ns.push(built);
                record.clone()
            };
            self.0.save(&record)?;
        }
        self.open_gate(live, inside).await
    }

    /// A child has none, unless it was asked for: then the same placeholders stand for them.
    pub(super) fn inherit_secrets(
        &self,
        source: &Live,
        child: &mut Record,
        asked: bool,
    ) -> Result<(), FleetError> {
        let source = source.record().clone();
        if asked {
            let secrets = self.secrets_of(&source)?;
            return self.seal_secrets(child, secrets.as_ref());
        }
        let names = source.secrets.hosts.keys().map(String::as_str);
        SandboxSecrets::remove_environment(names, &mut child.env);
        child.secrets = SecretsRecord::default();
        Ok(())
    }

    /// The same request, with what tells its values apart in their place.
    pub(super) fn without_values(&self, request: &CreateSandbox) -> CreateSandbox {
        let told = |secret: &SecretLayer| SecretLayer {
            value: secret.value.as_ref().map(|value| SecretValue(self.0.vault.fingerprint(&value.0))),
            ..secret.clone()
        };
        let secrets = request.secrets.iter().map(|(name, secret)| (name.clone(), told(secret))).collect();
        CreateSandbox { secrets, ..request.clone() }
    }
}

impl From<crate::secrets::SecretsError> for FleetError {
    fn from(error: crate::secrets::SecretsError) -> FleetError {
        EngineError::from(error).into()
    }
}
