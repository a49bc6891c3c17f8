//! Commands that belong to the host rather than to one sandbox.

use super::gateway::{GATEWAY_HELP, GatewayArgs};
use super::job::JobArgs;
use super::node::NodeArgs;
use super::pool::PoolArgs;
use super::role::RoleName;
use super::root_rights::RootMayInstallName;
use super::server::ServerArgs;
use super::template::TemplateArgs;
use super::ui::UiArgs;
use super::values;
use super::verify::{VERIFY_HELP, VerifyArgs};
use super::volume::VolumeArgs;
use clap::{Args, Subcommand};
use paddock_model::NodeNumber;
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Serve the HTTP API on a unix socket, and on an address if asked
    #[command(after_help = SERVE_HELP)]
    Serve(Box<ServeArgs>),
    /// Serve one API in front of many servers, each with its own sandboxes
    #[command(after_help = GATEWAY_HELP)]
    Gateway(Box<GatewayArgs>),
    /// Show the servers behind a gateway, and which of them get new sandboxes
    #[command(
        after_help = "Examples:\n  paddock node ls\n  paddock node cordon 7\n  paddock node uncordon 7"
    )]
    Node(NodeArgs),
    /// Say whether a server runs, or stop it
    Server(ServerArgs),
    /// Make, list and revoke the tokens that the server takes
    #[command(
        after_help = "Examples:\n  paddock token create --tenant team-a --role user --label ci\n  paddock token ls\n  paddock token revoke tk-9103a146b260b440"
    )]
    Token(TokenArgs),
    /// Print a link that opens the dashboard of the server, and open it
    Ui(UiArgs),
    /// Show what tenants may have and do have, or set it
    #[command(after_help = QUOTA_HELP)]
    Quota(QuotaArgs),
    /// Keep sandboxes ready before anybody asks for them
    #[command(
        after_help = "Examples:\n  paddock pool set code-interpreter --min 4 --max 32\n  paddock pool ls"
    )]
    Pool(PoolArgs),
    /// Keep directories that outlive sandboxes, in versions
    #[command(
        after_help = "Examples:\n  paddock run --volume memory:/data/memory -- sh -c 'date >> /data/memory/notes'\n  paddock volume get memory notes\n  paddock volume history memory"
    )]
    Volume(VolumeArgs),
    /// Run work that a file describes, behind any fence, and keep a queue of it
    #[command(
        after_help = "Examples:\n  paddock job run job.toml\n  paddock job ls --state failed\n  paddock job artifacts job-0123456789abcdef --to results"
    )]
    Job(JobArgs),
    /// Say what this host has and lacks, per backend
    #[command(after_help = DOCTOR_HELP)]
    Doctor(DoctorArgs),
    /// Attack the sandboxes of this host from inside, and say what held
    #[command(after_help = VERIFY_HELP)]
    Verify(VerifyArgs),
    /// Keep named defaults for `run`, `code` and `create`
    #[command(
        after_help = "Examples:\n  paddock template add small --memory 256MiB\n  paddock template build code-interpreter\n  paddock run --template small -- true"
    )]
    Template(TemplateArgs),
}

const SERVE_HELP: &str = "\
Examples:
  paddock serve
  paddock serve --listen 127.0.0.1:7070
  paddock serve --listen 0.0.0.0:443 --tls-cert cert.pem --tls-key key.pem --domain box.example.org
  paddock serve --keep-free 4GiB
  paddock serve --listen 10.0.0.7:7070 --node 7 --gateway-key /etc/paddock/gateway.key --label zone=a

Sandboxes keep running when the server ends, however it ends; the next one finds them.
A server that is started before the one before it has gone waits for it, up to 30 seconds.

Without --socket and --listen it listens where PADDOCK_URL says. SIGTERM and SIGINT end it; so does
`paddock server stop`. SIGHUP has --tls-cert, --tls-key and --log-filter read again.";

const QUOTA_HELP: &str = "\
Examples:
  paddock quota
  paddock quota team-a --sandboxes 20 --memory 32GiB --cpus 8 --creates-per-minute 60
  paddock quota team-a --unlimited

A setting that is left out stays as it was; `none` removes one.";

const DOCTOR_HELP: &str = "\
Examples:
  paddock doctor
  paddock doctor --json
  paddock doctor --for 20000

With --for it also says which limits of this host are too low for so many sandboxes of the process backend at one
time, and the command that raises each: `too low` when they cannot all be made, `low` when they cannot all work,
`unknown` when the limit could not be read.

Exits with 0 when at least one backend is usable and, with --for, every limit is enough; else with 1.";

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Compare the limits of this host with what so many sandboxes need
    #[arg(long = "for", value_name = "NUMBER", value_parser = values::sandboxes)]
    pub sandboxes: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Listen on this TCP address too; every call there needs a token
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The unix socket, which needs no token [default: where the other commands look for it: PADDOCK_URL,
    /// else the state directory's own]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Certificate chain in PEM: the address then speaks TLS
    #[arg(long, value_name = "FILE", requires_all = ["tls_key", "listen"])]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Ports of sandboxes are reached at PORT-ID.DOMAIN
    #[arg(long, value_name = "NAME")]
    pub domain: Option<String>,
    /// Callers may open ports of their sandboxes to everybody, at their host names and without a token. Those of E2B's clients are
    /// open unless a client says allow_public_traffic=False
    #[arg(long, requires = "domain")]
    pub public_ports: bool,
    /// A name by which callers may reach it, besides its addresses; repeatable
    #[arg(long, value_name = "NAME[:PORT]")]
    pub allow_host: Vec<String>,
    /// The registries that tenants may name in an image, wherever they are [default: all with a public address]
    #[arg(long, value_name = "HOST[:PORT],...", value_delimiter = ',', value_parser = values::host)]
    pub registries: Vec<String>,
    /// The key that secrets are encrypted with at rest; made where it is missing [default: secrets.key of the state directory]
    #[arg(long, value_name = "FILE")]
    pub secrets_key: Option<PathBuf>,
    /// Disk space for outputs in the audit, of all sandboxes together, or `off`; the oldest go first [default: 1GiB]
    #[arg(long, value_name = "SIZE|off", value_parser = values::bytes_or_off)]
    pub audit_outputs: Option<u64>,
    /// Where volumes are kept: a directory, s3://BUCKET/PREFIX, gs:// or az:// [default: volumes/store of the state directory]
    #[arg(long, value_name = "URL")]
    pub volumes: Option<String>,
    /// A setting of the bucket, such as endpoint or region; credentials come from the environment; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair, requires = "volumes")]
    pub volumes_set: Vec<(String, String)>,
    /// The key that volumes are encrypted with before they leave this host: 32 bytes as base64
    #[arg(long, value_name = "FILE")]
    pub volumes_key: Option<PathBuf>,
    /// Space that packs of a bucket may take on this host [default: 2GiB]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub volumes_cache: Option<u64>,
    /// Attempts of jobs that run at one time [default: four for each processor]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub jobs: Option<u32>,
    /// Memory for sandboxes that are kept ready because others like them were asked for, all together; 0 keeps none
    #[arg(long, value_name = "SIZE", value_parser = values::bytes_or_none, default_value = "128MiB")]
    pub ready_memory: u64,
    /// How long they are kept after the last create that asked for one
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds, default_value = "300")]
    pub ready_seconds: f64,
    /// Memory that is kept free on the host: with less, ready sandboxes go and idle ones are hibernated, and then creates are
    /// refused; 0 keeps none [default: 5% of the memory, at most 1GiB]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes_or_none)]
    pub keep_free: Option<u64>,
    /// Ended sandboxes that are remembered with their output, the newest ones and for a day at most [default: 100000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_ended: Option<u32>,
    /// Templates that are built in the background when a create names them first, or `none`. The create is refused and told how
    /// far the build is; one of E2B's SDKs that names `base` has the host's /usr meanwhile
    #[arg(
        long,
        value_name = "NAME,...|none",
        value_delimiter = ',',
        default_value = "base,code-interpreter-v1"
    )]
    pub build_on_first_use: Vec<String>,
    /// How long such a create waits for the build [default: not at all]
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub build_wait: Option<f64>,
    /// A directory whose NAME.toml takes the place of the build file that comes with Paddock
    #[arg(long, value_name = "DIRECTORY")]
    pub build_files: Option<PathBuf>,
    /// Whose sandboxes may have a root that installs packages, or a user who becomes root
    #[arg(long, value_name = "WHO", value_enum, default_value = "everyone")]
    pub root_may_install: RootMayInstallName,
    /// The number of this server among those behind one gateway, 0 to 4095: its ids begin with it [default: PADDOCK_NODE, else none]
    #[arg(long, value_name = "NUMBER")]
    pub node: Option<NodeNumber>,
    /// The name under which the gateway shows it to people [default: the name of the host]
    #[arg(long, value_name = "NAME", value_parser = values::node_name)]
    pub node_name: Option<String>,
    /// A label by which callers of the gateway choose it; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::label)]
    pub label: Vec<(String, String)>,
    /// The key of the gateway, which then says who a caller is: 32 or more letters, digits and signs, in a file that only its owner
    /// reads. Needs a node number
    #[arg(long, value_name = "FILE")]
    pub gateway_key: Option<PathBuf>,
    /// Let everybody who reaches it read /metrics
    #[arg(long)]
    pub open_metrics: bool,
    /// End after so many seconds without a sandbox and without a call
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    pub idle_exit: Option<f64>,
    /// Log as JSON, one object per line
    #[arg(long)]
    pub json_logs: bool,
    /// Levels of the log, as PADDOCK_LOG says them, from a file that SIGHUP has read again
    #[arg(long, value_name = "FILE")]
    pub log_filter: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    pub action: TokenAction,
}

#[derive(Debug, Subcommand)]
pub enum TokenAction {
    /// Make a token; its secret is printed once
    #[command(
        after_help = "Example:\n  export PADDOCK_TOKEN=$(paddock token create --tenant team-a --role user)"
    )]
    Create {
        /// Tenant whose sandboxes it opens [default: one's own tenant]
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// Role: its rights
        #[arg(long, value_enum, default_value = "user")]
        role: RoleName,
        /// A word for people, shown by `token ls`
        #[arg(long, value_name = "TEXT")]
        label: Option<String>,
        /// End it by itself after so long [default: never]
        #[arg(long, value_name = "DURATION", value_parser = values::duration)]
        ttl: Option<f64>,
        /// Print it as the three variables by which E2B's SDKs find this server
        #[arg(long, conflicts_with = "json")]
        e2b: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tokens, without their secrets
    #[command(after_help = "Example:\n  paddock token ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// End tokens: the next call with one is refused
    #[command(after_help = "Example:\n  paddock token revoke tk-0123456789abcdef")]
    Revoke {
        /// As `token ls` shows them
        #[arg(required_unless_present = "tenant", value_name = "TOKEN", value_parser = values::word)]
        ids: Vec<String>,
        /// End all tokens of a tenant, and the sign-in codes for it; what it has stays
        #[arg(long, value_name = "NAME", value_parser = values::word, conflicts_with = "ids")]
        tenant: Option<String>,
    },
    /// Change what a token may do: what it has open ends, and its next call has the new role
    #[command(after_help = "Example:\n  paddock token role tk-0123456789abcdef read-only")]
    Role {
        /// As `token ls` shows it
        #[arg(value_name = "TOKEN", value_parser = values::word)]
        id: String,
        /// What it may do from now on
        #[arg(value_enum)]
        role: RoleName,
    },
}

#[derive(Debug, Args)]
pub struct QuotaArgs {
    /// The tenant [default: all of them, only shown]
    #[arg(value_parser = values::word)]
    pub tenant: Option<String>,
    /// Sandboxes alive at one time, or `none`
    #[arg(long, value_name = "NUMBER", requires = "tenant")]
    pub sandboxes: Option<String>,
    /// Sum of their processors, or `none`
    #[arg(long, value_name = "NUMBER", requires = "tenant")]
    pub cpus: Option<String>,
    /// Sum of their memory, such as 8GiB, or `none`
    #[arg(long, value_name = "SIZE", requires = "tenant")]
    pub memory: Option<String>,
    /// Creates per minute, or `none`
    #[arg(long, value_name = "NUMBER", requires = "tenant")]
    pub creates_per_minute: Option<String>,
    /// Volumes, or `none`
    #[arg(long, value_name = "NUMBER", requires = "tenant")]
    pub volumes: Option<String>,
    /// Size of all volumes together, each in its current version, such as 100GiB, or `none`
    #[arg(long, value_name = "SIZE", requires = "tenant")]
    pub volume_bytes: Option<String>,
    /// Remove every limit of the tenant
    #[arg(long, requires = "tenant", conflicts_with_all = ["sandboxes", "cpus", "memory", "creates_per_minute", "volumes", "volume_bytes"])]
    pub unlimited: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
