//! The certificates that the clients inside trust, written into the sandbox.

use crate::certificates::{CertificatesError, Trust};
use crate::error::EngineError;
use crate::sandbox::Sandbox;
use crate::secrets::{SandboxSecrets, SecretsError};
use paddock_gate::Authority;
use paddock_model::User;
use paddock_settings::certificate_variables::FILE;

impl Trust<'_> {
    /// Writes the file to the path that the variables name, as `user`. Returns when it is there.
    ///
    /// Precondition: the inside is ready.
    pub async fn install(
        &self,
        inside: &Sandbox,
        user: &User,
        authority: Option<&str>,
    ) -> Result<(), CertificatesError> {
        let bundle = self.bundle(authority)?;
        let files = inside.files(user.clone(), None);
        let write = async {
            let mut upload = files.write(FILE, Some(0o444), true)?;
            upload.write(&bundle).await?;
            upload.finish().await
        };
        write.await.map(drop).map_err(CertificatesError::Install)
    }
}

impl SandboxSecrets {
    /// Writes the certificates to the path that the variables name, as `user`. Returns when they are there.
    ///
    /// Precondition: the inside is ready.
    pub async fn install(&self, inside: &Sandbox, user: &User, trust: Trust<'_>) -> Result<(), EngineError> {
        let authority = Authority::from_key_pem(&self.authority).map_err(SecretsError::from)?;
        Ok(trust.install(inside, user, Some(authority.pem())).await?)
    }
}
