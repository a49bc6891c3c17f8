//! The requests to the kernel's btrfs, written by hand: the crates for it wrap a C library or the `btrfs` command.

use std::ffi::c_ulong;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

/// `f_type` of statfs.
pub const MAGIC: i64 = 0x9123_683E;
/// The inode of every subvolume's root.
pub const ROOT_INODE: u64 = 256;

const SUBVOL_CREATE_V2: c_ulong = 0x5000_9418;
const SNAP_CREATE_V2: c_ulong = 0x5000_9417;
const SNAP_DESTROY_V2: c_ulong = 0x5000_943F;
const SUBVOL_GETFLAGS: c_ulong = 0x8008_9419;
const INO_LOOKUP: c_ulong = 0xD000_9412;
const FS_INFO: c_ulong = 0x8400_941F;
const RESIZE: c_ulong = 0x5000_9403;
const QUOTA_CTL: c_ulong = 0xC010_9428;
const QGROUP_CREATE: c_ulong = 0x4010_942A;
const QGROUP_LIMIT: c_ulong = 0x8030_942B;

const READ_ONLY: u64 = 1 << 1;
const ENABLE: u64 = 1;
/// Linux 6.7: each block counts for the subvolume that wrote it. The kernel need not walk all sharers, so that a
/// thousand snapshots cost nothing.
const ENABLE_SIMPLE: u64 = 4;
const LIMIT_REFERENCED: u64 = 1;

#[repr(C)]
struct VolumeArguments {
    descriptor: i64,
    generation: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

#[repr(C)]
struct ResizeArguments {
    descriptor: i64,
    size: [u8; 4088],
}

#[repr(C)]
struct LookupArguments {
    tree: u64,
    object: u64,
    name: [u8; 4080],
}

#[repr(C)]
struct LimitArguments {
    group: u64,
    flags: u64,
    most_referenced: u64,
    most_exclusive: u64,
    reserved: [u64; 2],
}

/// The way in which the quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// The blocks that a subvolume wrote, for as long as any subvolume holds them.
    Simple,
    /// The blocks that can be reached from a subvolume.
    Full,
}

pub fn create(parent: impl AsFd, name: &str) -> Result<()> {
    volume_call(&parent, SUBVOL_CREATE_V2, 0, 0, name)
}

pub fn snapshot(source: impl AsFd, parent: impl AsFd, name: &str, read_only: bool) -> Result<()> {
    let flags = if read_only { READ_ONLY } else { 0 };
    volume_call(&parent, SNAP_CREATE_V2, i64::from(source.as_fd().as_raw_fd()), flags, name)
}

/// The space comes back a little later: the kernel takes the tree apart in the background.
pub fn destroy(parent: impl AsFd, name: &str) -> Result<()> {
    volume_call(&parent, SNAP_DESTROY_V2, 0, 0, name)
}

fn volume_call(parent: &impl AsFd, request: c_ulong, descriptor: i64, flags: u64, name: &str) -> Result<()> {
    let mut arguments =
        Box::new(VolumeArguments { descriptor, generation: 0, flags, unused: [0; 4], name: [0; 4040] });
    // One byte stays for the closing NUL.
    if name.len() >= arguments.name.len() {
        return Err(Error::from(ErrorKind::InvalidFilename));
    }
    arguments.name[..name.len()].copy_from_slice(name.as_bytes());
    call(parent, request, &mut *arguments)
}

pub fn is_read_only(subvolume: impl AsFd) -> Result<bool> {
    let mut flags = 0u64;
    call(&subvolume, SUBVOL_GETFLAGS, &mut flags)?;
    Ok(flags & READ_ONLY != 0)
}

/// The number of the subvolume; its quota group has the same number.
pub fn number(subvolume: impl AsFd) -> Result<u64> {
    let mut arguments = Box::new(LookupArguments { tree: 0, object: ROOT_INODE, name: [0; 4080] });
    call(&subvolume, INO_LOOKUP, &mut *arguments)?;
    Ok(arguments.tree)
}

/// The directory in which the kernel shows the quota of this file system.
pub fn quota_directory(any: impl AsFd) -> Result<PathBuf> {
    // The file system's id is at 16, after two numbers of eight bytes.
    let mut information = Box::new([0u8; 1024]);
    call(&any, FS_INFO, &mut *information)?;
    let hex: String = information[16..32].iter().map(|byte| format!("{byte:02x}")).collect();
    let id = format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    Ok(PathBuf::from("/sys/fs/btrfs").join(id).join("qgroups"))
}

/// `None` if the quota is off.
pub fn quota(any: impl AsFd) -> Result<Option<Quota>> {
    let directory = quota_directory(any)?;
    match std::fs::read_to_string(directory.join("mode")).as_deref().map(str::trim) {
        Ok("squota") => Ok(Some(Quota::Simple)),
        Ok("disabled") => Ok(None),
        Ok(_) => Ok(Some(Quota::Full)),
        // Before Linux 6.7 there is one way to count, and the directory exists if the quota is on.
        Err(_) => Ok(directory.exists().then_some(Quota::Full)),
    }
}

pub fn enable_quota(any: impl AsFd) -> Result<()> {
    let simple = call(&any, QUOTA_CTL, &mut [ENABLE_SIMPLE, 0]);
    if simple.is_ok() { simple } else { call(&any, QUOTA_CTL, &mut [ENABLE, 0u64]) }
}

/// Makes the file system as large as its device.
pub fn resize_to_device(any: impl AsFd) -> Result<()> {
    let mut arguments = Box::new(ResizeArguments { descriptor: 0, size: [0; 4088] });
    arguments.size[..3].copy_from_slice(b"max");
    call(&any, RESIZE, &mut *arguments)
}

pub fn limit(any: impl AsFd, group: u64, bytes: u64) -> Result<()> {
    let mut arguments = LimitArguments {
        group,
        flags: LIMIT_REFERENCED,
        most_referenced: bytes,
        most_exclusive: 0,
        reserved: [0; 2],
    };
    call(&any, QGROUP_LIMIT, &mut arguments)
}

/// Removes the quota group of a removed subvolume, which kernels before 6.13 keep.
pub fn remove_group(any: impl AsFd, group: u64) -> Result<()> {
    call(&any, QGROUP_CREATE, &mut [0, group])
}

fn call<T>(file: &impl AsFd, request: c_ulong, argument: &mut T) -> Result<()> {
    // SAFETY: each request above is called with the structure, or more than the structure, that it reads and writes;
    // its size is a part of the request's number. It lives across the call.
    let result = unsafe { libc::ioctl(file.as_fd().as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
    if result < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

const _: () = {
    assert!(size_of::<VolumeArguments>() == 4096);
    assert!(size_of::<LookupArguments>() == 4096);
    assert!(size_of::<ResizeArguments>() == 4096);
    assert!(size_of::<LimitArguments>() == 48);
};
