//! Lengthens the file that holds a btrfs of our own before it is full, with space that the host's disk has really
//! allocated.

use super::{btrfs, loop_device};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The time between two looks. A writer inside takes longer than this to fill the space ahead of it.
const LOOK: Duration = Duration::from_millis(100);
const AHEAD_BYTES: u64 = 1 << 30;
/// The smallest growth that is worth a change.
const STEP_BYTES: u64 = 64 << 20;
/// The space that is left for other users of the host's disk: a twentieth of the disk, and at most this.
const LEFT_BYTES: u64 = 10 << 30;
const TMPFS: i64 = 0x0102_1994;

/// A thread that lengthens the file. It ends when this is dropped.
pub struct Grower {
    // None only while it is dropped.
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Growing {
    file: PathBuf,
    device: PathBuf,
    root: File,
    most_bytes: u64,
    /// True after a failed growth was logged, so that the log has it once, and not ten times a second.
    stuck: bool,
}

impl Grower {
    /// `None` if the file has holes: its file system cannot allocate space ahead, and it was made with its full length.
    pub fn start(file: &Path, device: &Path, mount_point: &Path, most_bytes: u64) -> Result<Option<Grower>> {
        let found = std::fs::metadata(file)?;
        if found.blocks() * 512 < found.len() {
            return Ok(None);
        }
        let root = File::open(mount_point)?;
        let mut growing =
            Growing { file: file.into(), device: device.into(), root, most_bytes, stuck: false };
        // A server may have been killed between the file's growth and the file system's.
        growing.fit()?;
        growing.look();
        let (stop, stopped) = sync_channel(0);
        let thread = Builder::new().name("storage".into()).spawn(move || run(growing, &stopped))?;
        Ok(Some(Grower { stop: Some(stop), thread: Some(thread) }))
    }
}

impl Drop for Grower {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run(mut growing: Growing, stopped: &Receiver<()>) {
    while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        growing.look();
    }
}

impl Growing {
    fn look(&mut self) {
        match self.grow() {
            Ok(()) => self.stuck = false,
            Err(error) if !self.stuck => {
                self.stuck = true;
                let file = self.file.display();
                tracing::warn!(%error, %file, "the disks of sandboxes are nearly full, and there is no more room for them");
            }
            Err(_) => {}
        }
    }

    fn grow(&self) -> Result<()> {
        let inside = rustix::fs::fstatvfs(&self.root)?;
        let file = OpenOptions::new().write(true).open(&self.file)?;
        let length = file.metadata()?.len();
        let ahead = AHEAD_BYTES.max(length / 4);
        if inside.f_bavail.saturating_mul(inside.f_frsize) >= ahead || length >= self.most_bytes {
            return Ok(());
        }
        let outside = rustix::fs::fstatvfs(&file)?;
        let left = LEFT_BYTES.min(outside.f_blocks.saturating_mul(outside.f_frsize) / 20);
        let free = outside.f_bavail.saturating_mul(outside.f_frsize).saturating_sub(left);
        let more = ahead.min(free).min(self.most_bytes - length) / STEP_BYTES * STEP_BYTES;
        if more == 0 {
            return Err(Error::from(ErrorKind::StorageFull));
        }
        if let Err(error) = give_ahead(&file, length, more) {
            file.set_len(length)?;
            return Err(error);
        }
        self.fit()
    }

    fn fit(&self) -> Result<()> {
        loop_device::fit(&self.device)?;
        btrfs::resize_to_device(&self.root)
    }
}

/// Allocates space for the file on the host's disk. `Ok(false)` if the file system cannot allocate ahead.
pub fn give_ahead(file: &File, from: u64, bytes: u64) -> Result<bool> {
    // On a file system in memory, space that is allocated ahead would be memory taken from everything else.
    if rustix::fs::fstatfs(file)?.f_type == TMPFS {
        return Ok(false);
    }
    if bytes == 0 {
        return Ok(true);
    }
    match fallocate(file, FallocateFlags::empty(), from, bytes) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
