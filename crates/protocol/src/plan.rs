//! How the guest builds the inside of a fence: an ordered list of small steps that the backend composed.
//! The guest knows how to do each step, the backend knows which and in what order.

use crate::vm::VmPlan;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

/// The capabilities of an installer, by the kernel's names and numbers: files of every owner, and programs as other users. None
/// that reaches the kernel's settings, mounts, devices, the network or other processes.
pub const INSTALLER_CAPABILITIES: [(&str, u32); 6] = [
    ("CAP_CHOWN", 0),
    ("CAP_DAC_OVERRIDE", 1),
    ("CAP_FOWNER", 3),
    ("CAP_FSETID", 4),
    ("CAP_SETGID", 6),
    ("CAP_SETUID", 7),
];

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    pub hostname: String,
    pub root: RootPlan,
    pub disk: DiskPlan,
    /// The tree that the disk was cloned from, read-only, for later questions about the files at the start.
    #[serde(default)]
    pub start: Option<Source>,
    /// Done in order, below the new root, before the guest moves into it.
    pub steps: Vec<Step>,
    pub ids: Ids,
    /// True if root of the work keeps the [`INSTALLER_CAPABILITIES`], over the files and ids of its own user namespace.
    #[serde(default)]
    pub install: bool,
    /// With it the sandbox's ordinary user may become root, by a socket of the guest's.
    #[serde(default)]
    pub become_root: Option<SudoPlan>,
    /// True if the network namespace is the sandbox's own, so that its loopback has to be brought up.
    pub own_network: bool,
    /// With it, the sandbox has a link to its host's gate.
    #[serde(default)]
    pub link: Option<LinkPlan>,
    /// How many of the plan's descriptors, from the first, put the process that writes `0` to them into the work's
    /// cgroup.
    pub cgroup_descriptors: usize,
    /// True if those descriptors come later, with [`ToGuest::Cgroups`](crate::ToGuest::Cgroups). No command starts before.
    #[serde(default)]
    pub cgroups_follow: bool,
    /// The work's seccomp program, eight bytes an instruction.
    pub seccomp: ByteBuf,
    /// In the place of it for commands that could make a program of a file of the host, and for a zygote; the guest's own tools keep the
    /// other.
    #[serde(default)]
    pub work_seccomp: Option<ByteBuf>,
    /// The same for tools that work on the disk itself: they bring back an overlay's marks of removed files.
    pub disk_seccomp: ByteBuf,
    pub landlock: Option<LandlockPlan>,
    pub limit_pids: u64,
    /// The work's cgroup holds the number of its processes, and those of forks that nest in this sandbox count for its users, too.
    #[serde(default)]
    pub has_nested_forks: bool,
    pub limit_files: u64,
    /// Set where the kernel holds no memory limit.
    pub watch_memory: Option<MemoryWatch>,
    /// True if the work gets clocks that begin at its own start.
    pub time_namespace: bool,
    /// A listening socket, by its place as in [`Source::Descriptor`]. With one the guest outlives its host: it goes
    /// on when the connection closes, and takes the next one here.
    #[serde(default)]
    pub listener: Option<usize>,
    /// Descriptors, by their place, that stay open for as long as the guest lives: a lock that says so.
    #[serde(default)]
    pub keep: Vec<usize>,
    /// For a sandbox into which processes come from outside: our ends of their streams, one entry for each.
    #[serde(default)]
    pub awaited: Vec<AwaitedPlan>,
    /// A directory that all sandboxes of this host have above their root, as a detached mount by its place. A right
    /// that a Landlock domain has there holds in every one of them, so that a domain means the same in a fork.
    #[serde(default)]
    pub anchor: Option<usize>,
    /// For the sandbox of a zygote: the zygote's socket to its host, by its place. Other sandboxes nest in its namespaces, so it ends
    /// neither with its host nor before them.
    #[serde(default)]
    pub zygote: Option<usize>,
    /// With it the guest that builds the inside does not go there: it runs a kernel in user space on the root that it
    /// built, and another guest, behind that kernel, does the work.
    #[serde(default)]
    pub sentry: Option<SentryPlan>,
    /// With it the guest that builds the inside runs a VM with its own kernel there, and another guest, in that VM,
    /// does the work.
    #[serde(default)]
    pub vm: Option<VmPlan>,
    /// For a guest in a VM: the file in which the VM's kernel counts the processes that it killed for want of memory,
    /// by its place.
    #[serde(default)]
    pub memory_events: Option<usize>,
}

impl Plan {
    /// A plan with nothing but an inside: no limits, no Landlock, no way out, and a guest that ends with its host. Its filters of
    /// system calls are empty, and a guest refuses an empty filter: a backend that forgets them makes no sandbox.
    pub fn new(hostname: String, root: RootPlan, disk: DiskPlan, steps: Vec<Step>, ids: Ids) -> Plan {
        Plan {
            hostname,
            root,
            disk,
            start: None,
            steps,
            ids,
            install: false,
            become_root: None,
            own_network: true,
            link: None,
            cgroup_descriptors: 0,
            cgroups_follow: false,
            seccomp: ByteBuf::new(),
            work_seccomp: None,
            disk_seccomp: ByteBuf::new(),
            landlock: None,
            limit_pids: u64::MAX,
            has_nested_forks: false,
            limit_files: u64::MAX,
            watch_memory: None,
            time_namespace: false,
            listener: None,
            keep: Vec::new(),
            awaited: Vec::new(),
            anchor: None,
            zygote: None,
            sentry: None,
            vm: None,
            memory_events: None,
        }
    }

    /// True if the host may ask for the files apart from the work's view of them: the sandbox outlives its host, or its disk is a
    /// directory that the host names by its path.
    pub fn has_lasting_disk(&self) -> bool {
        self.listener.is_some() || matches!(self.disk, DiskPlan::Mounted(Source::Path { .. }))
    }
}

/// Whom the guest lets become root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SudoPlan {
    /// The id of the ordinary user.
    pub uid: u32,
    /// With it the id is that of this user in the sandbox's own table.
    #[serde(default)]
    pub name: Option<String>,
    /// The executable that the guest starts as root, where the steps have put it.
    pub program: String,
}

/// The socket of a sandbox whose ordinary user may become root. The directory is read-only once it is there.
pub const SUDO_DOOR: &str = "/dev/become-root";

/// How a kernel in user space is run, and the plan of the guest behind it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SentryPlan {
    /// The runtime's executable, by its place.
    pub runtime: usize,
    /// The first arguments of every call of the runtime.
    pub arguments: Vec<String>,
    /// Its name for the sandbox.
    pub id: String,
    /// The bundle's description, `config.json`.
    pub bundle: ByteBuf,
    /// The guest's executable.
    pub guest: Source,
    /// Name below /dev, and the host's node: the devices that the runtime itself needs.
    pub devices: Vec<(String, Source)>,
    /// The plan of the guest behind it, as it would come from the host.
    pub inner: ByteBuf,
    /// A listening socket, by its place: over it the host orders that the memory is kept or brought back.
    #[serde(default)]
    pub commands: Option<usize>,
    /// A directory with kept memory: the guest behind it goes on from there, and is told nothing.
    #[serde(default)]
    pub memory: Option<Source>,
    /// The most processes and threads of its own, where no cgroup holds them.
    #[serde(default)]
    pub limit_threads: Option<u64>,
}

/// The directory with the executable of a guest behind such a kernel, its plan, and the trees of its disk. Only the
/// guest's id can enter it.
pub const SENTRY_PLACE: &str = "/dev/.paddock";
/// The abstract socket of a lasting guest behind such a kernel. Only the guest's own id is let in.
pub const SENTRY_DOOR: &str = "paddock-guest";
/// Says to the runtime's supervisor: keep the memory in the directory that comes along, and end.
pub const KEEP_MEMORY: u8 = b'k';
/// Says to it: go on from the memory in the directory that comes along.
pub const RECALL_MEMORY: u8 = b'r';

/// The namespaces that a process from outside enters, in this order: the names below /proc/PID/ns of its own, and of
/// the guest's, whose children alone have its clocks.
pub const NAMESPACES: [(&str, &str); 8] = [
    ("user", "user"),
    ("pid", "pid"),
    ("mnt", "mnt"),
    ("net", "net"),
    ("ipc", "ipc"),
    ("uts", "uts"),
    ("cgroup", "cgroup"),
    ("time", "time_for_children"),
];

/// A veth whose two ends lie in the sandbox's own network namespace: one is the work's way out, the other is held by a
/// packet socket. That and a socket that listens on loopback are handed to the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkPlan {
    /// Messages to the kernel's routing, in order; each has to succeed.
    pub messages: Vec<ByteBuf>,
    /// The same, for version 6, where the kernel has it.
    pub messages_6: Vec<ByteBuf>,
    /// The number of the near end, for a link that carries a VM's frames and is no program's way out.
    #[serde(default)]
    pub near_index: Option<u32>,
    /// The number of the far end.
    pub far_index: u32,
    /// Where the proxy listens.
    pub proxy_port: u16,
    /// The socket over which both are handed over, by its place; a later host gets them with its connection's first
    /// byte, which is [`HANDED_OVER`].
    pub handover: usize,
}

/// Comes before anything else over a connection that is not the first, with the packet socket and the proxy's.
pub const HANDED_OVER: u8 = 0x4e;

/// The directory of the anchor that a Landlock domain names. It is not the anchor itself: the kernel decides one step
/// above the last rule that it finds if a file may be moved from one directory to another.
pub const GRANTED: &str = "sandbox";
/// The directory of the anchor on which a sandbox's own root is mounted.
pub const ANCHORED: &str = "sandbox/root";

/// Streams of a process that is to come, each by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedPlan {
    pub stdout: usize,
    pub stderr: usize,
    pub control: usize,
}

/// The place of the files that the work writes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum DiskPlan {
    /// A file system in memory, gone with the guest.
    Memory { bytes: u64, inodes: u64 },
    /// A directory of the host's, perhaps with the files of an earlier life in it: the root itself, or the layer above
    /// the image.
    Mounted(Source),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum RootPlan {
    /// The disk itself, filled by the steps.
    Empty,
    /// A directory of the host below, never written; a private layer above.
    Overlay { lower: Source },
    /// A root that the host has made whole, its private layer included.
    Mounted { root: Source },
    /// The root that the guest stands in already, behind a kernel in user space; and the mounts that this kernel made
    /// unasked, and that are to be removed. No step is done. With a listener, whose place means nothing, the next host
    /// comes by [`SENTRY_DOOR`].
    Built { uncover: Vec<String> },
}

/// The source of a directory or file of the host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Source {
    /// A detached mount, made by the host: one of the descriptors that came with the plan, by its place
    /// after the cgroups'.
    Descriptor(usize),
    /// A part of the host's system that every user can read.
    System(String),
    /// To be opened by the guest while it still has the caller's rights, and refused unless it is the very
    /// file that the host looked at.
    Path { path: String, device: u64, inode: u64 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    File,
    Directory,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Step {
    /// Made with its parents where missing.
    Directory {
        path: String,
        mode: u32,
        uid: u32,
        gid: u32,
    },
    Link {
        path: String,
        target: String,
    },
    /// In a table of users or groups the lines stay that root inside added, except those with a name or an id of these.
    File {
        path: String,
        mode: u32,
        content: ByteBuf,
    },
    /// A line for the work's user, unless the image knows the id already.
    User {
        passwd_line: String,
        group_line: String,
        uid: u32,
        gid: u32,
    },
    Bind {
        source: Source,
        target: String,
        kind: NodeKind,
        read_only: bool,
        allow_exec: bool,
    },
    /// Directories and files of the host, read-only, with inodes that are the sandbox's own: a watcher inside is not
    /// told how others use the same files, and no lock on them is shared. If the kernel cannot make such inodes they
    /// are the host's, and `Ready` says so.
    System {
        /// A directory of the host.
        source: Source,
        /// Where that is inside.
        path: String,
        /// Below both; empty for the directory itself.
        names: Vec<(String, NodeKind)>,
        /// True if the host knows that the kernel would refuse such inodes: then none are tried, because each refusal is a line in the
        /// host's log.
        #[serde(default)]
        shared: bool,
        /// A directory whose files are laid over those of the host. If the kernel cannot do that, they take the place of files of the
        /// host with the same names.
        #[serde(default)]
        over: Option<Overlaid>,
    },
    Tmpfs {
        target: String,
        bytes: u64,
        mode: u32,
        uid: u32,
        gid: u32,
        allow_exec: bool,
    },
    /// /proc, /dev and their masks.
    Kernel(KernelPlan),
    /// Read-only names below an already mounted directory.
    Protect {
        base: String,
        paths: Vec<ProtectedPath>,
    },
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Overlaid {
    pub source: Source,
    /// Its files, by their path below it.
    pub names: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KernelPlan {
    /// Name below /dev, and the host's node.
    pub devices: Vec<(String, Source)>,
    pub shm_bytes: u64,
    /// The sandbox's own, instead of the host's.
    pub boot_id: String,
    /// A file that this kernel does not have is passed over.
    pub hide_files: Vec<String>,
    pub hide_directories: Vec<String>,
    pub read_only: Vec<String>,
    /// How many more of each kind of namespace there may be below.
    #[serde(default)]
    pub namespaces: u32,
    /// True if there is a socket at [`SUDO_DOOR`].
    #[serde(default)]
    pub sudo_door: bool,
}

/// A path that exists on the host by now, the caller's own or a placeholder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProtectedPath {
    pub path: String,
}

/// The ids inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The guest's own, which no work may have; the same as `work` only if the host gave one id.
    pub guest: u32,
    /// Owner of the root: 0, or the only id there is.
    pub root: u32,
    pub root_group: u32,
    pub work: u32,
    pub work_group: u32,
    /// The highest id that work may have.
    pub highest: u32,
    /// With one id only there is nothing to switch to, and the kernel would refuse to switch groups.
    pub single: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LandlockPlan {
    /// Everything else is readable and executable only.
    pub writable: Vec<String>,
    /// Keeps the work from abstract sockets that it did not make; needed only on the host's network.
    pub scope_abstract_sockets: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryWatch {
    pub limit_bytes: u64,
    pub interval_ms: u64,
    /// True if the kernel inside is the sandbox's own, so that all that it counts is the work's.
    #[serde(default)]
    pub own_kernel: bool,
}
