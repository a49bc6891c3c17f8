//! Whom this machine believes.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_native_certs::CertificateResult;
use std::path::Path;

/// Certificates, and what could not be read of them.
pub type Found = (Vec<CertificateDer<'static>>, Vec<String>);

/// Those that the host's own clients believe. A machine that has none believes nobody.
pub fn host_certificates() -> Vec<CertificateDer<'static>> {
    host_store().0
}

/// The same, and what could not be read of them.
pub fn host_store() -> Found {
    found(rustls_native_certs::load_native_certs())
}

/// All in the files of a directory, as OpenSSL's clients read one.
pub fn certificates_below(directory: &Path) -> Found {
    found(rustls_native_certs::load_certs_from_paths(None, Some(directory)))
}

fn found(result: CertificateResult) -> Found {
    (result.certs, result.errors.iter().map(ToString::to_string).collect())
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
