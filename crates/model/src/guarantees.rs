//! The guarantees that a sandbox really has on this host, and those that a caller may demand.

use serde::{Deserialize, Serialize};

/// The kernel that the code inside talks to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Boundary {
    /// None: nothing is there to hold code that wants out. No backend of Paddock itself.
    None,
    /// The host's kernel, behind namespaces, seccomp and Landlock.
    SharedKernel,
    /// A kernel in user space (gVisor).
    UserSpaceKernel,
    /// A kernel of its own (microVM).
    OwnKernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkEnforcement {
    /// A network namespace with loopback only.
    None,
    /// A network namespace whose only way out is the gate: names, addresses and ports that the rules allow.
    Gate,
    /// The host's own network: no fence at all for traffic.
    Host,
}

/// The holder of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// The kernel: a hostile program cannot pass it.
    Kernel,
    /// The guest looks at regular intervals and kills: a burst can pass it for a moment.
    Watched,
    /// No limit: this host has no means.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskLimit {
    /// No limit: the disk takes as much as the host has.
    None,
    /// Held by the kernel: a quota of a disk in the engine's storage, apart from memory.
    Kernel,
    /// Held by the kernel; the disk lives in memory and counts against the memory limit too.
    KernelInMemory,
}

/// How a sandbox is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PauseKind {
    /// The kernel's freezer holds every process of the work, which cannot notice or resist.
    KernelFreezer,
    /// The guest stops every process with a signal: parents inside can see it.
    StopSignals,
}

/// How a snapshot of the disk is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotKind {
    /// By the file system, at once, for a disk of any size.
    FilesystemInstant,
    /// File by file: takes as long as the disk is large.
    FilesystemCopy,
    /// Memory and processes with the files, all of one instant.
    Memory,
}

/// The most that a fork begins with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ForkKind {
    /// The files.
    #[default]
    Filesystem,
    /// The files, and the interpreters of its code contexts as they stand; other processes do not.
    Interpreter,
    /// Files, memory and all processes.
    Memory,
}

/// The parts that are still there after hibernation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Survivor {
    Files,
    Memory,
    Processes,
    /// Connections on this side: the peer may have given up meanwhile.
    Connections,
}

/// The host ids of the code inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Identity {
    /// Host ids that nothing else on the host has.
    Own,
    /// The caller's own host id: separated from the caller's other processes by namespaces only.
    Caller,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    On,
    /// Also the value of a record that is older than the guarantee.
    #[default]
    Absent,
}

/// The Landlock ABI that confines the code inside; 0 where the kernel has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LandlockLevel(pub u32);

/// A thing that not every backend can do, or that is different with some. It is asked for here, never by the backend's
/// name or by its boundary: another backend with a kernel of its own need not be able to do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// One that is made before it is asked for is the same as one that is made after it.
    MadeAhead,
    /// It can begin with memory that was kept of another sandbox, with its template's imports done.
    PreparedMemory,
    /// Others can be copied from it while it runs, memory and all.
    RunningCopies,
    /// Its disk is one file with a file system of its own: only its own guest can list the files of a snapshot.
    DiskImage,
    /// Its processor may be emulated: the code inside can take minutes where others take seconds.
    EmulatedProcessor,
}

/// The names by which a caller may ask for a backend, built or designed. The list of those that this build has is
/// the backends' own.
pub const BACKEND_NAMES: [&str; 5] = ["process", "gvisor", "docker", "microvm", "kubernetes"];

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guarantees {
    pub backend: String,
    pub boundary: Boundary,
    pub network: NetworkEnforcement,
    pub identity: Identity,
    pub memory_limit: LimitKind,
    pub cpu_limit: LimitKind,
    pub pids_limit: LimitKind,
    pub disk_limit: DiskLimit,
    pub pause: PauseKind,
    pub snapshot: SnapshotKind,
    #[serde(default)]
    pub fork: ForkKind,
    pub survives_pause: Vec<Survivor>,
    pub survives_hibernate: Vec<Survivor>,
    pub seccomp: Isolation,
    pub landlock_abi: LandlockLevel,
    pub time_namespace: Isolation,
    /// On if files of the host's system have inodes of the sandbox's own: then the code inside can neither watch how
    /// others use them nor share locks with others. On, too, if there are no such files inside.
    #[serde(default)]
    pub system_inodes: Isolation,
    /// The same for devices (/dev/null, /dev/urandom, ...).
    #[serde(default)]
    pub device_inodes: Isolation,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<Capability>,
    /// The capabilities of Linux that root inside has over the sandbox's own files and ids, by the kernel's names. Empty: none, as
    /// without `root_may_install`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub root_capabilities: Vec<String>,
    /// True if the ordinary user inside may become root by `sudo`. Absent: no process inside becomes another user, as without
    /// `become_root`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub become_root: bool,
    /// The parts that are weaker than the fullest form of this fence, each in words a person can act on.
    pub weaknesses: Vec<String>,
}

impl Guarantees {
    pub fn can(&self, capability: Capability) -> bool {
        self.capabilities.contains(&capability)
    }
}

/// A guarantee that a caller may demand; `create` fails if the host cannot give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Requirement {
    OwnKernel,
    UserSpaceKernel,
    MemoryLimit,
    CpuLimit,
    PidsLimit,
    DiskLimit,
    NoNetwork,
    OwnIdentity,
    Seccomp,
    Landlock,
    LiveForks,
    RootMayInstall,
    BecomeRoot,
}

impl Requirement {
    pub const ALL: [Requirement; 13] = [
        Requirement::OwnKernel,
        Requirement::UserSpaceKernel,
        Requirement::MemoryLimit,
        Requirement::CpuLimit,
        Requirement::PidsLimit,
        Requirement::DiskLimit,
        Requirement::NoNetwork,
        Requirement::OwnIdentity,
        Requirement::Seccomp,
        Requirement::Landlock,
        Requirement::LiveForks,
        Requirement::RootMayInstall,
        Requirement::BecomeRoot,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Requirement::OwnKernel => "own-kernel",
            Requirement::UserSpaceKernel => "user-space-kernel",
            Requirement::MemoryLimit => "memory-limit",
            Requirement::CpuLimit => "cpu-limit",
            Requirement::PidsLimit => "pids-limit",
            Requirement::DiskLimit => "disk-limit",
            Requirement::NoNetwork => "no-network",
            Requirement::OwnIdentity => "own-identity",
            Requirement::Seccomp => "seccomp",
            Requirement::Landlock => "landlock",
            Requirement::LiveForks => "live-forks",
            Requirement::RootMayInstall => "root-may-install",
            Requirement::BecomeRoot => "become-root",
        }
    }

    /// `Err` names the weaker property that the sandbox would have instead.
    pub fn met_by(self, guarantees: &Guarantees) -> Result<(), String> {
        let g = guarantees;
        let limit = |kind: LimitKind| match kind {
            LimitKind::Kernel => Ok(()),
            LimitKind::Watched => Err("the limit would only be watched, not held by the kernel".to_string()),
            LimitKind::None => Err("nothing on this host would hold the limit".to_string()),
        };
        let holds = |fine: bool, otherwise: &str| if fine { Ok(()) } else { Err(otherwise.to_string()) };
        match self {
            Requirement::OwnKernel => {
                holds(g.boundary == Boundary::OwnKernel, "the sandbox would not have a kernel of its own")
            }
            // A kernel of its own is the stronger of the two, so it satisfies the weaker demand.
            Requirement::UserSpaceKernel => {
                let own = matches!(g.boundary, Boundary::UserSpaceKernel | Boundary::OwnKernel);
                holds(own, "the sandbox would share the host's kernel")
            }
            Requirement::MemoryLimit => limit(g.memory_limit),
            Requirement::CpuLimit => limit(g.cpu_limit),
            Requirement::PidsLimit => limit(g.pids_limit),
            Requirement::DiskLimit => match g.disk_limit {
                DiskLimit::Kernel | DiskLimit::KernelInMemory => Ok(()),
                DiskLimit::None => Err("nothing would hold the limit of the disk".to_string()),
            },
            Requirement::NoNetwork => {
                holds(g.network == NetworkEnforcement::None, "the sandbox would have a network")
            }
            Requirement::OwnIdentity => {
                holds(g.identity == Identity::Own, "the code inside would run with the caller's host id")
            }
            Requirement::Seccomp => {
                holds(g.seccomp == Isolation::On, "this kernel cannot filter system calls")
            }
            Requirement::Landlock => holds(g.landlock_abi.0 > 0, "this kernel has no Landlock"),
            Requirement::LiveForks => holds(
                g.fork != ForkKind::Filesystem,
                "its forks would begin with files alone: interpreters are forked where paddock runs as root, on x86-64, and \
                 `live_forks` is not off",
            ),
            Requirement::RootMayInstall => holds(
                !g.root_capabilities.is_empty(),
                "root inside would have no capability: it has some where `root_may_install` is set and paddock runs as root, on the \
                 process backend",
            ),
            Requirement::BecomeRoot => holds(
                g.become_root,
                "no process inside could become root: its ordinary user can by `sudo` where `become_root` is set and paddock runs as \
                 root, on the process backend",
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRequirement(pub String);

impl std::fmt::Display for UnknownRequirement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known: Vec<_> = Requirement::ALL.iter().map(|r| r.name()).collect();
        write!(f, "`{}` is not a guarantee; known are {}", self.0.escape_debug(), known.join(", "))
    }
}

impl std::error::Error for UnknownRequirement {}

impl std::str::FromStr for Requirement {
    type Err = UnknownRequirement;

    fn from_str(text: &str) -> Result<Self, UnknownRequirement> {
        let known = Requirement::ALL.into_iter().find(|r| r.name() == text);
        known.ok_or_else(|| UnknownRequirement(text.chars().take(80).collect()))
    }
}
