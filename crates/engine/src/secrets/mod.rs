//! Values that never enter a sandbox: kept encrypted, given to the gate, and masked in what comes out.
//!
//! - here: the secrets of one sandbox, from what was asked for to what its gate, its commands and its record need
//! - [`vault`]: the key that they are encrypted with at rest

mod vault;

pub use paddock_gate::{Mask, Masked};
pub use vault::{Vault, VaultError};

use crate::EngineError;
use crate::certificates::{self, CertificatesError, Trust};
use crate::sandbox::Sandbox;
use paddock_gate::{
    Authority, AuthorityError, Carriers, HeaderName, PLACEHOLDER, Secret, SecretError, Secrets,
};
use paddock_model::User;
use paddock_model::net::Rule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// One that was asked for and checked.
#[derive(Clone, Serialize, Deserialize)]
pub struct Bound {
    pub name: String,
    pub value: Zeroizing<String>,
    pub hosts: Vec<Rule>,
    /// The only one; without it the usual ones and `headers`.
    pub header: Option<String>,
    #[serde(default)]
    pub headers: Vec<String>,
}

/// Never the value.
impl std::fmt::Debug for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bound").field("name", &self.name).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// Those of one sandbox. Serialized only to be encrypted.
#[derive(Serialize, Deserialize)]
pub struct SandboxSecrets {
    list: Vec<(String, Bound)>,
    /// Of the authority whose certificates the clients inside believe.
    authority: Zeroizing<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("no random numbers from the system")]
    Random(#[source] std::io::Error),
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
}

impl SandboxSecrets {
    /// `None`: there are none.
    pub fn new(bound: Vec<Bound>) -> Result<Option<SandboxSecrets>, SecretsError> {
        if bound.is_empty() {
            return Ok(None);
        }
        let mut list = Vec::new();
        for secret in bound {
            let random: [u8; 16] = crate::access::random_bytes().map_err(SecretsError::Random)?;
            let random = u128::from_ne_bytes(random);
            list.push((format!("{PLACEHOLDER}{random:032x}"), secret));
        }
        let authority = Zeroizing::new(Authority::new()?.key_pem().to_string());
        Ok(Some(SandboxSecrets { list, authority }))
    }

    /// As they were asked for.
    pub fn bound(&self) -> Vec<Bound> {
        self.list.iter().map(|(_, secret)| secret.clone()).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(_, secret)| secret.name.as_str())
    }

    /// What every command inside has: placeholders, and where the certificates lie.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let placeholders = self.list.iter().map(|(place, secret)| (secret.name.clone(), place.clone()));
        certificates::environment().into_iter().chain(placeholders).collect()
    }

    pub fn mask(&self) -> Mask {
        Mask::new(self.list.iter().map(|(_, secret)| secret.value.as_str()))
    }

    /// For the gate of this sandbox.
    pub fn gate(&self, trust: Trust<'_>) -> Result<Secrets, SecretsError> {
        let roots = trust.beyond_store()?;
        // Checked when it was asked for; one that is none any more fits no header.
        let header = |name: &str| name.parse().unwrap_or(HeaderName::from_static("paddock-no-header"));
        let secret = |(placeholder, bound): &(String, Bound)| Secret {
            name: bound.name.clone(),
            placeholder: placeholder.clone(),
            value: bound.value.clone(),
            hosts: bound.hosts.clone(),
            carriers: match &bound.header {
                Some(only) => Carriers::Only(header(only)),
                None => Carriers::UsualAnd(bound.headers.iter().map(|name| header(name)).collect()),
            },
        };
        let list = self.list.iter().map(secret).collect();
        Ok(Secrets::new(list, Authority::from_key_pem(&self.authority)?, roots)?)
    }

    /// Puts the certificates where the variables say, as `user`. Returns when they lie there.
    ///
    /// Precondition: the inside is ready.
    pub async fn install(&self, inside: &Sandbox, user: &User, trust: Trust<'_>) -> Result<(), EngineError> {
        let authority = Authority::from_key_pem(&self.authority).map_err(SecretsError::from)?;
        Ok(trust.install(inside, user, Some(authority.pem())).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> SandboxSecrets {
        let bound = Bound {
            name: "API_KEY".into(),
            value: Zeroizing::new("sk-the-real-one".into()),
            hosts: vec![Rule::parse("api.test:443").unwrap()],
            header: Some("authorization".into()),
            headers: Vec::new(),
        };
        SandboxSecrets::new(vec![bound]).unwrap().unwrap()
    }

    #[test]
    fn inside_there_is_a_placeholder() {
        let secrets = secrets();
        let mut env = secrets.environment();
        assert!(env["API_KEY"].starts_with(PLACEHOLDER) && env["API_KEY"].len() == PLACEHOLDER.len() + 32);
        assert!(env.values().all(|value| !value.contains("sk-the-real-one")));
        env.remove("API_KEY");
        certificates::remove_environment(&mut env);
        assert!(env.is_empty(), "{env:?}");
        assert!(!format!("{:?}", secrets.list).contains("sk-the-real-one"));
    }
}
