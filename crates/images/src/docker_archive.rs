//! The output of `docker save`: `manifest.json`, a configuration, and a tar file for each layer.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::archive::Found;
use super::config::Config;
use super::digest::Digest;
use super::flatten::{StoredLayer, flatten, root_key};
use super::folder::Folder;
use super::job::Reporter;
use super::store::Shared;
use super::{ImageError, UnpackLimits};

const MANIFEST: &str = "manifest.json";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct SavedImage {
    config: PathBuf,
    layers: Vec<PathBuf>,
}

/// `None` if the folder is not of `docker save`.
pub fn read(folder: &Folder, limits: &UnpackLimits) -> Result<Option<SavedImage>, ImageError> {
    if !folder.has(MANIFEST) {
        return Ok(None);
    }
    let bytes = folder.document(Path::new(MANIFEST), limits.document_bytes)?;
    // A root file system may have a file of this name that is something else.
    let Ok(mut images) = serde_json::from_slice::<Vec<SavedImage>>(&bytes) else { return Ok(None) };
    if images.len() > 1 {
        return Err(ImageError::malformed("archive of docker save", "it holds several images: save one"));
    }
    Ok(images.pop())
}

pub fn resolve(
    shared: &Shared,
    folder: &Folder,
    image: &SavedImage,
    reporter: &Reporter,
) -> Result<Found, ImageError> {
    let limits = &shared.limits;
    if image.layers.len() > limits.layers {
        return Err(ImageError::LimitExceeded { what: "layers", allowed: limits.layers as u64 });
    }
    let bytes = folder.document(&image.config, limits.document_bytes)?;
    let config = Config::parse(&bytes, image.layers.len())?;
    let layers: Vec<_> = image
        .layers
        .iter()
        .zip(&config.diff_ids)
        .map(|(name, diff_id)| StoredLayer { name: name.clone(), stored: None, diff_id: diff_id.clone() })
        .collect();
    let root = flatten(shared, folder, &layers, reporter)?;
    Ok(Found { root_key: root_key(&layers), root, digest: Digest::of(&bytes), settings: config.settings })
}
