//! The executable under test: one copy for the whole run, which an ordinary user can read and which stays the
//! same when a new one is built meanwhile.

use anyhow::{Context, Result, anyhow};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static COPY: OnceLock<Result<PathBuf, String>> = OnceLock::new();

pub fn path() -> Result<&'static Path> {
    let copied = COPY.get_or_init(|| copy().map_err(|error| format!("{error:#}")));
    copied.as_deref().map_err(|error| anyhow!("no executable to test: {error}"))
}

fn copy() -> Result<PathBuf> {
    let source = source()?;
    let directory = tempfile::Builder::new().prefix("paddock-e2e-bin-").tempdir()?.keep();
    // SAFETY: the function takes nothing, does not unwind, and lives as long as the program.
    unsafe { libc::atexit(remove_copy) };
    std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o755))?;
    let copy = directory.join("paddock");
    std::fs::copy(&source, &copy).with_context(|| format!("copy {}", source.display()))?;
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o755))?;
    Ok(copy)
}

fn source() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("PADDOCK_BIN") {
        return Ok(path.into());
    }
    let tests = std::env::current_exe()?;
    let beside = tests.ancestors().nth(2).map(|directory| directory.join("paddock"));
    let beside = beside.filter(|path| path.exists());
    beside.context("set PADDOCK_BIN to it, or build it first with `cargo build -p paddock`")
}

extern "C" fn remove_copy() {
    if let Some(Ok(copy)) = COPY.get()
        && let Some(directory) = copy.parent()
    {
        let _ = std::fs::remove_dir_all(directory);
    }
}
