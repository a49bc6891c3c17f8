//! The attacks that each layer of the process fence stops: without the layer, each of them succeeds that the host
//! knows.
//! The table of docs/security/layers.md says the same, and a test compares the two.

/// The engine that has to find the hole: a layer may matter to one of them only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    Root,
    Rootless,
}

pub struct Case {
    /// The value of PADDOCK_TEST_WITHOUT: several layers if one is behind the other, which the table then says.
    pub without: &'static str,
    pub attacks: &'static [&'static str],
    pub who: Who,
}

const fn case(without: &'static str, who: Who, attacks: &'static [&'static str]) -> Case {
    Case { without, attacks, who }
}

pub const CASES: &[Case] = &[
    case(
        "own-inodes",
        Who::Root,
        &["C20-watch-system", "C20-lock-system", "C20-watch-devices", "C20-lock-devices"],
    ),
    case("network-namespace", Who::Root, &["D1-interfaces", "D2-loopback", "D3-abstract"]),
    case("ipc-namespace", Who::Root, &["A22-host-ipc"]),
    case("uts-namespace", Who::Root, &["F3-hostname"]),
    case("cgroup-namespace", Who::Root, &["F3-cgroup-path"]),
    case("time-namespace", Who::Root, &["F3-uptime"]),
    case("landlock,own-root", Who::Root, &["A3-dotdot"]),
    case("own-ids", Who::Root, &["H53-device-mode"]),
    case("capabilities", Who::Root, &["C17-privileges"]),
    case("capabilities,landlock", Who::Root, &["B1-vm-read-init", "B5-init-environ"]),
    case("landlock,no-new-privileges,seccomp", Who::Root, &["C17-privileges"]),
    case(
        "seccomp",
        Who::Root,
        &[
            "C6-add-key",
            "C4-io-uring-setup",
            "C21-int80",
            "D4-open-mptcp",
            "D4-open-udplite",
            "H13-lease",
            "H35-io-setup",
        ],
    ),
    case("landlock", Who::Root, &["C18-landlock"]),
    case("landlock,seccomp", Who::Root, &["H9-whiteout-node"]),
    case("landlock,read-only-mounts", Who::Root, &["A1-overwrite-probe", "A23-truncate", "H1-reopen"]),
    case("protected-names", Who::Root, &["A5-rename-ancestor", "A6-create-hook", "A6-write-protected"]),
    case("no-devices", Who::Root, &["A13-planted-node"]),
    case("hidden-processes", Who::Root, &["B5-init-cmdline"]),
    case("proc-masks", Who::Root, &["F2-interrupts", "F2-cmdline"]),
    case("own-ids,proc-sys", Who::Root, &["C11-core-pattern"]),
    case("descriptors", Who::Root, &["A4-inherited-fds", "A4-openat-fds"]),
    case("cgroups", Who::Root, &["E2-memory"]),
    case("resource-limits", Who::Root, &["E10-open-files", "H45-timers"]),
    case("shared-bounds", Who::Root, &["H43-inotify", "H44-terminals"]),
    case("disk-bound", Who::Rootless, &["E5-inodes"]),
    case("memory-watch", Who::Rootless, &["E2-memory", "E2-shared-anonymous"]),
];
