//! A bake: a VM that has booted and waits for its orders, kept with its memory. Every other VM of the same shape is a
//! copy of it. A copy maps that memory privately, so that pages without writes exist once. A bake is made when the
//! first VM of its shape is wanted, and again when the kernel, QEMU or Paddock has changed.

use super::launch::{Content, Launched, raise};
use super::monitor::{Acceleration, MemorySource, Monitor, Shape};
use super::parts::Parts;
use super::{counter, disk, initramfs, kvm_device, sparse};
use crate::notice::tell_waiting;
use paddock_fences::error::{CreateError, HostStep};
use paddock_fences::fence::Fence;
use paddock_fences::shared::guest_executable;
use paddock_model::SandboxId;
use rustix::fs::{FlockOperation, flock};
use rustix::rand::{GetRandomFlags, getrandom};
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const MEMORY: &str = "memory";
const STATE: &str = "state";
/// An emulated boot takes seconds; on a busy host, many.
const BOOT_TIMEOUT: Duration = Duration::from_secs(120);

pub struct Baked {
    /// In memory and sealed: no process can change it, however it was opened.
    pub memory: File,
    state: File,
    directory: PathBuf,
    /// True once a VM has started from this bake. A later failure is then not the bake's fault.
    proven: AtomicBool,
}

impl Baked {
    /// If the first VM does not start from this bake, the bake is broken: it is removed, and the next VM boots.
    pub fn recall(&self, monitor: &mut dyn Monitor) -> std::io::Result<()> {
        let recalled = monitor.recall(&self.state, true);
        match recalled {
            Ok(()) => self.proven.store(true, Ordering::Relaxed),
            Err(_) if !self.proven.load(Ordering::Relaxed) => {
                known().remove(&self.directory);
                let _ = std::fs::remove_dir_all(&self.directory);
            }
            Err(_) => {}
        }
        recalled
    }
}

/// The bakes that this engine has in its memory.
static KNOWN: Mutex<BTreeMap<PathBuf, Arc<Baked>>> = Mutex::new(BTreeMap::new());

/// The bake for a shape, made where there is none.
pub fn get(state: &Path, parts: &Parts, shape: Shape) -> Result<Arc<Baked>, CreateError> {
    let base = base(parts);
    let directory = disk::place(state)?.join(format!("bake-{base:016x}-{:016x}", name_of(shape)));
    if let Some(baked) = known().get(&directory) {
        return Ok(baked.clone());
    }
    let lock = directory.with_file_name("bake.lock");
    let lock = File::create(&lock).host(|| format!("make {}", lock.display()))?;
    flock(&lock, FlockOperation::LockExclusive).host(|| "wait for another bake".into())?;
    // Another engine may have made it meanwhile.
    if let Some(baked) = known().get(&directory) {
        return Ok(baked.clone());
    }
    let baked = match load(&directory, shape)? {
        Some(baked) => baked,
        None => {
            forget_stale(&directory, base);
            // A boot takes seconds, and the caller that waits should know why.
            tell_waiting(&format!(
                "booting a VM of {} MiB, once for this size; others will be copies of it",
                shape.memory >> 20
            ));
            make(state, &directory, parts, shape)?
        }
    };
    let baked = Arc::new(baked);
    known().insert(directory, baked.clone());
    Ok(baked)
}

fn known() -> MutexGuard<'static, BTreeMap<PathBuf, Arc<Baked>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A bake is stale when one of these has changed: QEMU, the kernel, the guest, or the form of the VM.
pub fn base(parts: &Parts) -> u64 {
    let runtime = &parts.vmm.runtime;
    let guest = guest_executable::digest();
    digest(&(&runtime.path, runtime.stamp, &parts.kernel.path, parts.kernel.stamp, guest, super::qemu::FORM))
}

/// A name for a shape, and for the processor where it matters: a kernel goes on with the processor features that it
/// found, and with the clock rate that it was told.
pub fn name_of(shape: Shape) -> u64 {
    let processor = match shape.acceleration {
        Acceleration::Kvm => kvm_device::processor(),
        Acceleration::Emulated => counter::name(),
    };
    digest(&(shape, processor))
}

pub fn digest<T: Hash>(what: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Removes bakes of other kernels, QEMUs or guests, which no VM starts from any more.
fn forget_stale(directory: &Path, base: u64) {
    let current = format!("bake-{base:016x}-");
    for entry in directory.parent().map(std::fs::read_dir).into_iter().flatten().flatten().flatten() {
        let name = entry.file_name();
        let stale =
            name.to_str().is_some_and(|name| name.starts_with("bake-") && !name.starts_with(&current));
        if stale {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn load(directory: &Path, shape: Shape) -> Result<Option<Baked>, CreateError> {
    let open = |name: &str| File::open(directory.join(name));
    let (kept, state) = match (open(MEMORY), open(STATE)) {
        (Ok(kept), Ok(state)) => (kept, state),
        (Err(error), _) | (_, Err(error)) if error.kind() == ErrorKind::NotFound => return Ok(None),
        (Err(error), _) | (_, Err(error)) => {
            return Err(error).host(|| format!("open {}", directory.display()));
        }
    };
    if kept.metadata().host(|| "look at a bake".into())?.len() != shape.memory {
        // Cut off: it is made again.
        let _ = std::fs::remove_dir_all(directory);
        return Ok(None);
    }
    let memory = sparse::in_memory("machine", shape.memory).host(|| "make the memory of a VM".into())?;
    sparse::copy(&kept, &memory).host(|| format!("read {}", directory.display()))?;
    finished(directory, memory, &state).map(Some)
}

fn finished(directory: &Path, memory: File, state: &File) -> Result<Baked, CreateError> {
    sparse::seal(&memory).host(|| "seal the memory of a VM".into())?;
    let copy = sparse::in_memory("state", 0).host(|| "keep the state of a VM".into())?;
    sparse::copy(state, &copy).host(|| "keep the state of a VM".into())?;
    Ok(Baked { memory, state: copy, directory: directory.to_path_buf(), proven: AtomicBool::new(false) })
}

fn make(state: &Path, directory: &Path, parts: &Parts, shape: Shape) -> Result<Baked, CreateError> {
    let memory = sparse::in_memory("machine", shape.memory).host(|| "make the memory of a VM".into())?;
    let kept = sparse::in_memory("state", 0).host(|| "make the state of a VM".into())?;
    boot(state, parts, shape, &memory, &kept, BOOT_TIMEOUT)?;
    let new = directory.with_extension(format!("{}.new", std::process::id()));
    let written = write(&new, &memory, &kept).and_then(|()| std::fs::rename(&new, directory));
    // A bake that cannot be written to disk still serves this engine.
    if written.is_err() {
        let _ = std::fs::remove_dir_all(&new);
    }
    finished(directory, memory, &kept)
}

fn write(directory: &Path, memory: &File, state: &File) -> std::io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir(directory)?;
    for (name, content) in [(MEMORY, memory), (STATE, state)] {
        let file = File::create_new(directory.join(name))?;
        sparse::copy(content, &file)?;
        // The file gets its name after that: a host that loses its power leaves all of it or nothing.
        file.sync_all()?;
    }
    Ok(())
}

/// Boots a VM in a fence of its own, and keeps its memory at the moment it waits for orders.
pub fn boot(
    state: &Path,
    parts: &Parts,
    shape: Shape,
    memory: &File,
    kept: &File,
    patience: Duration,
) -> Result<(), CreateError> {
    let kernel =
        std::fs::read(&parts.kernel.path).host(|| format!("read {}", parts.kernel.path.display()))?;
    let initramfs = initramfs::archive(&parts.kernel, guest_executable::bytes());
    let initramfs = initramfs.map_err(|error| super::kernel::unavailable(&error))?;
    let source = MemorySource::Boot {
        kernel: filled("kernel", &kernel)?.into(),
        initramfs: filled("initramfs", &initramfs)?.into(),
        memory: memory.try_clone().host(|| "copy a descriptor".into())?.into(),
    };
    let mut random = [0; 8];
    getrandom(&mut random, GetRandomFlags::empty()).host(|| "take random bytes".into())?;
    let id = SandboxId::from_random(u64::from_le_bytes(random));
    let Launched { mut raised, mut monitor, .. } = raise(state, &id, Content::Nothing, parts, shape, source)?;
    super::memory::wait_until_ready(&raised.stream, patience)?;
    monitor.keep(kept, true).host(|| "keep the memory of a VM".into())?;
    drop(monitor);
    raised.fence.destroy().host(|| "end the VM that was kept".into())?;
    Ok(())
}

fn filled(name: &str, content: &[u8]) -> Result<File, CreateError> {
    let made = sparse::in_memory(name, 0).and_then(|mut file| file.write_all(content).map(|()| file));
    made.host(|| format!("make the VM's {name}"))
}
