//! Sandboxes that last, from `create` to `kill`.

use super::network::NetworkFlags;
use super::policy::PolicyFlags;
use super::ports::PortFlags;
use super::scan::ScanFlags;
use super::values;
use super::volume::VolumeFlags;
use clap::{Args, Subcommand, ValueEnum};
use paddock_model::SecretLayer;
use paddock_model::api::{Idle, UnderPressure};

#[derive(Debug, Subcommand)]
pub enum SandboxCommand {
    /// Make a sandbox that stays, and print its id
    #[command(after_help = CREATE_HELP)]
    Create(Box<CreateArgs>),
    /// List sandboxes
    #[command(alias = "ls", after_help = PS_HELP)]
    Ps(PsArgs),
    /// Print everything that is known of sandboxes, as JSON
    #[command(
        after_help = "Example:\n  paddock inspect build | jq .guarantees\n\nWith one id one object is printed, with several an array."
    )]
    Inspect(IdsArgs),
    /// Set a new time to live, counted from now
    #[command(after_help = "Example:\n  paddock extend build 2h")]
    Extend(ExtendArgs),
    /// Print an address of one port inside, with a right to that port and nothing else
    #[command(after_help = PORT_HELP)]
    Port(PortArgs),
    /// Change limits, notes and what else can be changed while a sandbox lives
    #[command(after_help = UPDATE_HELP)]
    Update(Box<UpdateArgs>),
    /// End sandboxes
    #[command(alias = "rm", after_help = "Examples:\n  paddock kill build test\n  paddock kill --all")]
    Kill(KillArgs),
    /// Freeze sandboxes: no processor time, memory kept
    #[command(after_help = "Example:\n  paddock pause build")]
    Pause(PauseArgs),
    /// Let paused sandboxes go on
    #[command(after_help = "Example:\n  paddock resume build")]
    Resume(ResumeArgs),
    /// Keep the files of sandboxes, and end their processes
    #[command(after_help = HIBERNATE_HELP)]
    Hibernate(HibernateArgs),
    /// Start hibernated sandboxes on the files they had
    #[command(after_help = "Example:\n  paddock wake build")]
    Wake(ResumeArgs),
}

const CREATE_HELP: &str = "\
Examples:
  paddock create
  id=$(paddock create --template py --ttl 30m --metadata owner=me)
  paddock create --name build --workspace . --idle 600:hibernate
  paddock create --snapshot before-upgrade --persistent
  paddock create --volume memory:/data/memory --volume models:/data/models:ro
  paddock create --public-port 3000 --request-host app.example

Settings of --template are the server's; --policy and the flags are put over them.";

const PS_HELP: &str = "\
Examples:
  paddock ps
  paddock ps -a --metadata owner=me
  paddock kill $(paddock ps -q --template py)";

const PORT_HELP: &str = "\
Examples:
  paddock port build 8000
  paddock port build 8000 --lasts 10m
  curl \"$(paddock port build 8000)\"

Whoever has the address reaches that port, until the right ends: by its time, with the sandbox, or with the token that asked for it. \
A path of the program goes before the `?`. The server has to listen on an address: `paddock serve --listen 127.0.0.1:8080`.";

const HIBERNATE_HELP: &str = "\
Examples:
  paddock hibernate build
  paddock hibernate --files-only build

Any request to a hibernated sandbox wakes it. Where the backend keeps memory it goes on where it stood.";

const UPDATE_HELP: &str = "\
Examples:
  paddock update build --memory 4GiB --cpus 3
  paddock update build --metadata step=2 --forget draft
  paddock update build --idle 600:hibernate
  paddock update build --allow-net packages.example.org --allow-net files.example.org
  paddock update build --allow-net files.example.org --secret KEY@api.example.com --secret-inject KEY:Authorization='Bearer {}'
  paddock update build --allow-net files.example.org --forget-secret KEY
  paddock update build --public-port none

Limits hold at once, for what runs too; a hibernated sandbox wakes with them. Network rules take the \
place of those that it has, for open connections too. Secrets that the gate sets come and go by name, with the network rules \
beside them as they are to be, because a secret opens its hosts; others stay. Public ports open and close at once, and the \
connections of visitors end with a port that is closed. Image, workspace and backend are for life: make a snapshot, and create another sandbox from it.";

#[derive(Debug, Args)]
pub struct CreateArgs {
    /// A name of your own, usable wherever an id is
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Begin with the settings of this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Begin with the files of this snapshot, and with the user, directory, limits and other settings of its sandbox that no other
    /// flag gives
    #[arg(long, value_name = "SNAPSHOT")]
    pub snapshot: Option<String>,
    /// With --snapshot: whether it begins with the contexts that the snapshot keeps [default: where it can, unless another token
    /// made the sandbox that they come from]
    #[arg(long, value_name = "BOOL", requires = "snapshot")]
    pub live: Option<bool>,
    /// End it so long from now, such as 90s, 30m or 2h [default: 1 h, none with --persistent]. 2h:pause and 2h:hibernate put it
    /// to sleep instead, for 30 days; the next call wakes it
    #[arg(long, value_name = "DURATION[:ACTION]", value_parser = values::ttl)]
    pub ttl: Option<values::Ttl>,
    /// When nothing runs inside for so long: kill (the default), pause or hibernate it
    #[arg(long, value_name = "SECONDS[:ACTION]", value_parser = values::idle)]
    pub idle: Option<Idle>,
    /// Left alone by the idle reaper, and without a time to live unless --ttl gives one
    #[arg(long)]
    pub persistent: bool,
    /// When it is idle and the host is short of memory: hibernate or keep [default: hibernate where
    /// nothing in it would be lost]
    #[arg(long, value_name = "ACTION", value_parser = values::under_pressure)]
    pub under_pressure: Option<UnderPressure>,
    /// Its code contexts can be forked as they stand [default: where that is possible]
    #[arg(long, value_name = "BOOL")]
    pub live_forks: Option<bool>,
    /// A note on the sandbox, for `ps --metadata`; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub metadata: Vec<(String, String)>,
    /// Print the whole sandbox as JSON instead of its id
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub volumes: VolumeFlags,
    #[command(flatten)]
    pub ports: PortFlags,
    #[command(flatten)]
    pub policy: PolicyFlags,
    #[command(flatten)]
    pub scan: ScanFlags,
}

#[derive(Debug, Args)]
pub struct PsArgs {
    /// Also those that have ended, which are kept for a day
    #[arg(short, long)]
    pub all: bool,
    /// The oldest first, and not the newest
    #[arg(long)]
    pub oldest_first: bool,
    /// Print ids only
    #[arg(short, long, conflicts_with = "json")]
    pub quiet: bool,
    /// Only those in this state
    #[arg(long, value_enum)]
    pub state: Option<StateName>,
    /// Only those of this name
    #[arg(long)]
    pub name: Option<String>,
    /// Only those made from this template
    #[arg(long, value_name = "NAME")]
    pub template: Option<String>,
    /// Only those with this note; repeatable, and all have to match
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub metadata: Vec<(String, String)>,
    /// Only those made within this time, such as 90s, 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub newer_than: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateName {
    Creating,
    Running,
    Paused,
    Hibernated,
    Ended,
}

impl StateName {
    /// As the API says it.
    pub fn word(self) -> &'static str {
        match self {
            StateName::Creating => "creating",
            StateName::Running => "running",
            StateName::Paused => "paused",
            StateName::Hibernated => "hibernated",
            StateName::Ended => "ended",
        }
    }
}

#[derive(Debug, Args)]
pub struct IdsArgs {
    /// Ids or names
    #[arg(required = true, value_name = "ID", value_parser = values::word)]
    pub ids: Vec<String>,
}

#[derive(Debug, Args)]
pub struct StateArgs {
    #[command(flatten)]
    pub of: IdsArgs,
    /// Print each sandbox as it is then, one JSON object a line
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct HibernateArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Without their memory, also where the backend keeps it; one that sleeps with its memory loses it
    #[arg(long)]
    pub files_only: bool,
    /// Their time to live until they wake, such as 12h; awake they have what is left of the present one
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub ttl: Option<f64>,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Their time to live until they go on, such as 12h; then they have what is left of the present one
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub ttl: Option<f64>,
    /// The next request that needs their processes resumes them
    #[arg(long)]
    pub auto_resume: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    pub state: StateArgs,
    /// Their time to live from now on, such as 90s, 30m or 2h
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub ttl: Option<f64>,
}

#[derive(Debug, Args)]
pub struct ExtendArgs {
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
    /// Counted from now, such as 90s, 30m or 2h
    #[arg(value_name = "DURATION", value_parser = values::duration)]
    pub ttl: f64,
    /// Print the sandbox as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct PortArgs {
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
    /// The port on which a program inside listens
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// How long the right lasts, a day at most
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = values::duration)]
    pub lasts: f64,
    /// Print address, right and end as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    /// Id or name
    #[arg(value_parser = values::word)]
    pub id: String,
    /// Memory of everything inside, such as 512MiB
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub memory: Option<u64>,
    /// Processors, such as 1.5
    #[arg(long, value_name = "NUMBER")]
    pub cpus: Option<f64>,
    /// Processes and threads at one time
    #[arg(long, value_name = "NUMBER")]
    pub pids: Option<u32>,
    /// Bytes on the private disk
    #[arg(long, value_name = "SIZE", value_parser = values::bytes)]
    pub disk: Option<u64>,
    /// Open files per process, of commands from now on
    #[arg(long, value_name = "NUMBER")]
    pub files: Option<u32>,
    /// A note on the sandbox, besides those that it has; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::pair)]
    pub metadata: Vec<(String, String)>,
    /// Remove a note; repeatable
    #[arg(long, value_name = "KEY")]
    pub forget: Vec<String>,
    /// When nothing runs inside for so long: kill (the default), pause or hibernate it
    #[arg(long, value_name = "SECONDS[:ACTION]", value_parser = values::idle)]
    pub idle: Option<Idle>,
    /// The idle reaper leaves it alone
    #[arg(long, value_name = "true|false")]
    pub persistent: Option<bool>,
    /// When it is idle and the host is short of memory: hibernate or keep
    #[arg(long, value_name = "ACTION", value_parser = values::under_pressure)]
    pub under_pressure: Option<UnderPressure>,
    /// `none`: nothing leaves it any more
    #[arg(long, value_name = "none", help_heading = "Network")]
    pub net: Option<String>,
    #[command(flatten)]
    pub network: NetworkFlags,
    /// Add the secret NAME, or put it in the place of the one of that name, for requests to these hosts; its value is the variable
    /// NAME of this shell, or FROM: env:NAME, file:PATH. Wants --secret-inject and network rules; repeatable
    #[arg(long, value_name = "NAME@HOST[,HOST...][=FROM]", help_heading = "Network", value_parser = super::secrets::secret)]
    pub secret: Vec<(String, SecretLayer)>,
    /// Set this header in every request to the hosts of this --secret, with the value in the place of `{}`; repeatable
    #[arg(long, value_name = "NAME:HEADER=TEXT", help_heading = "Network", value_parser = super::secrets::injected)]
    pub secret_inject: Vec<(String, (String, String))>,
    /// Remove the secret of this name. Wants network rules; repeatable
    #[arg(long, value_name = "NAME", help_heading = "Network")]
    pub forget_secret: Vec<String>,
    #[command(flatten)]
    pub ports: PortFlags,
    /// Print the sandbox as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct KillArgs {
    /// Ids or names
    #[arg(required_unless_present = "all", value_name = "ID", value_parser = values::word)]
    pub ids: Vec<String>,
    /// Every sandbox that you can see
    #[arg(long, conflicts_with = "ids")]
    pub all: bool,
    /// Print each sandbox as it ended, one JSON object a line
    #[arg(long)]
    pub json: bool,
}
