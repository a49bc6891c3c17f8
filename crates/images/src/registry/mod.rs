//! Images of a registry, by the OCI distribution protocol.
//!
//! - [`client`]: HTTP, with every answer bounded and every refusal a typed error
//! - [`challenge`]: a registry's demand before it answers
//! - [`reach`]: the hosts that a caller may make us connect to
//! - [`credentials`]: a name and a password for a registry, and those that `docker login` has stored

mod challenge;
mod client;
mod credentials;
mod reach;

use std::sync::Arc;

use super::config::Config;
use super::digest::Digest;
use super::flatten::{StoredLayer, flatten};
use super::folder::Folder;
use super::job;
use super::manifest::{DEEPEST_INDEX, Document, Manifest};
use super::reference::RegistryReference;
use super::store::Shared;
use super::{ImageError, Progress, ResolvedImage};
use client::Client;

pub use credentials::Credentials;
pub use reach::RegistryReach;

/// `login`: these credentials are sent, and not those that this host has stored for the registry.
pub async fn pull(
    shared: Arc<Shared>,
    reference: &RegistryReference,
    reach: &RegistryReach,
    login: Option<&Credentials>,
    progress: &dyn Progress,
) -> Result<ResolvedImage, ImageError> {
    reach.check(reference).await?;
    let mut client = Client::new(reference, reach, login, shared.clone())?;
    let (manifest, digest) = find_manifest(&mut client, reference).await?;
    let config = client.config(&manifest.config).await?;
    let config = Config::parse(&config, manifest.layers.len())?;
    let layers = StoredLayer::of_manifest(&manifest, &config, "");
    let key = super::flatten::root_key(&layers);
    if let Some(root) = shared.directories.root(&key)? {
        return Ok(ResolvedImage::new(root, config.settings, Some(&digest)));
    }
    client.download(&manifest.layers, progress).await?;
    let root = job::run(progress, move |reporter| {
        let folder = Folder::open(&shared.directories.blobs())?;
        let result = flatten(&shared, &folder, &layers, reporter);
        use ImageError::{DamagedArchive, DigestMismatch, SizeMismatch};
        if matches!(result, Err(DamagedArchive { .. } | DigestMismatch { .. } | SizeMismatch { .. })) {
            // The layer was good when it came, and was damaged since: the next attempt fetches it again.
            for layer in &manifest.layers {
                let _ = std::fs::remove_file(shared.directories.blob(&layer.digest));
            }
        }
        result
    })
    .await?;
    Ok(ResolvedImage::new(root, config.settings, Some(&digest)))
}

/// The manifest for this host's platform, and its digest.
async fn find_manifest(
    client: &mut Client,
    reference: &RegistryReference,
) -> Result<(Manifest, Digest), ImageError> {
    let (mut bytes, mut digest) = match &reference.digest {
        Some(digest) => (client.manifest(digest).await?, digest.clone()),
        None => client.tagged_manifest(&reference.tag).await?,
    };
    for _ in 0..=DEEPEST_INDEX {
        match Document::parse(&bytes, client.limits())? {
            Document::Manifest(manifest) => return Ok((manifest, digest)),
            Document::Index(index) => {
                let descriptor = index.choose()?;
                bytes = client.manifest(&descriptor.digest).await?;
                descriptor.check(&bytes, "the manifest")?;
                digest = descriptor.digest.clone();
            }
        }
    }
    Err(ImageError::malformed("index", "it holds an index in an index in an index"))
}
