//! The host's certificates, as a flag of every command that makes sandboxes.

use clap::Args;
use paddock_terminal::caller::Environment;
use paddock_terminal::env_vars::PADDOCK_HOST_CERTS;

#[derive(Debug, Clone, Default, Args)]
pub struct CertificateFlags {
    /// Let clients inside believe the certificates that the host believes, as a network that inspects TLS needs it: the
    /// host's store, and what SSL_CERT_FILE, NODE_EXTRA_CA_CERTS, PIP_CERT and their like name; also PADDOCK_HOST_CERTS=1
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Network"
    )]
    pub host_certs: Option<bool>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{PADDOCK_HOST_CERTS} is `{}`, and has to be 1 or 0", .0.escape_debug())]
pub struct HostCertsError(String);

impl CertificateFlags {
    /// The flag, or the variable where there is none; `None`: neither says anything.
    pub fn chosen(&self, environment: &Environment) -> Result<Option<bool>, HostCertsError> {
        if self.host_certs.is_some() {
            return Ok(self.host_certs);
        }
        let Some(value) = environment.get(PADDOCK_HOST_CERTS) else { return Ok(None) };
        match value.to_str() {
            Some("1" | "true" | "on") => Ok(Some(true)),
            Some("0" | "false" | "off") => Ok(Some(false)),
            _ => Err(HostCertsError(value.to_string_lossy().chars().take(80).collect())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_wins_over_the_variable_and_a_wrong_word_is_refused() {
        let chosen = |flag: Option<bool>, value: &str| {
            let environment = [(PADDOCK_HOST_CERTS.into(), value.into())].into_iter().collect();
            CertificateFlags { host_certs: flag }.chosen(&environment)
        };
        assert_eq!(chosen(None, ""), Ok(None));
        assert_eq!(chosen(None, "1"), Ok(Some(true)));
        assert_eq!(chosen(None, "off"), Ok(Some(false)));
        assert_eq!(chosen(Some(false), "1"), Ok(Some(false)));
        let error = chosen(None, "yes please").unwrap_err().to_string();
        assert_eq!(error, "PADDOCK_HOST_CERTS is `yes please`, and has to be 1 or 0");
    }
}
