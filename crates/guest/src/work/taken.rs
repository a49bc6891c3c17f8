//! A process that came in from outside: forked from a zygote, which is the template's and not to be
//! believed, or forked live from another sandbox. So the kernel is asked about it before any code of the caller runs in
//! it.

use crate::enter::Awaited;
use crate::failure::{During, Failure, Outcome};
use crate::work::{Confinement, Spawned};
use paddock_protocol::NAMESPACES;
use rustix::io::Errno;
use rustix::process::Pid;
use std::os::unix::fs::MetadataExt;

pub struct Newcomer {
    pub pid: u32,
    /// How many seccomp filters it has to have.
    pub filters: u32,
    /// The engine has put it under the limits.
    pub is_limited: bool,
}

impl Newcomer {
    /// Puts it under the limits, and gives it its streams.
    pub fn take_in(&self, streams: Option<Awaited>, confinement: &Confinement) -> Outcome<Spawned> {
        let refuse = |step: &str| Failure { step: step.into(), errno: Errno::INVAL };
        let streams = streams.ok_or_else(|| refuse("take in a process that nobody awaited"))?;
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).filter(|pid| !pid.is_init());
        let pid = pid.ok_or_else(|| refuse("take in a process without a number"))?;
        check(self.pid, self.filters, confinement)?;
        if !self.is_limited {
            confinement.take_into_cgroups(self.pid)?;
        }
        let stdin = streams.control.try_clone().during(|| "copy a descriptor".into())?;
        let spawned = Spawned {
            pid,
            stdin: Some(stdin),
            stdout: Some(streams.stdout),
            stderr: Some(streams.stderr),
            control: Some(streams.control),
            report: None,
        };
        super::spawn::unblock(&spawned)?;
        Ok(spawned)
    }
}

fn check(pid: u32, filters: u32, confinement: &Confinement) -> Outcome<()> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .map_err(|_| Failure { step: "look at a process that is not there".into(), errno: Errno::SRCH })?;
    let ids = confinement.ids;
    if let Some(wrong) = wrong_status(&status, (ids.work, ids.work_group), filters) {
        return Err(Failure { step: format!("take in a process with {wrong}"), errno: Errno::PERM });
    }
    let mapped = std::fs::read_to_string(format!("/proc/{pid}/maps"))
        .map_err(|_| Failure { step: "look at the memory of a process".into(), errno: Errno::PERM })?;
    if mapped.lines().any(is_shared_and_writable) {
        return Err(Failure {
            step: "take in a process that shares memory with where it came from".into(),
            errno: Errno::PERM,
        });
    }
    // Each has to be the guest's own.
    for (theirs, ours) in NAMESPACES {
        let seen = |process: &str, name: &str| {
            let found = std::fs::metadata(format!("/proc/{process}/ns/{name}")).ok()?;
            Some((found.dev(), found.ino()))
        };
        let (theirs_seen, ours_seen) = (seen(&pid.to_string(), theirs), seen("self", ours));
        // A kernel without one of these namespaces has it for no process.
        if theirs_seen != ours_seen {
            return Err(Failure {
                step: format!("take in a process of another {theirs} namespace"),
                errno: Errno::PERM,
            });
        }
    }
    Ok(())
}

fn is_shared_and_writable(mapping: &str) -> bool {
    mapping.split(' ').nth(1).is_none_or(|rights| rights.contains('w') && rights.contains('s'))
}

/// The first line that a process of the work would not have.
fn wrong_status(status: &str, (uid, gid): (u32, u32), least: u32) -> Option<&str> {
    let expected = [
        ("PPid", "1".to_string()),
        ("Uid", format!("{uid}\t{uid}\t{uid}\t{uid}")),
        ("Gid", format!("{gid}\t{gid}\t{gid}\t{gid}")),
        ("Groups", gid.to_string()),
        ("CapInh", no_capabilities()),
        ("CapPrm", no_capabilities()),
        ("CapEff", no_capabilities()),
        ("CapBnd", no_capabilities()),
        ("CapAmb", no_capabilities()),
        ("NoNewPrivs", "1".to_string()),
        ("Seccomp", "2".to_string()),
    ];
    for (name, value) in expected {
        let line = status.lines().find(|line| line.split(':').next() == Some(name));
        match line.and_then(|line| line.split_once(':')) {
            Some((_, found)) if found.trim() == value => {}
            _ => return Some(line.unwrap_or("a status that cannot be read")),
        }
    }
    let filters = status.lines().find(|line| line.starts_with("Seccomp_filters:"));
    let count = |line: &str| line.split_once(':').and_then(|(_, count)| count.trim().parse::<u32>().ok());
    // Older kernels do not count them.
    filters.filter(|line| count(line).is_none_or(|count| count < least.max(1)))
}

fn no_capabilities() -> String {
    "0".repeat(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Name:\tpython3\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\n\
        Groups:\t1000 \nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n\
        CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t2\n";

    #[test]
    fn memory_that_two_could_write_is_found() {
        assert!(is_shared_and_writable("7f00-7f01 rw-s 00000000 00:01 1024 /dev/zero (deleted)"));
        assert!(!is_shared_and_writable("7f00-7f01 rw-p 00000000 00:00 0"));
        assert!(!is_shared_and_writable("7f00-7f01 r--s 00000000 00:01 7 /usr/lib/gconv-modules.cache"));
        assert!(is_shared_and_writable("nonsense"));
    }

    #[test]
    fn whatever_is_not_as_the_work_is_named() {
        assert_eq!(wrong_status(GOOD, (1000, 1000), 2), None);
        assert_eq!(wrong_status(GOOD, (1001, 1000), 2), Some("Uid:\t1000\t1000\t1000\t1000"));
        for (good, bad) in [
            ("PPid:\t1", "PPid:\t7"),
            ("CapBnd:\t0000000000000000", "CapBnd:\t0000000000200000"),
            ("CapEff:\t0000000000000000", "CapEff:\t0000000000200000"),
            ("NoNewPrivs:\t1", "NoNewPrivs:\t0"),
            ("Seccomp:\t2", "Seccomp:\t0"),
            ("Seccomp_filters:\t2", "Seccomp_filters:\t1"),
            ("Groups:\t1000 ", "Groups:\t0 1000 "),
            ("Uid:\t1000\t1000\t1000\t1000", "Uid:\t1000\t0\t1000\t1000"),
        ] {
            assert_eq!(wrong_status(&GOOD.replace(good, bad), (1000, 1000), 2), Some(bad));
        }
        let one = GOOD.replace("Seccomp_filters:\t2", "Seccomp_filters:\t1");
        assert_eq!(wrong_status(&one, (1000, 1000), 1), None);
        assert!(wrong_status("", (1000, 1000), 1).is_some());
    }
}
