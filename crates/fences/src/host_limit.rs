//! Limits of the host that every sandbox takes a part of, and that refuse the next one when they are reached.
//!
//! The kernel says ENOSPC for all of them, which everywhere else means a full disk. So the place that met the refusal says
//! which limit it was.

use std::fmt;
use std::io::Error;

/// Ends each hint: one command tells all limits at once.
const ASK_DOCTOR: &str =
    "`paddock doctor --for NUMBER` says what each limit has to be for that many sandboxes";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostLimit {
    /// Namespaces of one kind, as `/proc/sys/user/max_KIND_namespaces` names it.
    Namespaces(&'static str),
    /// Mounts in the namespace of one sandbox, which begins with all mounts of the server's.
    Mounts,
    /// Below a cgroup whose owner bounded them.
    CgroupsBelow,
    /// With memory accounting, on the whole host.
    MemoryCgroups,
    /// Slots, of which each has a range of host ids.
    Places,
}

impl HostLimit {
    pub fn hint(self) -> String {
        let what = match self {
            HostLimit::Namespaces(kind) => {
                format!("raise it as root: sysctl -w user.max_{kind}_namespaces=NUMBER")
            }
            HostLimit::Mounts => "raise it as root: sysctl -w fs.mount-max=100000".into(),
            HostLimit::CgroupsBelow => {
                "write max to cgroup.max.descendants of the cgroups that the server is in".into()
            }
            HostLimit::MemoryCgroups => "use another host: the kernel has 65,535 for all".into(),
            HostLimit::Places => "use another host: there are no more ranges of 65,536 ids".into(),
        };
        format!("end sandboxes that are not needed, or {what}; {ASK_DOCTOR}")
    }

    /// `None`: the mount was refused for another reason.
    pub fn of_a_mount(error: &Error) -> Option<HostLimit> {
        let refused = error.raw_os_error() == Some(libc::ENOSPC);
        (refused && mounts_are_short(mounts_here()?, most_mounts()?)).then_some(HostLimit::Mounts)
    }

    /// `None`: the cgroup could not be made for another reason.
    pub fn of_a_cgroup(error: &Error) -> Option<HostLimit> {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::WouldBlock => Some(HostLimit::CgroupsBelow),
            // Numbers of memory cgroups have 16 bits. The kernel says the first where it keeps them in an IDR, the second where in an XArray.
            ErrorKind::StorageFull | ErrorKind::ResourceBusy => Some(HostLimit::MemoryCgroups),
            _ => None,
        }
    }
}

impl fmt::Display for HostLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostLimit::Namespaces(kind) => write!(f, "{kind} namespaces (user.max_{kind}_namespaces)"),
            HostLimit::Mounts => f.write_str("mounts in one sandbox (fs.mount-max)"),
            HostLimit::CgroupsBelow => f.write_str("cgroups (cgroup.max.descendants)"),
            HostLimit::MemoryCgroups => f.write_str("memory cgroups"),
            HostLimit::Places => f.write_str("sandboxes"),
        }
    }
}

/// A sandbox has 36 mounts, and some more for a moment while it is built. All of the server's are there until then.
pub const MOUNTS_OF_A_SANDBOX: u64 = 64;

fn mounts_are_short(here: u64, most: u64) -> bool {
    here + MOUNTS_OF_A_SANDBOX > most
}

fn mounts_here() -> Option<u64> {
    Some(std::fs::read_to_string("/proc/self/mountinfo").ok()?.lines().count() as u64)
}

fn most_mounts() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/fs/mount-max").ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_taken_for_a_limit_of_mounts() {
        assert!(mounts_are_short(80, 100) && !mounts_are_short(30, 100_000));
        let full = Error::from_raw_os_error(libc::ENOSPC);
        // This host has room for mounts, so it was a disk.
        assert_eq!(HostLimit::of_a_mount(&full), None);
        assert_eq!(HostLimit::of_a_mount(&Error::from_raw_os_error(libc::EPERM)), None);
    }

    #[test]
    fn each_refusal_of_a_cgroup_is_told_apart() {
        let limit = |number| HostLimit::of_a_cgroup(&Error::from_raw_os_error(number));
        assert_eq!(limit(libc::EAGAIN), Some(HostLimit::CgroupsBelow));
        assert_eq!(limit(libc::ENOSPC), Some(HostLimit::MemoryCgroups));
        assert_eq!(limit(libc::EBUSY), Some(HostLimit::MemoryCgroups));
        assert_eq!(limit(libc::EACCES), None);
    }

    #[test]
    fn every_hint_names_its_setting_and_the_doctor() {
        let hint = HostLimit::Namespaces("net").hint();
        assert!(hint.contains("user.max_net_namespaces") && hint.contains("doctor --for"), "{hint}");
        assert!(HostLimit::Mounts.hint().contains("fs.mount-max"));
    }
}
