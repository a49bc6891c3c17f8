//! The certificate authorities that this host believes.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls_native_certs::CertificateResult;
use std::path::Path;

/// Certificates, and the errors of those that could not be read.
pub type Found = (Vec<CertificateDer<'static>>, Vec<String>);

/// The authorities that the host's own clients believe. A host without any believes no server.
pub fn host_certificates() -> Vec<CertificateDer<'static>> {
    host_store().0
}

/// The same, with the errors of those that could not be read.
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
