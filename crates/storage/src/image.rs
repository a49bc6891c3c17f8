//! A btrfs of our own in one file below the state directory, mounted beside it.
//!
//! All space that the file system inside counts as its own is already allocated on the host's disk: the file has no
//! holes, [`grow`](super::grow) lengthens it ahead of need, and [`in_place`](super::in_place) keeps it allocated. So a
//! full disk is a clear `No space left on device` for a writer inside. With a sparse file, the error would come while
//! the file system writes its own trees; it would then refuse all writes until it is mounted anew.
//!
//! The file system inside may fail all the same: after an error of the disk, or a snapshot of the state directory. Then
//! the storage is broken, and is mounted anew as soon as no process uses it.

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
/// The kernel releases a device a while after the last mount has gone: first it writes out its data, and the namespaces
/// of ended sandboxes are taken apart in the background.
const DEVICE_RELEASE_TIMEOUT: Duration = Duration::from_secs(30);
/// Ended processes release a broken storage at once; a running sandbox keeps it for good.
const PATIENCE_BROKEN: Duration = Duration::from_secs(5);
const REMEDY: &str = "apt-get install btrfs-progs";

pub struct Image {
    file: PathBuf,
    mount_point: PathBuf,
    /// `None` if the host's file system cannot allocate space ahead: the file then has holes.
    grower: Option<Grower>,
}

impl Image {
    /// `Ok(Err(why))` if this host cannot have an image, and none has been made yet.
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
            // The image that broke before. Processes that have just ended are still releasing it.
            Err(StorageError::Broken { .. }) => {
                image.wait_until_nobody_has_it()?;
                image.mount()?;
            }
            mounted => mounted?,
        }
        image.growing(most_bytes).map(Ok)
    }

    /// Takes down a storage that has become read-only.
    fn let_go_of_broken(&self) -> Result<(), StorageError> {
        tracing::warn!(storage = %self.mount_point.display(), "it is read-only after an error, and is mounted anew");
        // A lazy unmount: a process with an open file on it keeps the device, and the device is checked next.
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

    /// Replaces a file of an earlier Paddock that the host's file system copies on write.
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

    /// Returns true if the storage is down now. A sandbox that still has one of its disks keeps all of it up.
    pub fn close(mut self) -> Result<bool, StorageError> {
        // The grower holds the mount point open.
        drop(self.grower.take());
        let step = || format!("unmount {}", self.mount_point.display());
        let deadline = Instant::now() + DEVICE_RELEASE_TIMEOUT;
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

    /// The file gets its name only when it is whole. The reason of a failure is text for people, and no error: disks
    /// can also be kept in memory.
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
            // A tenth of the free space is left to the host, which the file could otherwise fill.
            let bytes = (free / 10 * 9).clamp(LEAST_BYTES, MOST_BYTES).min(most_bytes);
            file.set_len(bytes).map_err(|error| said(&error))?;
        }
        let made = Command::new(formatter)
            // There is one device, and its loss is the loss of the host's own disk: a second copy would protect
            // nothing.
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
        // Mkfs may have freed a part of the file's space. If it has not, it must not be allocated again: xfs would want
        // the whole length free once more.
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
        // A discard would free space of the file on the host's disk, and make holes.
        mount(&device, &self.mount_point, "btrfs", flags, Some(c"nodiscard"))
            .map_err(|errno| failed(step(), errno))?;
        mount_change(&self.mount_point, MountPropagationFlags::PRIVATE)
            .map_err(|errno| failed(step(), errno))?;
        // The file system is still the broken one, because a process holds it; or it has no room from the start.
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

    /// The quota is turned on while the file system is empty: bytes that are written before count for no disk.
    fn turn_quota_on(&self) -> Result<(), Error> {
        let root = File::open(&self.mount_point)?;
        match btrfs::quota(&root)? {
            Some(_) => Ok(()),
            None => btrfs::enable_quota(&root),
        }
    }
}

/// The kernel makes the file system read-only after an error, and it stays so while it is mounted anywhere.
fn is_read_only(mount_point: &Path) -> bool {
    rustix::fs::statvfs(mount_point)
        .is_ok_and(|found| found.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

fn formatter() -> Option<PathBuf> {
    let places = ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin"];
    places.iter().map(|place| Path::new(place).join("mkfs.btrfs")).find(|path| path.is_file())
}
