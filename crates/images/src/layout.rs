//! An OCI image layout: a folder with `oci-layout`, `index.json` and `blobs/`.

use std::path::Path;

use super::archive::Found;
use super::config::Config;
use super::flatten::{StoredLayer, flatten, root_key};
use super::folder::Folder;
use super::job::Reporter;
use super::manifest::{DEEPEST_INDEX, Descriptor, Document};
use super::store::Shared;
use super::{ImageError, UnpackLimits};

const BLOBS: &str = "blobs/sha256";

pub fn resolve(shared: &Shared, folder: &Folder, reporter: &Reporter) -> Result<Found, ImageError> {
    let limits = &shared.limits;
    let mut bytes = folder.document(Path::new("index.json"), limits.document_bytes)?;
    let mut chosen = None;
    for _ in 0..=DEEPEST_INDEX {
        match (Document::parse(&bytes, limits)?, chosen) {
            (Document::Index(index), _) => {
                let descriptor = index.choose()?;
                bytes = document(folder, descriptor, limits, "the manifest")?;
                chosen = Some(descriptor.digest.clone());
            }
            (Document::Manifest(manifest), Some(digest)) => {
                let config = document(folder, &manifest.config, limits, "the configuration")?;
                let config = Config::parse(&config, manifest.layers.len())?;
                let layers = StoredLayer::of_manifest(&manifest, &config, BLOBS);
                let root = flatten(shared, folder, &layers, reporter)?;
                return Ok(Found { root_key: root_key(&layers), root, digest, settings: config.settings });
            }
            (Document::Manifest(_), None) => return Err(ImageError::malformed("index", "it is a manifest")),
        }
    }
    Err(ImageError::malformed("index", "it holds an index in an index in an index"))
}

fn document(
    folder: &Folder,
    descriptor: &Descriptor,
    limits: &UnpackLimits,
    what: &str,
) -> Result<Vec<u8>, ImageError> {
    let bytes = folder.document(&Path::new(BLOBS).join(descriptor.digest.hex()), limits.document_bytes)?;
    descriptor.check(&bytes, what)?;
    Ok(bytes)
}
