//! The flags that describe a sandbox.

use super::certificates::CertificateFlags;
use super::network::NetworkFlags;
use clap::Args;
use paddock_model::SecretLayer;

/// The description of a sandbox: the settings that a policy file and a template can hold too.
#[derive(Debug, Clone, Default, Args)]
pub struct PolicyFlags {
    /// Take settings from a TOML file; flags win over it
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,

    /// Root file system: directory, tar, OCI layout, `docker save` archive, or registry reference
    /// [default: the host's /usr, read-only]
    #[arg(long, value_name = "REF", help_heading = "Root and backend")]
    pub image: Option<String>,
    /// Backend of the fence [default: the first usable one]
    #[arg(long, value_name = "NAME", help_heading = "Root and backend")]
    pub backend: Option<String>,
    /// Refuse to run without this guarantee, such as memory-limit or own-kernel; repeatable
    #[arg(long, value_name = "GUARANTEE", help_heading = "Root and backend")]
    pub require: Vec<String>,

    /// Mount this host directory at /workspace, writable except for protected names
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    pub workspace: Option<String>,
    /// Make one more path in the workspace read-only; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub protect: Vec<String>,
    /// Make a protected name writable; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Files")]
    pub unprotect: Vec<String>,
    /// Show a host path inside, read-only; repeatable
    #[arg(long, value_name = "SRC[:TARGET]", help_heading = "Files")]
    pub read: Vec<String>,
    /// Show a host path inside, writable, without protected names; repeatable
    #[arg(long, value_name = "SRC[:TARGET]", help_heading = "Files")]
    pub write: Vec<String>,
    /// An empty directory in memory; repeatable
    #[arg(long, value_name = "PATH", help_heading = "Files")]
    pub tmpfs: Vec<String>,

    /// Memory of everything inside, such as 512MiB [default: 2 GiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub memory: Option<String>,
    /// Processors, such as 1.5 [default: 2]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Limits")]
    pub cpus: Option<String>,
    /// Processes and threads at one time [default: 512]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Limits")]
    pub pids: Option<String>,
    /// Bytes on the private disk [default: 1 GiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub disk: Option<String>,
    /// Open files per process [default: 4096]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true, help_heading = "Limits")]
    pub files: Option<String>,
    /// Bytes kept of each output stream for --json [default: 8 MiB]
    #[arg(long, value_name = "SIZE", allow_negative_numbers = true, help_heading = "Limits")]
    pub output: Option<String>,
    /// Wall-clock time, such as 30s, or `none` [default: 1 h]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true, help_heading = "Limits")]
    pub timeout: Option<String>,

    /// Set a variable; NAME alone takes the value of this shell; repeatable
    #[arg(short, long, value_name = "NAME[=VALUE]", help_heading = "Inside")]
    pub env: Vec<String>,
    /// Set variables from a file, one NAME=VALUE per line; repeatable
    #[arg(long, value_name = "FILE", help_heading = "Inside")]
    pub env_file: Vec<String>,
    /// Working directory inside
    #[arg(short = 'w', long, value_name = "DIR", help_heading = "Inside")]
    pub cwd: Option<String>,
    /// User of the command: agent, root, a name of the image, UID or UID:GID [default: agent]
    #[arg(short, long, value_name = "USER", help_heading = "Inside")]
    pub user: Option<String>,
    /// Let root inside install packages and manage users: it has capabilities over the sandbox's own files and ids
    /// [default: it has none]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Inside"
    )]
    pub root_may_install: Option<bool>,
    /// Let the ordinary user inside become root by `sudo`, without a password [default: no process becomes another user]
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help_heading = "Inside"
    )]
    pub become_root: Option<bool>,
    /// Host name inside [default: paddock]
    #[arg(long, value_name = "NAME", help_heading = "Inside")]
    pub hostname: Option<String>,
    /// `none` is loopback only; `host` is the host's own network, unfenced [default: none]
    #[arg(long, value_name = "none|host", help_heading = "Network")]
    pub net: Option<String>,
    #[command(flatten)]
    pub network: NetworkFlags,
    #[command(flatten)]
    pub certificates: CertificateFlags,
    /// A value that never enters: the variable holds a placeholder, and requests to these hosts get the value; FROM is
    /// env:NAME or file:PATH [default: this shell's variable of that name]; repeatable
    #[arg(long, value_name = "NAME@HOST[,HOST...][=FROM]", help_heading = "Network", value_parser = super::secrets::secret)]
    pub secret: Vec<(String, SecretLayer)>,
    /// Put the value of this --secret into this header too, besides the usual ones for credentials (Authorization, X-API-Key
    /// and the like); repeatable
    #[arg(long, value_name = "NAME:HEADER", help_heading = "Network", value_parser = super::secrets::header)]
    pub secret_header: Vec<(String, String)>,
    /// Set this header in every request to the hosts of this --secret, over what the program sent, with the value in the place
    /// of `{}`; there is no variable inside then; repeatable
    #[arg(long, value_name = "NAME:HEADER=TEXT", help_heading = "Network", value_parser = super::secrets::injected)]
    pub secret_inject: Vec<(String, (String, String))>,
}
