//! The secrets of one sandbox: values that never enter it. From the settings to the needs of its gate, its execs and
//! its record.

pub use paddock_gate::{Mask, Masked, Secrets};

use crate::certificates::{self, CertificatesError, Trust};
use paddock_gate::{Authority, AuthorityError, Carriers, HeaderName, PLACEHOLDER, Secret, SecretError};
use paddock_settings::Bound;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::Zeroizing;

/// The secrets of one sandbox. They are serialized only to be encrypted.
#[derive(Serialize, Deserialize)]
pub struct SandboxSecrets {
    list: Vec<(String, Bound)>,
    /// The private key of the authority whose certificates the clients inside trust.
    pub(crate) authority: Zeroizing<String>,
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
    /// `None`: there are no secrets.
    pub fn new(bound: Vec<Bound>) -> Result<Option<SandboxSecrets>, SecretsError> {
        if bound.is_empty() {
            return Ok(None);
        }
        let list = bound.into_iter().map(with_placeholder).collect::<Result<_, _>>()?;
        Ok(Some(SandboxSecrets { list, authority: new_authority()? }))
    }

    /// Those of a sandbox after a change: by name, a secret in the place of another, or none. The others keep their
    /// placeholders, and the certificates inside hold.
    ///
    /// Precondition: each that is changed has no placeholder inside.
    pub fn changed(
        before: Option<SandboxSecrets>,
        changes: BTreeMap<String, Option<Bound>>,
    ) -> Result<SandboxSecrets, SecretsError> {
        let (mut list, authority) = match before {
            Some(before) => (before.list, before.authority),
            None => (Vec::new(), new_authority()?),
        };
        list.retain(|(_, secret)| !changes.contains_key(&secret.name));
        for secret in changes.into_values().flatten() {
            list.push(with_placeholder(secret)?);
        }
        Ok(SandboxSecrets { list, authority })
    }

    /// The secrets as they were asked for.
    pub fn bound(&self) -> Vec<Bound> {
        self.list.iter().map(|(_, secret)| secret.clone()).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|(_, secret)| secret.name.as_str())
    }

    /// The variables of every exec inside: placeholders, and the path of the certificates. A value that the gate injects has
    /// no placeholder inside.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let sent = self.list.iter().filter(|(_, secret)| secret.inject.is_empty());
        let placeholders = sent.map(|(place, secret)| (secret.name.clone(), place.clone()));
        certificates::environment().into_iter().chain(placeholders).collect()
    }

    pub fn mask(&self) -> Mask {
        Mask::new(self.list.iter().map(|(_, secret)| secret.value.as_str()))
    }

    /// The secrets in the form of the gate.
    pub fn gate(&self, trust: Trust<'_>) -> Result<Secrets, SecretsError> {
        let roots = trust.beyond_store()?;
        // The name was checked when it was asked for; a name that is invalid now fits no header.
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
            inject: bound.inject.iter().map(|(name, text)| (header(name), text.clone())).collect(),
        };
        let list = self.list.iter().map(secret).collect();
        Ok(Secrets::new(list, Authority::from_key_pem(&self.authority)?, roots)?)
    }
}

fn with_placeholder(secret: Bound) -> Result<(String, Bound), SecretsError> {
    let mut random = [0; 16];
    let drawn = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    drawn.map_err(|errno| SecretsError::Random(errno.into()))?;
    Ok((format!("{PLACEHOLDER}{:032x}", u128::from_ne_bytes(random)), secret))
}

fn new_authority() -> Result<Zeroizing<String>, SecretsError> {
    Ok(Zeroizing::new(Authority::new()?.key_pem().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::net::Rule;

    fn secrets() -> SandboxSecrets {
        let bound = Bound {
            name: "API_KEY".into(),
            value: Zeroizing::new("sk-the-real-one".into()),
            hosts: vec![Rule::parse("api.test:443").unwrap()],
            header: Some("authorization".into()),
            headers: Vec::new(),
            inject: BTreeMap::new(),
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

    #[test]
    fn a_change_keeps_the_others_and_the_authority() {
        let (before, place) = (secrets(), secrets().list[0].0.len());
        let (authority, kept) = (before.authority.clone(), before.list[0].0.clone());
        let added = Bound { name: "RULE".into(), ..before.bound().remove(0) };
        let change = |before, name: &str, to| {
            SandboxSecrets::changed(before, [(name.to_string(), to)].into()).unwrap()
        };
        let after = change(Some(before), "RULE", Some(added.clone()));
        assert_eq!(after.names().collect::<Vec<_>>(), ["API_KEY", "RULE"]);
        assert_eq!((&after.authority, &after.list[0].0), (&authority, &kept));
        assert_eq!(after.list[1].0.len(), place);
        let again = change(Some(after), "RULE", None);
        assert_eq!((again.names().collect::<Vec<_>>(), &again.authority), (vec!["API_KEY"], &authority));
        let first = change(None, "RULE", Some(added));
        assert!(first.authority != authority && first.list.len() == 1);
    }

    #[test]
    fn a_value_that_the_gate_injects_has_no_variable_inside() {
        let mut secrets = secrets();
        secrets.list[0].1.inject = [("authorization".to_string(), "Bearer {}".to_string())].into();
        let mut env = secrets.environment();
        certificates::remove_environment(&mut env);
        assert!(env.is_empty(), "{env:?}");
    }
}
