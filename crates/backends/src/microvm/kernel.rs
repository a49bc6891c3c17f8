//! The kernel that VMs boot: a named one, the host's own, or any installed one, if it has the modules that a VM needs.

use crate::installed::{self, Stamp, stamp};
use paddock_fences::error::CreateError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Cursor, Error, ErrorKind, Read, Result};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use xz4rust::{XzDecoder, XzReader};

/// Names the kernel, as `/boot/vmlinuz-VERSION`. Declared with all others in the command's `env_vars`.
pub const VARIABLE: &str = "PADDOCK_KERNEL";
pub const REMEDY: &str = "run as root: apt-get install --no-install-recommends linux-image-amd64 (Debian; nothing is booted from it \
     but VMs), or name a kernel with its modules beside it in PADDOCK_KERNEL, as /boot/vmlinuz-VERSION";
const PREFIX: &str = "vmlinuz-";
/// The modules that every VM needs, as modules or built in.
const NEEDED: [&str; 5] = ["virtio_mmio", "virtio_blk", "virtio_console", "overlay", "ext4"];
/// Modules that are taken if the kernel has them: the checksum that ext4 loads by name, the two for sharing directories
/// of the host, and the link to the gate.
const WANTED: [&str; 4] = ["crc32c_generic", "9p", "9pnet_virtio", "veth"];

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kernel {
    pub path: PathBuf,
    pub version: String,
    pub stamp: Stamp,
    /// In the order in which they need each other.
    pub modules: Vec<PathBuf>,
    /// True if directories of the host can be shared with its VMs.
    pub shares: bool,
    /// True if its VMs can have a link to the gate.
    pub networks: bool,
}

/// Looking through the modules takes time, so the result is kept in the state directory for as long as the candidates
/// are the same.
pub fn find(state: &Path) -> Result<Kernel> {
    let candidates = candidates()?;
    let note = state.join("kernel.json");
    let noted = std::fs::read(&note).ok().and_then(|bytes| serde_json::from_slice::<Note>(&bytes).ok());
    if let Some(noted) = noted.filter(|noted| noted.candidates == candidates) {
        return Ok(noted.kernel);
    }
    let kernel = choose(&candidates)?;
    installed::note(&note, &Note { candidates, kernel: kernel.clone() });
    Ok(kernel)
}

#[derive(Serialize, Deserialize)]
struct Note {
    candidates: Vec<(PathBuf, Stamp)>,
    kernel: Kernel,
}

/// The one that is named, or all that are installed, the newest first.
fn candidates() -> Result<Vec<(PathBuf, Stamp)>> {
    if let Some(named) = std::env::var_os(VARIABLE).filter(|named| !named.is_empty()) {
        let path = PathBuf::from(named);
        let stamp = stamp(&path).map_err(|error| {
            Error::new(error.kind(), format!("{VARIABLE} is `{}`: {error}", path.display()))
        })?;
        return Ok(vec![(path, stamp)]);
    }
    let entries = std::fs::read_dir("/boot").into_iter().flatten().flatten().map(|entry| entry.path());
    let kernels = entries.filter(|path| name(path).is_some_and(|name| name.starts_with(PREFIX)));
    let mut found: Vec<_> = kernels.filter_map(|path| stamp(&path).ok().map(|stamp| (path, stamp))).collect();
    found.sort();
    found.reverse();
    Ok(found)
}

/// The first that can share directories, or else the first.
fn choose(candidates: &[(PathBuf, Stamp)]) -> Result<Kernel> {
    let mut why = None;
    let mut without_sharing = None;
    for (path, _) in candidates {
        match look(path) {
            Ok(kernel) if kernel.shares => return Ok(kernel),
            Ok(kernel) => without_sharing = without_sharing.or(Some(kernel)),
            Err(error) => why = why.or(Some(error)),
        }
    }
    let none = || Error::new(ErrorKind::NotFound, "no kernel for VMs is installed (/boot/vmlinuz-VERSION)");
    without_sharing.ok_or_else(|| why.unwrap_or_else(none))
}

pub fn unavailable(error: &Error) -> CreateError {
    CreateError::Unavailable { missing: error.to_string(), remedy: Some(REMEDY.into()) }
}

fn name(path: &Path) -> Option<&str> {
    path.file_name().and_then(|name| name.to_str())
}

fn look(path: &Path) -> Result<Kernel> {
    let refuse = |why: String| Error::new(ErrorKind::InvalidInput, format!("{}: {why}", path.display()));
    let version = name(path).and_then(|name| name.strip_prefix(PREFIX));
    let version = version.filter(|_| path.is_absolute()).ok_or_else(|| {
        refuse(format!("a kernel is named by its absolute path, and is called {PREFIX}VERSION"))
    })?;
    let stamp = stamp(path).map_err(|error| refuse(error.to_string()))?;
    let top = path.parent().and_then(Path::parent).unwrap_or(Path::new("/"));
    let places = ["lib/modules", "usr/lib/modules"].map(|place| top.join(place).join(version));
    let place = places.iter().find(|place| place.is_dir());
    let place = place.ok_or_else(|| refuse(format!("its modules are not in {}", places[0].display())))?;
    let built_in = std::fs::read_to_string(place.join("modules.builtin")).unwrap_or_default();
    let built_in: Vec<String> = built_in.lines().filter_map(module_name).collect();
    let mut order = Order { known: list(place)?, built_in, found: Vec::new(), names: Vec::new() };
    for module in NEEDED {
        order.add(module).map_err(|error| refuse(error.to_string()))?;
    }
    let (mut shares, mut networks) = (true, true);
    for module in WANTED {
        match order.add(module) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                shares &= !module.starts_with("9p");
                networks &= module != "veth";
            }
            Err(error) => return Err(refuse(error.to_string())),
        }
    }
    Ok(Kernel {
        path: path.to_path_buf(),
        version: version.into(),
        stamp,
        modules: order.found,
        shares,
        networks,
    })
}

struct Order {
    known: BTreeMap<String, PathBuf>,
    built_in: Vec<String>,
    found: Vec<PathBuf>,
    names: Vec<String>,
}

impl Order {
    /// After those that it depends on.
    fn add(&mut self, module: &str) -> Result<()> {
        let module = module.replace('-', "_");
        if self.built_in.contains(&module) || self.names.contains(&module) {
            return Ok(());
        }
        let Some(path) = self.known.get(&module).cloned() else {
            let why = format!("it has no module `{module}`, which VMs need");
            return Err(Error::new(ErrorKind::NotFound, why));
        };
        // Noted first: a circle ends here.
        self.names.push(module);
        let content = module_content(&path)?;
        for needed in dependencies(&content) {
            self.add(&needed)?;
        }
        self.found.push(path);
        Ok(())
    }
}

/// The most bytes of a module that was compressed.
const LARGEST_MODULE: u64 = 64 << 20;
/// The memory of the decoder: at first, and at most. Modules are made with windows of 1 to 2 MiB.
const FIRST_WINDOW: usize = 1 << 20;
const LARGEST_WINDOW: usize = 1 << 27;

/// A module in the form that the kernel takes. Debian's newer ones are compressed, and not every kernel decompresses
/// them itself.
pub fn module_content(path: &Path) -> Result<Vec<u8>> {
    let named = |error: Error| Error::new(error.kind(), format!("{}: {error}", path.display()));
    let content = std::fs::read(path).map_err(named)?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("xz") => {
            let mut plain = Vec::new();
            let decoder = XzDecoder::in_heap_with_alloc_dict_size(FIRST_WINDOW, LARGEST_WINDOW);
            let reader = XzReader::new_with_buffer_size_and_decoder(
                Cursor::new(content),
                NonZeroUsize::MIN.saturating_add(64 << 10),
                decoder,
            );
            reader.take(LARGEST_MODULE).read_to_end(&mut plain).map_err(named)?;
            Ok(plain)
        }
        Some("ko") => Ok(content),
        _ => Err(named(Error::new(ErrorKind::InvalidData, "its compression is not known (xz is)"))),
    }
}

/// Every module below a directory, by its name.
fn list(place: &Path) -> Result<BTreeMap<String, PathBuf>> {
    let mut known = BTreeMap::new();
    let mut waiting = vec![place.join("kernel")];
    while let Some(directory) = waiting.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                waiting.push(entry.path());
            } else if let Some(name) = entry.file_name().to_str().and_then(module_name) {
                known.insert(name, entry.path());
            }
        }
    }
    Ok(known)
}

/// `kernel/drivers/block/virtio_blk.ko.xz` -> `virtio_blk`.
fn module_name(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?;
    let (name, rest) = name.split_once(".ko")?;
    (rest.is_empty() || rest.starts_with('.')).then(|| name.replace('-', "_"))
}

/// The dependencies that the module itself names: `depends=a,b`, in a list of strings that end with a NUL.
fn dependencies(content: &[u8]) -> Vec<String> {
    let mark = b"\0depends=";
    let Some(start) = content.windows(mark.len()).position(|window| window == mark) else {
        return Vec::new();
    };
    let rest = &content[start + mark.len()..];
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&rest[..end]).to_string();
    text.split(',').filter(|name| !name.is_empty()).map(str::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(modules: &[(&str, &str)]) -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let place = top.path().join("lib/modules/6.1.0/kernel/x");
        std::fs::create_dir_all(&place).unwrap();
        std::fs::create_dir_all(top.path().join("boot")).unwrap();
        std::fs::write(top.path().join("boot/vmlinuz-6.1.0"), b"kernel").unwrap();
        for (name, needs) in modules {
            std::fs::write(place.join(format!("{name}.ko")), format!("\0depends={needs}\0")).unwrap();
        }
        top
    }

    #[test]
    fn modules_come_after_what_they_need() {
        let all = [
            ("virtio_mmio", "virtio,virtio_ring"),
            ("virtio", ""),
            ("virtio_ring", "virtio"),
            ("virtio-blk", "virtio"),
            ("virtio_console", ""),
            ("overlay", ""),
            ("ext4", ""),
        ];
        let top = tree(&all);
        let kernel = look(&top.path().join("boot/vmlinuz-6.1.0")).unwrap();
        let names: Vec<_> = kernel.modules.iter().filter_map(|path| module_name(path.to_str()?)).collect();
        assert_eq!(
            names,
            ["virtio", "virtio_ring", "virtio_mmio", "virtio_blk", "virtio_console", "overlay", "ext4"]
        );
        assert!(!kernel.shares);
    }

    #[test]
    fn a_kernel_without_a_module_or_of_another_name_is_refused() {
        let top = tree(&[("virtio_mmio", "")]);
        let why = look(&top.path().join("boot/vmlinuz-6.1.0")).unwrap_err().to_string();
        assert!(why.contains("it has no module `virtio_blk`"), "{why}");
        let why = look(Path::new("/boot/bzImage")).unwrap_err().to_string();
        assert!(why.contains("is called vmlinuz-VERSION"), "{why}");
        let why = look(&top.path().join("boot/vmlinuz-7")).unwrap_err().to_string();
        assert!(why.contains("No such file"), "{why}");
    }
}
