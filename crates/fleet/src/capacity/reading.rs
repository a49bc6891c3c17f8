//! Limits and their use, as the kernel reports them.

use super::check::Found;
use crate::pressure::meminfo_bytes;
use rustix::fs::StatVfs;
use std::path::Path;

/// A number of `/proc/sys`, named as `sysctl` does.
pub fn sysctl(name: &str) -> Found {
    number(&format!("/proc/sys/{}", name.replace('.', "/")))
}

/// A file with one number, or `max` for none.
pub fn number(path: &str) -> Found {
    match std::fs::read_to_string(path) {
        Ok(text) if text.trim() == "max" => Found::NoLimit,
        Ok(text) => text.trim().parse().map_or_else(|_| not_a_number(path, &text), Found::Limit),
        Err(error) => Found::Unreadable(format!("{path}: {error}")),
    }
}

fn not_a_number(path: &str, text: &str) -> Found {
    let shown: String = text.trim().chars().take(40).collect();
    Found::Unreadable(format!("{path} has {shown:?} instead of a number"))
}

/// The first number of a file with several; 0 if it cannot be read.
pub fn first_number(path: &str) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// All threads of the host. Its file has them after a slash: `0.20 0.18 0.12 1/80 11206`.
pub fn tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(['/', ' ']).nth(4).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Threads of one user.
pub fn tasks_of(user: u32) -> u64 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let threads = |status: &str| {
        let field = |name| status.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        let own = field("Uid:")?.parse::<u32>().ok()? == user;
        own.then(|| field("Threads:")?.parse::<u64>().ok()).flatten()
    };
    let statuses = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok());
    statuses.filter_map(|status| threads(&status)).sum()
}

/// A soft limit of a process, by the words of `/proc/PID/limits`.
pub fn process_limit(process: u32, words: &str) -> Found {
    let path = format!("/proc/{process}/limits");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            soft_limit(&text, words).unwrap_or_else(|| Found::Unreadable(format!("{path} has no {words}")))
        }
        Err(error) => Found::Unreadable(format!("{path}: {error}")),
    }
}

fn soft_limit(limits: &str, words: &str) -> Option<Found> {
    let line = limits.lines().find_map(|line| line.strip_prefix(words))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(Found::NoLimit),
        value => value.parse().ok().map(Found::Limit),
    }
}

/// Descriptors that a process has open.
pub fn open_descriptors(process: u32) -> Option<u64> {
    Some(std::fs::read_dir(format!("/proc/{process}/fd")).ok()?.count() as u64)
}

/// Memory that is available without swapping.
pub fn available_memory() -> Found {
    let text = match std::fs::read_to_string("/proc/meminfo") {
        Ok(text) => text,
        Err(error) => return Found::Unreadable(format!("/proc/meminfo: {error}")),
    };
    match meminfo_bytes(&text, "MemAvailable:") {
        Some(bytes) => Found::Limit(bytes),
        None => Found::Unreadable("/proc/meminfo has no MemAvailable".into()),
    }
}

/// Free bytes and inodes of the directory's file system, also of a directory that does not exist yet.
pub fn room(directory: &Path) -> (Found, Found) {
    let existing = directory.ancestors().find(|path| path.exists()).unwrap_or(directory);
    match rustix::fs::statvfs(existing) {
        Ok(found) => (Found::Limit(found.f_bavail.saturating_mul(found.f_frsize)), inodes(&found)),
        Err(error) => {
            let unreadable = Found::Unreadable(format!("{}: {error}", existing.display()));
            (unreadable.clone(), unreadable)
        }
    }
}

/// Btrfs and others make inodes as they need them, and count none.
fn inodes(found: &StatVfs) -> Found {
    if found.f_files == 0 { Found::NoLimit } else { Found::Limit(found.f_favail) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_process_are_read_from_the_kernels_table() {
        let table = "Limit                     Soft Limit           Hard Limit           Units     \n\
                     Max processes             1000                 unlimited            processes \n\
                     Max open files            unlimited            1048576              files     \n";
        assert_eq!(soft_limit(table, "Max processes"), Some(Found::Limit(1000)));
        assert_eq!(soft_limit(table, "Max open files"), Some(Found::NoLimit));
        assert_eq!(soft_limit(table, "Max cows"), None);
        assert!(matches!(process_limit(std::process::id(), "Max open files"), Found::Limit(_)));
    }

    #[test]
    fn this_host_tells_its_numbers() {
        assert!(matches!(sysctl("kernel.pid_max"), Found::Limit(301..)));
        assert!(matches!(sysctl("kernel.no_such_setting"), Found::Unreadable(_)));
        assert!(matches!(sysctl("kernel.ostype"), Found::Unreadable(_)));
        assert!(matches!(available_memory(), Found::Limit(1..)));
        assert!(tasks() > 1 && tasks_of(rustix::process::getuid().as_raw()) >= 1);
        assert!(open_descriptors(std::process::id()).is_some_and(|open| open > 2));
        let (bytes, _) = room(Path::new("/tmp/there/is/no/such/directory"));
        assert!(matches!(bytes, Found::Limit(_)));
    }
}
