//! Why there is no connection: each cause by its own name, since each has another remedy.

use crate::PADDOCK_URL;
use crate::address::Address;
use std::io;
use std::path::Path;
use tokio_rustls::rustls::{CertificateError, Error as TlsError};

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("no server listens at {address}")]
    Nobody { address: Address, source: io::Error },
    #[error("this user may not use the socket of {address}")]
    Denied { address: Address, source: io::Error },
    #[error("the name `{host}` in {address} is not known")]
    Name { address: Address, host: String, source: io::Error },
    #[error("{address} did not answer within {seconds} seconds")]
    Silent { address: Address, seconds: u64 },
    #[error("{address} cannot be reached")]
    Unreachable { address: Address, source: io::Error },
    #[error("this host has no certificates to know {address} by")]
    NoAuthorities { address: Address, source: TlsError },
    #[error("the certificate of {address} {fault}")]
    Certificate { address: Address, fault: Fault, source: TlsError },
    #[error("what listens at {address} does not speak TLS")]
    NotTls { address: Address, source: TlsError },
    #[error("what listens at {address} does not speak HTTP")]
    NotHttp { address: Address, source: hyper::Error },
    #[error("{address} closed the connection without an answer")]
    NoAnswer { address: Address, source: hyper::Error },
    #[error("no TLS connection to {address} could be made")]
    Tls { address: Address, source: io::Error },
}

/// The fault of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Untrusted,
    OtherName,
    Expired,
    NotYet,
    Revoked,
    Bad,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Fault::Untrusted => "is of an authority that this host does not trust",
            Fault::OtherName => "is for another name",
            Fault::Expired => "has expired",
            Fault::NotYet => "is not valid yet",
            Fault::Revoked => "was revoked",
            Fault::Bad => "cannot be used",
        })
    }
}

impl ConnectError {
    /// Chosen by the system's error when a stream was opened.
    pub fn of_stream(address: &Address, source: io::Error) -> ConnectError {
        let address = address.clone();
        match (source.kind(), &address) {
            (io::ErrorKind::ConnectionRefused, _) => ConnectError::Nobody { address, source },
            (io::ErrorKind::NotFound, Address::Unix(_)) => ConnectError::Nobody { address, source },
            (io::ErrorKind::PermissionDenied, Address::Unix(_)) => ConnectError::Denied { address, source },
            _ => ConnectError::Unreachable { address, source },
        }
    }

    /// Chosen by the end of a handshake.
    pub fn of_handshake(address: &Address, source: io::Error) -> ConnectError {
        let address = address.clone();
        let Some(tls) = source.get_ref().and_then(|inner| inner.downcast_ref::<TlsError>()).cloned() else {
            return ConnectError::Tls { address, source };
        };
        match &tls {
            TlsError::InvalidCertificate(error) => {
                ConnectError::Certificate { address, fault: fault(error), source: tls }
            }
            TlsError::InvalidMessage(_) => ConnectError::NotTls { address, source: tls },
            _ => ConnectError::Tls { address, source },
        }
    }

    /// Chosen by the first answer over a new connection, if it says something about the address.
    pub fn of_first_answer(address: &Address, source: hyper::Error) -> Result<ConnectError, hyper::Error> {
        let address = address.clone();
        match &address {
            _ if source.is_parse() => Ok(ConnectError::NotHttp { address, source }),
            Address::Tcp { tls: false, .. } if was_closed(&source) => {
                Ok(ConnectError::NoAnswer { address, source })
            }
            _ => Err(source),
        }
    }

    pub fn hint(&self) -> String {
        match self {
            ConnectError::Nobody { .. } => {
                format!("start it there with `paddock serve`, or unset {PADDOCK_URL} to use one of your own")
            }
            ConnectError::Denied { .. } => format!(
                "a server's socket is its owner's alone: ask for an address and a token, or unset {PADDOCK_URL} to use a server \
                 of your own"
            ),
            ConnectError::Name { .. } => format!("check {PADDOCK_URL}, and the network"),
            ConnectError::Silent { .. } | ConnectError::Unreachable { .. } => {
                format!("check {PADDOCK_URL}, and whether a firewall is in between")
            }
            ConnectError::NoAuthorities { .. } => {
                "install the package ca-certificates, or name a PEM file with SSL_CERT_FILE".into()
            }
            ConnectError::Certificate { fault: Fault::Untrusted, .. } => {
                "name the PEM file of its authority with SSL_CERT_FILE; where TLS is inspected, that of the network"
                    .into()
            }
            ConnectError::Certificate { fault: Fault::OtherName, .. } => {
                format!("write the name that the certificate is for into {PADDOCK_URL}")
            }
            ConnectError::Certificate { fault: Fault::Expired | Fault::NotYet, .. } => {
                "check this host's clock; else the server needs a new certificate".into()
            }
            ConnectError::Certificate { .. } => "the server needs another certificate".into(),
            ConnectError::NotTls { .. } => {
                format!("write http:// into {PADDOCK_URL} if it is a Paddock server without TLS")
            }
            ConnectError::NotHttp { address: Address::Tcp { tls: false, .. }, .. }
            | ConnectError::NoAnswer { .. } => {
                format!("write https:// into {PADDOCK_URL} if it speaks TLS")
            }
            ConnectError::NotHttp { .. } => format!("check {PADDOCK_URL}"),
            ConnectError::Tls { .. } => format!(
                "check {PADDOCK_URL}: http:// is for a server without TLS; both sides need TLS 1.2 or 1.3"
            ),
        }
    }

    /// True if the same call may succeed a little later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            ConnectError::Nobody { .. }
                | ConnectError::Name { .. }
                | ConnectError::Silent { .. }
                | ConnectError::Unreachable { .. }
                | ConnectError::NoAnswer { .. }
        )
    }

    /// No server listens now, but one may soon: it is starting, or being restarted. A socket whose directory does not exist
    /// is not such a case.
    pub fn is_absence(&self) -> bool {
        let ConnectError::Nobody { address, source } = self else { return false };
        match (source.kind(), address) {
            (io::ErrorKind::ConnectionRefused, _) => true,
            (_, Address::Unix(path)) => path.parent().is_some_and(Path::exists),
            _ => false,
        }
    }
}

/// A server that speaks TLS does so when it meets HTTP.
fn was_closed(error: &hyper::Error) -> bool {
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref::<io::Error>());
    let kinds = [io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe, io::ErrorKind::UnexpectedEof];
    error.is_incomplete_message() || cause.is_some_and(|cause| kinds.contains(&cause.kind()))
}

fn fault(error: &CertificateError) -> Fault {
    match error {
        CertificateError::UnknownIssuer => Fault::Untrusted,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Fault::OtherName
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Fault::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Fault::NotYet,
        CertificateError::Revoked => Fault::Revoked,
        // A self-signed certificate is refused by its form before its issuer is looked up.
        CertificateError::Other(other) if other.0.to_string().contains("CaUsedAsEndEntity") => {
            Fault::Untrusted
        }
        _ => Fault::Bad,
    }
}
