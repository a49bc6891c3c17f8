//! The part of each limit of the host that one sandbox of the process backend takes.
//!
//! The parts were counted on Linux 6.18 as the difference that sandboxes make: 50 idle ones and 40 with `sh -c 'sleep
//! 1000'` in each, 300 for directories. Counted were `/proc/*/task`, `/proc/*/ns`, `/proc/*/mountinfo`,
//! `/proc/SERVER/fd`, `/proc/sys/fs/file-nr`, `/proc/key-users`, `/sys/block/loop*`, and `statvfs` of the directories.
//! The test `a_sandbox_takes_no_more_than_doctor_says` counts again.
//!
//! An idle sandbox takes no keys, no loop devices, no mounts of the server's namespace and no memory mappings of the
//! server, so these have no limit here. A terminal takes one of kernel.pty.max, and only while it is open.

/// The part of a limit that an idle sandbox takes, and one that works.
#[derive(Debug, Clone, Copy)]
pub struct Takes {
    pub idle: u64,
    pub working: u64,
}

const fn takes(idle: u64, working: u64) -> Takes {
    Takes { idle, working }
}

pub const PLACES: Takes = takes(1, 1);
/// The stream to its guest and the descriptor of its process; a connection that follows an exec is one more.
pub const SERVER_DESCRIPTORS: Takes = takes(2, 3);
/// The open files of all processes: the guest holds 13 besides the server's two, a shell and its program eight more.
pub const OPEN_FILES: Takes = takes(16, 24);
/// Its guest; a shell and the program that this runs. None of them has a second thread.
pub const TASKS: Takes = takes(1, 3);
/// One of each kind: user, pid, mnt, net, ipc, uts, cgroup.
pub const NAMESPACES: Takes = takes(1, 1);
/// Root's disks in storage are mounted with translated owners. Before Linux 6.8 such a mount keeps the user namespace
/// of the translation.
pub const USER_NAMESPACES_OF_ROOT: Takes = takes(2, 2);
/// Without one a sandbox is made all the same, and sees the host's uptime.
pub const TIME_NAMESPACES: Takes = takes(0, 1);
/// One in each hierarchy, so one of memory. A sandbox that was made alone has none before its first command; forks and the
/// sandboxes of pools have theirs from the start.
pub const CGROUPS: Takes = takes(1, 1);
/// `tail -f` and most development servers take one. The kernel counts it for the user of the server.
pub const INOTIFY_INSTANCES: Takes = takes(0, 1);
/// A connection that leaves through the gate is one of the host's.
pub const CONNECTIONS: Takes = takes(0, 1);
/// Its directory and record, its timeline and the head of the timeline.
pub const STATE_INODES: Takes = takes(4, 4);
/// Their blocks (16 KiB), rows of the database (28 KiB), a subvolume of the storage (18 KiB).
pub const STATE_BYTES: Takes = takes(64 << 10, 64 << 10);
/// A record, a socket, their directory, and a part of a group of slots.
pub const RUN_INODES: Takes = takes(5, 5);
pub const RUN_BYTES: Takes = takes(12 << 10, 12 << 10);

/// Descriptors of a server without sandboxes: 21 were counted, connections are more.
pub const SERVER_ALONE: u64 = 64;

/// Idle sandboxes took 0.69 to 0.84 MiB of the host's memory each, with 100 to 19,600 of them live
/// (bench/results/scale-16-cores.md).
const MEMORY_OF_AN_IDLE_ONE: u64 = 864 << 10;
/// The same where each has a memory cgroup, without what grows with their number.
const MEMORY_OF_ONE_WITH_A_CGROUP: u64 = 768 << 10;
/// The kernel keeps 16 bytes for every pair of a memory cgroup and a file system, and a sandbox has seven file systems
/// (docs/decisions/0057-ten-thousand-at-one-time.md).
const MEMORY_OF_A_PAIR: u64 = 7 * 16;

/// The memory of the host that this many sandboxes take that have not run a command: they have no cgroups
/// (docs/decisions/0070-an-idle-sandbox-has-no-cgroup.md).
pub fn idle_memory(sandboxes: u64) -> u64 {
    sandboxes.saturating_mul(MEMORY_OF_AN_IDLE_ONE)
}

/// The same for sandboxes that have each run a command, without the memory of their programs. It grows with their square,
/// because of the pairs. For 1,000, 5,000 and 9,500 this is 0.86, 1.28 and 1.76 MiB each; 0.89, 1.31 and 1.78 were measured
/// while every sandbox had a cgroup from its start (docs/decisions/0057-ten-thousand-at-one-time.md).
pub fn memory_at_work(sandboxes: u64) -> u64 {
    let each = MEMORY_OF_ONE_WITH_A_CGROUP.saturating_add(MEMORY_OF_A_PAIR.saturating_mul(sandboxes));
    sandboxes.saturating_mul(each).max(idle_memory(sandboxes))
}
