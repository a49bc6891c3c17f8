//! Whom this machine believes.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// Those that the host's own clients believe. A machine that has none believes nobody.
pub fn host_certificates() -> Vec<CertificateDer<'static>> {
    rustls_native_certs::load_native_certs().certs
}

/// All in a PEM text; at least one, or why not.
pub fn certificates_in(text: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    match read {
        Ok(none) if none.is_empty() => Err("there is no certificate in it".into()),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(error.to_string()),
    }
}
