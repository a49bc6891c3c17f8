//! Facts about a process, as the kernel tells them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The lines of `/proc/PID/status`, by their names.
pub struct Status(BTreeMap<String, String>);

impl Status {
    pub fn of(pid: i32) -> Result<Status> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        Ok(Status(lines.map(|(name, value)| (name.to_string(), value.trim().to_string())).collect()))
    }

    pub fn field(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    pub fn number(&self, name: &str) -> Option<u32> {
        self.field(name).parse().ok()
    }

    /// Its pids, from the host's to that of its innermost namespace.
    pub fn numbers(&self) -> Vec<u32> {
        self.field("NSpid").split_whitespace().filter_map(|number| number.parse().ok()).collect()
    }
}

/// One line of `/proc/PID/maps`.
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub rights: String,
    pub name: String,
}

impl Mapping {
    pub fn all(pid: i32) -> Result<Vec<Mapping>> {
        let text = std::fs::read(format!("/proc/{pid}/maps"))?;
        String::from_utf8_lossy(&text)
            .lines()
            .map(|line| Mapping::parse(line).ok_or_else(unreadable))
            .collect()
    }

    pub fn parse(line: &str) -> Option<Mapping> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let rights = fields.next()?.to_string();
        let name = fields.nth(3).unwrap_or_default().trim_start().to_string();
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(Mapping { start: number(start)?, end: number(end)?, rights, name })
    }

    /// True if another process could change the content. A shared mapping of a file counts as private if it is
    /// read-only.
    pub fn is_shared(&self) -> bool {
        let is_file = self.name.starts_with('/')
            && !["/memfd:", "/dev/", "/SYSV"].iter().any(|prefix| self.name.starts_with(prefix))
            && !self.name.ends_with(" (deleted)");
        self.rights.contains('s') && (self.rights.contains('w') || !is_file)
    }
}

pub fn unreadable() -> Error {
    Error::new(ErrorKind::InvalidData, "the kernel describes it in words that are not known")
}

/// Which namespace of a kind a process is in.
pub fn namespace(pid: i32, name: &str) -> Result<(u64, u64)> {
    let found = std::fs::metadata(format!("/proc/{pid}/ns/{name}"))?;
    Ok((found.dev(), found.ino()))
}

/// True if a process is in the cgroups that these entrances lead to. Each belongs to another hierarchy, and all have
/// one name, which no other sandbox's cgroups have.
pub fn is_in_cgroups(pid: i32, entrances: &[File]) -> Result<bool> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))?;
    let mut joined = entrances.iter().map(|entrance| {
        let path = std::fs::read_link(format!("/proc/self/fd/{}", entrance.as_raw_fd()))?;
        let name =
            path.parent().and_then(Path::file_name).ok_or_else(unreadable)?.to_string_lossy().into_owned();
        Ok(text.lines().filter(|line| line.rsplit('/').next() == Some(name.as_str())).count())
    });
    joined.try_fold(true, |all, count: Result<usize>| Ok(all && count? >= entrances.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_told_from_what_is_only_read() {
        let shared = |line: &str| Mapping::parse(line).unwrap().is_shared();
        assert!(shared("7f00-7f01 rw-s 00000000 00:01 1024      /dev/zero (deleted)"));
        assert!(shared("7f00-7f01 r--s 00000000 00:01 1024      /memfd:x (deleted)"));
        assert!(shared("7f00-7f01 rw-s 00000000 00:01 1024      /tmp/file"));
        assert!(!shared("7f00-7f01 r--s 00000000 00:01 7        /usr/lib/gconv-modules.cache"));
        assert!(!shared("7f00-7f01 rw-p 00000000 00:00 0 "));
        let mapping = Mapping::parse("55d0-55e0 r-xp 00001000 fe:00 9   /tmp/a name").unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.name.as_str()), (0x55d0, 0x55e0, "/tmp/a name"));
        assert!(Mapping::parse("nonsense").is_none());
    }

    #[test]
    fn this_process_is_described() {
        let own = std::process::id();
        let status = Status::of(own as i32).unwrap();
        assert_eq!(status.numbers().last(), Some(&own));
        assert!(status.number("Threads").is_some());
        assert!(!Mapping::all(own as i32).unwrap().is_empty());
    }
}
