//! Bounds of the cgroups that the server is in: its own and all above it.

use super::check::Found;
use std::path::{Path, PathBuf};

/// The tightest bound of one kind, and its use.
pub struct Bound {
    pub file: PathBuf,
    pub limit: u64,
    pub in_use: u64,
}

/// Version 1 writes a number above this if memory has no bound.
const NO_BOUND: u64 = 1 << 60;

/// `Ok(None)`: no cgroup bounds them. `Err`: why the bound could not be read.
pub fn processes(server: u32) -> Result<Option<Bound>, String> {
    tightest(server, "pids", &["pids.max"], |directory| read(&directory.join("pids.current")).unwrap_or(0))
}

/// Cached files count as free: the kernel drops them first.
pub fn memory(server: u32) -> Result<Option<Bound>, String> {
    tightest(server, "memory", &["memory.max", "memory.limit_in_bytes"], |directory| {
        let used = read(&directory.join("memory.current"))
            .or_else(|| read(&directory.join("memory.usage_in_bytes")))
            .unwrap_or(0);
        let cached = field(&directory.join("memory.stat"), &["total_inactive_file", "inactive_file"]);
        used.saturating_sub(cached)
    })
}

/// Only version 2 has a bound of cgroups.
pub fn cgroups(server: u32) -> Result<Option<Bound>, String> {
    tightest(server, "", &["cgroup.max.descendants"], |directory| {
        field(&directory.join("cgroup.stat"), &["nr_descendants"])
    })
}

fn tightest(
    server: u32,
    controller: &str,
    files: &[&str],
    in_use: impl Fn(&Path) -> u64,
) -> Result<Option<Bound>, String> {
    let own = table(&format!("/proc/{server}/cgroup"))?;
    let mounts = table("/proc/self/mountinfo")?;
    let mut bounds = Vec::new();
    for directory in directories(&own, &mounts, controller) {
        for file in files.iter().map(|name| directory.join(name)).filter(|file| file.exists()) {
            match super::reading::number(&file.display().to_string()) {
                Found::Limit(limit) if limit < NO_BOUND => {
                    bounds.push(Bound { in_use: in_use(&directory), file, limit });
                }
                Found::Limit(_) | Found::NoLimit => {}
                Found::Unreadable(why) => return Err(why),
            }
        }
    }
    Ok(bounds.into_iter().min_by_key(|bound| bound.limit.saturating_sub(bound.in_use)))
}

/// From the server's own cgroup of the controller up to the top of the mounted hierarchy. Version 2 has one hierarchy
/// for all controllers.
fn directories(own: &str, mountinfo: &str, controller: &str) -> Vec<PathBuf> {
    let of_version_1 = |wanted: &str| mount_point(mountinfo, "cgroup", Some(wanted)).zip(path(own, wanted));
    let version_1 = Some(controller).filter(|controller| !controller.is_empty()).and_then(of_version_1);
    let found = version_1.or_else(|| mount_point(mountinfo, "cgroup2", None).zip(path(own, "")));
    let Some((top, below)) = found else { return Vec::new() };
    let own = top.join(below.trim_start_matches('/'));
    own.ancestors().take_while(|path| path.starts_with(&top)).map(Path::to_path_buf).collect()
}

fn mount_point(mountinfo: &str, kind: &str, controller: Option<&str>) -> Option<PathBuf> {
    mountinfo.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let right_kind = after.next()? == kind;
        let options = after.nth(1)?;
        let right = controller.is_none_or(|wanted| options.split(',').any(|option| option == wanted));
        (right_kind && right).then(|| before.split(' ').nth(4).map(PathBuf::from)).flatten()
    })
}

fn path<'a>(own: &'a str, controller: &str) -> Option<&'a str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers.split(',').any(|name| name == controller).then_some(path)
    })
}

fn table(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))
}

fn read(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The first of the fields that exists; 0 if none does.
fn field(path: &Path, names: &[&str]) -> u64 {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let find = |name: &&str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
    };
    names.iter().find_map(find).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cgroups_above_the_server_are_looked_at() {
        let mountinfo = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let own = "0::/system.slice/paddock.service\n";
        let expected = ["system.slice/paddock.service", "system.slice", ""];
        let expected: Vec<PathBuf> =
            expected.iter().map(|path| Path::new("/sys/fs/cgroup").join(path)).collect();
        let found = directories(own, mountinfo, "pids");
        assert_eq!(found.iter().map(|path| path.components().collect::<PathBuf>()).collect::<Vec<_>>(), {
            expected.iter().map(|path| path.components().collect::<PathBuf>()).collect::<Vec<_>>()
        });
    }

    #[test]
    fn version_1_has_a_tree_for_each_controller() {
        let mountinfo = "31 25 0:27 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory\n\
                         32 25 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                         33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "5:pids:/a\n4:memory:/b/c\n0::/\n";
        assert_eq!(directories(own, mountinfo, "pids")[0], Path::new("/sys/fs/cgroup/pids/a"));
        assert_eq!(directories(own, mountinfo, "memory").len(), 3);
        assert!(directories(own, mountinfo, "")[0].starts_with("/sys/fs/cgroup/unified"));
        assert!(directories("", mountinfo, "pids").is_empty());
    }
}
