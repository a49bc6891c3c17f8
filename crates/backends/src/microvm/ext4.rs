//! File systems for VMs, made by `mke2fs`, which every distribution has. They have no journal: a disk is read from
//! outside only after the VM has flushed it, and the disk of a killed VM is not used again.

use paddock_fences::error::CreateError;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub const REMEDY: &str = "run as root: apt-get install e2fsprogs";

pub fn find() -> Result<PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/usr/local/sbin"];
    let mut found = places.iter().map(|place| Path::new(place).join("mke2fs"));
    found.find(|path| path.is_file()).ok_or_else(|| {
        Error::new(ErrorKind::NotFound, "`mke2fs`, which makes the disks of VMs, is not installed")
    })
}

pub fn unavailable(error: &Error) -> CreateError {
    CreateError::Unavailable { missing: error.to_string(), remedy: Some(REMEDY.into()) }
}

/// An empty file system of this size.
///
/// Precondition: `path` names no file yet, or one that may be overwritten.
pub fn make_empty(path: &Path, bytes: u64, inodes: u64) -> Result<()> {
    File::create(path)?.set_len(bytes)?;
    run(path, &["-N".into(), inodes.to_string()])
}

/// One with everything that is below a directory.
pub fn make_from(path: &Path, directory: &Path) -> Result<()> {
    let (bytes, inodes) = measure(directory)?;
    File::create(path)?.set_len(bytes)?;
    run(path, &["-N".into(), inodes.to_string(), "-d".into(), directory.display().to_string()])
}

fn run(path: &Path, more: &[String]) -> Result<()> {
    let program = find()?;
    let features = "^has_journal,^resize_inode,^metadata_csum_seed,^orphan_file";
    let made = Command::new(&program)
        .args([
            "-q",
            "-F",
            "-t",
            "ext4",
            "-b",
            "4096",
            "-I",
            "256",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=1,nodiscard",
        ])
        .args(["-O", features])
        .args(more)
        .arg(path)
        .stdin(Stdio::null())
        .env_clear()
        .output()?;
    let made = match made.status.success() {
        true => made,
        // An older release does not know every feature that a newer one has to leave out.
        false => Command::new(&program)
            .args(["-q", "-F", "-t", "ext4", "-b", "4096", "-I", "256", "-m", "0"])
            .args(["-E", "lazy_itable_init=1,nodiscard", "-O", "^has_journal,^resize_inode"])
            .args(more)
            .arg(path)
            .stdin(Stdio::null())
            .env_clear()
            .output()?,
    };
    if made.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&made.stderr);
    let last = said.trim().lines().last().unwrap_or("it says nothing").escape_debug().to_string();
    let kind = if last.contains("No space") { ErrorKind::StorageFull } else { ErrorKind::Other };
    Err(Error::new(kind, format!("mke2fs: {last}")))
}

/// How many bytes and inodes a tree takes, with room for the file system's own needs.
fn measure(directory: &Path) -> Result<(u64, u64)> {
    const BLOCK: u64 = 4096;
    let (mut bytes, mut inodes) = (0u64, 0u64);
    let mut waiting = vec![directory.to_path_buf()];
    while let Some(place) = waiting.pop() {
        for entry in std::fs::read_dir(&place)? {
            let entry = entry?;
            let found = entry.metadata()?;
            inodes += 1;
            bytes += found.len().next_multiple_of(BLOCK) + BLOCK / 8;
            if found.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    let inodes = inodes + 1024;
    let bytes = bytes + bytes / 16 + inodes * 256 + (32 << 20);
    Ok((bytes.next_multiple_of(1 << 20), inodes))
}
