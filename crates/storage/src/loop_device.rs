//! Attaches a file as a block device, until its last user closes it.
//!
//! Written by hand: five ioctls. The file, the block size, direct I/O and the detaching with the last user have to be set
//! in one call (`LOOP_CONFIGURE`): between two, another process can take the device, or a killed engine can leave it.

use std::ffi::c_ulong;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const SET_NOTHING: usize = 0;
const GET_FREE: c_ulong = 0x4C82;
const CONFIGURE: c_ulong = 0x4C0A;
const GET_STATUS: c_ulong = 0x4C05;
const SET_CAPACITY: c_ulong = 0x4C07;

/// The kernel detaches the device with its last user: a killed engine leaves none behind.
const AUTOCLEAR: u32 = 4;
/// The host's page cache keeps no second copy of the data.
const DIRECT: u32 = 16;
const BLOCK: u32 = 4096;
/// Another process may be faster to take the device that the kernel named.
const ATTEMPTS: usize = 64;

#[repr(C)]
struct Information {
    device: u64,
    inode: u64,
    other_device: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encryption: u32,
    key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    key: [u8; 32],
    initial: [u64; 2],
}

#[repr(C)]
struct Configuration {
    file: u32,
    block_size: u32,
    information: Information,
    reserved: [u64; 8],
}

/// The device, and an open file that keeps it attached until it is mounted.
pub fn attach(image: &File) -> Result<(PathBuf, File)> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    for _ in 0..ATTEMPTS {
        // SAFETY: the request takes no argument and answers a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), GET_FREE as _, SET_NOTHING) };
        if number < 0 {
            return Err(Error::last_os_error());
        }
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = OpenOptions::new().read(true).write(true).open(&path)?;
        // Not every file system can do without its cache.
        let configured = match configure(&device, image, AUTOCLEAR | DIRECT) {
            Err(error) if error.kind() == ErrorKind::InvalidInput => configure(&device, image, AUTOCLEAR),
            other => other,
        };
        match configured {
            Ok(()) => return Ok((path, device)),
            Err(error) if error.kind() == ErrorKind::ResourceBusy => continue,
            Err(error) => return Err(error),
        }
    }
    Err(Error::new(ErrorKind::ResourceBusy, "every loop device was taken by somebody else first"))
}

/// The device to which this very file is attached already. Two devices would write over each other.
pub fn attached(image: &Path) -> Result<Option<PathBuf>> {
    let wanted = std::fs::metadata(image)?;
    for entry in std::fs::read_dir("/sys/block")?.flatten() {
        let name = entry.file_name();
        let free = !entry.path().join("loop/backing_file").exists();
        if free || !name.to_string_lossy().starts_with("loop") {
            continue;
        }
        let path = Path::new("/dev").join(&name);
        let Ok(device) = File::open(&path) else { continue };
        if status(&device).is_ok_and(|found| (found.device, found.inode) == (wanted.dev(), wanted.ino())) {
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// Tells the kernel that the device's file has become longer.
pub fn fit(device: &Path) -> Result<()> {
    let device = OpenOptions::new().read(true).write(true).open(device)?;
    // SAFETY: the request takes no argument.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), SET_CAPACITY as _, SET_NOTHING) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn configure(device: &File, image: &File, flags: u32) -> Result<()> {
    let information = Information { flags, ..empty() };
    let file = image.as_raw_fd() as u32;
    let configuration = Configuration { file, block_size: BLOCK, information, reserved: [0; 8] };
    // SAFETY: the request reads one such structure, which lives across the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), CONFIGURE as _, &raw const configuration) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

fn status(device: &File) -> Result<Information> {
    let mut information = empty();
    // SAFETY: the request writes one such structure, which lives across the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), GET_STATUS as _, &raw mut information) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(information) }
}

fn empty() -> Information {
    Information {
        device: 0,
        inode: 0,
        other_device: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encryption: 0,
        key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        key: [0; 32],
        initial: [0; 2],
    }
}

const _: () = assert!(size_of::<Information>() == 232 && size_of::<Configuration>() == 304);
