//! Secrets that never enter: inside there are placeholders, and the gate puts the value into requests to the hosts that a
//! secret is bound to, where it ends TLS for that.
//!
//! - here: a secret, and where it may go
//! - `headers`: placeholders in the head of a request; `carriers`: which headers carry a value
//! - `mask`: a value that a host repeats is masked in its answer
//! - `authority`: certificates for the bound hosts, for the clients of one sandbox; `certificates`: the authorities
//!   that this host believes
//! - `search`: a placeholder in bytes that go out in the clear

mod authority;
mod carriers;
mod certificates;
mod headers;
mod mask;
mod search;

pub use authority::{Authority, AuthorityError};
pub use carriers::{Carriers, USUAL_HEADERS};
pub use certificates::{Found, certificates_below, certificates_in, host_certificates, host_store};
pub use mask::{Mask, Masked};
pub use search::Search;

use crate::wire::host::Host;
use hyper::header::HeaderName;
use paddock_model::net::{Denial, DomainName, Rule, Target};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Every placeholder begins so, and no value does.
pub const PLACEHOLDER: &str = "paddock-secret-";

pub struct Secret {
    /// The variable that holds the placeholder.
    pub name: String,
    pub placeholder: String,
    pub value: Zeroizing<String>,
    /// Names only.
    pub hosts: Vec<Rule>,
    pub carriers: Carriers,
    /// Headers that are set in each request to the hosts, with `{}` for the value.
    pub inject: Vec<(HeaderName, String)>,
}

/// The secrets of one sandbox.
#[derive(Default)]
pub struct Secrets {
    list: Vec<Secret>,
    /// Values that were taken away, the last first. A host may still repeat one.
    former: Vec<Zeroizing<String>>,
    authority: Option<Authority>,
    /// How the real hosts are known.
    trust: Option<Arc<ClientConfig>>,
    /// The mask of all values, and of the former ones.
    mask: Mask,
}

/// Former values that are still masked.
const MOST_FORMER: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error("secret `{name}` is bound to `{rule}`, which is no name")]
    NotAName { name: String, rule: String },
    #[error("the value of secret `{0}` cannot stand in a header: it is empty, or has control characters")]
    Value(String),
    #[error("placeholder of secret `{0}` is not one")]
    Placeholder(String),
    #[error("TLS cannot be spoken here: {0}")]
    Tls(#[from] rustls::Error),
}

/// Never the value.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

impl Secrets {
    /// `roots`: authorities to believe besides those of this host.
    pub fn new(
        list: Vec<Secret>,
        authority: Authority,
        roots: Vec<CertificateDer<'static>>,
    ) -> Result<Secrets, SecretError> {
        for secret in &list {
            if let Some(rule) = secret.hosts.iter().find(|rule| matches!(rule.target, Target::Block(_))) {
                return Err(SecretError::NotAName { name: secret.name.clone(), rule: rule.to_string() });
            }
            let fine = |c: char| !c.is_control() && c.is_ascii();
            if secret.value.is_empty() || !secret.value.chars().all(fine) {
                return Err(SecretError::Value(secret.name.clone()));
            }
            if !secret.placeholder.starts_with(PLACEHOLDER)
                || secret.placeholder.len() < PLACEHOLDER.len() + 16
            {
                return Err(SecretError::Placeholder(secret.name.clone()));
            }
        }
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(host_certificates());
        store.add_parsable_certificates(roots);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let trust = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store)
            .with_no_client_auth();
        let mask = Mask::new(list.iter().map(|secret| secret.value.as_str()));
        let (authority, trust) = (Some(authority), Some(Arc::new(trust)));
        Ok(Secrets { list, former: Vec::new(), authority, trust, mask })
    }

    /// The same in the place of earlier ones, whose values are masked on.
    pub fn after(mut self, before: &Secrets) -> Secrets {
        let known = before.list.iter().map(|secret| &secret.value).chain(&before.former);
        for value in known {
            let is_had = self.list.iter().any(|secret| secret.value == *value) || self.former.contains(value);
            if !is_had && self.former.len() < MOST_FORMER {
                self.former.push(value.clone());
            }
        }
        let values = self.list.iter().map(|secret| &secret.value).chain(&self.former);
        self.mask = Mask::new(values.map(|value| value.as_str()));
        self
    }

    /// True if the gate ends TLS with this host by one of the two, and not by the other.
    pub fn differs_for(&self, other: &Secrets, host: &Host, port: u16) -> bool {
        let ends = |secrets: &Secrets| match host {
            Host::Name(name) => secrets.ended_for(name, port).is_some(),
            Host::Address(_) => false,
        };
        ends(self) != ends(other)
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The certificates for TLS to this host, if the gate ends TLS for it.
    pub fn ended_for(&self, name: &DomainName, port: u16) -> Option<(&Authority, &Arc<ClientConfig>)> {
        let bound = self.list.iter().any(|secret| secret.is_for(name, port));
        match (bound, &self.authority, &self.trust) {
            (true, Some(authority), Some(trust)) => Some((authority, trust)),
            _ => None,
        }
    }

    /// The first secret that is bound to this host, on any port: it is worth nothing in the clear there.
    pub fn bound_to(&self, host: &Host) -> Option<&str> {
        self.list.iter().find(|secret| secret.is_bound_to(host)).map(|secret| secret.name.as_str())
    }

    /// The refusal of a placeholder that was about to go to this host in the clear.
    pub fn refusal_in_clear(&self, name: &str, host: &Host) -> Denial {
        let is_bound = |secret: &&Secret| secret.name == name && secret.is_bound_to(host);
        match self.list.iter().find(is_bound) {
            Some(secret) => Denial::ClearSecret(secret.name.clone()),
            None => Denial::Placeholder(name.to_string()),
        }
    }

    /// The forms in which a host may repeat a value.
    pub fn mask(&self) -> &Mask {
        &self.mask
    }

    /// The first secret whose placeholder is in these bytes.
    pub fn found_in(&self, bytes: &[u8]) -> Option<&Secret> {
        self.list.iter().find(|secret| search::contains(bytes, secret.placeholder.as_bytes()))
    }
}

impl Secret {
    fn is_bound_to(&self, host: &Host) -> bool {
        matches!(host, Host::Name(name) if self.hosts.iter().any(|rule| rule.matches_name(name)))
    }

    /// Without ports, TLS's own.
    fn is_for(&self, name: &DomainName, port: u16) -> bool {
        let fits = |rule: &Rule| match rule.ports {
            paddock_model::net::Ports::Usual => port == 443,
            _ => rule.ports.allow(port),
        };
        self.hosts.iter().any(|rule| rule.matches_name(name) && fits(rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub const PLACE: &str = "paddock-secret-0123456789abcdef";
    pub const VALUE: &str = "sk-the-real-one";

    pub fn secrets() -> Secrets {
        let secret = Secret {
            name: "KEY".into(),
            placeholder: PLACE.into(),
            value: Zeroizing::new(VALUE.into()),
            hosts: vec![Rule::parse("api.test").unwrap(), Rule::parse("*.org.test:8443").unwrap()],
            carriers: Carriers::default(),
            inject: Vec::new(),
        };
        Secrets::new(vec![secret], Authority::new().unwrap(), Vec::new()).unwrap()
    }

    #[test]
    fn a_secret_is_for_the_names_it_is_bound_to() {
        let secrets = secrets();
        let ended = |name: &str, port| secrets.ended_for(&DomainName::parse(name).unwrap(), port).is_some();
        assert!(ended("api.test", 443) && ended("a.org.test", 8443));
        assert!(!ended("api.test", 80) && !ended("x.api.test", 443) && !ended("org.test", 8443));
    }

    #[test]
    fn values_that_are_gone_are_masked_on_and_not_without_end() {
        let with = |value: &str| {
            let mut secrets = secrets();
            secrets.list[0].value = Zeroizing::new(value.into());
            secrets
        };
        let masks = |secrets: &Secrets, value: &str| secrets.mask().apply(&mut value.as_bytes().to_vec());
        let second = with("sk-the-second-one").after(&secrets());
        assert!(masks(&second, VALUE) && masks(&second, "sk-the-second-one"));
        let again = secrets().after(&second);
        assert_eq!(again.former.len(), 1, "a value that is back is none of the former");
        let many =
            (0..100).fold(secrets(), |before, number| with(&format!("sk-number-{number:03}")).after(&before));
        assert_eq!(many.former.len(), MOST_FORMER);
        assert!(masks(&many, "sk-number-098") && !masks(&many, "sk-number-000"));
    }

    #[test]
    fn a_connection_is_another_one_where_tls_begins_or_ceases_to_be_ended() {
        let (some, none) = (secrets(), Secrets::default());
        let host = |name: &str| Host::Name(DomainName::parse(name).unwrap());
        assert!(
            none.differs_for(&some, &host("api.test"), 443)
                && some.differs_for(&none, &host("api.test"), 443)
        );
        assert!(
            !none.differs_for(&some, &host("api.test"), 80) && !none.differs_for(&some, &host("x.test"), 443)
        );
        assert!(!some.differs_for(&secrets(), &host("api.test"), 443));
    }

    #[test]
    fn nothing_shows_the_value() {
        let secrets = secrets();
        let shown = format!("{:?}", secrets.list[0]);
        assert!(shown.contains("KEY") && !shown.contains(VALUE), "{shown}");
    }

    #[test]
    fn what_cannot_be_a_secret_is_refused() {
        let with = |value: &str, host: &str, placeholder: &str| {
            let secret = Secret {
                name: "KEY".into(),
                placeholder: placeholder.into(),
                value: Zeroizing::new(value.into()),
                hosts: vec![Rule::parse(host).unwrap()],
                carriers: Carriers::default(),
                inject: Vec::new(),
            };
            Secrets::new(vec![secret], Authority::new().unwrap(), Vec::new())
                .err()
                .map(|error| error.to_string())
        };
        assert!(with("", "a.test", PLACE).unwrap().contains("KEY"));
        assert!(with("a\r\nX: y", "a.test", PLACE).is_some());
        assert!(with("fine", "10.0.0.0/8", PLACE).unwrap().contains("10.0.0.0/8"));
        assert!(with("fine", "a.test", "short").is_some());
        assert_eq!(with("fine", "a.test", PLACE), None);
    }

    #[test]
    fn an_authority_comes_back_by_its_key() {
        let first = Authority::new().unwrap();
        let again = Authority::from_key_pem(first.key_pem()).unwrap();
        assert_eq!(first.key_pem(), again.key_pem());
        again.server(&DomainName::parse("api.test").unwrap()).unwrap();
    }
}
