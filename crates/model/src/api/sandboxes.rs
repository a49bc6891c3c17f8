//! One sandbox, from its creation to a day after its end.

use super::volumes::{MountedVolume, VolumeMount};
use crate::guarantees::Guarantees;
use crate::limits::Limits;
use crate::net::NetSetting;
use crate::ports::PortSettings;
use crate::scan::ScanRules;
use crate::secrets::SecretLayer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CreateSandbox {
    /// A name of the caller's own, unique among the tenant's living sandboxes; usable wherever an id is.
    pub name: Option<String>,
    /// A template that `paddock template ls` lists. `code-interpreter` always exists.
    pub template: Option<String>,
    /// A directory, an archive or a registry reference. Paths of the host only for the host's owner.
    pub image: Option<String>,
    /// `image` was chosen by somebody else, such as a model or a script: its registry has to be at a public address, or be one
    /// that the server names, also for the host's owner.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub public_image: bool,
    /// Begin with the files of this snapshot (id or name), and with the user, working directory, limits and other settings that its sandbox
    /// had, where neither `template` nor another field says otherwise. Not among them: network rules, public ports, secrets, values of variables that a
    /// caller gave, directories of the host, `root_may_install` and `become_root`.
    pub snapshot: Option<String>,
    /// True: it begins with the code contexts that the snapshot keeps. By default where it can, unless another token made the
    /// sandbox that they come from: that sandbox's code has rights over whatever begins with its contexts. `true`: not created
    /// where it cannot. `false`: the files alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<bool>,
    pub backend: Option<String>,
    /// Guarantees without which nothing is created, such as `memory-limit` or `own-kernel`.
    pub require: Vec<String>,
    /// Ends the sandbox so many seconds from now, whatever happens. Default 3600; `null` with `persistent`.
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: Option<f64>,
    /// The action at the end of the time to live: the sandbox ends (`kill`, the default), is frozen with its memory (`pause`) or
    /// hibernates. One that sleeps so is kept for 30 days; the next call wakes it, and its time to live begins anew whenever it
    /// resumes or wakes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_action: Option<TtlAction>,
    pub idle: Option<Idle>,
    /// Left alone by the idle reaper and by the SDK's context managers.
    pub persistent: bool,
    /// `hibernate`: it may be hibernated when it is idle and the host is short of memory. By default where nothing in it would be lost:
    /// its backend keeps memory, or no process runs in it; and not where it is `persistent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub under_pressure: Option<UnderPressure>,
    pub env: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub limits: LimitsRequest,
    /// `none` (default), `host` (only for the host's owner), or rules: what may leave through the gate.
    pub network: Option<NetSetting>,
    /// Ports inside that answer everybody, and the host that programs there are asked as.
    #[serde(skip_serializing_if = "PortSettings::is_default")]
    pub ports: PortSettings,
    /// Values that never enter: by the variable that holds a placeholder inside.
    pub secrets: BTreeMap<String, SecretLayer>,
    /// True: clients inside believe the certificates that the server's host believes, as a network that inspects TLS needs
    /// it: the host's store, and those that SSL_CERT_FILE, SSL_CERT_DIR, NODE_EXTRA_CA_CERTS, PIP_CERT and their like name in the
    /// server's environment. By default as the template has it, else not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_certs: Option<bool>,
    /// User of commands: `agent` (default), `root`, a name of the image, UID or UID:GID.
    pub user: Option<String>,
    pub cwd: Option<String>,
    pub hostname: Option<String>,
    /// A directory of the host at /workspace. Only for the host's owner.
    pub workspace: Option<String>,
    /// Names in the workspace that stay read-only besides the built-in ones.
    pub protect: Vec<String>,
    pub unprotect: Vec<String>,
    /// HOST[:INSIDE], read-only. Only for the host's owner.
    pub read: Vec<String>,
    /// HOST[:INSIDE], writable. Only for the host's owner.
    pub write: Vec<String>,
    pub tmpfs: Vec<String>,
    /// Directories that outlive the sandbox; at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeMount>,
    /// Look at code before it runs: `off` (default), `warn` or `deny`. Never weaker than the template's or the snapshot's.
    pub scan: Option<String>,
    /// Modules that code may import, with what is below them; absent: any. Needs `scan`. Only what the template's and the
    /// snapshot's lists allow too.
    pub allowed_imports: Option<Vec<String>>,
    /// True: it is made so that its code contexts can be forked as they stand. By default where that is possible, which its
    /// guarantees tell (`fork`). `true`: not created where it is not. `false`: forks have its files alone, and nothing of the
    /// fence is weaker for their sake.
    pub live_forks: Option<bool>,
    /// True: root inside (`user: root` of it or of an exec) may install packages and manage users. It has six capabilities over the
    /// sandbox's own files and ids, and none over anything else; `guarantees.root_capabilities` names them. Not created where that
    /// cannot be had, or the server's owner forbids it. By default as the template has it, else false: root has no capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_may_install: Option<bool>,
    /// True: the ordinary user inside may become root by `sudo`, without a password. Root has the rights that `root_may_install` gives
    /// it, or none. Not created where that cannot be had, or the server's owner forbids it. By default as the template has it, else
    /// false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub become_root: Option<bool>,
    /// True (default): the audit keeps the output of commands and code, sealed. False: their digests only. The template's word counts
    /// before this one.
    pub audit_outputs: Option<bool>,
}

/// The limits that a caller names; the others are as the template or the defaults have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LimitsRequest {
    pub memory_bytes: Option<u64>,
    pub cpus: Option<f64>,
    pub pids: Option<u32>,
    pub disk_bytes: Option<u64>,
    pub open_files: Option<u32>,
    /// Bytes kept of each output stream of each exec, half from its head and half from its tail.
    pub output_bytes: Option<u64>,
    /// Default time limit of one exec.
    pub exec_timeout_seconds: Option<f64>,
}

/// Idle: no exec runs, nobody streams, no processor time is used. A request alone does not count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Idle {
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub seconds: f64,
    pub action: IdleAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum IdleAction {
    Kill,
    Pause,
    Hibernate,
}

/// The fate of a sandbox whose time to live is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TtlAction {
    #[default]
    Kill,
    /// It is frozen, with its memory.
    Pause,
    Hibernate,
}

/// The fate of an idle sandbox while the host is short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnderPressure {
    /// It is hibernated when its turn comes: the least recently used goes first.
    Hibernate,
    /// It stays as it is.
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum SandboxState {
    Creating,
    Running,
    /// Frozen: no processor time, memory kept.
    Paused,
    /// No processes, no memory; files kept. Any request wakes it.
    Hibernated,
    Ended,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Sandbox {
    pub id: String,
    /// The node that it is on, where the server has a number (`serve --node`); its id begins with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub state: SandboxState,
    pub tenant: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user that its image names for its processes. A sandbox of an image has its own user all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_user: Option<String>,
    /// The snapshot that it began with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// The sandbox that it was forked from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    pub created_at_ms: u64,
    /// When its time to live ends; none for a persistent sandbox without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at_ms: Option<u64>,
    /// The action at that time.
    #[serde(default)]
    pub ttl_action: TtlAction,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Idle>,
    pub persistent: bool,
    /// As it was asked for; absent: where nothing in it would be lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_pressure: Option<UnderPressure>,
    pub metadata: BTreeMap<String, String>,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub limits: Limits,
    #[cfg_attr(feature = "schema", schema(value_type = Object))]
    pub guarantees: Guarantees,
    /// The rules of the scan of code before it runs.
    #[serde(default)]
    pub scan: ScanRules,
    /// Secrets, by their variable, and the hosts that they are bound to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, Vec<String>>,
    /// Its clients believe the certificates that the server's host believes.
    #[serde(default)]
    pub host_certs: bool,
    /// Its ports, as they were asked for. `public` is what is weaker than a token for every request.
    #[serde(default, skip_serializing_if = "PortSettings::is_default")]
    pub ports: PortSettings,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<MountedVolume>,
    /// Execs that run now.
    pub running_execs: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

/// How and why a sandbox ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct End {
    pub cause: EndCause,
    /// The same in words.
    pub reason: String,
    pub at_ms: u64,
    /// The last bytes that its last exec printed, for people.
    pub last_output: String,
    pub usage: SandboxUsage,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EndCause {
    /// By a call.
    Killed,
    /// By a call that said that the work in it had failed.
    Failed,
    TimeToLive,
    Idle,
    OutOfMemory,
    /// A limit other than memory.
    Limit {
        limit: String,
    },
    Policy {
        rule: String,
    },
    /// The guest agent went away without being asked to.
    GuestLost {
        detail: String,
    },
    /// The host was restarted.
    HostRestarted,
    /// The job that it was made for failed.
    WorkFailed {
        detail: String,
    },
    CreateFailed {
        detail: String,
    },
}

/// The resources that a sandbox uses or used. A field is absent where nothing on the host counts it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxUsage {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u64>,
}

/// The use of the host by a sandbox over the last minutes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxMetrics {
    /// Between two samples of a sandbox at work, where not more than a thousand are. One that nobody uses has none.
    pub every_seconds: u64,
    /// The oldest first; 240 at most. A server that starts anew has none of before.
    pub samples: Vec<SandboxSample>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxSample {
    pub at_ms: u64,
    /// Since the sample before, of one processor: two that are busy are 200.
    pub cpu_percent: f64,
    pub memory_bytes: u64,
    /// The part of it that is the kernel's cache of files, which it takes back when memory is short.
    pub cache_bytes: u64,
    pub disk_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct SandboxPage {
    pub sandboxes: Vec<Sandbox>,
    /// Hand it back as `cursor` for what follows; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct UpdateSandbox {
    /// Replaces all metadata.
    pub metadata: Option<BTreeMap<String, String>>,
    pub idle: Option<Idle>,
    pub persistent: Option<bool>,
    /// True if it may be hibernated while the host is short of memory.
    pub under_pressure: Option<UnderPressure>,
    /// Of commands from now on: replaces all variables that the creator gave.
    pub env: Option<BTreeMap<String, String>>,
    /// Of commands from now on.
    pub cwd: Option<String>,
    /// Of commands from now on: `agent`, `root`, a name of the image, UID or UID:GID.
    pub user: Option<String>,
    /// Default time limit of commands from now on.
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub exec_timeout_seconds: Option<f64>,
    /// Bytes kept of each output stream of commands from now on.
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub output_bytes: Option<u64>,
    /// At once, within the tenant's quota: memory, processors, processes and disk of everything inside; open files of
    /// commands from now on.
    pub limits: Option<LimitsRequest>,
    /// At once, for what is open too: other rules in place of those that it has, or `none`. Only of a sandbox that was made
    /// with rules.
    pub network: Option<NetSetting>,
    /// At once: each of the two that is given, in the place of the one that it has. Closing a port ends the connections of visitors
    /// without a token. Public ports are then open for the token of this request.
    pub ports: Option<PortSettings>,
    /// By name: a secret with `inject` that is added, or takes the place of another; null removes one. Others stay. They hold
    /// for the next request, on open connections too. Beside `network`, because a secret opens its hosts.
    #[cfg_attr(feature = "schema", schema(value_type = Option<BTreeMap<String, SecretLayer>>))]
    pub secrets: Option<BTreeMap<String, Option<SecretLayer>>>,
    /// Cannot be changed while a sandbox lives; named here so that it is refused with what to do instead.
    pub image: Option<String>,
    /// As `image`.
    pub template: Option<String>,
    /// As `image`.
    pub backend: Option<String>,
    /// As `image`.
    pub workspace: Option<String>,
    /// As `image`.
    pub hostname: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Extend {
    /// Counted from now.
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Hibernate {
    /// Whether its memory is kept, so that it goes on where it stood. By default it is where the backend keeps memory. `true`: it
    /// is an error where the backend does not. `false`: the files alone are kept; one that sleeps with its memory loses it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
    /// Its time to live while it sleeps, where it has one; awake again it has what is left of the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Pause {
    /// Its time to live while it is paused, where it has one; resumed it has what is left of the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: Option<f64>,
    /// The next request that needs its processes resumes it, as after a pause for idleness.
    pub auto_resume: bool,
}

/// Of a resume and of a wake.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Resume {
    /// Its time to live from then on. It runs already: it keeps the time that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 31622400.0))]
    pub ttl_seconds: Option<f64>,
}

/// One line of the event stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Event {
    pub at_ms: u64,
    pub sandbox: String,
    /// `created`, `paused`, `resumed`, `hibernated`, `woken`, `snapshot`, `forked`, `exec_started`, `exec_ended`, `ended`.
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
