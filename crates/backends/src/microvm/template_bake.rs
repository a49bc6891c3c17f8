//! Memory of a VM above its template: the VM has its root, its guest and the programs that the engine started in it. It
//! is kept so that any number of sandboxes begin there. Each maps the memory privately, as with a bake; the disk of
//! that moment is copied.
//!
//! It is stale when the bake below it is, and when the template's files or the started programs have changed.

use super::bake::{self, digest};
use super::launch::TemplateFiles;
use super::memory::{STATE, read_shape};
use super::monitor::Shape;
use super::parts::Parts;
use super::shape::shape;
use super::{disk, guest_plan, image, kvm, sparse};
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Kept;
use paddock_model::{Root, SandboxId, Spec};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

const MEMORY: &str = "memory";
const DISK: &str = "disk";
/// How many are kept on the disk. Each is as large as the memory that its VM has touched.
const MOST_KEPT: usize = 16;
/// How many are held in the engine's memory.
const MOST_LOADED: usize = 4;

pub struct TemplateBake {
    /// In memory and sealed: no process can change it, however it was opened.
    pub memory: File,
    pub state: File,
    pub disk: File,
    pub shape: Shape,
}

/// True if memory of such a sandbox can be kept at all. Directories that it shares with the host cannot be kept.
pub fn is_for(spec: &Spec) -> bool {
    spec.root != Root::HostUsr && !guest_plan::shares(spec)
}

/// The directory for the memory of a sandbox of this spec, in which `started` was started; `None` if none can be kept.
pub fn place(state: &Path, spec: &Spec, started: &[u8]) -> std::result::Result<Option<PathBuf>, CreateError> {
    let Root::Directory { path } = &spec.root else { return Ok(None) };
    if !is_for(spec) {
        return Ok(None);
    }
    let parts = Parts::find(state, spec)?;
    let shape = shape(&spec.limits, kvm::decide(state, &parts).acceleration);
    let files = image::digest(path).host(|| format!("look at {}", path.display()))?;
    let (whose, which) = (digest(&started), digest(&(bake::name_of(shape), files)));
    let name = format!("bake-{:016x}-above-{whose:016x}-{which:016x}", bake::base(&parts));
    Ok(Some(disk::place(state)?.join(name)))
}

/// Precondition: as for [`memory::keep`](super::memory::keep); the directory lies in the place that [`place`] named, under that
/// name with an ending.
pub fn keep(
    state: &Path,
    id: &SandboxId,
    kept: Shape,
    template: &TemplateFiles,
    directory: &Path,
) -> Result<Box<dyn Kept>> {
    forget_others(directory);
    let kept_vm = super::memory::keep(state, id, kept, directory, true)?;
    sparse::copy(&template.memory, &File::create_new(directory.join(MEMORY))?)?;
    sparse::copy(&template.disk, &File::create_new(directory.join(DISK))?)?;
    Ok(kept_vm)
}

/// Removes memory of the same work over older files, and the oldest if there are many.
fn forget_others(directory: &Path) {
    let name = directory.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let whose = name.rsplit_once('-').map_or(name, |(whose, _)| whose);
    let entries = directory.parent().map(std::fs::read_dir).into_iter().flatten().flatten().flatten();
    let mut others: Vec<(SystemTime, PathBuf)> = Vec::new();
    for entry in entries.filter(|entry| entry.path() != directory) {
        let found = entry.file_name();
        let found = found.to_str().unwrap_or_default();
        if !whose.is_empty() && found.starts_with(whose) {
            let _ = std::fs::remove_dir_all(entry.path());
        } else if found.starts_with("bake-") && found.contains("-above-") {
            let made = entry.metadata().and_then(|found| found.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
            others.push((made, entry.path()));
        }
    }
    others.sort();
    let surplus = (others.len() + 1).saturating_sub(MOST_KEPT);
    for (_, place) in others.iter().take(surplus) {
        let _ = std::fs::remove_dir_all(place);
    }
}

/// `None` where the directory holds the memory of one sandbox alone.
pub fn load(directory: &Path) -> std::result::Result<Option<Arc<TemplateBake>>, CreateError> {
    static LOADED: Mutex<Vec<(PathBuf, Arc<TemplateBake>)>> = Mutex::new(Vec::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    // A removed memory is not given out any more, even if VMs still run from it.
    loaded.retain(|(place, _)| place.join(MEMORY).exists());
    if let Some(at) = loaded.iter().position(|(place, _)| place == directory) {
        let used = loaded.remove(at);
        let kept = used.1.clone();
        loaded.push(used);
        return Ok(Some(kept));
    }
    let Some(kept) = read(directory).host(|| format!("read {}", directory.display()))? else {
        return Ok(None);
    };
    let kept = Arc::new(kept);
    loaded.push((directory.to_path_buf(), kept.clone()));
    let surplus = loaded.len().saturating_sub(MOST_LOADED);
    loaded.drain(..surplus);
    Ok(Some(kept))
}

fn read(directory: &Path) -> Result<Option<TemplateBake>> {
    let kept = match File::open(directory.join(MEMORY)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        kept => kept?,
    };
    let cut_off = || Error::new(ErrorKind::InvalidData, "what was kept of a VM is not whole");
    let shape = read_shape(directory).ok_or_else(cut_off)?;
    if kept.metadata()?.len() != shape.memory {
        return Err(cut_off());
    }
    let memory = sparse::in_memory("machine", shape.memory)?;
    sparse::copy(&kept, &memory)?;
    sparse::seal(&memory)?;
    let state = sparse::in_memory("state", 0)?;
    sparse::copy(&File::open(directory.join(STATE))?, &state)?;
    Ok(Some(TemplateBake { memory, state, disk: File::open(directory.join(DISK))?, shape }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_of_the_same_work_go_and_of_the_rest_the_oldest() {
        let top = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let place = top.path().join(name);
            std::fs::create_dir(&place).unwrap();
            place
        };
        let stale = make("bake-1-above-a-1");
        let below = make("bake-1-2");
        let first = make("bake-1-above-b-1");
        let past = SystemTime::now() - std::time::Duration::from_secs(60);
        File::open(&first).unwrap().set_modified(past).unwrap();
        let others: Vec<_> =
            (0..MOST_KEPT - 1).map(|number| make(&format!("bake-1-above-c{number}-1"))).collect();
        let new = make("bake-1-above-a-2.new");
        forget_others(&new);
        assert!(!stale.exists() && !first.exists(), "what nobody would take stays");
        assert!(below.exists() && new.exists() && others.iter().all(|place| place.exists()));
    }

    #[test]
    fn what_was_cut_off_is_not_loaded() {
        let top = tempfile::tempdir().unwrap();
        assert!(load(top.path()).unwrap().is_none());
        std::fs::write(top.path().join(MEMORY), b"short").unwrap();
        let error = load(top.path()).err().unwrap();
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert!(why.contains("not whole"), "{why}");
    }
}
