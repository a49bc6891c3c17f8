//! Layers, in order, into one root file system.

use std::path::{Path, PathBuf};

use super::ImageError;
use super::config::Config;
use super::digest::Digest;
use super::directories::Root;
use super::folder::Folder;
use super::job::Reporter;
use super::manifest::Manifest;
use super::store::Shared;
use super::unpack::{Layer, Style, Unpacker};

/// A layer that lies in a folder, and its promised digests.
#[derive(Debug, Clone)]
pub struct StoredLayer {
    pub name: PathBuf,
    /// The digest and the size of the bytes in the file.
    pub stored: Option<(Digest, u64)>,
    /// The digest of the bytes after decompression.
    pub diff_id: Digest,
}

impl StoredLayer {
    /// The layers of a manifest, in a folder that names them by their digest under `prefix`.
    pub fn of_manifest(manifest: &Manifest, config: &Config, prefix: &str) -> Vec<Self> {
        let pairs = manifest.layers.iter().zip(&config.diff_ids);
        pairs
            .map(|(layer, diff_id)| Self {
                name: Path::new(prefix).join(layer.digest.hex()),
                stored: Some((layer.digest.clone(), layer.size)),
                diff_id: diff_id.clone(),
            })
            .collect()
    }
}

/// The name of a root: the same layers in the same order are the same root.
pub fn root_key(layers: &[StoredLayer]) -> Digest {
    let digests =
        layers.iter().map(|layer| layer.stored.as_ref().map_or(&layer.diff_id, |(digest, _)| digest));
    let text: String = digests.map(|digest| format!("{digest}\n")).collect();
    Digest::of(text.as_bytes())
}

/// Returns the root of these layers, and makes it if it does not exist.
pub fn flatten(
    shared: &Shared,
    folder: &Folder,
    layers: &[StoredLayer],
    reporter: &Reporter,
) -> Result<Root, ImageError> {
    let key = root_key(layers);
    let directories = &shared.directories;
    let _lock = directories.lock(&format!("root-{}", key.hex()))?;
    if let Some(root) = directories.root(&key)? {
        return Ok(root);
    }
    let total = layers.iter().map(|layer| layer.stored.as_ref().map(|(_, size)| *size)).sum();
    reporter.start("unpacking", total)?;
    let work = directories.temporary()?;
    let mut unpacker = Unpacker::new(&work.make("rootfs")?, Style::Layer, &shared.limits)?;
    for layer in layers {
        let (digest, size) = layer.stored.clone().unzip();
        let file = folder.file(&layer.name)?;
        unpacker.apply(Layer { file, digest, size, diff_id: Some(layer.diff_id.clone()) }, reporter)?;
    }
    let root = directories.publish_root(work, &key, unpacker.finish())?;
    reporter.done()?;
    Ok(root)
}
