//! Checks that this host can hold a number of sandboxes at one time: every limit that they take a part of, and the
//! setting that would raise one that is too low.
//!
//! - [`takes`]: the part that one sandbox takes, and how that was counted
//! - [`reading`]: limits of the kernel and of a process; [`cgroup_limits`]: limits of the cgroups above the server
//! - [`check`]: one limit beside the need of sandboxes
//!
//! The numbers are those of the process backend. Sandboxes of the other backends have more processes and memory.

mod cgroup_limits;
mod check;
mod reading;
mod takes;

use cgroup_limits::Bound;
use check::{Found, Question};
use paddock_backends::Places;
use paddock_engine::descriptors::{self, Descriptors};
use paddock_model::{Capacity, LimitCheck, LimitState, LimitUnit};
use paddock_records::store::ServerHolder;
use std::path::Path;
use takes::Takes;

/// Looks at the server of the state directory, if one runs, else at this process, as if it were to become the server.
/// The bytes that the file system of a directory has free, where that can be told.
pub fn free_bytes(directory: &Path) -> Option<u64> {
    match reading::room(directory).0 {
        Found::Limit(bytes) => Some(bytes),
        _ => None,
    }
}

pub fn look(state: &Path, sandboxes: u64) -> Capacity {
    let places = Places::look(state);
    let server = ServerHolder::of(state).and_then(|holder| holder.process);
    let host = Host {
        is_root: is_root_of_the_host(),
        server,
        process: server.unwrap_or(std::process::id()),
        further: sandboxes.saturating_sub(places.taken),
        sandboxes,
    };
    let mut limits = vec![host.places(&places), host.descriptors(), host.open_files()];
    limits.extend(host.tasks());
    limits.extend(host.namespaces());
    limits.push(host.mounts());
    limits.extend(host.cgroups());
    limits.extend([host.inotify()].into_iter().chain(host.connections()));
    limits.extend(host.memory(&places));
    limits.extend(host.directories(state, &places));
    let enough = limits.iter().all(|check| check.state == LimitState::Enough);
    Capacity { sandboxes, live: places.taken, enough, limits }
}

struct Host {
    is_root: bool,
    /// `None` if no server runs.
    server: Option<u32>,
    process: u32,
    /// The number of sandboxes that are still to come.
    further: u64,
    sandboxes: u64,
}

impl Host {
    fn count(
        &self,
        name: &str,
        setting: &str,
        found: Found,
        in_use: u64,
        takes: Takes,
        remedy: &dyn Fn(u64) -> String,
    ) -> LimitCheck {
        let (setting, unit) = (Some(setting.to_string()), LimitUnit::Count);
        Question { name, setting, unit, found, in_use, takes, further: self.further, remedy }.answer()
    }

    fn sysctl(&self, name: &str, setting: &str, in_use: u64, takes: Takes) -> LimitCheck {
        self.count(name, setting, reading::sysctl(setting), in_use, takes, &|value| set(setting, value))
    }

    fn places(&self, places: &Places) -> LimitCheck {
        let remedy = |_| "put the others on another host: there are no more ranges of 65,536 ids".to_string();
        Question {
            name: "places",
            setting: None,
            unit: LimitUnit::Count,
            found: Found::Limit(places.most),
            in_use: places.taken,
            takes: takes::PLACES,
            further: self.further,
            remedy: &remedy,
        }
        .answer()
    }

    /// A server raises its own limit when it starts. If none runs, this process raises its own as far as a server
    /// could.
    fn descriptors(&self) -> LimitCheck {
        let found = match self.server {
            Some(process) => reading::process_limit(process, "Max open files"),
            None => {
                descriptors::take_all();
                Found::Limit(Descriptors::now().most)
            }
        };
        let open = self.server.and_then(reading::open_descriptors).unwrap_or(takes::SERVER_ALONE);
        let in_use = open + descriptors::KEPT_FOR_ENDING;
        let most = reading::sysctl("fs.nr_open");
        self.count(
            "descriptors of the server",
            "RLIMIT_NOFILE",
            found,
            in_use,
            takes::SERVER_DESCRIPTORS,
            &|value| {
                let set = format!(
                    "LimitNOFILE={value} in the server's unit, or `ulimit -n {value}` before `paddock serve`"
                );
                match most {
                    Found::Limit(most) if most < value => {
                        format!("{}, then {set}", self::set("fs.nr_open", value))
                    }
                    _ => set,
                }
            },
        )
    }

    fn open_files(&self) -> LimitCheck {
        let open = reading::first_number("/proc/sys/fs/file-nr");
        self.sysctl("open files of the host", "fs.file-max", open, takes::OPEN_FILES)
    }

    fn tasks(&self) -> Vec<LimitCheck> {
        let mut checks = vec![
            self.sysctl("process ids", "kernel.pid_max", reading::tasks(), takes::TASKS),
            self.sysctl("threads of the host", "kernel.threads-max", reading::tasks(), takes::TASKS),
        ];
        // The kernel does not enforce this limit for the host's root, nor for processes that root makes.
        if !self.is_root {
            let found = reading::process_limit(self.process, "Max processes");
            let own = reading::tasks_of(rustix::process::getuid().as_raw());
            checks.push(self.count("processes of this user", "RLIMIT_NPROC", found, own, takes::TASKS, &|value| {
                format!("LimitNPROC={value} in the server's unit, or `ulimit -u {value}` before `paddock serve`")
            }));
        }
        let bound = cgroup_limits::processes(self.process);
        checks.push(self.bound("processes of its cgroups", "pids.max", bound, takes::TASKS, "TasksMax"));
        checks
    }

    /// A bound of a cgroup; `directive` sets it in a unit of systemd.
    fn bound(
        &self,
        name: &str,
        setting: &str,
        bound: Result<Option<Bound>, String>,
        takes: Takes,
        directive: &str,
    ) -> LimitCheck {
        let (found, in_use, file) = match bound {
            Ok(Some(bound)) => (Found::Limit(bound.limit), bound.in_use, bound.file.display().to_string()),
            Ok(None) => (Found::NoLimit, 0, setting.to_string()),
            Err(why) => (Found::Unreadable(why), 0, setting.to_string()),
        };
        self.count(name, setting, found, in_use, takes, &|value| match directive {
            "" => format!("run as root: echo {value} > {file}"),
            _ => format!("{directive}={value} in the server's unit, or run as root: echo {value} > {file}"),
        })
    }

    /// The kernel does not tell how many of them there are.
    fn namespaces(&self) -> Vec<LimitCheck> {
        let of_users = if self.is_root { takes::USER_NAMESPACES_OF_ROOT } else { takes::NAMESPACES };
        let kinds = [
            ("user", of_users),
            ("pid", takes::NAMESPACES),
            ("mnt", takes::NAMESPACES),
            ("net", takes::NAMESPACES),
            ("ipc", takes::NAMESPACES),
            ("uts", takes::NAMESPACES),
            ("cgroup", takes::NAMESPACES),
            ("time", takes::TIME_NAMESPACES),
        ];
        let one = |(kind, takes): (&str, Takes)| {
            let live = (self.sandboxes - self.further) * takes.idle;
            self.sysctl(&format!("{kind} namespaces"), &format!("user.max_{kind}_namespaces"), live, takes)
        };
        kinds.map(one).into()
    }

    /// Each sandbox has a mount namespace of its own, so their number does not matter.
    fn mounts(&self) -> LimitCheck {
        let here = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().count() as u64;
        let none = Takes { idle: 0, working: 0 };
        self.sysctl(
            "mounts of one sandbox",
            "fs.mount-max",
            here + paddock_backends::MOUNTS_OF_A_SANDBOX,
            none,
        )
    }

    fn cgroups(&self) -> Vec<LimitCheck> {
        /// Their numbers have 16 bits, and 0 is none.
        const MOST_MEMORY_CGROUPS: u64 = 65_535;
        let remedy = |_| "put the others on another host: the kernel has no more numbers".to_string();
        let memory = Question {
            name: "memory cgroups of the host",
            setting: None,
            unit: LimitUnit::Count,
            found: Found::Limit(MOST_MEMORY_CGROUPS),
            in_use: memory_cgroups(),
            takes: takes::CGROUPS,
            further: self.further,
            remedy: &remedy,
        };
        let below = cgroup_limits::cgroups(self.process);
        let setting = "cgroup.max.descendants";
        vec![memory.answer(), self.bound("cgroups below its own", setting, below, takes::CGROUPS, "")]
    }

    fn inotify(&self) -> LimitCheck {
        let setting = "fs.inotify.max_user_instances";
        self.sysctl("watchers of files", setting, 0, takes::INOTIFY_INSTANCES)
    }

    /// `None` if the kernel tracks no connections: then there is no such limit.
    fn connections(&self) -> Option<LimitCheck> {
        let setting = "net.netfilter.nf_conntrack_max";
        let tracked = reading::first_number("/proc/sys/net/netfilter/nf_conntrack_count");
        Path::new("/proc/sys/net/netfilter/nf_conntrack_max")
            .exists()
            .then(|| self.sysctl("tracked connections", setting, tracked, takes::CONNECTIONS))
    }

    fn memory(&self, places: &Places) -> Vec<LimitCheck> {
        let each = |memory: fn(u64) -> u64| {
            memory(self.sandboxes).saturating_sub(memory(places.taken)) / self.further.max(1)
        };
        let takes = Takes { idle: each(takes::idle_memory), working: each(takes::memory_at_work) };
        let check =
            |name: &str, setting: Option<String>, found, in_use: u64, remedy: &dyn Fn(u64) -> String| {
                let unit = LimitUnit::Bytes;
                Question { name, setting, unit, found, in_use, takes, further: self.further, remedy }.answer()
            };
        let more = |value| {
            let needed = paddock_model::format_bytes(value);
            format!("give the host more memory, so that {needed} are available, or use several hosts")
        };
        let mut checks = vec![check("memory", None, reading::available_memory(), 0, &more)];
        let (found, in_use, file) = match cgroup_limits::memory(self.process) {
            // Only the host itself bounds it.
            Ok(None) => return checks,
            Ok(Some(bound)) => (Found::Limit(bound.limit), bound.in_use, bound.file.display().to_string()),
            Err(why) => (Found::Unreadable(why), 0, String::new()),
        };
        let raise =
            |value| format!("MemoryMax={value} in the server's unit, or run as root: echo {value} > {file}");
        checks.push(check("memory of its cgroups", Some("memory.max".into()), found, in_use, &raise));
        checks
    }

    fn directories(&self, state: &Path, places: &Places) -> Vec<LimitCheck> {
        let of_state = ("state directory", state, takes::STATE_BYTES, takes::STATE_INODES);
        let of_run = ("run directory", places.run_directory.as_path(), takes::RUN_BYTES, takes::RUN_INODES);
        let mut checks = Vec::new();
        for (name, path, bytes, inodes) in [of_state, of_run] {
            let (free_bytes, free_inodes) = reading::room(path);
            for (what, unit, found, takes) in [
                ("free space", LimitUnit::Bytes, free_bytes, bytes),
                ("free inodes", LimitUnit::Count, free_inodes, inodes),
            ] {
                let remedy = |_| {
                    let path = path.display();
                    format!("{what} for {path}: remove files there, or put it on a larger file system")
                };
                let name = format!("{what} of the {name}");
                let further = self.further;
                checks.push(
                    Question {
                        name: &name,
                        setting: None,
                        unit,
                        found,
                        in_use: 0,
                        takes,
                        further,
                        remedy: &remedy,
                    }
                    .answer(),
                );
            }
        }
        checks
    }
}

fn set(setting: &str, value: u64) -> String {
    format!("run as root: sysctl -w {setting}={value}")
}

/// False for root in a user namespace, whom limits hold as other users.
fn is_root_of_the_host() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let whole: Vec<&str> = map.split_whitespace().collect();
    rustix::process::geteuid().is_root() && whole == ["0", "0", "4294967295"]
}

/// The third column of a line such as `memory 4 1017 1`.
fn memory_cgroups() -> u64 {
    let text = std::fs::read_to_string("/proc/cgroups").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("memory"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(capacity: &'a Capacity, name: &str) -> &'a LimitCheck {
        capacity.limits.iter().find(|check| check.name == name).expect(name)
    }

    #[test]
    fn one_sandbox_has_room_and_too_many_have_none() {
        let state = tempfile::tempdir().unwrap();
        let one = look(state.path(), 1);
        for name in ["places", "process ids", "memory", "net namespaces", "mounts of one sandbox"] {
            assert_eq!(named(&one, name).state, LimitState::Enough, "{name}");
        }
        let many = look(state.path(), 1_000_000);
        assert!(!many.enough);
        for name in ["places", "memory cgroups of the host", "memory"] {
            let check = named(&many, name);
            assert_eq!(check.state, LimitState::TooLow, "{name}: {}", check.detail);
            assert!(check.remedy.is_some(), "{name}");
        }
    }

    #[test]
    fn memory_at_work_grows_faster_than_the_number_of_sandboxes() {
        let (one, ten) = (takes::memory_at_work(1000), takes::memory_at_work(10_000));
        assert!(ten > 20 * one, "{one} {ten}");
        assert_eq!(takes::idle_memory(10_000), 10 * takes::idle_memory(1000));
        for memory in [takes::idle_memory, takes::memory_at_work] {
            assert_eq!(memory(0), 0);
            assert_eq!(memory(u64::MAX), u64::MAX);
        }
    }
}
