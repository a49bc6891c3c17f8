use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::config::Settings;
use super::digest::Digest;
use super::directories::{Directories, Root};
use super::reference::Source;
use super::{Credentials, ImageError, Progress, RegistryReach, UnpackLimits, archive, job, registry};

/// Root file systems, kept in a directory of state. Processes may share the directory.
#[derive(Debug, Clone)]
pub struct ImageStore {
    shared: Arc<Shared>,
}

/// An image that is ready to be used as a root.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResolvedImage {
    /// Must never be written to: other sandboxes use it as well.
    pub root: PathBuf,
    pub environment: BTreeMap<String, String>,
    pub user: Option<String>,
    pub cwd: Option<String>,
    /// The entry point and its arguments; empty if the image names none.
    pub command: Vec<String>,
    /// The digest of the manifest; for an archive of `docker save`, of the configuration; for a plain archive, of
    /// itself.
    pub digest: Option<String>,
    /// The first 100 names of devices and pipes that layers had and the root does not, escaped for printing.
    pub skipped: Vec<String>,
}

impl ImageStore {
    /// Makes the directory, readable for its owner only, and removes the remains of interrupted work.
    pub fn open(directory: &Path) -> Result<Self, ImageError> {
        Self::open_with_limits(directory, UnpackLimits::default())
    }

    pub fn open_with_limits(directory: &Path, limits: UnpackLimits) -> Result<Self, ImageError> {
        let directories = Directories::open(directory)?;
        Ok(Self { shared: Arc::new(Shared { directories, limits }) })
    }

    /// `reference` is a directory with a root file system; a tar archive of one (plain, gzip, zstd or xz); an OCI
    /// layout, as a directory or in a tar archive; an archive of `docker save`; or the name of an image in a registry.
    ///
    /// The reference is a path if it begins with `/`, `./`, `../` or `~`, or if something of that name exists.
    ///
    /// Dropping the future stops the work and removes its unfinished files.
    pub async fn resolve(
        &self,
        reference: &str,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, ImageError> {
        self.fetch(Source::parse(reference)?, &RegistryReach::Anywhere, None, progress).await
    }

    /// As `resolve`, but `reference` is never a path of the host, and no registry out of `reach` is asked.
    pub async fn resolve_from_registry(
        &self,
        reference: &str,
        reach: &RegistryReach,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, ImageError> {
        self.fetch(Source::registry(reference)?, reach, None, progress).await
    }

    /// As `resolve_from_registry`, with credentials of the caller in the place of those that this host has stored. The store must
    /// be the caller's own: it would give the image to others, who only need to know digests of its parts.
    pub async fn resolve_with_login(
        &self,
        reference: &str,
        reach: &RegistryReach,
        login: &Credentials,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, ImageError> {
        self.fetch(Source::registry(reference)?, reach, Some(login), progress).await
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    async fn fetch(
        &self,
        source: Source,
        reach: &RegistryReach,
        login: Option<&Credentials>,
        progress: &dyn Progress,
    ) -> Result<ResolvedImage, ImageError> {
        let shared = self.shared.clone();
        match source {
            Source::Path(path) => {
                job::run(progress, move |reporter| archive::resolve(&shared, &path, reporter)).await
            }
            Source::Built(key) => {
                let root = shared.directories.root(&key)?;
                let root = root.ok_or_else(|| ImageError::NotBuilt { key: key.hex().to_owned() })?;
                Ok(ResolvedImage::new(root, Settings::default(), Some(&key)))
            }
            Source::Registry(reference) => registry::pull(shared, &reference, reach, login, progress).await,
        }
    }
}

/// The state that all kinds of sources share.
#[derive(Debug)]
pub struct Shared {
    pub directories: Directories,
    pub limits: UnpackLimits,
}

impl ResolvedImage {
    pub(super) fn new(root: Root, settings: Settings, digest: Option<&Digest>) -> Self {
        let Settings { environment, user, cwd, command } = settings;
        let digest = digest.map(Digest::to_string);
        Self { root: root.path, environment, user, cwd, command, digest, skipped: root.skipped }
    }
}
