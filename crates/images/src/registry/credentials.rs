use std::collections::HashMap;
use std::io::{self, Read};
use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use crate::ImageError;

const LARGEST_FILE: u64 = 1 << 20;
/// The name under which Docker stores the credentials for its own registry.
const DOCKER_HUB: &str = "https://index.docker.io/v1/";

/// A name and a password for a registry.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub user: String,
    pub password: String,
}

/// Keeps the password out of logs.
impl std::fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credentials").field("user", &self.user).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct DockerConfig {
    #[serde(default)]
    auths: HashMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    #[serde(default)]
    auth: String,
}

impl Credentials {
    /// Finds the credentials that `docker login` has stored in its file; its credential helpers are not asked.
    pub fn find(registry: &str) -> Result<Option<Self>, ImageError> {
        let directory = match std::env::var_os("DOCKER_CONFIG") {
            Some(directory) => PathBuf::from(directory),
            None => match std::env::home_dir() {
                Some(home) => home.join(".docker"),
                None => return Ok(None),
            },
        };
        let path = directory.join("config.json");
        let mut bytes = Vec::new();
        let read =
            std::fs::File::open(&path).and_then(|file| file.take(LARGEST_FILE).read_to_end(&mut bytes));
        match read {
            Ok(_) => Self::parse(&bytes, registry),
            // A file that this user may not read belongs to another user.
            Err(error)
                if [io::ErrorKind::NotFound, io::ErrorKind::PermissionDenied].contains(&error.kind()) =>
            {
                Ok(None)
            }
            Err(error) => Err(ImageError::io("read", &path, error)),
        }
    }

    fn parse(bytes: &[u8], registry: &str) -> Result<Option<Self>, ImageError> {
        // The cause is left out: it might quote the file.
        let malformed =
            |_| ImageError::malformed("Docker credentials file", "it is not the JSON that Docker writes");
        let config: DockerConfig = serde_json::from_slice(bytes).map_err(malformed)?;
        let keys = [registry.to_owned(), format!("https://{registry}")];
        let hub = (registry == "docker.io").then(|| DOCKER_HUB.to_owned());
        let found = keys.into_iter().chain(hub).find_map(|key| config.auths.get(&key));
        let Some(auth) = found.filter(|auth| !auth.auth.is_empty()) else { return Ok(None) };
        let decoded = BASE64_STANDARD.decode(&auth.auth).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
        let (user, password) = pair.ok_or_else(|| {
            ImageError::malformed("Docker credentials file", "an entry is not user:password")
        })?;
        Ok(Some(Self { user: user.to_owned(), password: password.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_entry_of_a_registry() {
        let file = br#"{"auths": {"https://index.docker.io/v1/": {"auth": "YTpiOmM="}, "x.example": {}}}"#;
        let found = Credentials::parse(file, "docker.io").unwrap().unwrap();
        assert_eq!((found.user.as_str(), found.password.as_str()), ("a", "b:c"));
        assert!(!format!("{found:?}").contains("b:c"));
        assert_eq!(Credentials::parse(file, "x.example").unwrap(), None);
        assert_eq!(Credentials::parse(file, "other.example").unwrap(), None);
        assert!(Credentials::parse(br#"{"auths": {"x": {"auth": "!"}}}"#, "x").is_err());
        assert!(Credentials::parse(b"[", "x").is_err());
    }
}
