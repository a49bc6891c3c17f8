//! TLS, where a certificate is given.

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

#[derive(Clone)]
pub struct Tls(pub(crate) TlsAcceptor);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read a certificate from {0}: {1}")]
    Certificate(PathBuf, String),
    #[error("cannot read a private key from {0}: {1}")]
    Key(PathBuf, String),
    #[error("the certificate and the key cannot be used")]
    Pair(#[from] rustls::Error),
}

impl Tls {
    /// PEM files: the certificate with its chain, and its key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let unreadable = |error: rustls::pki_types::pem::Error| {
            TlsError::Certificate(certificate.into(), error.to_string())
        };
        let chain = CertificateDer::pem_file_iter(certificate)
            .map_err(unreadable)?
            .collect::<Result<Vec<_>, _>>()
            .map_err(unreadable)?;
        if chain.is_empty() {
            return Err(TlsError::Certificate(certificate.into(), "there is none in it".into()));
        }
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| TlsError::Key(key.into(), error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls(TlsAcceptor::from(Arc::new(config))))
    }
}
