//! Certificates for bound hosts, which only the clients of one sandbox believe.

use lru::LruCache;
use paddock_model::net::DomainName;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
    key_pem: Zeroizing<String>,
    /// One for each host that was asked for.
    hosts: Mutex<LruCache<DomainName, Arc<ServerConfig>>>,
}

#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    #[error("a certificate could not be made: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("TLS cannot be spoken with it: {0}")]
    Tls(#[from] rustls::Error),
}

const REMEMBERED: usize = 64;

impl Authority {
    pub fn new() -> Result<Authority, AuthorityError> {
        Authority::of(KeyPair::generate()?)
    }

    /// The same one again: its clients know it by its key.
    pub fn from_key_pem(pem: &str) -> Result<Authority, AuthorityError> {
        Authority::of(KeyPair::from_pem(pem)?)
    }

    fn of(key: KeyPair) -> Result<Authority, AuthorityError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "Paddock, for this sandbox only");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        let (pem, key_pem) = (certificate.pem(), Zeroizing::new(key.serialize_pem()));
        let certificate = certificate.der().clone();
        let hosts = Mutex::new(LruCache::unbounded());
        Ok(Authority { issuer: Issuer::new(params, key), certificate, pem, key_pem, hosts })
    }

    /// For the clients inside.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// For the next engine. Never for the inside.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The TLS settings to speak as this host.
    pub fn server(&self, name: &DomainName) -> Result<Arc<ServerConfig>, AuthorityError> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hosts.get(name) {
            return Ok(known.clone());
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_string()])?;
        params.distinguished_name.push(DnType::CommonName, name.as_str());
        params.use_authority_key_identifier_extension = true;
        let leaf = params.signed_by(&key, &self.issuer)?;
        let chain = vec![leaf.der().clone(), self.certificate.clone()];
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, PrivateKeyDer::Pkcs8(key.serialize_der().into()))?;
        // Requests have to be read one by one.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        if hosts.len() >= REMEMBERED {
            hosts.pop_lru();
        }
        hosts.put(name.clone(), config.clone());
        Ok(config)
    }
}
