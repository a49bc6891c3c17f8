//! Secrets of lasting sandboxes: encrypted in their records, with their certificates inside, and not inherited.

use super::live::Live;
use super::record::{Record, SecretsRecord, now_ns};
use super::{Fleet, FleetError};
use paddock_engine::certificates::{self, Trust};
use paddock_engine::secrets::SandboxSecrets;
use paddock_engine::{EngineError, Sandbox as Inside};
use paddock_model::api::{CreateSandbox, EndCause};
use paddock_model::{SecretLayer, SecretValue};
use std::sync::Arc;
use zeroize::Zeroizing;

impl Fleet {
    /// Encrypts the secrets into the record, for its sandbox alone.
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

    /// Puts the certificates into the sandbox. Returns the time, by the clock of its files, at which they were there;
    /// `None` if it needs none.
    ///
    /// Precondition: the inside is ready.
    pub(super) async fn install_certificates(
        &self,
        live: &Arc<Live>,
        inside: &Inside,
    ) -> Result<Option<u64>, FleetError> {
        let record = live.record().clone();
        let trust = self.trust_of(&record);
        match self.secrets_of(&record)? {
            Some(secrets) => secrets.install(inside, &record.spec.user, trust).await?,
            None if record.host_certs => {
                let installed = trust.install(inside, &record.spec.user, None).await;
                installed.map_err(EngineError::from)?;
            }
            None => return Ok(None),
        }
        Ok(Some(u64::try_from(now_ns()).unwrap_or(0)))
    }

    /// Checks that the certificates of this host can be read, if they are needed: before anything is made or woken.
    pub(super) async fn check_certificates(&self, live: &Live) -> Result<(), FleetError> {
        let host_certs = live.record().host_certs;
        match host_certs {
            true => read_host_certificates().await,
            false => Ok(()),
        }
    }

    pub(super) fn trust_of(&self, record: &Record) -> Trust<'_> {
        Trust { state: &self.0.options.state, host_certs: record.host_certs }
    }

    /// Gives a ready sandbox the things that only its caller could name: certificates, and its gate. Without its
    /// certificates it is not given away; without its gate nothing leaves it.
    pub(super) async fn equip_ready(&self, live: &Arc<Live>) -> Result<(), FleetError> {
        let Some(inside) = live.running() else { return Ok(()) };
        let began_ns = now_ns();
        match self.install_certificates(live, &inside).await {
            Ok(None) => {}
            Ok(Some(_)) => {
                let record = {
                    let mut record = live.record();
                    record.ready_at_ns = now_ns();
                    let built = (began_ns, record.ready_at_ns);
                    record.built_ns.push(built);
                    record.clone()
                };
                self.0.save(&record)?;
            }
            Err(error) => {
                let detail = error.message.clone();
                self.end(live, EndCause::CreateFailed { detail }).await?;
                return Err(error);
            }
        }
        if let Err(error) = self.open_gate(live, &inside).await {
            tracing::error!(sandbox = %live.id, %error, "its gate could not be opened: nothing leaves it");
        }
        Ok(())
    }

    /// A child gets no secrets, unless they were asked for: then the same placeholders stand for them.
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
        if !child.host_certs {
            certificates::remove_environment(&mut child.env);
        }
        child.env.retain(|name, _| !source.secrets.hosts.contains_key(name));
        child.secrets = SecretsRecord::default();
        Ok(())
    }

    /// The same request, with fingerprints in the place of its values.
    pub(super) fn without_values(&self, request: &CreateSandbox) -> CreateSandbox {
        let told = |secret: &SecretLayer| SecretLayer {
            value: secret.value.as_ref().map(|value| SecretValue(self.0.vault.fingerprint(&value.0))),
            ..secret.clone()
        };
        let secrets = request.secrets.iter().map(|(name, secret)| (name.clone(), told(secret))).collect();
        CreateSandbox { secrets, ..request.clone() }
    }
}

/// They are hundreds of files; the next reader within seconds finds them in memory.
pub(super) async fn read_host_certificates() -> Result<(), FleetError> {
    let read = tokio::task::spawn_blocking(certificates::host_certificates).await;
    read.map_err(|error| FleetError::internal(&error))?.map_err(EngineError::from)?;
    Ok(())
}

impl From<paddock_engine::secrets::SecretsError> for FleetError {
    fn from(error: paddock_engine::secrets::SecretsError) -> FleetError {
        EngineError::from(error).into()
    }
}
