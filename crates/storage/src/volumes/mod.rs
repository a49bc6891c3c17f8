//! Volumes on this host: their store, and the directories that sandboxes mount.
//!
//! - [`places`]: those directories, with a limit that the kernel holds if there is a storage for it
//! - [`unsynced`]: changes that are not in the store yet

mod places;
mod unsynced;

pub use places::{Place, Places};
pub use unsynced::Unsynced;

use paddock_volumes::{Cache, Key, Location, Options, VolumeError, Volumes};
use std::path::{Path, PathBuf};

/// The most bytes of a bucket's packs that are kept on this host.
const CACHE_BYTES: u64 = 2 << 30;

#[derive(Debug, Clone, Default)]
pub struct VolumesOptions {
    /// A directory, or s3://, gs:// or az:// and a bucket; by default `volumes/store` of the state directory.
    pub url: Option<String>,
    /// Settings of the bucket, by their names.
    pub settings: std::collections::BTreeMap<String, String>,
    /// The key that content is encrypted with before it leaves this host; by default there is none.
    pub key: Option<PathBuf>,
    pub cache_bytes: Option<u64>,
}

/// Precondition: this process owns the state directory.
pub fn open(state: &Path, options: &VolumesOptions) -> Result<Volumes, VolumeError> {
    let own = state.join("volumes");
    let key = options.key.as_deref().map(Key::read).transpose()?;
    let location = match &options.url {
        Some(url) => {
            let settings = options.settings.clone();
            Location::open(&Options { url: url.clone(), settings, retry: None })?
        }
        None => Location::directory(&own.join("store"))?,
    };
    let directory = own.join("cache");
    let cache = Cache::open(&directory, options.cache_bytes.unwrap_or(CACHE_BYTES)).map_err(|source| {
        VolumeError::Io { step: format!("open the cache {}", directory.display()), source }
    })?;
    Ok(Volumes::new(location, key, Some(cache)))
}
