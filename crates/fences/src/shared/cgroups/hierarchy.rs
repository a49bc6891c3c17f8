//! Where this host keeps its cgroup controllers, and the names of their files.

use crate::backend::FenceUsage;
use paddock_model::Limits;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The directories below which a cgroup for a sandbox can be made, by controller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hierarchies {
    unified: Option<PathBuf>,
    pub(super) memory: Option<PathBuf>,
    cpu: Option<PathBuf>,
    pub(super) pids: Option<PathBuf>,
    /// For v1, and only of use to lasting sandboxes, as is `accounting`: a short run does without their price.
    freezer: Option<PathBuf>,
    /// Processor time.
    pub(super) accounting: Option<PathBuf>,
}

pub struct Setting {
    pub file: PathBuf,
    pub value: String,
    /// Not every kernel has the file (swap accounting).
    pub optional: bool,
}

pub struct Freezer {
    pub file: PathBuf,
    pub freeze: &'static str,
    pub thaw: &'static str,
    pub report: PathBuf,
    /// A whole line of the report.
    pub frozen: &'static str,
}

const PERIOD_MICROSECONDS: u64 = 100_000;

/// The hierarchies that the caller may use on this host. An absent hierarchy means: the kernel holds no such limit.
pub fn detect() -> &'static Hierarchies {
    static FOUND: OnceLock<Hierarchies> = OnceLock::new();
    FOUND.get_or_init(|| {
        let read = |path| read_table(path).unwrap_or_default();
        let mut found = from_tables(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
        found.drop_what_is_not_ours();
        found
    })
}

/// The cgroups that count the memory of this process, and that of its sandboxes: root's are elsewhere on v2.
pub(super) fn memory_groups() -> Vec<PathBuf> {
    let read = |path| read_table(path).unwrap_or_default();
    let own = from_tables(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let of_memory = |found: &Hierarchies| found.unified.clone().or_else(|| found.memory.clone());
    let mut groups: Vec<PathBuf> = [of_memory(&own), of_memory(detect())].into_iter().flatten().collect();
    groups.dedup();
    groups
}

/// The kernel makes such a table anew for every read: one large read instead of many small ones.
fn read_table(path: &str) -> std::io::Result<String> {
    let mut text = String::with_capacity(32 * 1024);
    std::fs::File::open(path)?.take(16 << 20).read_to_string(&mut text)?;
    Ok(text)
}

/// Pure: the two tables of /proc in, directories out.
fn from_tables(mountinfo: &str, own: &str) -> Hierarchies {
    let mut found = Hierarchies::default();
    for line in mountinfo.lines() {
        let Some((place, kind, options)) = mount_of(line) else { continue };
        match kind {
            "cgroup" => {
                let controllers: Vec<&str> = options.split(',').collect();
                let path = own_path(own, |names| {
                    names.split(',').any(|n| controllers.contains(&n) && !n.is_empty())
                });
                let parent = join(&place, path.unwrap_or("/"));
                for (name, slot) in [
                    ("memory", &mut found.memory),
                    ("cpu", &mut found.cpu),
                    ("pids", &mut found.pids),
                    ("freezer", &mut found.freezer),
                    ("cpuacct", &mut found.accounting),
                ] {
                    if controllers.contains(&name) {
                        *slot = Some(parent.clone());
                    }
                }
            }
            "cgroup2" => found.unified = Some(join(&place, own_path(own, str::is_empty).unwrap_or("/"))),
            _ => {}
        }
    }
    // A unified hierarchy beside v1 carries no controller of ours.
    if found.memory.is_some() || found.pids.is_some() || found.cpu.is_some() {
        found.unified = None;
    }
    found
}

/// Mount point, file system and its options of one line of mountinfo.
fn mount_of(line: &str) -> Option<(PathBuf, &str, &str)> {
    let (before, after) = line.split_once(" - ")?;
    let place = before.split(' ').nth(4)?;
    let mut after = after.split(' ');
    let kind = after.next()?;
    let options = after.nth(1)?;
    Some((PathBuf::from(place), kind, options))
}

fn own_path(own: &str, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        wanted(controllers).then_some(path)
    })
}

fn join(place: &Path, path: &str) -> PathBuf {
    place.join(path.trim_start_matches('/'))
}

impl Hierarchies {
    /// Keeps the hierarchies in which this user may make directories, and on v2 only if they have controllers to give.
    fn drop_what_is_not_ours(&mut self) {
        let writable = |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
        let all = [&mut self.memory, &mut self.cpu, &mut self.pids, &mut self.freezer, &mut self.accounting];
        for slot in all {
            if slot.as_ref().is_some_and(|path| !writable(path)) {
                *slot = None;
            }
        }
        self.unified = self.unified.take().and_then(|own| unified_parent(&own));
    }

    pub fn is_unified(&self) -> bool {
        self.unified.is_some()
    }

    pub fn limits_memory(&self) -> bool {
        self.unified.is_some() || self.memory.is_some()
    }

    pub fn limits_cpu(&self) -> bool {
        self.unified.is_some() || self.cpu.is_some()
    }

    pub fn limits_pids(&self) -> bool {
        self.unified.is_some() || self.pids.is_some()
    }

    /// Refuses a change of a limit that the kernel does not hold here.
    pub fn check_held(&self, old: &Limits, new: &Limits) -> std::io::Result<()> {
        let missing = [
            ("memory", new.memory != old.memory && !self.limits_memory()),
            ("cpus", new.cpus != old.cpus && !self.limits_cpu()),
            ("pids", new.pids != old.pids && !self.limits_pids()),
        ];
        match missing.iter().find(|(_, missing)| *missing) {
            None => Ok(()),
            Some((limit, _)) => {
                let why = format!("the kernel does not hold the {limit} limit of this sandbox");
                Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why))
            }
        }
    }

    /// The hierarchies of a sandbox that ends with its engine, or of one that outlives it.
    pub fn for_life(&self, lasting: bool) -> Hierarchies {
        let mut used = self.clone();
        if !lasting {
            (used.freezer, used.accounting) = (None, None);
        }
        used
    }

    pub fn can_freeze(&self) -> bool {
        self.unified.is_some() || self.freezer.is_some()
    }

    /// The values that stop the work or let it go on, and the kernel's sign that the work has stopped.
    pub fn freezer(&self, name: &str) -> Option<Freezer> {
        if let Some(parent) = &self.unified {
            let group = parent.join(name);
            let (file, report) = (group.join("cgroup.freeze"), group.join("cgroup.events"));
            return Some(Freezer { file, freeze: "1", thaw: "0", report, frozen: "frozen 1" });
        }
        let file = self.freezer.as_ref()?.join(name).join("freezer.state");
        Some(Freezer { report: file.clone(), file, freeze: "FROZEN", thaw: "THAWED", frozen: "FROZEN" })
    }

    pub fn parents(&self) -> Vec<&PathBuf> {
        let all = [&self.unified, &self.memory, &self.cpu, &self.pids, &self.freezer, &self.accounting];
        all.into_iter().flatten().collect()
    }

    /// `tasks` moves one thread, which needs no lock over all forks of the host as `cgroup.procs` does; v2 has only the
    /// latter.
    pub fn entrance(&self) -> &'static str {
        if self.is_unified() { "cgroup.procs" } else { "tasks" }
    }

    pub fn settings(&self, name: &str, limits: &Limits) -> Vec<Setting> {
        let quota = ((limits.cpus * PERIOD_MICROSECONDS as f64) as u64).max(1000);
        let mut settings = Vec::new();
        let mut set = |parent: &PathBuf, file: &str, value: String, optional: bool| {
            settings.push(Setting { file: parent.join(name).join(file), value, optional });
        };
        if let Some(parent) = &self.unified {
            set(parent, "memory.max", limits.memory.to_string(), false);
            set(parent, "memory.swap.max", "0".into(), true);
            set(parent, "memory.oom.group", "1".into(), true);
            set(parent, "cpu.max", format!("{quota} {PERIOD_MICROSECONDS}"), false);
            set(parent, "pids.max", limits.pids.to_string(), false);
        }
        if let Some(parent) = &self.memory {
            set(parent, "memory.limit_in_bytes", limits.memory.to_string(), false);
            set(parent, "memory.memsw.limit_in_bytes", limits.memory.to_string(), true);
        }
        // A quota of all processors limits nothing, and still makes the scheduler count. The period is the
        // kernel's default.
        let processors = processors();
        if let Some(parent) = self.cpu.as_ref().filter(|_| limits.cpus < processors) {
            set(parent, "cpu.cfs_quota_us", quota.to_string(), false);
        }
        if let Some(parent) = &self.pids {
            set(parent, "pids.max", limits.pids.to_string(), false);
        }
        settings
    }

    /// As [`Hierarchies::settings`], for cgroups that have limits already: a limit that was left out before may be set
    /// now.
    pub fn changes(&self, name: &str, limits: &Limits) -> Vec<Setting> {
        let mut settings = self.settings(name, limits);
        let quota = |setting: &Setting| setting.file.ends_with("cpu.cfs_quota_us");
        if let Some(parent) = self.cpu.as_ref().filter(|_| !settings.iter().any(quota)) {
            let file = parent.join(name).join("cpu.cfs_quota_us");
            settings.push(Setting { file, value: "-1".into(), optional: false });
        }
        settings
    }

    pub fn usage(&self, name: &str) -> FenceUsage {
        let read = |parent: &Option<PathBuf>, file: &str| {
            parent.as_ref().and_then(|p| std::fs::read_to_string(p.join(name).join(file)).ok())
        };
        let number = |text: Option<String>| text.and_then(|t| t.trim().parse::<u64>().ok());
        let memory_kills = self.memory_kills(name);
        let events = if self.is_unified() { &self.unified } else { &self.pids };
        let refused_processes = read(events, "pids.events").and_then(|t| field(&t, "max")).unwrap_or(0);
        if self.is_unified() {
            let cpu = read(&self.unified, "cpu.stat").and_then(|t| field(&t, "usage_usec"));
            return FenceUsage {
                cpu_ms: cpu.map(|us| us as f64 / 1e3),
                memory: number(read(&self.unified, "memory.current")),
                processes: number(read(&self.unified, "pids.current")),
                peak_memory: number(read(&self.unified, "memory.peak")),
                memory_kills,
                refused_processes,
                guest_counted: false,
            };
        }
        FenceUsage {
            // v1 counts in a hierarchy of its own; for a short run the guest, which reaps every process, counts for
            // less.
            cpu_ms: number(read(&self.accounting, "cpuacct.usage")).map(|ns| ns as f64 / 1e6),
            memory: number(read(&self.memory, "memory.usage_in_bytes")),
            processes: number(read(&self.pids, "pids.current")),
            peak_memory: number(read(&self.memory, "memory.max_usage_in_bytes")),
            memory_kills,
            refused_processes,
            guest_counted: false,
        }
    }

    /// Bytes of files that the kernel keeps in its memory, for as long as there is room.
    pub fn page_cache(&self, name: &str) -> Option<u64> {
        let (parent, cached) = match self.is_unified() {
            true => (&self.unified, "file"),
            false => (&self.memory, "total_cache"),
        };
        let text = std::fs::read_to_string(parent.as_ref()?.join(name).join("memory.stat")).ok()?;
        field(&text, cached)
    }

    /// Processes of it that the kernel killed for want of memory.
    pub fn memory_kills(&self, name: &str) -> u64 {
        let (parent, file) = match self.is_unified() {
            true => (&self.unified, "memory.events"),
            false => (&self.memory, "memory.oom_control"),
        };
        let text =
            parent.as_ref().and_then(|parent| std::fs::read_to_string(parent.join(name).join(file)).ok());
        text.and_then(|text| field(&text, "oom_kill")).unwrap_or(0)
    }
}

/// Looked up once: it takes half a dozen files.
fn processors() -> f64 {
    static FOUND: OnceLock<f64> = OnceLock::new();
    *FOUND.get_or_init(|| std::thread::available_parallelism().map_or(1.0, |count| count.get() as f64))
}

pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

const NEEDED: [&str; 3] = ["memory", "cpu", "pids"];

/// On v2 a cgroup with processes cannot hand controllers to children, except the root. Root makes its
/// sandboxes there. Others make them in the nearest cgroup of theirs that hands out controllers already, which
/// has no processes; or in their own, whose processes move to a leaf first.
fn unified_parent(own: &Path) -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        let top = mount_root(own);
        return (is_ours(&top) && enable(&top)).then_some(top);
    }
    let mut theirs = own.ancestors().take_while(|path| is_ours(path));
    let ready = theirs.find(|path| lists_all(path, "cgroup.subtree_control"));
    let found = ready.or_else(|| (is_ours(own) && enable(own)).then_some(own));
    found.map(Path::to_path_buf)
}

/// True if this user may make cgroups here, and move processes from one of them to another.
fn is_ours(path: &Path) -> bool {
    let writable = |path: &Path| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    writable(path) && writable(&path.join("cgroup.procs"))
}

fn lists_all(path: &Path, file: &str) -> bool {
    let listed = std::fs::read_to_string(path.join(file)).unwrap_or_default();
    NEEDED.iter().all(|need| listed.split_whitespace().any(|controller| controller == *need))
}

/// True if every controller can be limited in children of `parent`. Enables them if necessary.
fn enable(parent: &Path) -> bool {
    let write = || std::fs::write(parent.join("cgroup.subtree_control"), "+memory +cpu +pids").is_ok();
    lists_all(parent, "cgroup.subtree_control")
        || (lists_all(parent, "cgroup.controllers") && (write() || (move_to_leaf(parent).is_ok() && write())))
}

/// The topmost directory of the hierarchy that is seen from here.
fn mount_root(own: &Path) -> PathBuf {
    let is_cgroup = |path: &Path| path.join("cgroup.controllers").exists();
    own.ancestors().take_while(|path| is_cgroup(path)).last().unwrap_or(own).to_path_buf()
}

fn move_to_leaf(parent: &Path) -> std::io::Result<()> {
    let leaf = parent.join("paddock-engine");
    std::fs::create_dir_all(&leaf)?;
    std::fs::write(leaf.join("cgroup.procs"), "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_with_shared_and_separate_hierarchies() {
        let mountinfo = "30 25 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                         31 25 0:27 / /sys/fs/cgroup/memory rw,nosuid shared:5 - cgroup cgroup rw,memory\n\
                         32 25 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
                         33 25 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "5:pids:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/\n";
        let found = from_tables(mountinfo, own);
        assert_eq!(found.memory.as_deref(), Some(Path::new("/sys/fs/cgroup/memory/a/b")));
        assert_eq!(found.cpu.as_deref(), Some(Path::new("/sys/fs/cgroup/cpu,cpuacct/c")));
        assert_eq!(found.unified, None);
        assert_eq!(found.accounting, found.cpu, "they share a hierarchy");
        assert_eq!(found.for_life(false).accounting, None);
        assert!(!found.can_freeze() && found.freezer("x").is_none());
        assert_eq!(found.entrance(), "tasks");
        let settings = found.settings("x", &Limits::default());
        assert!(settings.iter().any(|s| s.file.ends_with("memory/a/b/x/memory.limit_in_bytes")));
    }

    #[test]
    fn version_2_alone() {
        let mountinfo = "30 25 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let found = from_tables(mountinfo, "0::/user.slice/session-1.scope\n");
        assert_eq!(found.unified.as_deref(), Some(Path::new("/sys/fs/cgroup/user.slice/session-1.scope")));
        assert_eq!(found.entrance(), "cgroup.procs");
        let settings = found.settings("x", &Limits { cpus: 1.5, ..Limits::default() });
        assert!(settings.iter().any(|s| s.value == "150000 100000"));
    }

    #[test]
    fn nonsense_gives_nothing() {
        assert_eq!(from_tables("", ""), Hierarchies::default());
        assert_eq!(from_tables("x - cgroup\n - \n", ":::\n"), Hierarchies::default());
    }
}
