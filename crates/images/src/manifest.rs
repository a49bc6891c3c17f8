//! The documents that list the parts of an image.

use serde::Deserialize;
use serde_json::Value;

use super::digest::Digest;
use super::error::printable;
use super::{ImageError, UnpackLimits};

pub const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub const DOCKER_INDEX: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
pub const DOCKER_MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

const CONFIGS: [&str; 2] =
    ["application/vnd.oci.image.config.v1+json", "application/vnd.docker.container.image.v1+json"];
const LAYERS: [&str; 6] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
    "application/vnd.docker.image.rootfs.diff.tar.zstd",
];

/// An index may hold an index, but only this many levels deep.
pub const DEEPEST_INDEX: usize = 3;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    urls: Vec<String>,
    platform: Option<Platform>,
}

impl Descriptor {
    /// Fails if `bytes` differ from the descriptor's size or digest.
    pub fn check(&self, bytes: &[u8], what: &str) -> Result<(), ImageError> {
        let found = bytes.len() as u64;
        if found != self.size {
            return Err(ImageError::SizeMismatch { what: what.to_owned(), expected: self.size, found });
        }
        self.digest.expect(&Digest::of(bytes), what)
    }
}

#[derive(Debug, Clone, Deserialize)]
pub struct Platform {
    #[serde(default)]
    pub os: String,
    #[serde(default)]
    pub architecture: String,
}

#[derive(Debug, Deserialize)]
pub struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Debug, Deserialize)]
pub struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

#[derive(Debug)]
pub enum Document {
    Index(Index),
    Manifest(Manifest),
}

impl Document {
    pub fn parse(bytes: &[u8], limits: &UnpackLimits) -> Result<Self, ImageError> {
        let malformed = |error: serde_json::Error| ImageError::malformed("manifest", error.to_string());
        let value: Value = serde_json::from_slice(bytes).map_err(malformed)?;
        let media_type = value.get("mediaType").and_then(Value::as_str);
        // One document must not be an index to one reader and a manifest to another.
        let document = match (value.get("manifests").is_some(), value.get("layers").is_some(), media_type) {
            (true, false, None | Some(OCI_INDEX | DOCKER_INDEX)) => {
                Self::Index(serde_json::from_value(value).map_err(malformed)?)
            }
            (false, true, None | Some(OCI_MANIFEST | DOCKER_MANIFEST)) => {
                Self::Manifest(serde_json::from_value(value).map_err(malformed)?)
            }
            (true, true, _) => {
                return Err(ImageError::malformed("manifest", "it is both an index and a manifest"));
            }
            (_, _, Some(media_type)) => return Err(unknown("the manifest", media_type)),
            (false, false, None) => return Err(ImageError::malformed("manifest", "it has no layers")),
        };
        if let Self::Manifest(manifest) = &document {
            manifest.check(limits)?;
        }
        Ok(document)
    }
}

impl Manifest {
    fn check(&self, limits: &UnpackLimits) -> Result<(), ImageError> {
        if !CONFIGS.contains(&self.config.media_type.as_str()) {
            return Err(unknown("the configuration", &self.config.media_type));
        }
        if self.config.size > limits.document_bytes {
            return Err(ImageError::LimitExceeded {
                what: "bytes in a document",
                allowed: limits.document_bytes,
            });
        }
        if self.layers.len() > limits.layers {
            return Err(ImageError::LimitExceeded { what: "layers", allowed: limits.layers as u64 });
        }
        for layer in &self.layers {
            let is_foreign =
                ["foreign", "nondistributable"].iter().any(|word| layer.media_type.contains(word));
            if !layer.urls.is_empty() || is_foreign {
                return Err(ImageError::ForeignLayer { digest: layer.digest.to_string() });
            }
            if !LAYERS.contains(&layer.media_type.as_str()) {
                return Err(unknown("a layer", &layer.media_type));
            }
        }
        let total = self.layers.iter().try_fold(0_u64, |total, layer| total.checked_add(layer.size));
        if total.is_none_or(|total| total > limits.bytes) {
            return Err(ImageError::LimitExceeded { what: "bytes", allowed: limits.bytes });
        }
        Ok(())
    }
}

impl Index {
    /// The entry for Linux on this processor.
    pub fn choose(&self) -> Result<&Descriptor, ImageError> {
        let is_image = |entry: &&Descriptor| {
            [OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST, ""].contains(&entry.media_type.as_str())
        };
        let entries: Vec<_> = self.manifests.iter().filter(is_image).collect();
        let fits = |entry: &&&Descriptor| {
            entry.platform.as_ref().is_some_and(|platform| check_platform(platform).is_ok())
        };
        if let Some(entry) = entries.iter().find(fits) {
            return Ok(entry);
        }
        let unnamed: Vec<_> = entries.iter().filter(|entry| entry.platform.is_none()).collect();
        match unnamed.as_slice() {
            [entry] => Ok(entry),
            [] => Err(ImageError::NoPlatform {
                wanted: wanted_platform(),
                offered: entries
                    .iter()
                    .filter_map(|entry| entry.platform.as_ref())
                    .take(30)
                    .map(describe)
                    .collect(),
            }),
            _ => Err(ImageError::malformed("index", "it holds several images, of which none can be chosen")),
        }
    }
}

/// An image that names no platform passes.
pub fn check_platform(platform: &Platform) -> Result<(), ImageError> {
    let Platform { os, architecture } = platform;
    if (os.is_empty() || os == "linux") && (architecture.is_empty() || architecture == this_architecture()) {
        return Ok(());
    }
    Err(ImageError::NoPlatform { wanted: wanted_platform(), offered: vec![describe(platform)] })
}

fn describe(platform: &Platform) -> String {
    printable(format!("{}/{}", platform.os, platform.architecture).as_bytes())
}

fn wanted_platform() -> String {
    format!("linux/{}", this_architecture())
}

/// The architecture in the words of the image specification, which are Go's.
fn this_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        "powerpc64" => "ppc64le",
        "loongarch64" => "loong64",
        other => other,
    }
}

fn unknown(what: &'static str, media_type: &str) -> ImageError {
    ImageError::UnknownMediaType { what, media_type: printable(media_type.as_bytes()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: Value) -> Result<Document, ImageError> {
        Document::parse(value.to_string().as_bytes(), &UnpackLimits::default())
    }

    fn descriptor(media_type: &str) -> Value {
        json!({"mediaType": media_type, "digest": format!("sha256:{}", "0".repeat(64)), "size": 1})
    }

    fn manifest(layer: Value, count: usize) -> Value {
        json!({"config": descriptor(CONFIGS[0]), "layers": vec![layer; count]})
    }

    fn index(platforms: &[(&str, &str)]) -> Index {
        let entries: Vec<_> = platforms
            .iter()
            .map(|(os, architecture)| {
                let mut entry = descriptor(OCI_MANIFEST);
                entry["platform"] = json!({"os": os, "architecture": architecture});
                entry
            })
            .collect();
        match parse(json!({"manifests": entries})) {
            Ok(Document::Index(index)) => index,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_layers_of_a_manifest_are_checked() {
        assert!(parse(manifest(descriptor(LAYERS[1]), 512)).is_ok());
        let error = parse(manifest(descriptor(LAYERS[1]), 513)).unwrap_err();
        assert!(matches!(error, ImageError::LimitExceeded { what: "layers", .. }));
        let error = parse(manifest(descriptor("application/x-evil\u{1b}[2J"), 1)).unwrap_err();
        assert!(
            matches!(&error, ImageError::UnknownMediaType { .. }) && !error.to_string().contains('\u{1b}')
        );
        let mut foreign = descriptor(LAYERS[1]);
        foreign["urls"] = json!(["https://elsewhere.example/x"]);
        assert!(matches!(parse(manifest(foreign, 1)).unwrap_err(), ImageError::ForeignLayer { .. }));
        let foreign = descriptor("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip");
        assert!(matches!(parse(manifest(foreign, 1)).unwrap_err(), ImageError::ForeignLayer { .. }));
        let mut huge = descriptor(LAYERS[1]);
        huge["size"] = json!(u64::MAX);
        assert!(matches!(parse(manifest(huge, 2)).unwrap_err(), ImageError::LimitExceeded { .. }));
        let mut traversal = descriptor(LAYERS[1]);
        traversal["digest"] = json!("sha256:../../../../etc/passwd");
        assert!(matches!(parse(manifest(traversal, 1)).unwrap_err(), ImageError::Malformed { .. }));
    }

    #[test]
    fn a_document_is_one_thing_only() {
        let mut both = manifest(descriptor(LAYERS[0]), 1);
        both["manifests"] = json!([]);
        assert!(parse(both).is_err());
        let mut lying = manifest(descriptor(LAYERS[0]), 1);
        lying["mediaType"] = json!(OCI_INDEX);
        assert!(parse(lying).is_err());
        assert!(parse(json!({"schemaVersion": 1, "fsLayers": []})).is_err());
    }

    #[test]
    fn the_platform_of_this_machine_is_chosen() {
        assert!(index(&[("windows", this_architecture()), ("linux", this_architecture())]).choose().is_ok());
        let error = index(&[("linux", "s390x"), ("unknown", "unknown")]).choose().unwrap_err();
        assert!(error.to_string().ends_with("on offer: linux/s390x, unknown/unknown"), "{error}");
    }
}
