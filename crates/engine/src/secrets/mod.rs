//! Values that never enter a sandbox: kept encrypted, given to the gate, and masked in what comes out.
//!
//! - here: the secrets of one sandbox, from what was asked for to what its gate, its commands and its record need
//! - [`vault`]: the key that they are encrypted with at rest

mod vault;

pub use paddock_gate::{Mask, Masked};
pub use vault::{Vault, VaultError};

use crate::sandbox::Sandbox;
use crate::{EngineError, FileError};
use paddock_gate::{
    Authority, AuthorityError, Carriers, HeaderName, PLACEHOLDER, Secret, SecretError, Secrets,
};
use paddock_model::User;
use paddock_model::net::Rule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use zeroize::Zeroizing;

/// Where the certificates lie that the clients inside believe: the host's, and the one of the gate. Every user can write
/// there, in every image and with one id alone; who changes them harms nobody but itself.
const CERTIFICATES: &str = "/tmp/.paddock/certificates.pem";
/// Variables by which clients find them. Node adds to its own, the others replace them.
const CERTIFICATE_VARIABLES: [&str; 9] = [
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
];
/// `net/roots.pem` of the state directory: whom the gate believes besides those that the machine does.
const LARGEST_ROOTS: u64 = 1 << 20;

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
    #[error("{path} cannot be used: {detail}")]
    Roots { path: String, detail: String },
    #[error("the certificates cannot be put into the sandbox")]
    Certificates(#[source] FileError),
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
        let certificates = CERTIFICATE_VARIABLES.map(|name| (name.to_string(), CERTIFICATES.to_string()));
        let placeholders = self.list.iter().map(|(place, secret)| (secret.name.clone(), place.clone()));
        certificates.into_iter().chain(placeholders).collect()
    }

    /// Takes what `environment` gave out of it again.
    pub fn remove_environment<'a>(names: impl Iterator<Item = &'a str>, env: &mut BTreeMap<String, String>) {
        env.retain(|name, value| !(value == CERTIFICATES && is_certificate_variable(name)));
        names.for_each(|name| drop(env.remove(name)));
    }

    pub fn mask(&self) -> Mask {
        Mask::new(self.list.iter().map(|(_, secret)| secret.value.as_str()))
    }

    /// For the gate of this sandbox.
    pub fn gate(&self, state: &Path) -> Result<Secrets, SecretsError> {
        let (roots, _) = roots(state)?;
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
    pub async fn install(&self, inside: &Sandbox, user: &User, state: &Path) -> Result<(), EngineError> {
        let bundle = self.bundle(state)?;
        let files = inside.files(user.clone(), None);
        let write = async {
            let mut upload = files.write(CERTIFICATES, Some(0o444), true)?;
            upload.write(&bundle).await?;
            upload.finish().await
        };
        write.await.map(drop).map_err(|error| SecretsError::Certificates(error).into())
    }

    fn bundle(&self, state: &Path) -> Result<Vec<u8>, SecretsError> {
        let authority = Authority::from_key_pem(&self.authority)?;
        let (_, own) = roots(state)?;
        let mut bundle = String::new();
        for certificate in paddock_gate::host_certificates() {
            bundle.push_str(&pem(&certificate));
        }
        bundle.push_str(&own);
        bundle.push_str(authority.pem());
        Ok(bundle.into_bytes())
    }
}

pub fn is_certificate_variable(name: &str) -> bool {
    CERTIFICATE_VARIABLES.contains(&name)
}

type Certificates = Vec<paddock_gate::CertificateDer<'static>>;

/// Those of the owner, and their text.
fn roots(state: &Path) -> Result<(Certificates, String), SecretsError> {
    use std::io::{ErrorKind, Read};
    let path = state.join("net").join("roots.pem");
    let wrong = |detail: String| SecretsError::Roots { path: path.display().to_string(), detail };
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((Vec::new(), String::new())),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let mut text = String::new();
    file.take(LARGEST_ROOTS + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > LARGEST_ROOTS {
        return Err(wrong("it is larger than 1 MiB".into()));
    }
    let certificates = paddock_gate::certificates_in(&text).map_err(wrong)?;
    Ok((certificates, text + "\n"))
}

fn pem(certificate: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(certificate);
    let lines = text.as_bytes().chunks(64).map(|line| String::from_utf8_lossy(line) + "\n");
    format!("-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----\n", lines.collect::<String>())
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
        env.insert("SSL_CERT_DIR".into(), "/etc".into());
        SandboxSecrets::remove_environment(secrets.names(), &mut env);
        assert_eq!(env.into_keys().collect::<Vec<_>>(), ["SSL_CERT_DIR"]);
        assert!(!format!("{:?}", secrets.list).contains("sk-the-real-one"));
    }

    #[test]
    fn the_clients_inside_believe_the_host_the_owner_and_the_gate() {
        let state = tempfile::tempdir().unwrap();
        let secrets = secrets();
        let count = |bundle: Vec<u8>| {
            paddock_gate::certificates_in(std::str::from_utf8(&bundle).unwrap()).unwrap().len()
        };
        let without = count(secrets.bundle(state.path()).unwrap());
        assert_eq!(without, paddock_gate::host_certificates().len() + 1);
        std::fs::create_dir(state.path().join("net")).unwrap();
        let roots = state.path().join("net/roots.pem");
        std::fs::write(&roots, Authority::new().unwrap().pem()).unwrap();
        assert_eq!(count(secrets.bundle(state.path()).unwrap()), without + 1);
        std::fs::write(&roots, "nothing of that sort").unwrap();
        assert!(secrets.bundle(state.path()).unwrap_err().to_string().contains("roots.pem"));
    }
}
