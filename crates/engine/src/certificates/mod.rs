//! The certificates that the clients inside trust: the host's, the owner's, and the gate's own if it ends TLS.
//!
//! - here: the file that a sandbox gets, and the variables by which its clients find it
//! - [`host`]: the certificates of this host, by its store and by the variables of this process
//!
//! A sandbox has the file when it asked for the host's certificates (`host_certs`), or has secrets, whose TLS the gate
//! ends. Certificates are parsed and written anew: a private key in the same file stays outside.

mod host;

pub use host::certificates as host_certificates;
pub use paddock_settings::certificate_variables::{
    environment, environment_at, is_variable, remove_environment,
};

use crate::FileError;
use paddock_gate::CertificateDer;
use std::collections::BTreeSet;
use std::path::Path;

/// The most bytes of one file, of `net/roots.pem`, and of the file that a sandbox gets.
const LARGEST: u64 = 8 << 20;

pub type Certificates = Vec<CertificateDer<'static>>;

#[derive(Debug, thiserror::Error)]
pub enum CertificatesError {
    #[error("this host has no certificates that a sandbox could be given")]
    None,
    #[error("the certificates of this host cannot be read: {0}")]
    Store(String),
    #[error("{variable} names `{}`, which cannot be used: {detail}", .path.escape_debug())]
    Named { variable: &'static str, path: String, detail: String },
    #[error("{path} cannot be used: {detail}")]
    Roots { path: String, detail: String },
    #[error("the certificates for a sandbox have {0} bytes, and {LARGEST} are the most")]
    TooLarge(usize),
    #[error("the certificates cannot be put into the sandbox")]
    Install(#[source] FileError),
}

impl CertificatesError {
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            CertificatesError::None => {
                "install the package ca-certificates, name a PEM file with SSL_CERT_FILE, or leave the host's certificates out"
            }
            CertificatesError::Store(_) => "make it readable, or name one PEM file with SSL_CERT_FILE",
            CertificatesError::Named { .. } => {
                "name a PEM file that this user can read, or unset the variable where paddock, or its server, is started"
            }
            CertificatesError::Roots { .. } => "mend the file, or take it away",
            CertificatesError::TooLarge(_) | CertificatesError::Install(_) => return None,
        };
        Some(text.to_string())
    }
}

/// The sources of the certificates that a sandbox trusts.
#[derive(Debug, Clone, Copy)]
pub struct Trust<'a> {
    /// The state directory; its `net/roots.pem` has the owner's own.
    pub state: &'a Path,
    /// True if all certificates that this host trusts were asked for: then it is an error if they cannot be read.
    pub host_certs: bool,
}

impl Trust<'_> {
    /// The gate's certificates besides the host's store, which it trusts anyway: the owner's, and with `host_certs` all
    /// that this host trusts.
    pub fn beyond_store(&self) -> Result<Certificates, CertificatesError> {
        let mut all = self.roots()?;
        if self.host_certs {
            all.extend(host::certificates()?);
        }
        Ok(all)
    }

    /// The whole file. `authority`: the gate's own, as PEM.
    pub fn bundle(&self, authority: Option<&str>) -> Result<Vec<u8>, CertificatesError> {
        let mut all = match self.host_certs {
            true => host::certificates()?,
            false => paddock_gate::host_certificates(),
        };
        all.extend(self.roots()?);
        let mut seen = BTreeSet::new();
        let mut text = String::new();
        for certificate in &all {
            if seen.insert(certificate.as_ref()) {
                text.push_str(&pem(certificate));
            }
        }
        text.push_str(authority.unwrap_or_default());
        match text.len() as u64 > LARGEST {
            true => Err(CertificatesError::TooLarge(text.len())),
            false => Ok(text.into_bytes()),
        }
    }

    /// The owner's own certificates.
    fn roots(&self) -> Result<Certificates, CertificatesError> {
        let path = self.state.join("net").join("roots.pem");
        match read(&path) {
            Ok(certificates) => Ok(certificates),
            Err(Unreadable::Missing) => Ok(Vec::new()),
            Err(Unreadable::Wrong(detail)) => {
                Err(CertificatesError::Roots { path: path.display().to_string(), detail })
            }
        }
    }
}

enum Unreadable {
    Missing,
    Wrong(String),
}

/// Reads a file of PEM text with at least one certificate.
fn read(path: &Path) -> Result<Certificates, Unreadable> {
    use std::io::{ErrorKind, Read};
    let wrong = |error: std::io::Error| match error.kind() {
        ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::Wrong(error.to_string()),
    };
    // The open of a pipe would wait for its writer.
    if !std::fs::metadata(path).map_err(wrong)?.is_file() {
        return Err(Unreadable::Wrong("it is not a file".into()));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(wrong)?;
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > LARGEST {
        return Err(Unreadable::Wrong("it is larger than 8 MiB".into()));
    }
    // Comments between certificates may have any encoding; a certificate is ASCII.
    paddock_gate::certificates_in(&String::from_utf8_lossy(&bytes)).map_err(Unreadable::Wrong)
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
    use paddock_gate::Authority;

    fn count(bundle: Result<Vec<u8>, CertificatesError>) -> usize {
        let text = String::from_utf8(bundle.unwrap()).unwrap();
        assert!(!text.contains("PRIVATE"), "a key is in it");
        paddock_gate::certificates_in(&text).unwrap().len()
    }

    #[test]
    fn the_clients_inside_believe_the_host_the_owner_and_the_gate() {
        let state = tempfile::tempdir().unwrap();
        let trust = Trust { state: state.path(), host_certs: false };
        let gate = Authority::new().unwrap();
        let of_store = count(trust.bundle(None));
        assert_eq!(count(trust.bundle(Some(gate.pem()))), of_store + 1);
        std::fs::create_dir(state.path().join("net")).unwrap();
        let roots = state.path().join("net/roots.pem");
        // The file has the certificate twice, and its key.
        let owner = Authority::new().unwrap();
        let text = format!("caf\u{e9}\n{}{}{}", owner.pem(), owner.key_pem(), owner.pem());
        std::fs::write(&roots, text).unwrap();
        assert_eq!(count(trust.bundle(Some(gate.pem()))), of_store + 2);
        assert_eq!(trust.beyond_store().unwrap().len(), 2);
        std::fs::write(&roots, "nothing of that sort").unwrap();
        assert!(trust.bundle(None).unwrap_err().to_string().contains("roots.pem"));
    }
}
