//! TLS, where a certificate is given. The certificate can be read again while the server runs: handshakes that begin
//! later get the new one.

use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use tokio_rustls::TlsAcceptor;

#[derive(Clone)]
pub struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    current: Arc<Current>,
    certificate: PathBuf,
    key: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read a certificate from {0}: {1}")]
    Certificate(PathBuf, String),
    #[error("cannot read a private key from {0}: {1}")]
    Key(PathBuf, String),
    #[error("the certificate and the key cannot be used")]
    Pair(#[from] rustls::Error),
}

/// The certificate of the next handshake.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

impl Tls {
    /// PEM files: the certificate with its chain, and its key.
    pub fn load(certificate: &Path, key: &Path) -> Result<Tls, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let current = Arc::new(Current(RwLock::new(Arc::new(read(certificate, key, &provider)?))));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Tls { acceptor, current, certificate: certificate.into(), key: key.into() })
    }

    /// Reads the same files again. Where that fails, the certificate of before stays.
    pub fn reload(&self) -> Result<(), TlsError> {
        let read = read(&self.certificate, &self.key, &rustls::crypto::ring::default_provider())?;
        *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read);
        Ok(())
    }
}

fn read(certificate: &Path, key: &Path, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let unreadable =
        |error: rustls::pki_types::pem::Error| TlsError::Certificate(certificate.into(), error.to_string());
    let chain = CertificateDer::pem_file_iter(certificate)
        .map_err(unreadable)?
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    if chain.is_empty() {
        return Err(TlsError::Certificate(certificate.into(), "there is none in it".into()));
    }
    let key =
        PrivateKeyDer::from_pem_file(key).map_err(|error| TlsError::Key(key.into(), error.to_string()))?;
    // It refuses a key that is not the certificate's.
    Ok(CertifiedKey::from_der(chain, key, provider)?)
}
