//! The KVM device of this host, as a fence gets it.

use paddock_fences::error::{CreateError, HostStep};
use rustix::fs::{FileType, Mode, makedev, mknodat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsmount, fsopen, open_tree,
};
use std::os::fd::OwnedFd;

/// The device's name in /dev, and its number.
pub const NAME: &str = "kvm";
const NUMBER: (u32, u32) = (10, 232);
pub const DEVICE: &str = "/dev/kvm";

/// The device for one fence: a node of its own that the fence's ids may open, as a detached mount. The host's stays as it is.
pub fn node() -> Result<OwnedFd, CreateError> {
    let make = || -> rustix::io::Result<OwnedFd> {
        let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        fsconfig_create(&context)?;
        let top = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        let mode = Mode::from_raw_mode(0o666);
        mknodat(&top, NAME, FileType::CharacterDevice, mode, makedev(NUMBER.0, NUMBER.1))?;
        // With any umask of this process.
        rustix::fs::chmodat(&top, NAME, mode, rustix::fs::AtFlags::empty())?;
        open_tree(&top, NAME, OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC)
    };
    make().host(|| format!("make a {DEVICE} for the fence"))
}

/// The processor that a kept VM goes on with.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let telling = |line: &&str| line.starts_with("model name") || line.starts_with("flags");
    text.lines().filter(telling).take(2).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_the_device_and_open_to_the_fence() {
        // Only root may make a device.
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let node = node().unwrap();
        let found = rustix::fs::fstat(&node).unwrap();
        assert_eq!(FileType::from_raw_mode(found.st_mode), FileType::CharacterDevice);
        assert_eq!((found.st_rdev, found.st_mode & 0o777), (makedev(10, 232), 0o666));
    }
}
