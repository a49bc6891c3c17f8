//! A btrfs of our own in one file below the state directory, mounted beside it.
//!
//! What the file system inside counts as its own, the machine's disk has already given: the file has no holes, and
//! [`grow`](super::grow) lengthens it ahead of need; [`in_place`](super::in_place) sees to it that it stays given. So a full
//! disk is a clear `No space left on device` for whoever writes inside. A sparse file would meet it while the file system writes
//! its own trees, which then refuses everything to everybody until it is mounted anew.
//!
//! The file system inside may fail all the same: an error of the disk, or a snapshot of the state directory. Then the storage is broken, and
//! is mounted anew as soon as no process uses it.

use super::grow::{self, Grower};
use super::{StorageError, btrfs, failed, in_place, loop_device};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const MOST_BYTES: u64 = 256 << 30;
const LEAST_BYTES: u64 = 1 << 30;
/// The kernel lets go of a device a while after the last mount has gone: what was written goes to the disk first, and
/// namespaces of sandboxes that have ended are taken apart in the background.
const PATIENCE: Duration = Duration::from_secs(30);
/// A storage that is broken is let go of at once by those who ended; a sandbox that runs keeps it for good.
const PATIENCE_BROKEN: Duration = Duration::from_secs(5);
const REMEDY: &str = "apt-get install btrfs-progs";

pub struct Image {
    file: PathBuf,
    mount_point: PathBuf,
    /// Absent where the machine's file system gives no space ahead: the file then has holes.
    grower: Option<Grower>,
}

impl Image {
    /// `Ok(Err(why))` where this machine cannot have one, and none has been made yet.
    pub fn open(state: &Path, most_bytes: u64) -> Result<Result<Image, String>, StorageError> {
        let image =
            Image { file: state.join("storage.btrfs"), mount_point: state.join("storage"), grower: None };
        if image.is_mounted() {
            if !is_read_only(&image.mount_point) {
                return image.growing(most_bytes).map(Ok);
            }
            image.let_go_of_broken()?;
        }
        if !image.file.exists()
            && let Err(why) = image.make(state, most_bytes)
        {
            return Ok(Err(why));
        }
        image.keep_in_place()?;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&image.mount_point)
            .map_err(|error| failed(format!("make {}", image.mount_point.display()), error))?;
        match image.mount() {
            // The one that broke before, which those who ended are just letting go of.
            Err(StorageError::Broken { .. }) => {
                image.wait_until_nobody_has_it()?;
                image.mount()?;
            }
            mounted => mounted?,
        }
        image.growing(most_bytes).map(Ok)
    }

    /// Takes down what nobody can write to any more.
    fn let_go_of_broken(&self) -> Result<(), StorageError> {
        tracing::warn!(storage = %self.mount_point.display(), "it is read-only after an error, and is mounted anew");
        // A lazy end: whoever still has a file of it open keeps the device, which is what is looked at.
        unmount(&self.mount_point, UnmountFlags::DETACH)
            .map_err(|errno| failed(format!("unmount {}", self.mount_point.display()), errno))?;
        self.wait_until_nobody_has_it()
    }

    fn wait_until_nobody_has_it(&self) -> Result<(), StorageError> {
        let deadline = Instant::now() + PATIENCE_BROKEN;
        while self.attached()?.is_some() {
            if Instant::now() > deadline {
                return Err(self.broken());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn broken(&self) -> StorageError {
        StorageError::Broken { file: self.file.clone() }
    }

    /// A file of an earlier Paddock may be one that is copied when it is written to.
    fn keep_in_place(&self) -> Result<(), StorageError> {
        let step = || format!("look at {}", self.file.display());
        let copied = in_place::is_copied(&self.file).map_err(|error| failed(step(), error))?;
        if !copied || self.attached()?.is_some() {
            return Ok(());
        }
        let file = self.file.display();
        tracing::info!(%file, "it is written anew, such that it keeps its room on a full disk");
        if let Err(error) = in_place::replace(&self.file) {
            tracing::warn!(%error, %file, "it stays as it is: a full disk of the host may make it read-only");
        }
        Ok(())
    }

    fn growing(mut self, most_bytes: u64) -> Result<Image, StorageError> {
        let step = || format!("look after the room in {}", self.file.display());
        let grower = match self.attached()? {
            Some(device) => Grower::start(&self.file, &device, &self.mount_point, most_bytes)
                .map_err(|error| failed(step(), error))?,
            None => None,
        };
        self.grower = grower;
        Ok(self)
    }

    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Whether it is down now. A sandbox that still has one of its disks keeps all of it up.
    pub fn close(mut self) -> Result<bool, StorageError> {
        // It holds the mount point open.
        drop(self.grower.take());
        let step = || format!("unmount {}", self.mount_point.display());
        let deadline = Instant::now() + PATIENCE;
        // A process that another thread is just starting has all our files open until it executes.
        while let Err(errno) = unmount(&self.mount_point, UnmountFlags::empty()) {
            match errno {
                rustix::io::Errno::BUSY if Instant::now() > deadline => return Ok(false),
                rustix::io::Errno::BUSY => std::thread::sleep(Duration::from_millis(5)),
                errno => return Err(failed(step(), errno)),
            }
        }
        while self.attached()?.is_some() {
            if Instant::now() > deadline {
                self.mount()?;
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        std::fs::remove_dir(&self.mount_point).map_err(|error| failed(step(), error))?;
        Ok(true)
    }

    fn is_mounted(&self) -> bool {
        let root = std::fs::metadata(&self.mount_point).is_ok_and(|found| found.ino() == btrfs::ROOT_INODE);
        let magic = rustix::fs::statfs(&self.mount_point).map(|found| found.f_type);
        root && magic == Ok(btrfs::MAGIC)
    }

    /// It has its name only when it is whole. The reason of a failure is for people, and no error: there is
    /// another way to keep disks.
    fn make(&self, state: &Path, most_bytes: u64) -> Result<(), String> {
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.lines().any(|line| line.trim() == "btrfs") {
            return Err("this kernel has no btrfs, or has not loaded it (`modprobe btrfs`)".into());
        }
        let formatter = formatter().ok_or_else(|| format!("mkfs.btrfs is not installed ({REMEDY})"))?;
        let said = |error: &dyn std::fmt::Display| format!("{}: {error}", self.file.display());
        let space = rustix::fs::statvfs(state).map_err(|errno| said(&errno))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if free < LEAST_BYTES {
            return Err(format!("{} has less than 1 GiB free", state.display()));
        }
        let new = state.join("storage.btrfs.new");
        let _ = std::fs::remove_file(&new);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new);
        let file = file.map_err(|error| said(&error))?;
        if let Err(error) = in_place::mark(&file) {
            tracing::warn!(%error, file = %self.file.display(), "a full disk of the host may make it read-only");
        }
        let ahead = grow::give_ahead(&file, 0, LEAST_BYTES).map_err(|error| {
            let _ = std::fs::remove_file(&new);
            said(&error)
        })?;
        if !ahead {
            // Some of it is left to the host, which the file could otherwise fill.
            let bytes = (free / 10 * 9).clamp(LEAST_BYTES, MOST_BYTES).min(most_bytes);
            file.set_len(bytes).map_err(|error| said(&error))?;
        }
        let made = Command::new(formatter)
            // One device whose loss is the loss of the machine's own disk: a second copy would protect nothing.
            .args(["--quiet", "--nodiscard", "--data", "single", "--metadata", "single"])
            .arg(&new)
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .map_err(|error| said(&error))?;
        if !made.status.success() {
            let _ = std::fs::remove_file(&new);
            let said = String::from_utf8_lossy(&made.stderr).trim().escape_debug().to_string();
            return Err(format!("mkfs.btrfs failed: {said}"));
        }
        // Mkfs may have given a part of it back. Where it has not, xfs would want the whole length free once more.
        let whole = file.metadata().is_ok_and(|found| found.blocks() * 512 >= LEAST_BYTES);
        if ahead && !whole {
            grow::give_ahead(&file, 0, LEAST_BYTES).map_err(|error| {
                let _ = std::fs::remove_file(&new);
                said(&error)
            })?;
        }
        std::fs::rename(&new, &self.file).map_err(|error| said(&error))
    }

    fn mount(&self) -> Result<(), StorageError> {
        let step = || format!("mount {}", self.file.display());
        let attached = match self.attached()? {
            Some(device) => Ok((device, None)),
            None => self.attach().map(|(device, keeper)| (device, Some(keeper))),
        };
        let (device, _keeper) = attached.map_err(|error| failed(step(), error))?;
        let flags = MountFlags::NOATIME | MountFlags::NODEV | MountFlags::NOSUID;
        // A discard would give the machine back what the file has been given, and make holes.
        mount(&device, &self.mount_point, "btrfs", flags, Some(c"nodiscard"))
            .map_err(|errno| failed(step(), errno))?;
        mount_change(&self.mount_point, MountPropagationFlags::PRIVATE)
            .map_err(|errno| failed(step(), errno))?;
        // The same as before, where somebody has kept it; or there is no room to begin with.
        if is_read_only(&self.mount_point) {
            let _ = unmount(&self.mount_point, UnmountFlags::DETACH);
            return Err(self.broken());
        }
        self.turn_quota_on().map_err(|error| failed("limit the disks of the storage", error))
    }

    fn attach(&self) -> Result<(PathBuf, File), Error> {
        let image =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&self.file)?;
        loop_device::attach(&image)
    }

    fn attached(&self) -> Result<Option<PathBuf>, StorageError> {
        match loop_device::attached(&self.file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            found => found.map_err(|error| failed("look at the loop devices", error)),
        }
    }

    /// While it is empty: what is written before the quota counts is nobody's.
    fn turn_quota_on(&self) -> Result<(), Error> {
        let root = File::open(&self.mount_point)?;
        match btrfs::quota(&root)? {
            Some(_) => Ok(()),
            None => btrfs::enable_quota(&root),
        }
    }
}

/// As it becomes after an error, and stays for as long as anybody has it mounted.
fn is_read_only(mount_point: &Path) -> bool {
    rustix::fs::statvfs(mount_point)
        .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn formatter() -> Option<PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
    places.iter().map(|place| Path::new(place).join("mkfs.btrfs")).find(|path| path.is_file())
}
