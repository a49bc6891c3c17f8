//! A VM that one test has booted, for the others: a boot takes longer than most of the tests. It lies in files without
//! a name, which go with this process.

use std::fs::File;
use std::io::Result;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Where each lies below the directory of VMs.
static BOOTED: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// Puts it into a state directory, or has it booted there; one test at a time.
pub fn boot_once<E: From<std::io::Error>>(
    machines: &Path,
    boot: impl FnOnce() -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut booted = BOOTED.lock().unwrap_or_else(PoisonError::into_inner);
    if booted.is_empty() {
        boot()?;
        *booted = kept(machines)?;
        return Ok(());
    }
    for (path, file) in booted.iter() {
        let place = machines.join(path);
        if let Some(parent) = place.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        copy(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())), &place)?;
    }
    Ok(())
}

fn kept(machines: &Path) -> Result<Vec<(PathBuf, File)>> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(machines)? {
        let bake = entry?.path();
        let is_bake = bake.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bake-"));
        if !is_bake || !bake.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(&bake)? {
            let path = file?.path();
            let unnamed = tempfile::tempfile()?;
            copy(&path, Path::new(&format!("/proc/self/fd/{}", unnamed.as_raw_fd())))?;
            all.push((path.strip_prefix(machines).map_err(std::io::Error::other)?.to_path_buf(), unnamed));
        }
    }
    Ok(all)
}

/// As `cp` does: holes stay holes.
fn copy(from: &Path, to: &Path) -> Result<()> {
    // The child has other descriptors than this process: it opens those of its parent.
    let own = format!("/proc/{}/", std::process::id());
    let named = |path: &Path| path.display().to_string().replace("/proc/self/", &own);
    let copied = Command::new("cp").args(["--sparse=always", &named(from), &named(to)]).status()?;
    if copied.success() { Ok(()) } else { Err(std::io::Error::other("cp failed")) }
}
