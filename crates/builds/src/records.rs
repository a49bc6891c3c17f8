//! The records of builds: which root came from which step, and which roots a template consists of. One small file for
//! each, beside the images.
//!
//! ```text
//! builds/keys/KEY             the root that a step with this key gave
//! builds/layers/ROOT.json     what that root is
//! builds/templates/NAME.json  what a template was built of
//! ```

use super::error::BuildError;
use paddock_images::digest::Digest;
use paddock_images::{BUILT, ImageStore, built};
use paddock_records::store;
use paddock_settings::templates;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    pub step: String,
    pub made_ms: u64,
    /// The bytes that the step wrote over the root below it.
    pub bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateRecord {
    pub built_ms: u64,
    /// The size of the whole image.
    pub bytes: u64,
    pub image: String,
    /// The roots, from the base to the image.
    pub layers: Vec<Digest>,
}

/// The result of a removal.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    pub layers: usize,
    pub bytes: u64,
    /// Layers that no template has, but that a sandbox or a snapshot uses.
    pub in_use: usize,
}

#[derive(Clone)]
pub(super) struct Records {
    directory: PathBuf,
}

impl Records {
    pub fn open(state: &Path) -> Result<Records, BuildError> {
        let directory = state.join("builds");
        for part in ["keys", "layers", "templates"] {
            let path = directory.join(part);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|source| BuildError::Io { path, source })?;
        }
        Ok(Records { directory })
    }

    /// The recorded root of the step with this key. The root itself may have been removed since.
    pub fn root_of(&self, key: &Digest) -> Result<Option<Digest>, BuildError> {
        self.read(&format!("keys/{}", key.hex()))
    }

    pub fn note_root(&self, key: &Digest, root: &Digest) -> Result<(), BuildError> {
        self.write(&format!("keys/{}", key.hex()), root)
    }

    pub fn layer(&self, root: &Digest) -> Result<Option<LayerRecord>, BuildError> {
        self.read(&layer_name(root))
    }

    pub fn note_layer(&self, root: &Digest, layer: &LayerRecord) -> Result<(), BuildError> {
        self.write(&layer_name(root), layer)
    }

    pub fn forget_layer(&self, root: &Digest) -> Result<(), BuildError> {
        self.forget(&layer_name(root))
    }

    pub fn template(&self, name: &str) -> Result<Option<TemplateRecord>, BuildError> {
        self.read(&format!("templates/{name}.json"))
    }

    pub fn note_template(&self, name: &str, template: &TemplateRecord) -> Result<(), BuildError> {
        self.write(&format!("templates/{name}.json"), template)
    }

    fn forget(&self, name: &str) -> Result<(), BuildError> {
        let path = self.directory.join(name);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(BuildError::Io { path, source }),
            _ => Ok(()),
        }
    }

    /// The names of the files in one of the directories, without their ending.
    fn names(&self, part: &str, end: &str) -> Result<Vec<String>, BuildError> {
        let path = self.directory.join(part);
        let entries = fs::read_dir(&path).map_err(|source| BuildError::Io { path, source })?;
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        Ok(names.filter_map(|name| name.strip_suffix(end).map(String::from)).collect())
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, BuildError> {
        let path = self.directory.join(name);
        match fs::read(&path) {
            // A damaged record is as good as none: the step is done again.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BuildError::Io { path, source }),
        }
    }

    fn write(&self, name: &str, record: &impl Serialize) -> Result<(), BuildError> {
        let path = self.directory.join(name);
        let failed = |source| BuildError::Io { path: path.clone(), source };
        let bytes = serde_json::to_vec(record).map_err(|error| failed(error.into()))?;
        let mut file =
            tempfile::NamedTempFile::new_in(path.parent().unwrap_or(&self.directory)).map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist(&path).map(drop).map_err(|error| failed(error.error))
    }
}

fn layer_name(root: &Digest) -> String {
    format!("layers/{}.json", root.hex())
}

/// The record of a built template; `None` if it was not built, or was changed since.
pub fn record_of(
    state: &Path,
    name: &str,
    image: Option<&str>,
) -> Result<Option<TemplateRecord>, BuildError> {
    if !state.join("builds").is_dir() || paddock_model::check_template_name(name).is_err() {
        return Ok(None);
    }
    let record = Records::open(state)?.template(name)?;
    Ok(record.filter(|record| image == Some(record.image.as_str())))
}

/// Removes the layers that only the removed template `name` had.
pub fn free(state: &Path, name: &str) -> Result<Pruned, BuildError> {
    if !state.join("builds").is_dir() {
        return Ok(Pruned::default());
    }
    let records = Records::open(state)?;
    let Some(record) = records.template(name)? else { return Ok(Pruned::default()) };
    records.forget(&format!("templates/{name}.json"))?;
    remove_unused(state, &records, record.layers.into_iter().collect())
}

/// Removes every layer that no template, sandbox or snapshot has.
pub fn prune(state: &Path) -> Result<Pruned, BuildError> {
    if !state.join("builds").is_dir() {
        return Ok(Pruned::default());
    }
    let records = Records::open(state)?;
    let known = records.names("layers", ".json")?;
    let layers = known.iter().filter_map(|hex| Digest::parse(&format!("sha256:{hex}")).ok()).collect();
    remove_unused(state, &records, layers)
}

fn remove_unused(state: &Path, records: &Records, candidates: Vec<Digest>) -> Result<Pruned, BuildError> {
    let images = ImageStore::open(&state.join("images"))?;
    // No build runs meanwhile: a layer that a running build stands on is in no template's record yet.
    let Some(_guard) = lock(&images, Some(false))? else {
        return Ok(Pruned { in_use: candidates.len(), ..Pruned::default() });
    };
    let kept = of_templates(state, records)?;
    let of_sandboxes = store::bodies_of_the_living(state)?;
    let mut pruned = Pruned::default();
    for root in candidates.iter().filter(|root| !kept.contains(root.hex())) {
        let used = of_sandboxes.iter().any(|body| body.contains(root.hex()));
        if used || !built::remove(images.shared(), root)? {
            pruned.in_use += 1;
            continue;
        }
        pruned.layers += 1;
        pruned.bytes += records.layer(root)?.map_or(0, |layer| layer.bytes);
        records.forget_layer(root)?;
    }
    for key in records.names("keys", "")? {
        let root: Option<Digest> = records.read(&format!("keys/{key}"))?;
        let there =
            root.map_or(Ok(false), |root| images.shared().directories.root(&root).map(|r| r.is_some()))?;
        if !there {
            records.forget(&format!("keys/{key}"))?;
        }
    }
    Ok(pruned)
}

/// The lock of builds. A build holds it shared (`None`). A removal of layers holds it alone (`Some`), and does not
/// wait: it gets `Ok(None)` while a build runs.
pub(super) fn lock(images: &ImageStore, alone: Option<bool>) -> Result<Option<fs::File>, BuildError> {
    let (file, path) = images.shared().directories.lock_file("builds")?;
    let locked = match alone {
        None => file.lock_shared(),
        Some(_) => match file.try_lock() {
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(source)) => Err(source),
            Ok(()) => Ok(()),
        },
    };
    locked.map_err(|source| BuildError::Io { path, source })?;
    Ok(Some(file))
}

/// The roots that a template was built of or names.
fn of_templates(state: &Path, records: &Records) -> Result<BTreeSet<String>, BuildError> {
    let mut kept = BTreeSet::new();
    for name in records.names("templates", ".json")? {
        let layers = records.template(&name)?.map(|record| record.layers).unwrap_or_default();
        kept.extend(layers.iter().map(|root| root.hex().to_string()));
    }
    for listed in templates::list(state)? {
        let image = listed.settings.ok().and_then(|policy| policy.image);
        kept.extend(image.and_then(|image| image.strip_prefix(BUILT).map(String::from)));
    }
    Ok(kept)
}
