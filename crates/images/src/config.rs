use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ImageError;
use super::digest::Digest;
use super::manifest::{Platform, check_platform};

/// How an image wants its processes started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    pub environment: BTreeMap<String, String>,
    pub user: Option<String>,
    pub cwd: Option<String>,
    pub command: Vec<String>,
}

/// The configuration document of an image.
#[derive(Debug)]
pub struct Config {
    pub settings: Settings,
    /// The digests of the layers after decompression, in order.
    pub diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
struct RawConfig {
    #[serde(flatten)]
    platform: Platform,
    config: Option<RawSettings>,
    rootfs: RawRoot,
}

#[derive(Deserialize)]
struct RawRoot {
    diff_ids: Vec<Digest>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawSettings {
    env: Option<Vec<String>>,
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
}

impl Config {
    pub fn parse(bytes: &[u8], layers: usize) -> Result<Self, ImageError> {
        let malformed = |reason: &str| ImageError::malformed("image configuration", reason);
        let raw: RawConfig = serde_json::from_slice(bytes).map_err(|error| malformed(&error.to_string()))?;
        check_platform(&raw.platform)?;
        if raw.rootfs.diff_ids.len() != layers {
            return Err(malformed("it has not one diff_id for each layer"));
        }
        let settings = raw.config.map(Settings::from_raw).unwrap_or_default();
        if settings.texts().any(|text| text.contains('\0')) {
            return Err(malformed("it has a NUL in a setting"));
        }
        Ok(Self { settings, diff_ids: raw.rootfs.diff_ids })
    }
}

impl Settings {
    fn from_raw(raw: RawSettings) -> Self {
        let is_set = |text: &String| !text.is_empty();
        // A name without a value would mean "as on the host": nothing of the host comes in.
        let pair =
            |text: &String| text.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut command = raw.entrypoint.unwrap_or_default();
        command.extend(raw.cmd.unwrap_or_default());
        Self {
            environment: raw.env.unwrap_or_default().iter().filter_map(pair).collect(),
            user: raw.user.filter(is_set),
            cwd: raw.working_dir.filter(is_set),
            command,
        }
    }

    fn texts(&self) -> impl Iterator<Item = &String> {
        self.environment
            .iter()
            .flat_map(|(name, value)| [name, value])
            .chain(&self.user)
            .chain(&self.cwd)
            .chain(&self.command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_from_the_configuration() {
        let bytes = br#"{"os": "linux", "rootfs": {"type": "layers", "diff_ids": []}, "config": {
            "Env": ["PATH=/bin", "A=b=c", "HOST_ONLY"], "User": "", "WorkingDir": "/app",
            "Entrypoint": ["python"], "Cmd": null}}"#;
        let settings = Config::parse(bytes, 0).unwrap().settings;
        let environment =
            [("A", "b=c"), ("PATH", "/bin")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(settings.environment, environment.into());
        assert_eq!((settings.user, settings.cwd.as_deref()), (None, Some("/app")));
        assert_eq!(settings.command, ["python"]);
    }

    #[test]
    fn bad_configurations_are_refused() {
        let malformed =
            |bytes: &[u8], layers| matches!(Config::parse(bytes, layers), Err(ImageError::Malformed { .. }));
        assert!(malformed(b"{", 0));
        assert!(malformed(b"{}", 0));
        assert!(malformed(br#"{"rootfs": {"diff_ids": []}}"#, 1));
        assert!(malformed(br#"{"rootfs": {"diff_ids": []}, "config": {"Cmd": ["a\u0000b"]}}"#, 0));
        let other = br#"{"os": "linux", "architecture": "pdp11", "rootfs": {"diff_ids": []}}"#;
        assert!(matches!(Config::parse(other, 0), Err(ImageError::NoPlatform { .. })));
    }
}
